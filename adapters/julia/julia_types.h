/* julia_types.h: finds the type of an object, from the word before it. */
#ifndef AG_JULIA_TYPES_H
#define AG_JULIA_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "base/compiler.h"

enum {
    AG_JULIA_GC_BITS = 15,        /* bits of the word that are not part of the type */
    AG_JULIA_MARKED = 1,          /* one of those bits: the object lives */
    AG_JULIA_OLD_MARKED = 3,      /* the object lives at least until the next full collection */
    AG_JULIA_BUFFER = 0x4eadc000, /* jl_buff_tag: memory of an array, no object */
};

AG_FAST uintptr_t ag_julia_word(uintptr_t object) {
    return *(const volatile uintptr_t *)(object - sizeof(uintptr_t));
}
AG_FAST uintptr_t ag_julia_tag(uintptr_t object) {
    return ag_julia_word(object) & ~(uintptr_t)AG_JULIA_GC_BITS;
}

/* Called once, before the other functions. Returns 0 or -ENOMEM. */
int ag_julia_types_start(void);
/* The type's number in the trace; 0: it cannot be registered. The first call for a type gets its
 * name from Julia, which may call malloc but starts no collection. is_data: the block is not an
 * array of that type but the memory of such an array. */
allogram_type ag_julia_type(uintptr_t tag, bool is_data);
/* Forgets the types that are about to be swept, since types are objects themselves. */
void ag_julia_types_sweep(void);

#endif
