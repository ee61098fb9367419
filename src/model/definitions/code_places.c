/* code_places.c: reads CODE records, which name the functions of generated (JIT) code, and finds
 * them by pc. If functions are inlined at a pc, the pc has several places: one for each of these
 * functions, and one for the function into which they are inlined. The records of these places
 * follow each other in the trace, innermost first, so each record sets the `next` of the previous
 * place. */
#include "model/definitions/code_places.h"

#include <stdlib.h>

#include "table/array.h"

void ag_code_places_done(struct ag_code_places *places) {
    ag_index_map_done(&places->by_pc);
    free(places->list);
}

int ag_code_places_take(struct ag_code_places *places, const struct ag_record *record) {
    const uint64_t pc = record->u.code.pc;
    const struct ag_code_place place = {.frame = record->u.code.frame, .line = record->u.code.line};
    if (record->u.code.place == 0) {
        places->open_pc = 0;
        if (pc == 0 || ag_index_map_find(&places->by_pc, pc) != AG_INDEX_NONE) {
            return 0;
        }
        int r = AG_ARRAY_ADD(places->list, places->count, place);
        r = r < 0 ? r : ag_index_map_insert(&places->by_pc, pc, (uint32_t)places->count - 1);
        places->open_pc = pc;
        places->n_reported = 1;
        return r;
    }
    if (pc == 0 || pc != places->open_pc || record->u.code.place != places->n_reported ||
        places->n_reported == AG_CODE_PLACES_MOST) {
        return 0;
    }
    const int r = AG_ARRAY_ADD(places->list, places->count, place);
    if (r == 0) {
        places->list[places->count - 2].next = (uint32_t)places->count;
        places->n_reported++;
    }
    return r;
}

const struct ag_code_place *ag_code_places_find(const struct ag_code_places *places, uint64_t pc) {
    const uint32_t at = ag_index_map_find(&places->by_pc, pc);
    return at != AG_INDEX_NONE ? &places->list[at] : NULL;
}
