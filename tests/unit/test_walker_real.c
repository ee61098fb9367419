/* test_walker_real.c: runs the stack walker on this process's own stack, with the .eh_frame
 * sections of this program and of libc. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../../bench/loaded_images.h"
#include "base/populate.h"
#include "unwind/arch/x86_64/capture_entry.h"
#include "unwind/stack_walker.h"
#include "unwind/unwind_space.h"

static struct ag_unwind_space *space;
static void *tree;

/* This thread's walker, and the result of its last capture. */
static _Thread_local struct ag_walker *walker;
static _Thread_local uint64_t pcs[64];
static _Thread_local int n_frames;
static _Thread_local enum ag_root root;
/* is_single: this thread runs the tests. is_as_plain: the last capture of this thread is equal to a
 * walk without caches. Other threads do not make this comparison, because the thread sanitizer does
 * not see that the memory of the second walk is unmapped. */
static _Thread_local bool is_single, is_as_plain;

uint32_t capture_here(void);
uint32_t captured(const uintptr_t *sp, uintptr_t rbp);
AG_CAPTURE_ENTRY_0(capture_here, captured);
__attribute__((used, visibility("hidden"))) uint32_t captured(const uintptr_t *sp, uintptr_t rbp) {
    const uint32_t node = ag_walker_capture(walker, space, sp, rbp);
    is_as_plain = is_single && ag_walker_self_check(space, sp, rbp, node);
    n_frames = ag_stack_tree_frames(&space->tree, node, 64, pcs, &root);
    return node;
}

enum { DEPTH = 64 };
static void open_walker(void) {
    walker = ag_walker_init(mmap(NULL, ag_walker_bytes(DEPTH), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                            DEPTH);
}

static int open_all(void **state) {
    (void)state;
    tree = mmap(NULL, AG_TREE_BYTES, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *private = mmap(NULL, ag_unwind_space_bytes(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    space = ag_unwind_space_init(private, tree, AG_TREE_SIZES - 1, NULL, DEPTH, ag_populate,
                                 loaded_image_find, NULL);
    open_walker();
    is_single = true;
    return space == NULL;
}

/* Whether frame i is a return address within the first 1024 bytes of the function. */
static bool is_in(int i, void *function) {
    return pcs[i] - 1 - (uintptr_t)function < 1024;
}

static AG_NOINLINE uint32_t inner(void) {
    const uint32_t node = capture_here();
    __asm__ volatile("" ::: "memory"); // so that this is no tail call
    return node;
}
static AG_NOINLINE uint32_t outer(void) {
    const uint32_t node = inner();
    __asm__ volatile("" ::: "memory");
    return node;
}

static void frames_are_the_functions_that_called(void **state) {
    (void)state;
    uint32_t node[3];
    for (int i = 0; i < 3; i++) {
        node[i] = outer();
        assert_int_equal(root, AG_ROOT_COMPLETE);
        assert_true(is_as_plain);
        assert_true(is_in(0, inner) && is_in(1, outer) &&
                    is_in(2, frames_are_the_functions_that_called));
    }
    assert_int_equal(node[0], node[2]);
    inner();
    assert_true(is_in(0, inner) && is_in(1, frames_are_the_functions_that_called));
}

static int compare(const void *a, const void *b) {
    (void)outer();
    return *(const int *)a - *(const int *)b;
}
static void callback_from_libc(void **state) {
    (void)state;
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof numbers[0], compare);
    assert_int_equal(root, AG_ROOT_COMPLETE);
    assert_true(is_in(2, compare));
}

static void *in_thread(void *ret_is_right) {
    open_walker();
    (void)outer();
    *(bool *)ret_is_right = root == AG_ROOT_COMPLETE && is_in(2, in_thread) && n_frames <= 6;
    return NULL;
}
static void bottom_of_a_thread_is_complete(void **state) {
    (void)state;
    pthread_t thread;
    bool is_right = false;
    assert_int_equal(pthread_create(&thread, NULL, in_thread, &is_right), 0);
    pthread_join(thread, NULL);
    assert_true(is_right);
}

static _Atomic bool is_over;
static void *capture_many(void *ret_n_wrong) {
    open_walker();
    int n_wrong = 0;
    for (int i = 0; i < 1000 || !atomic_load(&is_over); i++) {
        if (i % 3 == 0) {
            inner();
        } else {
            outer();
        }
        n_wrong += root != AG_ROOT_COMPLETE || !is_in(0, inner) ||
                   !is_in(i % 3 == 0 ? 1 : 2, capture_many);
    }
    *(int *)ret_n_wrong = n_wrong;
    return NULL;
}
/* The images (the program and its libraries) stay loaded, so every stack stays the same, however
 * often the walker forgets the images. */
static void threads_capture_while_images_are_forgotten(void **state) {
    (void)state;
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    int n_wrong[THREADS];
    struct ag_unwind_image image = {0};
    assert_int_equal(loaded_image_find(NULL, (uintptr_t)capture_many, loaded_image_copy, &image),
                     0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, capture_many, &n_wrong[i]), 0);
    }
    for (int i = 0; i < 300; i++) {
        ag_unwind_space_forget(space, image.low, image.high);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(n_wrong[i], 0);
    }
}

static void on_signal(int signal_number) {
    (void)signal_number;
    (void)outer();
    __asm__ volatile("" ::: "memory");
}
static AG_NOINLINE void raise_here(void) {
    raise(SIGUSR1);
    __asm__ volatile("" ::: "memory");
}
static void check_signal(int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags}, before;
    sigaction(SIGUSR1, &action, &before);
    for (int i = 0; i < 3; i++) {
        raise_here();
        assert_int_equal(root, AG_ROOT_COMPLETE);
        assert_true(is_as_plain);
        assert_true(is_in(2, on_signal));
        bool found = false;
        for (int k = 3; k < n_frames; k++) {
            found |= is_in(k, raise_here);
        }
        assert_true(found);
        (void)outer();
        assert_true(is_in(2, check_signal));
    }
    sigaction(SIGUSR1, &before, NULL);
}
static void signal_handler_on_the_same_stack(void **state) {
    (void)state;
    check_signal(0);
}
static void signal_handler_on_its_own_stack(void **state) {
    (void)state;
    const stack_t own = {.ss_sp = malloc(65536), .ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
    sigaltstack(&own, NULL);
    check_signal(SA_ONSTACK);
    sigaltstack(&none, NULL);
    free(own.ss_sp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_the_functions_that_called),
        cmocka_unit_test(callback_from_libc),
        cmocka_unit_test(bottom_of_a_thread_is_complete),
        cmocka_unit_test(threads_capture_while_images_are_forgotten),
        cmocka_unit_test(signal_handler_on_the_same_stack),
        cmocka_unit_test(signal_handler_on_its_own_stack),
    };
    return cmocka_run_group_tests(tests, open_all, NULL);
}
