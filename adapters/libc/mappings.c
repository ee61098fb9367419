/* mappings.c: records the program's calls of mmap, munmap, mremap, brk and sbrk. For the mappings
 * of malloc the libc calls internal functions, which are not hooked. So no memory is counted twice.
 * The kernel maps and unmaps whole pages, so sizes are rounded up to whole pages. The sizes of brk
 * and sbrk are not rounded. */
#include <stdarg.h>
#include <sys/mman.h>

#include "base/pages.h"
#include "next.h"
#include "record/recorder.h"

/* These calls are rare, so they have no entries in entry.S. The stack walk starts at the frame of
 * the function in this file: its frame pointer leads to the caller's sp and rbp. */
#define CALLER_SP() ((const uintptr_t *)__builtin_frame_address(0) + 1)
#define CALLER_RBP() (*(const uintptr_t *)__builtin_frame_address(0))

enum { LEAVE_OLD_PLACE = 4 }; /* MREMAP_DONTUNMAP, absent from headers before glibc 2.32 */

AG_EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
/* off_t has 64 bits on x86-64 */
AG_EXPORT void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
    __attribute__((alias("mmap")));
AG_EXPORT int munmap(void *address, size_t bytes);
AG_EXPORT void *mremap(void *address, size_t bytes, size_t new_bytes, int flags, ...);
AG_EXPORT int brk(void *end);
AG_EXPORT void *sbrk(intptr_t increment);

/* Second names, which only the agent has: symbol_lookup.c uses them. */
#define SECOND_NAME(second, name) \
    __asm__(".globl " second "\n.hidden " second "\n.set " second ", " name)
SECOND_NAME("ag_entry_mmap", "mmap");
SECOND_NAME("ag_entry_mmap64", "mmap");
SECOND_NAME("ag_entry_munmap", "munmap");
SECOND_NAME("ag_entry_mremap", "mremap");

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    ag_libc_start();
    void *mapped = ag_next.mmap(address, bytes, protection, flags, fd, offset);
    if (mapped != MAP_FAILED) {
        ag_record_map(CALLER_SP(), CALLER_RBP(), VIA_MMAP, (uintptr_t)mapped, ag_page_after(bytes),
                      protection, flags);
    }
    return mapped;
}

int munmap(void *address, size_t bytes) {
    ag_libc_start();
    if (ag_page_of((uintptr_t)address) == (uintptr_t)address) { /* otherwise the call fails */
        ag_record_unmap((uintptr_t)address, ag_page_after(bytes));
    }
    return ag_next.munmap(address, bytes);
}

void *mremap(void *address, size_t bytes, size_t new_bytes, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *new_address = flags & (MREMAP_FIXED | LEAVE_OLD_PLACE) ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    ag_libc_start();
    const uint64_t time_ns = ag_record_call_time();
    void *mapped = ag_next.mremap(address, bytes, new_bytes, flags, new_address);
    const size_t kept = ag_page_after(new_bytes), old = ag_page_after(bytes);
    if (mapped == address && kept <= old) {
        /* Only the end is recorded as unmapped: the range may consist of several mappings with
         * holes. */
        if (kept < old) {
            ag_record_unmap_late(VIA_MREMAP, time_ns, (uintptr_t)address + kept, old - kept);
        }
    } else if (mapped != MAP_FAILED) {
        if ((flags & LEAVE_OLD_PLACE) == 0) {
            ag_record_unmap_late(VIA_MREMAP, time_ns, (uintptr_t)address, old);
        }
        ag_record_map(CALLER_SP(), CALLER_RBP(), VIA_MREMAP, (uintptr_t)mapped, kept, 0, 0);
    }
    return mapped;
}

/* CALL_TIME_NS: the result of ag_record_call_time before the call. */
static void report_break(const uintptr_t *sp, uintptr_t rbp, enum ag_libc_via via,
                         uint64_t call_time_ns, uintptr_t before, uintptr_t after) {
    if (after > before) {
        ag_record_map(sp, rbp, via, before, after - before, PROT_READ | PROT_WRITE, 0);
    } else if (after < before) {
        ag_record_unmap_late(via, call_time_ns, after, before - after);
    }
}

int brk(void *end) {
    ag_libc_start();
    const uintptr_t before = (uintptr_t)ag_next.sbrk(0);
    const uint64_t time_ns = ag_record_call_time();
    const int r = ag_next.brk(end);
    if (r == 0) {
        report_break(CALLER_SP(), CALLER_RBP(), VIA_BRK, time_ns, before, (uintptr_t)end);
    }
    return r;
}

void *sbrk(intptr_t increment) {
    ag_libc_start();
    const uint64_t time_ns = ag_record_call_time();
    void *before = ag_next.sbrk(increment);
    if (before != (void *)-1 && increment != 0) {
        report_break(CALLER_SP(), CALLER_RBP(), VIA_SBRK, time_ns, (uintptr_t)before,
                     (uintptr_t)before + (uintptr_t)increment);
    }
    return before;
}
