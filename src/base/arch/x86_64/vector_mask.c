/* vector_mask.c: determines for vector_state.S which parts of the vector state (XSAVE state
 * components) this machine has.
 *
 * Tiles (AMX) are left out: they are 8 KiB, and no library uses them without its caller's
 * knowledge. Protection keys are left out too: they are access rights to memory, not values with
 * which the program computes. */
#include <cpuid.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/vector_state.h"

enum {
    AG_XSAVE_BYTES = 2752,
    PARTS = 0xe7, /* x87, SSE, AVX and the three parts of AVX-512 */
    FIRST_EXTENDED_PART = 2,
    PARTS_END = 8,
    LEAF_FEATURES = 1,
    LEAF_XSAVE = 0xd,
    OSXSAVE = 1 << 27,
};
#define MASK_IS_KNOWN (UINT32_C(1) << 31)

/* the mask for XSAVE, with MASK_IS_KNOWN; 0: not known yet */
extern _Atomic uint32_t ag_vector_mask AG_HIDDEN;
_Atomic uint32_t ag_vector_mask;

uint32_t ag_vector_mask_find(void) AG_HIDDEN;

static uint32_t enabled_parts(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

/* The mask for XSAVE; 0: there is no XSAVE, and FXSAVE saves everything. */
uint32_t ag_vector_mask_find(void) {
    uint32_t eax, ebx, ecx, edx, mask = 0;
    if (__get_cpuid(LEAF_FEATURES, &eax, &ebx, &ecx, &edx) && ecx & OSXSAVE) {
        mask = enabled_parts() & PARTS;
    }
    for (uint32_t part = FIRST_EXTENDED_PART; part < PARTS_END; part++) {
        if (mask & UINT32_C(1) << part) {
            __cpuid_count(LEAF_XSAVE, part, eax, ebx, ecx, edx);
            /* no known CPU has a part that ends beyond the saved area */
            if (eax + ebx > AG_XSAVE_BYTES) {
                mask &= ~(UINT32_C(1) << part);
            }
        }
    }
    atomic_store_explicit(&ag_vector_mask, mask | MASK_IS_KNOWN, memory_order_relaxed);
    return mask;
}
