#ifndef AG_CRYSTAL_TYPES_H
#define AG_CRYSTAL_TYPES_H
#include "base/compiler.h"
#include <stddef.h>
#include <stdint.h>
AG_FAST void ag_crystal_types_allocated(uintptr_t address, size_t bytes) {
    (void)address;
    (void)bytes;
}
AG_FAST void ag_crystal_types_freeing(uintptr_t address) {
    (void)address;
}
AG_FAST void ag_crystal_types_prepare(uintptr_t address, size_t bytes) {
    (void)address;
    (void)bytes;
}
#endif
