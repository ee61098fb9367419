/* code_places.h: what stands at the places of generated code, as the trace itself says. */
#ifndef AG_CODE_PLACES_H
#define AG_CODE_PLACES_H

#include <stdbool.h>
#include <stddef.h>

#include "format/decode.h"
#include "ledger/index_map.h"

enum { AG_CODE_PLACES_MOST = 256 }; /* of one pc: functions inlined into each other */

struct ag_code_place {
    uint32_t frame, line; /* frame: of a frame record */
    uint32_t next;        /* the function that it is inlined into, plus 1; 0: it is none */
};
struct ag_code_places { /* zero-initialise, then init */
    struct ag_code_place *list;
    size_t count;
    struct ag_index_map by_pc; /* pc -> the innermost */
    uint64_t open_pc;          /* whose places are being told ... */
    uint32_t n_reported;       /* ... and how many of them have been */
};

int ag_code_places_init(struct ag_code_places *places);
void ag_code_places_done(struct ag_code_places *places);
/* A record of kind CODE. What is out of order, or of a pc that is known, is passed over. 0 or
 * -ENOMEM. */
int ag_code_places_take(struct ag_code_places *places, const struct ag_record *record);
/* The innermost place at pc; NULL: nothing is known. */
const struct ag_code_place *ag_code_places_find(const struct ag_code_places *places, uint64_t pc);

#endif
