/* test_node.c: reads an Erlang node in simulated memory (played_target.h). The test writes the
 * node's code map, processes, allocators, stacks and collections. Then the test changes this memory
 * to words that Erlang's emulator never writes, and reads it again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/skip.h"
#include "node_collections.h"
#include "node_kernel.h"
#include "played_target.h"

extern const struct allogram_inspector ag_inspector_erlang;

enum {
    CODE = 0x40000000, /* base of the current module */
    EXIT_CODE = CODE + 0x800,
    FRAGMENT = CODE + 0x900,
    PROCESS_BYTES = 776,
    SLOTS = 16,
};
/* Offsets of ERTS 13.1.5, as in adapters/erlang/outside/layout.def. */
enum {
    HEAP_TOP = 0x50,
    STACK_TOP = 0x58,
    HEAP = 0x80,
    HEAP_END = 0x88,
    HEAP_WORDS = 0x98,
    INSTRUCTION = 0x100,
    QUEUE = 0x188,
    CURRENT = 0x1d8,
    OLD_END = 0x1f8,
    OLD_HEAP = 0x208,
    INCOMING = 0x2a0,
    REGISTERED = 0x30,
};
enum atom { ATOM_INIT, ATOM_LISTS, ATOM_MAP, ATOMS };

static struct allogram_target target;
static struct allogram_answers answers;
static uint64_t processes[2];

/* ---- writing a node ------------------------------------------------------------------------ */

static size_t put(uint8_t *to, const void *bytes, size_t n) {
    memcpy(to, bytes, n);
    return n;
}

/* Writes a function's range of code, with one source line, or with none if FILE is NULL. */
static size_t put_range(uint8_t *to, uint32_t low, uint32_t high, const char *name,
                        const char *file, uint32_t line) {
    const uint32_t n_lines = file != NULL;
    const uint16_t name_len = (uint16_t)(strlen(name) + 1), zero = 0;
    size_t len = put(to, &low, 4);
    len += put(to + len, &high, 4);
    len += put(to + len, &n_lines, 4);
    len += put(to + len, &name_len, 2);
    len += put(to + len, name, name_len);
    len += put(to + len, &zero, 2);
    if (file != NULL) {
        const uint16_t file_len = (uint16_t)(strlen(file) + 1);
        len += put(to + len, &low, 4);
        len += put(to + len, &line, 4);
        len += put(to + len, &file_len, 2);
        len += put(to + len, file, file_len);
        len += put(to + len, &zero, 2);
    }
    return len;
}

static size_t put_module(uint8_t *to) {
    const uint32_t kind = 1, n_ranges = 5, code_bytes = 0x1000;
    const uint64_t base = CODE;
    const uint16_t name_len = 3;
    memset(to, 0, 35);
    put(to, &kind, 4);
    put(to + 8, &base, 8);
    put(to + 16, &n_ranges, 4);
    put(to + 20, &code_bytes, 4);
    put(to + 24, &name_len, 2);
    put(to + 26, "wl", 3);
    size_t len = 35;
    len += put_range(to + len, 0x0, 0x100, "wl:leaf/1-CodeInfoPrologue", NULL, 0);
    len += put_range(to + len, 0x100, 0x200, "wl:leaf/1", "wl.erl", 7);
    len += put_range(to + len, 0x200, 0x400, "wl:loop/0", "wl.erl", 9);
    len += put_range(to + len, 0x800, 0x900, "erts_beamasm:normal_exit/0", NULL, 0);
    len += put_range(to + len, 0x900, 0xa00, "global::call_light_bif_shared", NULL, 0);
    return len;
}

/* Writes an old module. Its code was at addresses that the current module has now. */
static size_t put_old_module(uint8_t *to) {
    const uint32_t n_ranges = 1;
    put_module(to);
    put(to + 16, &n_ranges, 4);
    return 35 + put_range(to + 35, 0x205, 0x300, "old:f/0", "old.erl", 1);
}

static void write_code(void) {
    const uint64_t list = played_symbol(&target, "played_code", 24),
                   older = played_place(&target, 24);
    const uint64_t file = played_place(&target, 4096), old_file = played_place(&target, 4096);
    played_set(&target, list, older);
    played_set(&target, list + 8, file);
    played_set(&target, list + 16, put_module(played_bytes(&target, file)));
    played_set(&target, older + 8, old_file);
    played_set(&target, older + 16, put_old_module(played_bytes(&target, old_file)));
}

static void write_atoms(void) {
    static const char *const names[ATOMS] = {"init", "lists", "map"};
    const uint64_t table = played_symbol(&target, "erts_atom_table", 128),
                   segments = played_place(&target, 64), segment = played_place(&target, 1024 * 8);
    played_set(&target, table + 120, segments);
    played_set(&target, segments, segment);
    for (int i = 0; i < ATOMS; i++) {
        const uint64_t atom = played_place(&target, 40), name = played_place(&target, 16);
        strcpy(played_bytes(&target, name), names[i]);
        played_set(&target, segment + (uint64_t)i * 8, atom);
        played_set(&target, atom + 24, strlen(names[i]));
        played_set(&target, atom + 32, name);
    }
}

static uint64_t term_of(enum atom atom) {
    return (uint64_t)atom << 6 | 0x0b;
}

/* Writes a process with a heap of n_words. The process waits in wl:loop/0, called by wl:leaf/1. */
static uint64_t write_process(uint32_t number, size_t n_words) {
    const uint64_t process = played_place(&target, PROCESS_BYTES),
                   heap = played_place(&target, n_words * 8), end = heap + n_words * 8;
    played_set(&target, process, (uint64_t)number << 4 | 3);
    played_set(&target, process + HEAP, heap);
    played_set(&target, process + HEAP_TOP, heap + 80);
    played_set(&target, process + HEAP_END, end);
    played_set(&target, process + HEAP_WORDS, n_words);
    played_set(&target, process + STACK_TOP, end - 4 * 8);
    played_set(&target, process + INSTRUCTION, CODE + 0x210);
    played_set(&target, end - 32, 0x1f); /* a term (a value of Erlang), not a return address */
    played_set(&target, end - 24, CODE + 0x180);
    played_set(&target, end - 16, 0x3b);
    played_set(&target, end - 8, EXIT_CODE + 4);
    return process;
}

static void write_processes(void) {
    const uint64_t table = played_symbol(&target, "erts_proc", 320),
                   no_process = played_symbol(&target, "erts_invalid_process", PROCESS_BYTES),
                   slots = played_place(&target, SLOTS * 8), entry = played_place(&target, 40);
    played_set(&target, table + 192, slots);
    played_set_32(&target, table + 208, SLOTS);
    played_set_32(&target, table + 272, PROCESS_BYTES);
    processes[0] = write_process(0, 233);
    processes[1] = write_process(3 << 15 | 81, 100);
    played_set(&target, slots, processes[0]);
    played_set(&target, slots + 8, no_process);
    played_set(&target, slots + 24, 0x1234567); /* a free slot */
    played_set(&target, slots + 40, processes[1]);
    played_set(&target, processes[0] + REGISTERED, entry);
    played_set(&target, entry + 32, term_of(ATOM_INIT));
    played_set(&target, processes[0] + QUEUE, 30);
    played_set(&target, processes[0] + INCOMING, 7);
    played_set(&target, processes[1] + OLD_HEAP, 0x5000);
    played_set(&target, processes[1] + OLD_END, 0x5000 + 50 * 8);
}

static void write_schedulers(void) {
    static const char *const names[][2] = {
        {"erts_aligned_scheduler_data", "erts_no_schedulers"},
        {"erts_aligned_dirty_cpu_scheduler_data", "erts_no_dirty_cpu_schedulers"},
        {"erts_aligned_dirty_io_scheduler_data", "erts_no_dirty_io_schedulers"}};
    for (int i = 0; i < 3; i++) {
        const uint64_t array = played_symbol(&target, names[i][0], 8),
                       count = played_symbol(&target, names[i][1], 8);
        played_set(&target, array, played_place(&target, 0xa300));
        played_set(&target, count, 1);
    }
    uint64_t array;
    memcpy(&array, played_bytes(&target, target.symbols[target.n_symbols - 4].symbol.address), 8);
    played_set(&target, array + 0xa8, processes[0]); /* the process that runs on the dirty CPU
                                                      * scheduler, a thread of the emulator for long
                                                      * work */
    played_symbol(&target, "erts_dirty_process_main", 64);
}

/* Writes one allocator with two instances, and two that are switched off (their rows are zero). */
static void write_allocators(void) {
    const uint64_t table = played_symbol(&target, "erts_allctrs_info", 3 * 24),
                   threads = played_place(&target, 24), pointers = played_place(&target, 16),
                   name = played_place(&target, 16), carrier = played_place(&target, 64);
    strcpy(played_bytes(&target, name), "eheap_");
    played_set(&target, table, UINT64_C(1) << 32 | 1);
    played_set(&target, table + 8, 1);
    played_set(&target, table + 16, threads);
    played_set_32(&target, threads + 12, 2);
    played_set(&target, threads + 16, pointers);
    for (int i = 0; i < 2; i++) {
        const uint64_t instance = played_place(&target, 0x960);
        played_set(&target, pointers + (uint64_t)i * 8, instance);
        played_set(&target, instance + 0x78, name);
        played_set(&target, instance + 0x6d0 + 8, 4096);  /* current bytes from mseg (memory
                                                           * segments) */
        played_set(&target, instance + 0x6d0 + 24, 1024); /* bytes from malloc */
        played_set(&target, instance + 0x6d0 + 56, 8192); /* the maximum */
        played_set(&target, instance + 0x6d0 + 80 + 8, 1000);
        played_set(&target, instance + 0x6d0 + 80 + 24, 1000);
        played_set(&target, instance + 0x288, i == 1 ? 2048 : 0); /* bytes of pooled carriers
                                                                   * (large pieces of memory that
                                                                   * any instance may take) */
        played_set(&target, instance + 0x1c8, i == 1 ? 24 : 0);
        played_set(&target, instance + 0x150, carrier);
    }
    played_set(&target, carrier, 4096 | 1);
}

static void write_text(const char *symbol, const char *text) {
    strcpy(played_bytes(&target, played_symbol(&target, symbol, 16)), text);
}

static void write_node(void) {
    memset(&target, 0, sizeof target);
    write_text("etp_otp_release", "25");
    write_text("etp_erts_version", "13.1.5");
    played_set_32(&target, played_symbol(&target, "etp_beamasm", 4), 1);
    write_code();
    write_atoms();
    write_processes();
    write_schedulers();
    write_allocators();
}

static void *open_node(void) {
    void *node = NULL;
    char problem[512] = "";
    if (ag_inspector_erlang.open(&target, &node, problem, sizeof problem) != 0) {
        fail_msg("not opened: %s", problem);
    }
    return node;
}

/* ---- what the inspector (the reader of a node) reports ---- */

static void processes_and_their_stacks_are_reported(void **state) {
    (void)state;
    write_node();
    void *node = open_node();
    played_begin(&answers);
    assert_int_equal(ag_inspector_erlang.processes(node, &answers), 0);
    assert_string_equal(answers.text, "<0.0.0> init wl:loop/0 233 4 37 frames 2\n"
                                      "<0.81.3> - wl:loop/0 150 4 0 frames 2\n");
    assert_string_equal(answers.stack.text, "wl:loop/0 wl.erl:9\nwl:leaf/1 wl.erl:7\n");
    assert_int_equal(answers.n_lost, 0);
    /* a hibernating process waits in code of the emulator; the field CURRENT of the process names
     * its Erlang function
     */
    const uint64_t function = played_place(&target, 24);
    played_set(&target, function, term_of(ATOM_LISTS));
    played_set(&target, function + 8, term_of(ATOM_MAP));
    played_set(&target, function + 16, 2);
    played_set(&target, processes[1] + INSTRUCTION, EXIT_CODE + 8);
    played_set(&target, processes[1] + CURRENT, function);
    played_begin(&answers);
    assert_int_equal(ag_inspector_erlang.processes(node, &answers), 0);
    assert_non_null(strstr(answers.text, "<0.81.3> - lists:map/2 150 4 0 frames 1\n"));
    ag_inspector_erlang.close(node);
}

static void a_process_that_changes_during_the_read_is_counted_as_lost(void **state) {
    (void)state;
    write_node();
    void *node = open_node();
    played_set(&target, processes[1] + STACK_TOP, 8);
    played_begin(&answers);
    assert_int_equal(ag_inspector_erlang.processes(node, &answers), 0);
    assert_int_equal(answers.n_reported, 1);
    assert_int_equal(answers.n_lost, 1);
    ag_inspector_erlang.close(node);
}

static void allocators_add_up(void **state) {
    (void)state;
    write_node();
    void *node = open_node();
    played_begin(&answers);
    assert_int_equal(ag_inspector_erlang.allocators(node, &answers), 0);
    assert_string_equal(answers.text, "eheap_alloc 0 5120 1000 carriers 1\n"
                                      "eheap_alloc 1 7168 1024 carriers 1\n");
    ag_inspector_erlang.close(node);
}

static void refuses(const char *because) {
    void *node = NULL;
    char problem[512] = "";
    assert_true(ag_inspector_erlang.open(&target, &node, problem, sizeof problem) < 0);
    assert_null(strchr(problem, '\n'));
    if (strstr(problem, because) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", problem, because);
    }
}

static void unknown_nodes_are_refused(void **state) {
    (void)state;
    write_node();
    strcpy(played_bytes(&target, target.symbols[1].symbol.address), "13.1.6");
    refuses("ERTS 13.1.6 (OTP 25) is not supported; supported versions are 13.1.5, 15.2.7");
    write_node();
    played_set_32(&target, target.symbols[2].symbol.address, 0);
    refuses("without the JIT");
    write_node();
    for (size_t i = 0; i < target.n_symbols; i++) {
        if (strcmp(target.symbols[i].name, "erts_invalid_process") == 0) {
            target.symbols[i].symbol.n_bytes = 768;
        }
    }
    refuses("not those of this version");
    write_node();
    played_set(&target, processes[0] + HEAP_WORDS, 234);
    played_set(&target, processes[1] + HEAP_WORDS, 234);
    refuses("not those of this version");
    memset(&target, 0, sizeof target);
    void *node = NULL;
    char problem[64] = "";
    assert_int_equal(ag_inspector_erlang.open(&target, &node, problem, sizeof problem), -2);
    assert_string_equal(problem, ""); /* the target is no Erlang node, so there is no message */
}

/* ---- samples ------------------------------------------------------------------------------ */

static struct allogram_native_frame frames[3];

static struct allogram_sample sample_of(size_t n_frames, enum allogram_walk_end end) {
    return (struct allogram_sample){.size = sizeof(struct allogram_sample),
                                    .thread = 1,
                                    .thread_name = "1_scheduler",
                                    .frames = frames,
                                    .n_frames = n_frames,
                                    .walk_end = end};
}

static uint64_t stack_end(uint64_t process) {
    uint64_t end;
    memcpy(&end, played_bytes(&target, process + HEAP_END), 8);
    return end;
}

static void generated_frame(struct allogram_native_frame *frame, uint64_t pc, bool is_exact,
                            uint64_t process) {
    *frame = (struct allogram_native_frame){.pc = pc, .is_exact = is_exact, .is_managed = true};
    frame->registers.known = 0x1ffff;
    frame->registers.value[ALLOGRAM_RIP] = pc;
    frame->registers.value[ALLOGRAM_R13] = process;
}

static void a_sample_in_generated_code_has_its_stack(void **state) {
    (void)state;
    write_node();
    void *node = open_node();
    /* the sample's copy of the stack differs from the current memory: the copy has to be used */
    const uint64_t top = stack_end(processes[0]) - 16;
    const uint64_t copy[2] = {CODE + 0x180, EXIT_CODE + 4};
    generated_frame(&frames[0], CODE + 0x200, true, processes[0]);
    frames[0].registers.value[ALLOGRAM_RSP] = top;
    struct allogram_sample sample = sample_of(1, ALLOGRAM_WALK_MANAGED);
    sample.stack_address = top;
    sample.stack = copy;
    sample.stack_bytes = sizeof copy;
    struct allogram_stack *stack = allogram_answers_stack(&answers);
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_COMPLETE);
    assert_string_equal(stack->text, "wl:loop/0 wl.erl:9\nwl:leaf/1 wl.erl:7\n");
    /* the process's heap has moved since the sample */
    frames[0].registers.value[ALLOGRAM_RSP] = 0x7000;
    played_set(&target, processes[0] + STACK_TOP, 0x8000);
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, allogram_answers_stack(&answers)),
                     ALLOGRAM_STACK_STALE);
    ag_inspector_erlang.close(node);
}

static void a_sample_in_native_code_has_the_frames_of_its_callers(void **state) {
    (void)state;
    write_node();
    void *node = open_node();
    frames[0] = (struct allogram_native_frame){.pc = 0x100, .is_exact = true};
    generated_frame(&frames[1], FRAGMENT + 0x10, false, processes[0]);
    frames[1].registers.value[ALLOGRAM_RBP] = stack_end(processes[0]) - 32;
    struct allogram_sample sample = sample_of(2, ALLOGRAM_WALK_MANAGED);
    struct allogram_stack *stack = allogram_answers_stack(&answers);
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_COMPLETE);
    /* the stack begins with a term: only the process's current instruction shows the caller */
    assert_string_equal(stack->text, "native 0\nwl:loop/0 wl.erl:9\nwl:leaf/1 wl.erl:7\n");
    /* The stack begins with a word that looks like a return address, but whose low bits are not
     * those of one. The process's current instruction is not that of the sample. */
    played_set(&target, stack_end(processes[0]) - 32, CODE + 0x181);
    stack = allogram_answers_stack(&answers);
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_COMPLETE);
    assert_string_equal(stack->text, "native 0\nwl:leaf/1 wl.erl:7\nwl:leaf/1 wl.erl:7\n");
    /* the sample has no copy of the stack, and is too old */
    sample.age_ns = UINT64_C(60000000);
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, allogram_answers_stack(&answers)),
                     ALLOGRAM_STACK_STALE);
    ag_inspector_erlang.close(node);
}

static void a_sample_of_a_dirty_scheduler_has_the_stack_of_its_process(void **state) {
    (void)state;
    write_node();
    void *node = open_node();
    frames[0] = (struct allogram_native_frame){.pc = 0x100, .is_exact = true};
    frames[1] = (struct allogram_native_frame){
        .pc = target.symbols[target.n_symbols - 2].symbol.address + 8};
    frames[2] = (struct allogram_native_frame){.pc = 0x300}; /* the first function of the thread */
    struct allogram_sample sample = sample_of(3, ALLOGRAM_WALK_OUTERMOST);
    sample.thread_name = "1_dirty_cpu_sch";
    struct allogram_stack *stack = allogram_answers_stack(&answers);
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_COMPLETE);
    assert_string_equal(stack->text,
                        "native 0\nnative 1\nwl:loop/0 wl.erl:9\nwl:leaf/1 wl.erl:7\n");
    sample.thread_name = "1_dirty_io_sche"; /* this scheduler runs no process */
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_NATIVE);
    sample.thread_name = "2_dirty_cpu_sch"; /* there is only one such scheduler */
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_NATIVE);
    sample.thread_name = "sys_msg_dispatc";
    assert_int_equal(ag_inspector_erlang.stack(node, &sample, stack), ALLOGRAM_STACK_NATIVE);
    ag_inspector_erlang.close(node);
}

/* ---- collections ---------------------------------------------------------------------------- */

/* A garbage collection of the first process, in the form in which the BPF program in the kernel
 * reports it: 10 words had survived the previous collection, and 100 words were allocated after
 * it. */
static struct node_event collection_event(void) {
    struct node_event event = {.kind = NODE_EVENT_COLLECTION,
                               .thread = 5,
                               .start_ns = 1000,
                               .end_ns = 1700,
                               .process = processes[0],
                               .id = 3,
                               .instruction = CODE + 0x210,
                               .needed_words = 3};
    event.before = (struct node_heap_state){.heap = 0x1000,
                                            .high_water = 0x1000 + 80,
                                            .heap_top = 0x1000 + 880,
                                            .stack_top = 0x2000 - 16,
                                            .heap_end = 0x2000,
                                            .minor_count = 3};
    event.after = (struct node_heap_state){.heap = 0x3000,
                                           .high_water = 0x3000 + 160,
                                           .heap_top = 0x3000 + 160,
                                           .stack_top = 0x5000 - 16,
                                           .heap_end = 0x5000,
                                           .minor_count = 4};
    event.top = event.before.stack_top;
    event.n_words = 2;
    event.words[0] = CODE + 0x180;
    event.words[1] = EXIT_CODE + 4;
    return event;
}

static struct node *watch_node(void) {
    struct node *node = open_node();
    char problem[256] = "";
    /* nothing can be watched here, but events are reported all the same */
    assert_true(ag_inspector_erlang.watch_collections(node, problem, sizeof problem) < 0);
    assert_int_not_equal(problem[0], '\0');
    played_begin(&answers);
    return node;
}

static void a_collection_is_reported(void **state) {
    (void)state;
    write_node();
    struct node *node = watch_node();
    struct node_event event = collection_event();
    node_collections_note(node, &event, 2);
    event.after.minor_count = 0;
    event.before.fragment_words = 5;
    event.before.old_heap = 0x8000;
    event.before.old_top = 0x8000 + 8000;
    node_collections_note(node, &event, 2);
    assert_int_equal(ag_inspector_erlang.collections(node, &answers), 0);
    assert_string_equal(answers.text, "minor <0.0.0> 700 880 160 24 800 frames 2\n"
                                      "major <0.0.0> 700 8920 160 24 840 frames 2\n");
    assert_string_equal(answers.stack.text, "wl:loop/0 wl.erl:9\nwl:leaf/1 wl.erl:7\n");
    ag_inspector_erlang.close(node);
}

static void a_collection_on_a_dirty_scheduler_counts_once(void **state) {
    (void)state;
    write_node();
    struct node *node = watch_node();
    struct node_event first = collection_event(), second = collection_event();
    first.after = first.before;
    first.after.abandoned_heap = first.before.heap;
    first.after.heap = first.after.heap_top = 0x9000;
    first.after.stack_top = first.after.heap_end = 0x9100;
    second.before = first.after;
    second.before.heap_top += 56;
    second.after.minor_count = 0;
    second.thread = 9;
    second.start_ns = 5000;
    second.end_ns = 9000;
    second.needed_words = 0;
    node_collections_note(node, &first, 2);
    node_collections_note(node, &second, 0);
    assert_int_equal(ag_inspector_erlang.collections(node, &answers), 0);
    assert_string_equal(answers.text, "major <0.0.0> 4000 880 160 24 800 frames 2\n");
    assert_int_equal(answers.n_lost, 0);
    ag_inspector_erlang.close(node);
}

static void other_events_are_not_reported(void **state) {
    (void)state;
    write_node();
    struct node *node = watch_node();
    struct node_event event = collection_event();
    event.after = event.before; /* the collection was delayed */
    node_collections_note(node, &event, 2);
    event = collection_event();
    event.before.heap_top = 0x100; /* words that were read at different moments */
    node_collections_note(node, &event, 2);
    assert_int_equal(ag_inspector_erlang.collections(node, &answers), 0);
    assert_int_equal(answers.n_reported, 0);
    assert_int_equal(answers.n_lost, 1);
    ag_inspector_erlang.close(node);
}

/* ---- hostile memory ------------------------------------------------------------------------- */

/* Changes words, lengths and bytes of the used memory to values that no node has. */
static void mutate(uint64_t *random) {
    static const uint64_t odd[] = {0,           1,         UINT64_MAX,       UINT32_MAX, 0x8000,
                                   PLAYED_BASE, INT64_MAX, PLAYED_BASE + 64, 7,          0xffff};
    const unsigned n = 1 + (unsigned)(ag_random_next(random) % 8);
    for (unsigned i = 0; i < n; i++) {
        const size_t at = (size_t)(ag_random_next(random) % (target.used - 8));
        const uint64_t dice = ag_random_next(random);
        uint64_t word = odd[dice % (sizeof odd / sizeof *odd)];
        word = dice % 3 == 0 ? PLAYED_BASE + (dice >> 20) % target.used : word;
        word = dice % 3 == 1 ? dice : word;
        memcpy(target.memory + (dice % 5 == 0 ? at : at & ~(size_t)7), &word,
               dice % 7 == 0 ? 1 : 8);
    }
}

static void ask_everything(void *node) {
    played_begin(&answers);
    (void)ag_inspector_erlang.processes(node, &answers);
    (void)ag_inspector_erlang.allocators(node, &answers);
    ag_inspector_erlang.refresh(node);
    generated_frame(&frames[0], CODE + 0x200, true, processes[0]);
    frames[0].registers.value[ALLOGRAM_RSP] = stack_end(processes[0]) - 32;
    struct allogram_sample sample = sample_of(1, ALLOGRAM_WALK_MANAGED);
    (void)ag_inspector_erlang.stack(node, &sample, allogram_answers_stack(&answers));
    frames[0] = (struct allogram_native_frame){.pc = 0x100, .is_exact = true};
    sample = sample_of(1, ALLOGRAM_WALK_OUTERMOST);
    sample.thread_name = "1_dirty_cpu_sch";
    (void)ag_inspector_erlang.stack(node, &sample, allogram_answers_stack(&answers));
}

static void changed_memory_causes_no_crash(void **state) {
    (void)state;
    write_node();
    static struct allogram_target sound;
    sound = target;
    uint64_t random = 20261122;
    unsigned n_opened = 0;
    for (int i = 0; i < 6000; i++) {
        void *node = NULL;
        char problem[512] = "";
        target = sound;
        const bool is_early = i % 2 == 0; /* before the node is opened, or while it is read */
        if (is_early) {
            mutate(&random);
        }
        if (ag_inspector_erlang.open(&target, &node, problem, sizeof problem) == 0) {
            n_opened++;
            if (!is_early) {
                mutate(&random);
            }
            target.n_reads = 0;
            ask_everything(node);
            assert_in_range(target.n_reads, 1, 400000);
            ag_inspector_erlang.close(node);
        }
    }
    assert_in_range(n_opened, 3000, 6000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_and_their_stacks_are_reported),
        cmocka_unit_test(a_process_that_changes_during_the_read_is_counted_as_lost),
        cmocka_unit_test(allocators_add_up),
        cmocka_unit_test(unknown_nodes_are_refused),
        cmocka_unit_test(a_sample_in_generated_code_has_its_stack),
        cmocka_unit_test(a_sample_in_native_code_has_the_frames_of_its_callers),
        cmocka_unit_test(a_sample_of_a_dirty_scheduler_has_the_stack_of_its_process),
        cmocka_unit_test(a_collection_is_reported),
        cmocka_unit_test(a_collection_on_a_dirty_scheduler_counts_once),
        cmocka_unit_test(other_events_are_not_reported),
        cmocka_unit_test(changed_memory_causes_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
