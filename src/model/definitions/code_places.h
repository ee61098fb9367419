/* code_places.h: the functions at the places of generated code, from the trace itself. */
#ifndef AG_CODE_PLACES_H
#define AG_CODE_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "format/decode.h"
#include "table/index_map.h"

enum { AG_CODE_PLACES_MOST = 256 }; /* of one pc: functions inlined into each other */

struct ag_code_place {
    uint32_t frame, line; /* frame: of a frame record */
    uint32_t next;        /* the function that it is inlined into, plus 1; 0: it is none */
};
struct ag_code_places { /* zero-initialize: empty */
    struct ag_code_place *list;
    size_t count;
    struct ag_index_map by_pc; /* pc -> the innermost */
    uint64_t open_pc;          /* pc whose places are being read ... */
    uint32_t n_reported;       /* ... and how many of them were read */
};

void ag_code_places_done(struct ag_code_places *places);
/* A record of kind CODE. Ignored if it is out of order, or its pc is known. Returns 0 or
 * -ENOMEM. */
int ag_code_places_take(struct ag_code_places *places, const struct ag_record *record);
/* The innermost place at pc; NULL: unknown. */
const struct ag_code_place *ag_code_places_find(const struct ag_code_places *places, uint64_t pc);

#endif
