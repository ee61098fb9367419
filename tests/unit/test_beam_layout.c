/* test_beam_layout.c: the search for the words that describe the heap in the structure of an Erlang
 * process. The test fills such a structure. If a part of the heap's description is not found, or is
 * found at two places, the search must fail. The test also defines the functions of Erlang's
 * emulator that the search calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <erl_nif.h>

#include "process_layout.h"

enum { PID = 0x1233, WORDS = 96, HEAP_TOP = 10, HEAP = 24, FRAGMENTS = 68 };

static uint64_t process[WORDS], heap[256];
static const void *environment[8];
/* whether the count of words in fragments grows by the size of a new fragment */
static bool has_fragment_words;

ErlNifPid *enif_self(ErlNifEnv *env, ErlNifPid *pid) {
    (void)env;
    pid->pid = PID;
    return pid;
}

void *enif_alloc(size_t bytes) {
    return malloc(bytes);
}

void enif_free(void *memory) {
    free(memory);
}

ERL_NIF_TERM enif_make_int(ErlNifEnv *env, int number) {
    (void)env;
    return (ERL_NIF_TERM)number;
}

ERL_NIF_TERM enif_make_list_from_array(ErlNifEnv *env, const ERL_NIF_TERM array[], unsigned n) {
    static uint64_t fragment;
    (void)env;
    (void)array;
    environment[AG_ENV_FRAGMENT] = &fragment;
    process[FRAGMENTS] = (uint64_t)(uintptr_t)&fragment;
    process[FRAGMENTS + 3] += has_fragment_words ? 2 * n : 1;
    return 0;
}

/* Makes a process whose words are at the offsets that the constants above define. */
static int make(void **state) {
    (void)state;
    memset(process, 0, sizeof process);
    memset(environment, 0, sizeof environment);
    memset(&ag_process_layout, 0, sizeof ag_process_layout);
    process[0] = PID;
    process[HEAP_TOP] = (uint64_t)(uintptr_t)&heap[100];
    process[HEAP_TOP + 1] = (uint64_t)(uintptr_t)&heap[204]; /* the stack */
    process[HEAP] = (uint64_t)(uintptr_t)&heap[0];
    process[HEAP + 1] = (uint64_t)(uintptr_t)&heap[256];
    process[HEAP + 3] = 256;
    environment[AG_ENV_PROCESS] = process;
    environment[AG_ENV_HEAP_TOP] = &heap[100];
    environment[AG_ENV_HEAP_END] = &heap[200];
    has_fragment_words = true;
    return 0;
}

static const char *find(void) {
    return ag_process_layout_find((ErlNifEnv *)(void *)environment);
}

static void a_process_is_found_wherever_its_words_are(void **state) {
    (void)state;
    assert_null(find());
    assert_true(ag_process_layout.is_known);
    assert_int_equal(ag_process_layout.heap_top, HEAP_TOP);
    assert_int_equal(ag_process_layout.stack_top, HEAP_TOP + 1);
    assert_int_equal(ag_process_layout.heap, HEAP);
    assert_int_equal(ag_process_layout.heap_end, HEAP + 1);
    assert_int_equal(ag_process_layout.abandoned_heap, HEAP + 2);
    assert_int_equal(ag_process_layout.message_fragments, FRAGMENTS + 2);
    assert_int_equal(ag_process_layout.fragment_words, FRAGMENTS + 3);
}

static void refuses(const char *expected) {
    assert_string_equal(find(), expected);
    assert_false(ag_process_layout.is_known);
}

static void another_process_is_refused(void **state) {
    (void)state;
    process[0]++;
    refuses("the process that runs a native function");
}

static void a_heap_top_that_is_nowhere_or_twice_is_refused(void **state) {
    (void)state;
    process[HEAP_TOP + 20] = process[HEAP_TOP];
    process[HEAP_TOP + 21] = process[HEAP_TOP + 1];
    refuses("the top of a process' heap");
    process[HEAP_TOP] = process[HEAP_TOP + 20] = 0;
    refuses("the top of a process' heap");
}

/* The heap is empty, so its start and its top are the same address, and two words of the process
 * have this value. The search must not confuse these words. */
static void an_empty_heap_is_not_its_top(void **state) {
    (void)state;
    process[HEAP] = process[HEAP_TOP];
    process[HEAP + 1] = (uint64_t)(uintptr_t)&heap[210];
    process[HEAP + 3] = 110;
    assert_null(find());
    assert_int_equal(ag_process_layout.heap_top, HEAP_TOP);
    assert_int_equal(ag_process_layout.heap, HEAP);
}

static void a_size_that_is_not_the_heaps_is_refused(void **state) {
    (void)state;
    process[HEAP + 3]--;
    refuses("the beginning of a process' heap");
}

static void fragments_that_do_not_grow_by_what_was_made_are_refused(void **state) {
    (void)state;
    has_fragment_words = false;
    refuses("the fragments of a process' heap");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_process_is_found_wherever_its_words_are, make),
        cmocka_unit_test_setup(another_process_is_refused, make),
        cmocka_unit_test_setup(a_heap_top_that_is_nowhere_or_twice_is_refused, make),
        cmocka_unit_test_setup(an_empty_heap_is_not_its_top, make),
        cmocka_unit_test_setup(a_size_that_is_not_the_heaps_is_refused, make),
        cmocka_unit_test_setup(fragments_that_do_not_grow_by_what_was_made_are_refused, make),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
