/* test_detour.c: detours, jumps to a replacement that are written over the first bytes of a
 * function. The functions begin in different ways, and are written for this test
 * (detour_targets.S). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "hook/detour.h"
#include "hook/process_map.h"

typedef int target_fn(int x);

#define TARGET(name)        \
    extern int name(int x); \
    extern const char name##_end[]
TARGET(starts_with_pushes);
TARGET(starts_with_landing);
TARGET(starts_relative_to_itself);
TARGET(starts_with_relative_immediate);
TARGET(starts_with_short_branch);
TARGET(starts_with_long_branch);
TARGET(starts_with_count);
TARGET(starts_with_call);
TARGET(six_more);
TARGET(is_one_jump);
TARGET(is_a_short_jump);
TARGET(is_one_return);
TARGET(is_too_short);
TARGET(starts_with_thread_local);
TARGET(has_a_loop_to_its_middle);
TARGET(has_a_late_jump_to_its_middle);
TARGET(jumps_to_its_start);
TARGET(starts_with_nonsense);
TARGET(has_an_inner_landing);
TARGET(is_constant);
#define BYTES(name) ((size_t)(name##_end - (const char *)(name)))

static target_fn *original;
static int n_calls;

static int replacement(int x) {
    n_calls++;
    return original(x) + 1000;
}

static int install(struct ag_detour *detour, target_fn *target, size_t target_bytes) {
    return ag_detour_install(detour, (void *)target, target_bytes, (void *)replacement,
                             (void **)&original);
}

/* Checks that the detour calls the replacement, that the original function still works, and that
 * the function is unchanged after the removal of the detour. */
static void check_bytes(target_fn *target, size_t target_bytes) {
    static const int arguments[] = {0, 7, 12345, -5};
    target_fn *volatile call = target; /* volatile: otherwise the compiler would keep the results of
                                        * earlier calls */
    int answers[4];
    uint8_t before[16];
    struct ag_detour detour;
    for (int i = 0; i < 4; i++) {
        answers[i] = call(arguments[i]);
    }
    memcpy(before, (void *)target, sizeof(before));
    const int r = install(&detour, target, target_bytes);
    if (r < 0) {
        fail_msg("%s (%d)", detour.reason, r);
    }
    for (int i = 0; i < 4; i++) {
        const int n_before = n_calls;
        assert_int_equal(call(arguments[i]), answers[i] + 1000);
        assert_int_equal(n_calls, n_before + 1);
        assert_int_equal(original(arguments[i]), answers[i]);
    }
    assert_memory_not_equal(before, (void *)target, sizeof(before));
    assert_int_equal(ag_detour_remove(&detour), 0);
    assert_memory_equal(before, (void *)target, sizeof(before));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(call(arguments[i]), answers[i]);
    }
    assert_int_equal(ag_detour_remove(&detour), 0);
}

static void check(target_fn *target, size_t target_bytes) {
    check_bytes(target, target_bytes);
    check_bytes(target, /* unknown */ 0);
}

static void check_refused(target_fn *target, size_t target_bytes, int error, const char *reason) {
    uint8_t before[16];
    memcpy(before, (void *)target, sizeof(before));
    struct ag_detour detour;
    original = NULL;
    assert_int_equal(install(&detour, target, target_bytes), error);
    assert_non_null(strstr(detour.reason, reason));
    assert_null(original);
    assert_memory_equal(before, (void *)target, sizeof(before));
    assert_int_equal(ag_detour_remove(&detour), 0);
}

static void ordinary_beginnings_are_detoured(void **state) {
    (void)state;
    check(starts_with_pushes, BYTES(starts_with_pushes));
    check(is_constant, BYTES(is_constant));
    check(six_more, BYTES(six_more));
}

static void a_landing_pad_remains_before_a_detour(void **state) {
    (void)state;
    check(starts_with_landing, BYTES(starts_with_landing));
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    struct ag_detour detour;
    assert_int_equal(install(&detour, starts_with_landing, BYTES(starts_with_landing)), 0);
    assert_memory_equal((void *)starts_with_landing, endbr64, sizeof(endbr64));
    assert_int_equal(ag_detour_remove(&detour), 0);
}

static void operands_relative_to_the_instruction_are_corrected(void **state) {
    (void)state;
    check(starts_relative_to_itself, BYTES(starts_relative_to_itself));
    check(starts_with_relative_immediate, BYTES(starts_with_relative_immediate));
}

static void branches_at_the_beginning_are_corrected(void **state) {
    (void)state;
    check(starts_with_short_branch, BYTES(starts_with_short_branch));
    check(starts_with_long_branch, BYTES(starts_with_long_branch));
    check(starts_with_count, BYTES(starts_with_count));
    check(starts_with_call, BYTES(starts_with_call));
    check(is_one_jump, BYTES(is_one_jump));
}

/* A page of code that was written to is a mapping of its own, so a function may lie in two
 * mappings. In this test the function's second instruction does. */
static void a_function_in_two_mappings_is_detoured(void **state) {
    enum { PAGE = 4096, BEFORE = 8 };
    static const uint8_t code[] = {0x48, 0x83, 0xec, 0x08,                   /* sub $8, %rsp */
                                   0x48, 0x81, 0xc7, 0xe8, 0x03, 0x00, 0x00, /* add $1000, %rdi */
                                   0x89, 0xf8,                               /* mov %edi, %eax */
                                   0x48, 0x83, 0xc4, 0x08, 0xc3};            /* add, ret */
    (void)state;
    const int fd = memfd_create("two mappings", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 4 * PAGE), 0);
    assert_int_equal(pwrite(fd, code, BEFORE, PAGE - BEFORE), BEFORE);
    assert_int_equal(pwrite(fd, code + BEFORE, sizeof(code) - BEFORE, 2 * PAGE),
                     sizeof(code) - BEFORE);
    uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    for (int i = 0; i < 2; i++) { /* pages that do not follow one another in the file: otherwise the
                                   * kernel would merge their mappings */
        assert_ptr_equal(mmap(pages + i * PAGE, PAGE, PROT_READ | PROT_EXEC,
                              MAP_PRIVATE | MAP_FIXED, fd, 2 * i * PAGE),
                         pages + i * PAGE);
    }
    check((target_fn *)(uintptr_t)(pages + PAGE - BEFORE), sizeof(code));
    assert_int_equal(munmap(pages, 2 * PAGE), 0);
    assert_int_equal(close(fd), 0);
}

static void an_access_to_thread_local_data_is_moved(void **state) {
    (void)state;
    check(starts_with_thread_local, BYTES(starts_with_thread_local));
}

static void padding_behind_a_short_function_is_used(void **state) {
    (void)state;
    check_bytes(is_a_short_jump, BYTES(is_a_short_jump));
    struct ag_detour detour;
    assert_int_equal(install(&detour, is_one_return, BYTES(is_one_return)), 0);
    const int n_before = n_calls;
    is_one_return(1);
    assert_int_equal(n_calls, n_before + 1);
    assert_int_equal(ag_detour_remove(&detour), 0);
}

static void too_short_is_refused(void **state) {
    (void)state;
    check_refused(is_too_short, BYTES(is_too_short), -ENOSPC, "no room");
    check_refused(is_too_short, /* unknown */ 0, -ENOSPC, "no room");
    check_refused(is_a_short_jump, /* unknown */ 0, -ENOSPC, "no room");
    check_refused(starts_with_pushes, 3, -ENOSPC, "no room");
}

static void jumps_into_the_overwritten_bytes_are_refused(void **state) {
    (void)state;
    check_refused(has_a_loop_to_its_middle, BYTES(has_a_loop_to_its_middle), -EBUSY, "jumps back");
    check_refused(has_a_late_jump_to_its_middle, BYTES(has_a_late_jump_to_its_middle), -EBUSY,
                  "jumps back");
    check_refused(has_an_inner_landing, BYTES(has_an_inner_landing), -EBUSY, "indirect");
}

/* If a function jumps to its own start, each jump calls the replacement. */
static void a_jump_to_the_start_is_a_call(void **state) {
    (void)state;
    struct ag_detour detour;
    assert_int_equal(install(&detour, jumps_to_its_start, BYTES(jumps_to_its_start)), 0);
    n_calls = 0;
    assert_int_equal(jumps_to_its_start(7), 10 + 4 * 1000);
    assert_int_equal(n_calls, 4);
    assert_int_equal(ag_detour_remove(&detour), 0);
}

static void invalid_code_is_refused(void **state) {
    (void)state;
    static uint8_t data[64];
    check_refused(starts_with_nonsense, BYTES(starts_with_nonsense), -EILSEQ, "unknown");
    check_refused((target_fn *)(void *)data, 64, -EFAULT, "no code");
    struct ag_detour detour;
    assert_int_equal(install(&detour, (target_fn *)16, 64), -EFAULT);
}

static bool note_protection(void *context, const struct ag_mapping *mapping) {
    struct ag_mapping *wanted = context;
    if (mapping->low <= wanted->low && wanted->low < mapping->high) {
        *wanted = *mapping;
        return false;
    }
    return true;
}

static int protection_of(const void *address) {
    struct ag_mapping mapping = {.low = (uintptr_t)address};
    assert_int_equal(ag_process_map_walk(note_protection, &mapping), 0);
    return mapping.protection;
}

static void nothing_stays_writable(void **state) {
    (void)state;
    struct ag_detour detour;
    assert_int_equal(protection_of((void *)is_constant), PROT_READ | PROT_EXEC);
    assert_int_equal(install(&detour, is_constant, BYTES(is_constant)), 0);
    assert_int_equal(protection_of((void *)is_constant), PROT_READ | PROT_EXEC);
    assert_int_equal(protection_of(detour.page), PROT_READ | PROT_EXEC);
    assert_int_equal(ag_detour_remove(&detour), 0);
    assert_int_equal(protection_of((void *)is_constant), PROT_READ | PROT_EXEC);
    assert_int_equal(protection_of(&n_calls), PROT_READ | PROT_WRITE);
}

static target_fn *outer_original;

static int outer_replacement(int x) {
    return outer_original(x) + 100000;
}

static void a_detour_can_be_installed_over_another(void **state) {
    (void)state;
    struct ag_detour inner, outer;
    assert_int_equal(install(&inner, starts_with_pushes, BYTES(starts_with_pushes)), 0);
    assert_int_equal(ag_detour_install(&outer, (void *)starts_with_pushes,
                                       BYTES(starts_with_pushes), (void *)outer_replacement,
                                       (void **)&outer_original),
                     0);
    assert_int_equal(starts_with_pushes(1), 101002);
    /* The inner detour was installed first. Its removal must not overwrite the jump of the outer
     * detour. */
    assert_int_equal(ag_detour_remove(&inner), -EBUSY);
    assert_int_equal(starts_with_pushes(1), 101002);
    assert_int_equal(ag_detour_remove(&outer), 0);
    assert_int_equal(starts_with_pushes(1), 1002);
    assert_int_equal(ag_detour_remove(&inner), 0);
    assert_int_equal(starts_with_pushes(1), 2);
}

static _Atomic bool is_over;

static void *call_for_ever(void *context) {
    target_fn *volatile call = is_constant;
    size_t *n_wrong = context;
    while (!atomic_load(&is_over)) {
        const int answer = call(0);
        *n_wrong += answer != 42 && answer != 1042;
    }
    return NULL;
}

/* When the first instruction is as long as the jump, no thread can be between two of the bytes that
 * the jump replaces. So the detour can be installed and removed at any time. */
static void other_threads_may_call_while_a_detour_is_changed(void **state) {
    (void)state;
    size_t n_wrong = 0;
    pthread_t thread;
    struct ag_detour detour;
    assert_int_equal(install(&detour, is_constant, BYTES(is_constant)), 0); /* sets `original`,
                                                                             * which the thread
                                                                             * uses */
    assert_int_equal(pthread_create(&thread, NULL, call_for_ever, &n_wrong), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(ag_detour_remove(&detour), 0);
        assert_int_equal(install(&detour, is_constant, BYTES(is_constant)), 0);
    }
    assert_int_equal(ag_detour_remove(&detour), 0);
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    assert_int_equal(n_wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ordinary_beginnings_are_detoured),
        cmocka_unit_test(a_landing_pad_remains_before_a_detour),
        cmocka_unit_test(operands_relative_to_the_instruction_are_corrected),
        cmocka_unit_test(branches_at_the_beginning_are_corrected),
        cmocka_unit_test(a_function_in_two_mappings_is_detoured),
        cmocka_unit_test(an_access_to_thread_local_data_is_moved),
        cmocka_unit_test(padding_behind_a_short_function_is_used),
        cmocka_unit_test(too_short_is_refused),
        cmocka_unit_test(jumps_into_the_overwritten_bytes_are_refused),
        cmocka_unit_test(a_jump_to_the_start_is_a_call),
        cmocka_unit_test(invalid_code_is_refused),
        cmocka_unit_test(nothing_stays_writable),
        cmocka_unit_test(a_detour_can_be_installed_over_another),
        cmocka_unit_test(other_threads_may_call_while_a_detour_is_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
