/* own_stack.c: raises RLIMIT_STACK for allogram's own processes.
 *
 * The kernel compares the size of the main thread's stack with the limit whenever the stack grows,
 * so a limit that is raised in the running process has an effect at once. The kernel also keeps at
 * least 128 MiB of addresses below the stack free (mmap_base in the kernel's source), whatever the
 * limit was at the start. Before main, the C library has taken the limit as the default size of
 * threads' stacks; therefore this default is set separately. */
#include "cli/own_stack.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>

/* Reports of small traces need more than 128 KiB and less than 256 KiB. wanted_bytes is larger,
 * because regular expressions and names of C++ templates are processed recursively. */
static const rlim_t wanted_bytes = 8 << 20, least_bytes = AG_OWN_STACK_LEAST_KIB << 10;

static struct rlimit before = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};

static void raise_threads(void) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
        /* if one of these calls fails, the default size stays as it is */
        (void)pthread_attr_setstacksize(&attributes, wanted_bytes);
        (void)pthread_setattr_default_np(&attributes);
        (void)pthread_attr_destroy(&attributes); /* cannot fail */
    }
}

uint64_t ag_own_stack_raise(void) {
    (void)getrlimit(RLIMIT_STACK, &before); /* cannot fail for a known limit */
    if (before.rlim_cur >= wanted_bytes) {  /* RLIM_INFINITY is the largest number */
        return 0;
    }
    struct rlimit limit = {
        .rlim_cur = wanted_bytes,
        .rlim_max = before.rlim_max > wanted_bytes ? before.rlim_max : wanted_bytes,
    };
    if (setrlimit(RLIMIT_STACK, &limit) < 0) { /* the hard limit may not be raised */
        limit.rlim_cur = limit.rlim_max = before.rlim_max;
        (void)setrlimit(RLIMIT_STACK, &limit); /* cannot fail: up to the hard limit is allowed */
    }
    raise_threads();
    return limit.rlim_cur < least_bytes ? limit.rlim_cur : 0;
}

/* The kernel lets no stack grow beyond the restored limit, and the stack of this process may be
 * larger than that already. So, before the limit is restored, this function writes to all pages of
 * the stack that the process needs until exec. */
static __attribute__((noinline)) void use_stack(void) {
    volatile char pages[32 << 10];
    for (size_t i = 0; i < sizeof(pages); i += 1024) {
        pages[i] = 0;
    }
}

void ag_own_stack_restore(void) {
    use_stack();
    (void)setrlimit(RLIMIT_STACK, &before); /* lowering is always allowed */
}
