/* code_places.h: finds the function at an address of generated (JIT) code. The trace itself
 * contains the names of these functions, because no file has them. */
#ifndef AG_CODE_PLACES_H
#define AG_CODE_PLACES_H

#include <stddef.h>

#include "format/decode.h"
#include "table/index_map.h"

/* A place is a function with a line at a pc: the innermost function at the pc, or one into which it
 * is inlined. This is the largest number of places of one pc. */
enum { AG_CODE_PLACES_MOST = 256 };

struct ag_code_place {
    uint32_t frame, line; /* frame: number of a FRAME record */
    /* 1 + index in `list` of the function into which this function is inlined; 0: this function is
     * not inlined */
    uint32_t next;
};
struct ag_code_places { /* zero-initialize: empty */
    struct ag_code_place *list;
    size_t count;
    struct ag_index_map by_pc; /* pc -> index of the innermost place */
    uint64_t open_pc;          /* the pc whose places are being read */
    uint32_t n_reported;       /* how many places of open_pc were read */
};

void ag_code_places_done(struct ag_code_places *places);
/* Reads a record of kind CODE. A record that is out of order, or whose pc is known already, is
 * ignored. Returns 0 or -ENOMEM. */
int ag_code_places_take(struct ag_code_places *places, const struct ag_record *record);
/* Returns the innermost place at PC; NULL: the trace does not define it. */
const struct ag_code_place *ag_code_places_find(const struct ag_code_places *places, uint64_t pc);

#endif
