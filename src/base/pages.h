/* pages.h: maps whole pages of memory, for code that must not call malloc. Any thread and signal
 * handler may call these functions. */
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

/* The first page that begins at the address or after it. Also rounds a size up to whole pages. */
AG_FAST uintptr_t ag_page_after(uintptr_t address) {
    return ag_page_of(address + AG_PAGE_BYTES - 1);
}

/* Maps private zeroed memory, which takes no physical memory until it is touched; NULL: no
 * memory. */
static inline void *ag_pages_map(size_t bytes) {
    const long address = ag_syscall6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return ag_syscall_failed(address) ? NULL : (void *)address;
}

/* NULL does nothing. */
static inline void ag_pages_unmap(const void *memory, size_t bytes) {
    if (memory) {
        /* cannot fail: the caller mapped these pages */
        (void)ag_syscall2(SYS_munmap, (long)memory, (long)bytes);
    }
}

#endif
