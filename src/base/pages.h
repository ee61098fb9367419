/* pages.h: whole pages of memory from the kernel, for code that may not call malloc. From any
 * thread and signal handler. */
#ifndef AG_PAGES_H
#define AG_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"

enum { AG_PAGE_BYTES = 4096 };

/* The page that contains the address. */
AG_FAST uintptr_t ag_page_of(uintptr_t address) {
    return address & ~(uintptr_t)(AG_PAGE_BYTES - 1);
}

/* The first page that begins at the address or after it; also a size in whole pages. */
AG_FAST uintptr_t ag_page_after(uintptr_t address) {
    return ag_page_of(address + AG_PAGE_BYTES - 1);
}

/* Private zeroed memory, which costs nothing until it is touched; NULL: there is none. */
static inline void *ag_pages_map(size_t bytes) {
    const long address = ag_syscall6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ag_syscall_failed(address) ? NULL : (void *)address;
}

/* NULL does nothing. */
static inline void ag_pages_unmap(const void *memory, size_t bytes) {
    if (memory) {
        (void)ag_syscall2(SYS_munmap, (long)memory, (long)bytes); /* our own mapping: cannot fail */
    }
}

#endif
