/* observation.c: the main loop of `observe`: reads samples and counts their stacks.
 *
 *     perf events -> ring -> registers, stack -> native frames -> inspectors -> a node, counted
 *
 * The ring is a buffer into which the kernel writes events. Inspectors read the frames of virtual
 * machines in the target, the observed process. A node is a stack (seen_stacks.h).
 *
 * 1. Order. A sample has to be interpreted with the mappings at its time. When the target maps a
 * file, the kernel writes an event to the ring, before the first sample in the file's code.
 * After this event the target's list of mappings is read again, but at most every 20 ms. Without
 * such events the list is read once a second. If a file was unmapped before a sample in its code
 * is read, the sample's frame has an address but no name.
 *
 * 2. Cost. Stacks are walked as samples arrive, and each stack is kept once; names are looked up on
 * request, once per address. At 99 Hz and without inspectors, the loop wakes about 20 times a
 * second.
 *
 * 3. Ends. An observation ends when its time is over, when is_stopped returns true (Ctrl-C), when
 * tick returns false, or when the target has ended. In all these cases the results cover the time
 * until the end. */
#include "observation.h"

#include <errno.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "observation_state.h"
#include "table/array.h"

enum {
    STACK_BYTES = 16384, /* bytes of a stack that are copied; typical stacks have 1 to 6 KiB */
    STACK_BYTES_FAST = 8192,
    FAST_RATE = 500, /* samples per second; from this rate on, less of the stack is copied */
    GROWTH_STACK_BYTES = 4096,
    GROWTH_PERIOD = 8, /* page faults per sample: one sample stands for 32 KiB */
    PAGE_BYTES = 4096,
    WAIT_MS = 50,
    WAIT_INSPECTED_MS = 5, /* used with inspectors, which have to read deep stacks soon after the
                            * sample */
    REFRESH_NS = 1000000000,
    REFRESH_SOON_NS = 20000000,
    RAW_MOST = 1 << 24,
    /* How long a word of a heap is watched: a random time from WORD_LEAST_NS to WORD_MOST_NS, so
     * that the program cannot be in step with the observer. If the word is written earlier, the
     * next word is watched as soon as WORD_LEAST_NS is over. */
    WORD_LEAST_NS = 10 * 1000 * 1000,
    WORD_MOST_NS = 40 * 1000 * 1000,
    /* The time between two words is at least this multiple of the CPU time of setting a word, so
     * that words take some 10 % of a CPU at most. */
    WORD_PAUSES = 9,
};
static const char *const call_names[] = {"mmap", "munmap", "brk", "mremap"};

void ag_observation_note(struct ag_observation *observation, const char *format, ...) {
    char line[640];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const uint32_t id = ag_seen_text(&observation->seen, line);
    const char *kept = id != UINT32_MAX ? ag_text(&observation->seen.texts, id) : NULL;
    for (size_t i = 0; i < observation->n_notes; i++) {
        if (observation->notes[i] == kept) {
            return;
        }
    }
    if (kept != NULL && observation->n_notes < AG_NOTES_MOST) {
        observation->notes[observation->n_notes++] = kept;
    }
}

/* ---- opening ---------------------------------------------------------------------- */

static void add_source(struct ag_observation *observation, struct ag_perf_source *sources,
                       enum ag_seen_source kind, uint32_t call,
                       const struct ag_perf_source *source) {
    const size_t n = observation->n_sources++;
    sources[n] = *source;
    observation->source_kinds[n] = kind;
    observation->source_calls[n] = call;
}

/* Returns the kernel's number of a tracepoint; -1: there is no such tracepoint, or this process may
 * not read its number. */
static long tracepoint(const char *group, const char *name) {
    static const char *const folders[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
    for (size_t i = 0; i < 2; i++) {
        char path[256];
        long number;
        (void)snprintf(path, sizeof path, "%s/events/%s/%s/id", folders[i], group, name);
        if (ag_kernel_number(path, &number) && number >= 0) {
            return number;
        }
    }
    return -1;
}

static int add_map_sources(struct ag_observation *observation, struct ag_perf_source *sources,
                           char message[512]) {
    for (uint32_t call = AG_CALL_MMAP; call <= AG_CALL_MREMAP; call++) {
        char name[64];
        (void)snprintf(name, sizeof name, "sys_exit_%s", call_names[call]);
        const long number = tracepoint("syscalls", name);
        if (number < 0) {
            (void)snprintf(
                message, 512,
                "--maps: cannot read the kernel's tracepoint %s; run as root, mount tracefs (mount -t "
                "tracefs tracefs /sys/kernel/tracing), and use a kernel with "
                "CONFIG_FTRACE_SYSCALLS",
                name);
            return -EPERM;
        }
        add_source(observation, sources, AG_SEEN_MAP, call,
                   &(struct ag_perf_source){.type = PERF_TYPE_TRACEPOINT,
                                            .config = (uint64_t)number,
                                            .period = 1,
                                            .stack_bytes = GROWTH_STACK_BYTES});
    }
    return 0;
}

/* Whether this process has to wake at each sample. Such a wake-up costs the target one more
 * interrupt, and is necessary only if an inspector reads stacks after the sample, because no BPF
 * program copies them. */
static bool must_read_soon(const struct ag_observation *observation) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        if (observation->inspections[i].capture_program < 0) {
            return true;
        }
    }
    return false;
}

/* How many bytes of a stack a CPU sample copies. */
static uint32_t sampled_stack_bytes(const struct ag_observation *observation) {
    return observation->options.rate < FAST_RATE ? STACK_BYTES : STACK_BYTES_FAST;
}

static int open_sources(struct ag_observation *observation, char message[512]) {
    struct ag_perf_source sources[AG_PERF_SOURCES];
    const unsigned what = observation->options.what;
    add_source(observation, sources, AG_SEEN_CPU, 0,
               &(struct ag_perf_source){.type = PERF_TYPE_SOFTWARE,
                                        .config = PERF_COUNT_SW_CPU_CLOCK,
                                        .rate = observation->options.rate,
                                        .stack_bytes = sampled_stack_bytes(observation)});
    if ((what & AG_OBSERVE_GROWTH) != 0) {
        add_source(observation, sources, AG_SEEN_GROWTH, 0,
                   &(struct ag_perf_source){.type = PERF_TYPE_SOFTWARE,
                                            .config = PERF_COUNT_SW_PAGE_FAULTS,
                                            .period = GROWTH_PERIOD,
                                            .stack_bytes = GROWTH_STACK_BYTES});
    }
    const int r =
        (what & AG_OBSERVE_MAPS) != 0 ? add_map_sources(observation, sources, message) : 0;
    return r < 0 ? r
                 : ag_perf_watch_open(&observation->process, sources, observation->n_sources,
                                      must_read_soon(observation), &observation->watch, message);
}

/* Notes that no words are watched. SINCE: "", or a time such as "from 3 s on, ". */
static void note_no_words(struct ag_observation *observation, const char *since, int error) {
    ag_observation_note(observation,
                        "--gc: %sallocating functions are known only from collections, because "
                        "the CPU's debug registers cannot be used: %s",
                        since,
                        error == -E2BIG        ? "too many threads or CPUs"
                        : error == -ENOSPC     ? "another debugger uses them"
                        : error == -EOPNOTSUPP ? "on this machine they report no writes"
                                               : strerror(-error));
}

/* For --gc, words of heaps are watched, if an inspector's BPF programs can copy the state of a
 * process in the kernel at the moment of the write. */
static void open_words(struct ag_observation *observation) {
    observation->word.source = -1;
    if ((observation->options.what & AG_OBSERVE_COLLECTIONS) == 0 || must_read_soon(observation) ||
        observation->n_inspections == 0) {
        return;
    }
    const int r = ag_perf_watch_add_word(observation->watch, GROWTH_STACK_BYTES);
    if (r < 0) {
        note_no_words(observation, "", r);
        return;
    }
    observation->word.source = r;
    observation->word.random = ag_monotonic_ns();
    observation->source_kinds[r] = AG_SEEN_WORD;
    observation->n_sources++;
}

static void attach_programs(struct ag_observation *observation) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        struct ag_inspection *inspection = &observation->inspections[i];
        if (inspection->capture_program < 0) {
            continue;
        }
        if (observation->word.source >= 0 &&
            ag_perf_watch_set_program(observation->watch, (size_t)observation->word.source,
                                      inspection->capture_program) < 0) {
            observation->word.source = -1;
        }
        if (ag_perf_watch_set_program(observation->watch, /* source= */ 0,
                                      inspection->capture_program) < 0) {
            inspection->capture_program = -1;
            ag_observation_note(observation, "stacks are not captured in the kernel: its BPF "
                                             "program could not be attached");
        }
    }
}

static void start_ledger(struct ag_observation *observation) {
    const struct ag_remote_maps *maps = &observation->images.maps;
    for (size_t i = 0; i < maps->n; i++) {
        if (strcmp(maps->items[i].path, "[heap]") == 0) {
            observation->mappings.end_of_heap = maps->items[i].high;
        }
    }
}

static int open_target(struct ag_observation *observation, char message[512]) {
    int r = ag_remote_process_open(observation->options.pid, &observation->process, message);
    if (r < 0) {
        return r;
    }
    observation->images.process = &observation->process;
    observation->target.process = &observation->process;
    observation->target.images = &observation->images;
    observation->target.is_stopped = observation->options.is_stopped;
    observation->images.is_stopped = observation->options.is_stopped;
    observation->walker.images = &observation->images;
    observation->walker.owns = ag_inspections_own;
    observation->walker.owner = observation;
    if (!ag_remote_process_exe(&observation->process, observation->exe, sizeof observation->exe)) {
        observation->exe[0] = '\0';
    }
    ag_cgroup_name((uint32_t)observation->process.pid, observation->cgroup);
    r = ag_observed_images_refresh(&observation->images);
    if (r < 0) {
        (void)snprintf(message, 512, "%d (%s): cannot read its mappings: %s",
                       observation->process.pid, observation->process.name, strerror(-r));
    }
    return r;
}

int ag_observation_open(const struct ag_observe_options *options,
                        struct ag_observation **ret_observation, char ret_message[512]) {
    struct ag_observation *observation = calloc(1, sizeof *observation);
    if (observation == NULL) {
        (void)snprintf(ret_message, 512, "cannot observe process %d: out of memory", options->pid);
        return -ENOMEM;
    }
    observation->options = *options;
    int r = open_target(observation, ret_message);
    if (r == 0) {
        ag_inspections_open(observation);
        start_ledger(observation);
        r = open_sources(observation, ret_message);
    }
    if (r < 0) {
        (void)ag_observation_close(observation);
        return r;
    }
    open_words(observation);
    attach_programs(observation);
    observation->facts.pid = observation->process.pid;
    observation->facts.name = observation->process.name;
    observation->facts.sees_kernel = ag_perf_watch_sees_kernel(observation->watch);
    if (!observation->facts.sees_kernel) {
        ag_observation_note(
            observation,
            "time in the kernel is not counted: kernel.perf_event_paranoid forbids it; run as root, or set sysctl kernel.perf_event_paranoid=1");
    }
    *ret_observation = observation;
    return 0;
}

struct ag_observation *ag_observation_close(struct ag_observation *observation) {
    if (observation == NULL) {
        return NULL;
    }
    ag_inspections_close(observation);
    (void)ag_perf_watch_close(observation->watch);
    ag_frame_walker_done(&observation->walker);
    ag_observed_names_done(observation);
    ag_observed_images_done(&observation->images);
    ag_generated_code_done(&observation->generated);
    ag_seen_stacks_done(&observation->seen);
    ag_mapping_ledger_done(&observation->mappings);
    free(observation->target.mappings);
    free(observation->raw);
    free(observation->threads);
    free(observation->processes);
    free(observation->allocators);
    free(observation->collections);
    free(observation->words);
    free(observation->word_ends);
    free(observation);
    return NULL;
}

/* ---- samples ------------------------------------------------------------------------ */

static void keep_raw(struct ag_observation *observation, const struct ag_raw_sample *raw) {
    if (observation->n_raw >= RAW_MOST ||
        AG_ARRAY_ADD(observation->raw, observation->n_raw, *raw) < 0) {
        ag_observation_note(
            observation,
            "the trace does not contain all samples, because there was no memory for more; the sums "
            "contain all of them");
    }
}

const char *ag_observation_thread_name(struct ag_observation *observation, uint32_t thread) {
    for (size_t i = 0; i < observation->n_threads; i++) {
        if (observation->threads[i].thread == thread) {
            return observation->threads[i].name;
        }
    }
    if (AG_ARRAY_ADD(observation->threads, observation->n_threads,
                     (struct ag_thread_label){.thread = thread}) < 0) {
        return "";
    }
    struct ag_thread_label *label = &observation->threads[observation->n_threads - 1];
    ag_remote_process_thread_name(&observation->process, (pid_t)thread, label->name);
    return label->name;
}

/* Finds the node of the sample's stack. Returns false if the sample does not count. A sample does
 * not count if its stack is stale (it was read so late that it may belong to a later moment than
 * the sample). A write to a word does not count either if the word is not watched any more, or did
 * not become part of a new object. */
static bool find_stack(struct ag_observation *observation, const struct ag_perf_sample *sample,
                       uint32_t *ret_node) {
    struct ag_stack_copy stack = {
        .address = sample->registers.value[ALLOGRAM_RSP],
        .bytes = sample->stack,
        .n_bytes = sample->stack_bytes,
        .pid = observation->process.pid,
    };
    struct allogram_sample reported = {
        .size = sizeof reported,
        .thread = sample->thread,
        .thread_name = ag_observation_thread_name(observation, sample->thread),
        .time_ns = sample->time_ns,
        .frames = observation->frames,
        .stack_address = stack.address,
        .stack = stack.bytes,
        .stack_bytes = stack.n_bytes,
    };
    reported.n_frames = ag_frame_walk(&observation->walker, &sample->registers, &stack,
                                      observation->frames, AG_WALK_FRAMES, &reported.walk_end);
    const uint64_t now_ns = ag_monotonic_ns();
    reported.age_ns = now_ns > sample->time_ns ? now_ns - sample->time_ns : 0;
    const bool counts = (observation->source_kinds[sample->source] != AG_SEEN_WORD ||
                         (sample->address == observation->word.address &&
                          ag_inspections_is_new_word(observation, &reported, sample->address))) &&
                        ag_inspections_stack(observation, &reported, ret_node);
    ag_stack_copy_done(&stack);
    return counts;
}

static bool is_complete(const struct ag_observation *observation, uint32_t node) {
    while (node >= AG_SEEN_FIRST) {
        node = ag_seen_node(&observation->seen, node)->parent;
    }
    return node == AG_SEEN_COMPLETE;
}

static void count_cpu(struct ag_observation *observation, const struct ag_perf_sample *sample,
                      uint32_t node) {
    observation->facts.samples++;
    observation->facts.complete_stacks += is_complete(observation, node);
    const uint64_t weight_ns = 1000000000 / observation->options.rate;
    (void)ag_seen_count(&observation->seen, node, sample->thread, AG_SEEN_CPU, weight_ns);
    keep_raw(observation, &(struct ag_raw_sample){sample->time_ns, weight_ns, node, sample->thread,
                                                  AG_SEEN_CPU});
}

static void take_sample(void *context, const struct ag_perf_sample *sample) {
    struct ag_observation *observation = context;
    uint32_t node = AG_SEEN_INCOMPLETE;
    const enum ag_seen_source kind = observation->source_kinds[sample->source];
    if (!sample->has_registers) {
        return; /* the thread is ending and runs only in the kernel */
    }
    if (!find_stack(observation, sample, &node)) {
        observation->facts.stale += kind == AG_SEEN_CPU;
        return;
    }
    if (node < AG_SEEN_FIRST) {
        return; /* no memory */
    }
    switch (kind) {
    case AG_SEEN_CPU:
        count_cpu(observation, sample, node);
        break;
    case AG_SEEN_GROWTH: {
        const uint64_t bytes = GROWTH_PERIOD * PAGE_BYTES;
        observation->facts.growth_faults++;
        (void)ag_seen_count(&observation->seen, node, sample->thread, AG_SEEN_GROWTH, bytes);
        keep_raw(observation, &(struct ag_raw_sample){sample->time_ns, bytes, node, sample->thread,
                                                      AG_SEEN_GROWTH});
        break;
    }
    case AG_SEEN_WORD:
        observation->facts.words_allocated++;
        /* out of memory: the word is not counted */
        (void)AG_ARRAY_ADD(observation->words, observation->n_words,
                           (struct ag_seen_word){sample->time_ns, sample->delay_ns, node});
        observation->word.address = 0; /* another word is watched next */
        break;
    case AG_SEEN_MAP:
        observation->facts.map_calls++;
        (void)ag_mapping_ledger_notify(
            &observation->mappings,
            &(struct ag_ledger_call){
                .time_ns = sample->time_ns,
                .arguments = {sample->arguments[0], sample->arguments[1], sample->arguments[2]},
                .result = sample->result,
                .node = node,
                .call = observation->source_calls[sample->source]});
        break;
    }
}

static void note_mapped(void *context) {
    struct ag_observation *observation = context;
    observation->images_changed = true;
}

/* ---- running -------------------------------------------------------------------------- */

static void note_left_out(struct ag_observation *observation) {
    if (observation->images.has_left_out) {
        ag_observation_note(
            observation,
            "some mapped files were not opened, because they are too many or too large; functions in them have no names");
    }
    /* Without a container, such a file was unmapped while it was being opened. */
    if (observation->process.root[0] != '\0' && observation->images.unreachable != NULL) {
        ag_observation_note(
            observation,
            "%s and perhaps other mapped files cannot be opened from outside of the "
            "container; functions in them have no names (root can open them)",
            observation->images.unreachable);
    }
}

static void refresh_images(struct ag_observation *observation, uint64_t now_ns) {
    const uint64_t since_ns = now_ns - observation->last_refresh_ns;
    if (since_ns < (observation->images_changed ? REFRESH_SOON_NS : REFRESH_NS)) {
        return;
    }
    observation->last_refresh_ns = now_ns;
    observation->images_changed = false;
    /* after a failure the old list is used; observation_is_over notices if the target has ended */
    (void)ag_observed_images_refresh(&observation->images);
    note_left_out(observation);
    ag_observed_names_prepare(observation);
    ag_inspections_refresh(observation);
    if (observation->n_inspections == 0) {
        ag_generated_code_refresh(&observation->generated, &observation->images,
                                  &observation->target);
    }
}

/* Watches another random word, if the last one was written or was watched long enough. */
static void watch_word(struct ag_observation *observation, uint64_t now_ns) {
    if (observation->word.source < 0 ||
        now_ns < (observation->word.address != 0 ? observation->word.until_ns
                                                 : observation->word.least_ns)) {
        return;
    }
    uint64_t address;
    if (!ag_inspections_choose_word(observation, &address)) {
        return;
    }
    observation->word.random = observation->word.random * UINT64_C(6364136223846793005) + 1;
    observation->word.address = address;
    const uint64_t before_ns = ag_kernel_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    const int r =
        ag_perf_watch_set_word(observation->watch, (size_t)observation->word.source, address);
    const uint64_t pause_ns =
        WORD_PAUSES * (ag_kernel_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before_ns);
    observation->word.least_ns = now_ns + (pause_ns > WORD_LEAST_NS ? pause_ns : WORD_LEAST_NS);
    observation->word.until_ns =
        observation->word.least_ns +
        (observation->word.random >> 32) % (uint64_t)(WORD_MOST_NS - WORD_LEAST_NS);
    if (r < 0) { /* for example, no CPU has a free debug register any more */
        char since[64];
        (void)snprintf(since, sizeof since, "from %.0f s on, ",
                       (double)(now_ns - observation->facts.start_ns) / 1e9);
        note_no_words(observation, since, r);
        observation->word.source = -1;
        observation->word.address = 0; /* a sample that is still in the ring is not counted */
        return;
    }
    observation->facts.words_watched++;
}

static int collections_fd(const struct ag_observation *observation) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        if (observation->inspections[i].collections_fd >= 0) {
            return observation->inspections[i].collections_fd;
        }
    }
    return -1;
}

static void take_collections(struct ag_observation *observation) {
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        observation->answers.stack.runtime = inspection->runtime;
        if (inspection->collections_fd >= 0 && inspection->inspector->collections != NULL) {
            (void)inspection->inspector->collections(inspection->state, &observation->answers);
        }
    }
}

/* The bytes of a process inside of the runtime: its heap, and the binaries that it refers to. */
static uint64_t memory_of(const struct ag_reported_process *process) {
    enum { WORD_BYTES = 8 };
    return process->heap_words * WORD_BYTES +
           (process->binary_bytes != UINT64_MAX ? process->binary_bytes : 0);
}

static int by_memory(const void *a, const void *b) {
    const uint64_t left = memory_of(a), right = memory_of(b);
    return (left < right) - (left > right);
}

static void ask_inspectors(struct ag_observation *observation) {
    const unsigned what = observation->options.what;
    for (size_t i = 0; i < observation->n_inspections; i++) {
        const struct ag_inspection *inspection = &observation->inspections[i];
        const struct allogram_inspector *inspector = inspection->inspector;
        observation->answers.stack.runtime = inspection->runtime;
        if ((what & AG_OBSERVE_PROCESSES) != 0 && inspector->processes != NULL &&
            inspector->processes(inspection->state, &observation->answers) < 0) {
            ag_observation_note(observation, "the runtime's processes could not be read");
        }
        if ((what & AG_OBSERVE_ALLOCATORS) != 0 && inspector->allocators != NULL &&
            inspector->allocators(inspection->state, &observation->answers) < 0) {
            ag_observation_note(observation, "the runtime's allocators could not be read");
        }
    }
    if (observation->n_processes > 0) {
        qsort(observation->processes, observation->n_processes, sizeof *observation->processes,
              by_memory);
    }
}

static void drain_events(struct ag_observation *observation) {
    const struct ag_perf_sink sink = {take_sample, note_mapped, observation};
    const uint64_t now_ns = ag_monotonic_ns();
    ag_perf_watch_drain(observation->watch, &sink);
    (void)ag_mapping_ledger_settle(&observation->mappings,
                                   now_ns); /* out of memory: some mappings are missing */
}

/* Returns the time that the events cost the target, in ns. A CPU sample or a watched word costs an
 * interrupt (sample_cost_ns). A page fault or a system call enters the kernel anyway and costs only
 * the writing of its record (record_cost_ns). */
static double cost_ns(const struct ag_observation_facts *facts) {
    const double n_interrupts = (double)(facts->samples + facts->stale + facts->words_watched);
    const double n_records = (double)(facts->growth_faults + facts->map_calls + facts->lost);
    return n_interrupts * facts->sample_cost_ns + n_records * facts->record_cost_ns;
}

/* A process may execute another program. Then the results cover both programs. */
static void note_another_program(struct ag_observation *observation) {
    char exe[PATH_MAX];
    if (observation->exe[0] == '\0' ||
        !ag_remote_process_exe(&observation->process, exe, sizeof exe) ||
        strcmp(exe, observation->exe) == 0) {
        return;
    }
    ag_observation_note(
        observation,
        "the process executed another program: %.200s became %.200s; the results cover both",
        observation->exe, exe);
}

/* Updates the facts that are not counted with each event. */
static void observation_measure(struct ag_observation *observation) {
    struct ag_observation_facts *facts = &observation->facts;
    const uint64_t cpu_ns = ag_remote_process_cpu_ns(&observation->process);
    const uint64_t sampled_ns = facts->samples * (1000000000 / observation->options.rate);
    /* the CPU time of a target that has ended cannot be read; the sum of its samples is used
     * instead */
    facts->target_cpu_ns =
        cpu_ns > observation->cpu_before_ns ? cpu_ns - observation->cpu_before_ns : sampled_ns;
    facts->resident_after_bytes = ag_remote_process_resident_bytes(&observation->process);
    facts->lost = ag_perf_watch_lost(observation->watch) + observation->reported_lost;
    facts->own_cpu_ns = ag_kernel_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - observation->own_before_ns;
    facts->target_cost_percent =
        facts->target_cpu_ns != 0 ? 100.0 * cost_ns(facts) / (double)facts->target_cpu_ns : 0;
}

static void observation_finish(struct ag_observation *observation) {
    struct ag_observation_facts *facts = &observation->facts;
    ag_perf_watch_stop(observation->watch);
    drain_events(observation);
    (void)ag_mapping_ledger_settle(&observation->mappings,
                                   UINT64_MAX); /* out of memory: some mappings are missing */
    take_collections(observation);
    facts->duration_ns = ag_monotonic_ns() - facts->start_ns;
    if (facts->end != AG_OBSERVED_TARGET_ENDED) {
        note_another_program(observation);
        if (ag_remote_process_is_stopped(&observation->process)) {
            ag_observation_note(
                observation,
                "the process is stopped by a signal or a debugger; after a signal, kill -CONT resumes it");
        }
        ask_inspectors(observation);
    }
    note_left_out(observation);
    observation_measure(observation);
}

static bool observation_is_over(struct ag_observation *observation, uint64_t now_ns,
                                uint64_t end_ns) {
    struct ag_observation_facts *facts = &observation->facts;
    const struct ag_observe_options *options = &observation->options;
    if ((options->is_stopped != NULL && options->is_stopped()) ||
        (options->tick != NULL && !options->tick(options->context))) {
        facts->end = AG_OBSERVED_STOPPED;
        return true;
    }
    if (now_ns >= end_ns) {
        facts->end = AG_OBSERVED_TIME_OVER;
        return true;
    }
    if (!ag_remote_process_is_alive(&observation->process)) {
        facts->end = AG_OBSERVED_TARGET_ENDED;
        return true;
    }
    return false;
}

static void observation_loop(struct ag_observation *observation) {
    const struct ag_observe_options *options = &observation->options;
    const uint64_t start_ns = observation->facts.start_ns;
    const uint64_t end_ns =
        options->duration_ns != 0 ? start_ns + options->duration_ns : UINT64_MAX;
    const int wait_ms = observation->n_inspections != 0 ? WAIT_INSPECTED_MS : WAIT_MS;
    const int collections = collections_fd(observation);
    uint64_t now_ns = start_ns;
    while (!observation_is_over(observation, now_ns, end_ns)) {
        const uint64_t left_ms = (end_ns - now_ns) / 1000000 + 1;
        const int timeout_ms = left_ms < (uint64_t)wait_ms ? (int)left_ms : wait_ms;
        if (ag_perf_watch_wait(observation->watch, timeout_ms, collections)) {
            take_collections(observation);
        }
        now_ns = ag_monotonic_ns();
        refresh_images(observation, now_ns);
        drain_events(observation);
        watch_word(observation, now_ns);
        if (options->tick != NULL) {
            observation->facts.duration_ns = now_ns - start_ns;
            observation_measure(observation);
        }
    }
}

int ag_observation_run(struct ag_observation *observation, char ret_message[512]) {
    struct ag_observation_facts *facts = &observation->facts;
    facts->sample_cost_ns = ag_sample_cost_measure(sampled_stack_bytes(observation));
    if ((observation->options.what & (AG_OBSERVE_GROWTH | AG_OBSERVE_MAPS)) != 0) {
        facts->record_cost_ns = ag_record_cost_measure(GROWTH_STACK_BYTES);
    }
    observation->cpu_before_ns = ag_remote_process_cpu_ns(&observation->process);
    observation->own_before_ns = ag_kernel_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    facts->resident_before_bytes = ag_remote_process_resident_bytes(&observation->process);
    facts->start_realtime_ns = ag_kernel_clock_ns(CLOCK_REALTIME);
    facts->start_ns = ag_monotonic_ns();
    const int r = ag_perf_watch_start(observation->watch);
    if (r < 0) {
        (void)snprintf(ret_message, 512, "%d (%s): cannot start perf events: %s",
                       observation->process.pid, observation->process.name, strerror(-r));
        return r;
    }
    observation->images_changed = true; /* files mapped since opening */
    observation_loop(observation);
    observation_finish(observation);
    return 0;
}

const struct ag_observation_facts *ag_observation_facts(struct ag_observation *observation) {
    return &observation->facts;
}

size_t ag_observation_notes(const struct ag_observation *observation,
                            const char *const **ret_notes) {
    *ret_notes = observation->notes;
    return observation->n_notes;
}
