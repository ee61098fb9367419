/* cut_files.c: keeps allogram's processes alive when a file that they have mapped is truncated.
 *
 * The SIGBUS handler maps a page of zeros over the inaccessible one, and the access is repeated.
 * The handler serves every mapping of the process: a library that maps a file (libelf) reads the
 * mapping before it could be registered with this module. Memory that the machine has lost
 * (BUS_MCEERR_AR) is not handled. */
#include "cut_files.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

static struct {
    bool is_on;
    struct sigaction before;
} guard;

static void replace_page(int number, siginfo_t *info, void *unused) {
    (void)unused;
    uint8_t *page = (uint8_t *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE_BYTES - 1));
    if (info->si_code != BUS_ADRERR ||
        mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) == MAP_FAILED) {
        (void)signal(number, SIG_DFL); /* the access fails again at once and kills the process */
    }
}

void ag_cut_files_guard(void) {
    const struct sigaction action = {.sa_sigaction = replace_page,
                                     .sa_flags = SA_SIGINFO | SA_RESTART};
    (void)sigaction(SIGBUS, &action,
                    guard.is_on ? NULL : &guard.before); /* cannot fail for SIGBUS */
    guard.is_on = true;
}

void ag_cut_files_unguard(void) {
    if (guard.is_on) {
        (void)sigaction(SIGBUS, &guard.before, NULL); /* cannot fail for SIGBUS */
        guard.is_on = false;
    }
}
