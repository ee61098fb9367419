/* profile.c: opens a trace as a profile, the form in which reports, exports and the page of
 * `allogram view` read a trace.
 *
 *     file -> definitions -> sums of the index, or of a pass over the events -> rows -> views
 *
 * Definitions are the records that describe threads, stacks, heaps and images. The index at the end
 * of a trace contains the sums of all events. These sums are enough for queries that do not select
 * events. A time window, one thread, --within (the limit for temporary blocks) and --tail (which
 * leaves out the newest blocks) need a pass over the events themselves. Such a pass is also needed
 * for a recording that was reset, a sampled trace (whose index counts samples), a profile of
 * mappings, and a trace that was not sealed (completed) and so has no index. Times in profile.h
 * count from the start of the recording of the process. Times in definitions and passes (session
 * times) count from the start of the session, the recording of all processes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/filters.h"
#include "model/interval.h"
#include "model/metric.h"
#include "model/pass/mapping_pass.h"
#include "model/pass/sampled_pass.h"
#include "model/profile_state.h"
#include "symbol/symbol.h"

/* most threads that decode chunks, in addition to the thread that applies the events to the ledger
 * (the code that computes the sums) */
enum { DECODERS_MOST = 3 };

/* ---- sums ---- */

static size_t n_decoders(void) {
    cpu_set_t cpus;
    const int n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
    return n - 1 < DECODERS_MOST ? (size_t)(n - 1) : DECODERS_MOST;
}

static void *copy(const void *rows, size_t count, size_t row_bytes) {
    void *copied = malloc((count + 1) * row_bytes);
    if (copied && count > 0) {
        memcpy(copied, rows, count * row_bytes);
    }
    return copied;
}

#define COPY_ROWS(sums, ledger, function, list, number)           \
    do {                                                          \
        (sums)->number = function((ledger), &list);               \
        (sums)->list = copy(list, (sums)->number, sizeof(*list)); \
    } while (0)

static int take_results(const struct ag_ledger *ledger, struct ag_model_sums *sums,
                        struct ag_live_sum **ret_live) {
    const struct ag_stack_sum *stacks;
    const struct ag_timeline_point *timeline;
    const struct ag_thread_sum *threads;
    const struct ag_thread_pair *pairs;
    const struct ag_heap_sum *heaps;
    const struct ag_live_sum *live;
    COPY_ROWS(sums, ledger, ag_ledger_stack_sums, stacks, n_stacks);
    COPY_ROWS(sums, ledger, ag_ledger_timeline, timeline, n_timeline);
    COPY_ROWS(sums, ledger, ag_ledger_thread_sums, threads, n_threads);
    COPY_ROWS(sums, ledger, ag_ledger_thread_pairs, pairs, n_pairs);
    COPY_ROWS(sums, ledger, ag_ledger_heap_sums, heaps, n_heaps);
    const size_t n_live = ag_ledger_live_sums(ledger, &live);
    *ret_live = copy(live, n_live, sizeof(*live));
    sums->summary = *ag_ledger_summary(ledger);
    sums->has_summary = true;
    const bool has_all =
        sums->stacks && sums->timeline && sums->threads && sums->pairs && sums->heaps && *ret_live;
    return has_all ? 0 : -ENOMEM;
}

int ag_profile_pass(struct ag_profile *profile, const struct ag_pass_options *options,
                    struct ag_model_sums *ret_sums, struct ag_live_sum **ret_live) {
    if (!profile->file) {
        /* a merged profile has no file: the profiles of its processes have the events */
        return -ENOTSUP;
    }
    struct ag_ledger *ledger = ag_ledger_new();
    int r = ledger ? 0 : -ENOMEM;
    if (r == 0 && profile->options.of_mappings) {
        r = ag_mapping_pass(profile->file, &profile->definitions, options, ledger, take_results,
                            ret_sums, ret_live);
    } else if (r == 0 && profile->definitions.is_sampled) {
        r = ag_sampled_pass(profile->file, &profile->definitions, options, ledger, take_results,
                            ret_sums, ret_live);
    } else {
        r = r < 0 ? r : ag_event_pass(profile->file, &profile->definitions, options, ledger);
        r = r < 0 ? r : take_results(ledger, ret_sums, ret_live);
    }
    (void)ag_ledger_free(ledger);
    return r;
}

int ag_profile_visit(struct ag_profile *profile, const struct ag_pass_options *options) {
    if (profile->definitions.is_sampled) {
        /* the callbacks in OPTIONS need the weights, which only this pass computes */
        struct ag_model_sums sums = {0};
        struct ag_live_sum *live = NULL;
        const int r = ag_profile_pass(profile, options, &sums, &live);
        ag_model_sums_done(&sums);
        free(live);
        return r;
    }
    struct ag_ledger *ledger = ag_ledger_new();
    const int r =
        ledger ? ag_event_pass(profile->file, &profile->definitions, options, ledger) : -ENOMEM;
    (void)ag_ledger_free(ledger);
    return r;
}

/* Converts session times to times since the start of the process's recording. */
static void rebase_times(struct ag_profile *profile) {
    const uint64_t start_ns = profile->definitions.start_ns;
    struct ag_summary *summary = &profile->sums.summary;
    summary->peak_time_ns = summary->peak_time_ns > start_ns ? summary->peak_time_ns - start_ns : 0;
    for (size_t i = 0; i < profile->sums.n_timeline; i++) {
        uint64_t *time_ns = &profile->sums.timeline[i].time_ns;
        *time_ns = *time_ns > start_ns ? *time_ns - start_ns : 0;
    }
}

static uint64_t recording_ns(const struct ag_definitions *definitions) {
    return definitions->end_ns > definitions->start_ns ? definitions->end_ns - definitions->start_ns
                                                       : definitions->index.summary.duration_ns;
}

/* Fills in profile->window after a pass. If blocks that were allocated before the window are not
 * counted, the pass counts their frees as ghost frees (frees without a recorded allocation), or in
 * a forked process as those of inherited blocks. The number of these frees is moved to
 * older_frees. */
static void set_window(struct ag_profile *profile) {
    const struct ag_model_sums *index = &profile->definitions.index;
    struct ag_profile_window *window = &profile->window;
    struct ag_summary *summary = &profile->sums.summary;
    profile->has_window = profile->options.from_ns > 0 || profile->options.to_ns > 0;
    *window = (struct ag_profile_window){.from_ns = profile->options.from_ns,
                                         .to_ns = profile->options.to_ns,
                                         .recording_ns = recording_ns(&profile->definitions),
                                         .counts_older = profile->options.counts_older ||
                                                         profile->options.from_ns == 0,
                                         .is_reset = profile->is_reset,
                                         .knows_before = index->has_summary};
    for (size_t i = 0; i < index->n_timeline && window->from_ns > 0; i++) {
        if (index->timeline[i].time_ns < profile->pass.from_ns) {
            window->in_use_bytes_before = index->timeline[i].in_use_bytes;
            window->in_use_blocks_before = index->timeline[i].in_use_blocks;
        }
    }
    if (!window->counts_older) {
        window->older_frees = summary->ghost_frees + summary->inherited_frees;
        summary->ghost_frees = summary->inherited_frees = 0;
    }
}

static int make_sums(struct ag_profile *profile) {
    struct ag_definitions *definitions = &profile->definitions;
    if (!profile->needs_pass && definitions->index.has_summary) {
        profile->sums = definitions->index;
        profile->has_index_sums = true;
        definitions->index = (struct ag_model_sums){0};
    } else {
        const int r = ag_profile_pass(profile, &profile->pass, &profile->sums, &profile->live);
        if (r < 0) {
            return r;
        }
        const uint64_t start_ns = definitions->start_ns;
        struct ag_summary *summary = &profile->sums.summary;
        set_window(profile);
        summary->duration_ns =
            summary->duration_ns > start_ns ? summary->duration_ns - start_ns : 0;
    }
    rebase_times(profile);
    return 0;
}

/* ---- the summary of the rows that the filters select ---- */

static void count_stacks(struct ag_profile *profile) {
    struct ag_summary *summary = &profile->summary;
    struct ag_index_map seen = {0};
    for (size_t i = 0; i < profile->n_rows; i++) {
        const struct ag_stack_row *row = &profile->rows[i];
        if (ag_index_map_number(&seen, ag_profile_recorded_stack(profile, row), NULL) > 0) {
            summary->unique_stacks++;
            summary->truncated_stacks += row->state == AG_STACK_CUT;
            summary->incomplete_stacks += row->state == AG_STACK_INCOMPLETE;
        }
    }
    ag_index_map_done(&seen);
}

/* Returns the number of bytes that one sample of a small block represents, for a profile without
 * samples. This number is the sampling interval. No sample shows which interval was in effect, so
 * the widest interval of the trace is used. */
static float widest_interval(const struct ag_definitions *definitions) {
    const uint64_t asked = definitions->interval_bytes,
                   most = definitions->sampler.most_interval_bytes;
    return definitions->is_sampled ? ag_estimate_variance((double)(most > asked ? most : asked))
                                   : 0;
}

static void make_summary(struct ag_profile *profile) {
    profile->summary = profile->sums.summary;
    struct ag_summary *summary = &profile->summary;
    struct ag_metrics all = {0};
    for (size_t i = 0; i < profile->n_rows; i++) {
        ag_metrics_add(&all, &profile->rows[i].metrics);
    }
    if (profile->n_rows == 0) {
        all.portion_bytes = widest_interval(&profile->definitions);
    }
    profile->total = all;
    if (profile->is_filtered || profile->definitions.is_sampled) {
#define TAKE(NAME, name) summary->name = all.name;
        AG_METRIC_TABLE(TAKE)
#undef TAKE
        summary->peak_low_bytes = summary->peak_high_bytes = all.peak_bytes;
    }
    if (profile->is_filtered || profile->definitions.is_sampled || summary->unique_stacks == 0) {
        summary->unique_stacks = summary->truncated_stacks = summary->incomplete_stacks = 0;
        count_stacks(profile);
    }
}

struct ag_metrics ag_profile_incomplete(const struct ag_profile *profile) {
    struct ag_metrics sum = {0};
    for (size_t i = 0; i < profile->n_rows; i++) {
        if (profile->rows[i].state == AG_STACK_INCOMPLETE) {
            ag_metrics_add(&sum, &profile->rows[i].metrics);
        }
    }
    return sum;
}

/* ---- threads and heaps ---- */

/* Makes the rows of the threads; with --thread, only the row of the thread that the user named. */
static int make_threads(struct ag_profile *profile) {
    const struct ag_model_sums *sums = &profile->sums;
    profile->threads = calloc(sums->n_threads + 1, sizeof(*profile->threads));
    if (!profile->threads) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < sums->n_threads; i++) {
        const struct ag_thread_sum *sum = &sums->threads[i];
        if (profile->options.thread < 0 || profile->options.thread == sum->thread_id) {
            profile->threads[profile->n_threads++] = (struct ag_thread_row){
                .stream = sum->stream,
                .thread_id = sum->thread_id,
                .name = ag_definitions_thread_name(&profile->definitions, sum->stream),
                .sum = *sum,
                .metrics = sums->thread_estimates
                               ? sums->thread_estimates[i]
                               : (struct ag_metrics){.allocated_blocks = sum->allocated_blocks,
                                                     .allocated_bytes = sum->allocated_bytes,
                                                     .freed_blocks = sum->freed_blocks,
                                                     .freed_bytes = sum->freed_bytes}};
        }
    }
    return 0;
}

struct ag_heap_row ag_heap_row_of(const struct ag_definitions *definitions, uint32_t number) {
    static const struct ag_model_heap unknown = {.name = "unknown",
                                                 .domain = "unknown",
                                                 .allocator = "",
                                                 .runtime = "",
                                                 .kind = "malloc",
                                                 .unit = "bytes"};
    const struct ag_model_heap *defined = ag_definitions_heap(definitions, number);
    const struct ag_model_heap *heap = defined ? defined : &unknown;
    return (struct ag_heap_row){.name = heap->name,
                                .domain = heap->domain,
                                .allocator = heap->allocator,
                                .runtime = heap->runtime,
                                .kind = heap->kind,
                                .unit = heap->unit,
                                .is_backing = heap->is_backing};
}

static int make_heaps(struct ag_profile *profile) {
    const struct ag_model_sums *sums = &profile->sums;
    profile->heaps = calloc(sums->n_heaps + 1, sizeof(*profile->heaps));
    if (!profile->heaps) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < sums->n_heaps; i++) {
        profile->heaps[i] = ag_heap_row_of(&profile->definitions, sums->heaps[i].heap);
        const struct ag_heap_sum *sum = &sums->heaps[i];
        profile->heaps[i].memory = ag_definitions_memory(&profile->definitions, sum->heap);
        profile->heaps[i].sum = *sum;
        profile->heaps[i].metrics =
            sums->heap_estimates ? sums->heap_estimates[i]
                                 : (struct ag_metrics){.allocated_blocks = sum->allocated_blocks,
                                                       .allocated_bytes = sum->allocated_bytes,
                                                       .in_use_blocks = sum->in_use_blocks,
                                                       .in_use_bytes = sum->in_use_bytes,
                                                       .peak_bytes = sum->peak_bytes};
    }
    return 0;
}

/* ---- opening ---- */

static bool is_damaged(const struct ag_definitions *definitions) {
    return definitions->damage.code != AG_DECODE_OK &&
           definitions->damage.code != AG_DECODE_UNSEALED;
}

static const char *end_name(const struct ag_definitions *definitions) {
    if (!definitions->has_end) {
        return is_damaged(definitions) ? "cut" : "running";
    }
    switch ((enum ag_slot_end)definitions->end_how) {
    case AG_END_NOT_KNOWN: /* ag_profile_identity.is_end_unseen reports it */
    case AG_END_EXIT:
        return "exit";
    case AG_END_SIGNAL:
        return "signal";
    case AG_END_DETACHED:
        return "detached";
    case AG_END_CUT:
        return "cut";
    }
    return "running";
}

/* Whether NAME, the name of the main thread, is the one that the kernel sets when the file PATH is
 * executed: the first 15 bytes of the file's name. For a script, the kernel uses the name of the
 * script, which is one of the arguments of its interpreter. */
static bool is_name_of_file(const char *name, const char *path) {
    enum { NAME_BYTES = 15 };
    return path && strncmp(ag_base_name(path), name, NAME_BYTES) == 0;
}

static const char *title_of(const struct ag_definitions *definitions) {
    const char *name = definitions->last_name;
    if (definitions->last_command && *definitions->last_command) {
        return definitions->last_command;
    }
    bool is_usual = !name || !*name || is_name_of_file(name, definitions->exe);
    for (uint32_t i = 0; i < definitions->n_arguments && !is_usual; i++) {
        is_usual = is_name_of_file(name, definitions->arguments[i]);
    }
    return is_usual ? NULL : name;
}

static void make_identity(struct ag_profile *profile) {
    const struct ag_definitions *definitions = &profile->definitions;
    profile->identity = (struct ag_profile_identity){
        .file = profile->path,
        .format_version = ag_trace_file_version(profile->file),
        .pid = definitions->pid,
        .parent_pid = definitions->parent_pid,
        .process_identity = definitions->process_identity,
        .parent_identity = definitions->parent_identity,
        .origin = definitions->origin,
        .title = title_of(definitions),
        .user = definitions->user,
        .user_id = definitions->user_id,
        .address_space_limit_bytes = definitions->address_space_limit_bytes,
        .session = definitions->session,
        .start_ns = definitions->start_ns,
        .n_arguments = definitions->n_arguments,
        .arguments = definitions->arguments,
        .host = definitions->host ? definitions->host : "",
        .cgroup = definitions->cgroup,
        .exe = definitions->exe,
        .mode = definitions->is_sampled || definitions->mode != 0 ? "sample" : "exact",
        .is_sampled = definitions->is_sampled,
        .interval_bytes = definitions->interval_bytes,
        .seed = definitions->seed,
        .filter = definitions->filter,
        .undecided = definitions->undecided,
        .n_undecided = definitions->n_undecided,
        .end = end_name(definitions),
        .is_end_unseen = definitions->has_end && definitions->end_how == AG_END_NOT_KNOWN,
        .wait_status = definitions->wait_status,
        .wait_status_known = definitions->wait_status_known,
        .kernel_kill = definitions->kernel_kill,
        .file_bytes = ag_trace_file_bytes(profile->file),
        .n_processes = 1,
        .start_realtime_ns = definitions->start_realtime_ns,
        .is_damaged = is_damaged(definitions),
    };
}

/* Converts a time since the start of the process's recording to session time. */
static uint64_t session_time(const struct ag_profile *profile, uint64_t time_ns) {
    const uint64_t start_ns = profile->definitions.start_ns;
    return time_ns < UINT64_MAX - start_ns ? start_ns + time_ns : UINT64_MAX;
}

static uint64_t tail_start(const struct ag_profile *profile) {
    const double percent = profile->options.tail_percent;
    const uint64_t duration_ns = recording_ns(&profile->definitions);
    if (!(percent > 0)) {
        return UINT64_MAX;
    }
    const double kept = percent < 100 ? 1 - percent / 100 : 0;
    return session_time(profile, (uint64_t)((double)duration_ns * kept));
}

static bool begins_at_reset(const struct ag_profile *profile) {
    return profile->definitions.index.has_summary &&
           profile->definitions.index.summary.reset_ns > 0 && profile->options.from_ns == 0;
}

static void plan_pass(struct ag_profile *profile) {
    const struct ag_profile_options *options = &profile->options;
    profile->pass = (struct ag_pass_options){
        .from_ns = options->from_ns > 0 ? session_time(profile, options->from_ns) : 0,
        .to_ns = options->to_ns > 0 ? session_time(profile, options->to_ns) : UINT64_MAX,
        .tail_ns = tail_start(profile),
        .thread = options->thread,
        .temporary_within = options->temporary_within,
        .n_threads = n_decoders(),
        .counts_older = options->counts_older,
    };
    profile->is_reset = begins_at_reset(profile);
    /* the recording was reset and the user chose no start time, so the time window begins at the
     * reset */
    if (profile->is_reset) {
        profile->pass.from_ns = profile->definitions.index.summary.reset_ns;
        profile->pass.counts_older = true;
        profile->options.from_ns = profile->pass.from_ns > profile->definitions.start_ns
                                       ? profile->pass.from_ns - profile->definitions.start_ns
                                       : 1;
        profile->options.counts_older = true;
    }
    const bool has_rows_left_out = options->thread >= 0 || options->tail_percent > 0;
    profile->needs_pass = options->force_pass || options->of_mappings || options->from_ns > 0 ||
                          options->to_ns > 0 || options->temporary_within > 0 ||
                          has_rows_left_out ||
                          profile->definitions.is_sampled; /* the index contains counts of samples,
                                                            * not estimates */
    profile->is_filtered =
        has_rows_left_out || options->focus || options->ignore || options->runtime;
}

static int compile(const char *expression, const char *name, regex_t *regex, bool *ret_is_set,
                   char message[512]) {
    if (!expression) {
        return 0;
    }
    const int error = regcomp(regex, expression, REG_EXTENDED | REG_NOSUB);
    if (error != 0) {
        char text[200];
        regerror(error, regex, text, sizeof(text));
        snprintf(message, 512, "--%s=%.200s: not a valid extended regular expression: %s", name,
                 expression, text);
        return -EINVAL;
    }
    *ret_is_set = true;
    return 0;
}

static int fail_open(const char *path, const struct ag_decode_error *error, int r,
                     char message[512]) {
    const bool is_io = error->code == AG_DECODE_IO || error->code == AG_DECODE_OK;
    /* of a long path, only the end is shown, because the name of the file is there */
    enum { SHOWN = 350 };
    const size_t length = strlen(path);
    snprintf(message, 512, "%s%s: %s", length > SHOWN ? "..." : "",
             length > SHOWN ? path + length - SHOWN : path,
             is_io ? strerror(-r) : ag_decode_code_text(error->code));
    return r;
}

/* A thread that loads the nodes of the stacks and opens symbol files during a pass over the events,
 * which needs neither nodes nor symbols. With 100,000 stacks, loading the nodes takes a fifth of
 * the time of opening a trace. Which symbol files the profile needs is not known before the pass
 * has ended. But the outermost frames of all stacks are in a few files, the program and its libc,
 * so the thread opens these files. Decompressing the debug information of a libc takes 55 ms, as
 * long as applying 1.5 million events. No other code may use the nodes or the symbolizer before
 * stack_loader_end has returned. */
struct stack_loader {
    struct ag_definitions *definitions;
    const struct ag_trace_file *file;
    struct ag_symbolizer *symbolizer;
    pthread_t thread;
    bool has_thread; /* false: no thread could be created, and the work is done */
    int r;
    struct ag_decode_error damage;
};

/* Number of frames outside of main or of a thread's function: _start and two functions of libc, or
 * clone and start_thread. */
enum { OUTERMOST = 3 };

static void open_files(struct ag_symbolizer *symbolizer, const struct ag_stack_nodes *nodes) {
    uint32_t last = AG_INDEX_NONE;
    for (size_t i = 0; i < nodes->count; i++) {
        const uint32_t image = nodes->sites[nodes->nodes[i].site].image;
        if (nodes->nodes[i].depth <= OUTERMOST && image != last) {
            ag_symbolizer_open_image(symbolizer, image);
            last = image;
        }
    }
}

static void *stack_loader_run(void *context) {
    struct stack_loader *loader = context;
    loader->r = ag_definitions_load_stacks(loader->definitions, loader->file, &loader->damage);
    if (loader->r == 0) {
        open_files(loader->symbolizer, &loader->definitions->nodes);
    }
    return NULL;
}

static void stack_loader_start(struct stack_loader *loader) {
    loader->has_thread = pthread_create(&loader->thread, NULL, stack_loader_run, loader) == 0;
    if (!loader->has_thread) {
        (void)stack_loader_run(loader);
    }
}

/* Waits until the thread has ended, and stores the damage that the thread found in the definitions.
 * Returns 0 or -ENOMEM. */
static int stack_loader_end(struct stack_loader *loader) {
    if (loader->has_thread) {
        (void)pthread_join(loader->thread, NULL);
    }
    ag_definitions_note_damage(loader->definitions, &loader->damage);
    return loader->r;
}

/* If the sums need a pass over the events, another thread loads the stacks during the pass and
 * opens the symbol files. Sums from the index are read so quickly that a thread would save no
 * time. */
static int load_sums_and_stacks(struct ag_profile *profile) {
    struct ag_definitions *definitions = &profile->definitions;
    int r;
    if (profile->options.of_mappings) { /* this pass needs the stacks */
        struct ag_decode_error damage = {0};
        r = ag_definitions_load_stacks(definitions, profile->file, &damage);
        ag_definitions_note_damage(definitions, &damage);
        r = r < 0 ? r : make_sums(profile);
    } else if (profile->needs_pass || !definitions->index.has_summary) {
        struct stack_loader stacks = {.definitions = definitions,
                                      .file = profile->file,
                                      .symbolizer = profile->frames.symbolizer};
        stack_loader_start(&stacks);
        r = make_sums(profile);
        const int r_stacks = stack_loader_end(&stacks);
        r = r < 0 ? r : r_stacks;
    } else {
        r = ag_definitions_load_stacks_and_sums(definitions, profile->file);
        r = r < 0 ? r : make_sums(profile);
    }
    return r < 0 ? r : ag_frame_table_make_answers(&profile->frames);
}

/* The rows contain copies of the stack sums, which take 90 MiB with a million stacks. */
static void drop_stack_sums(struct ag_profile *profile) {
    free(profile->sums.stacks);
    profile->sums.stacks = NULL;
    profile->sums.n_stacks = 0;
    free(profile->live);
    profile->live = NULL;
}

static int open_profile(struct ag_profile *profile, const char *path, char message[512]) {
    struct ag_decode_error error = {0};
    message[0] = '\0';
    profile->path = strdup(path);
    int r = profile->path ? 0 : -ENOMEM;
    r = r < 0 ? r
              : compile(profile->options.focus, "focus", &profile->focus, &profile->has_focus,
                        message);
    r = r < 0 ? r
              : compile(profile->options.ignore, "ignore", &profile->ignore, &profile->has_ignore,
                        message);
    if (r < 0) {
        return r;
    }
    const char *contents = profile->options.contents;
    r = ag_trace_file_open(contents != NULL ? contents : path, &profile->file, &error);
    if (r < 0) {
        return fail_open(path, &error, r, message);
    }
    ag_trace_file_set_progress(profile->file, profile->options.progress);
    r = ag_definitions_load(&profile->definitions, profile->file);
    /* all mappings are recorded, in a sampled trace too */
    profile->definitions.is_sampled &= !profile->options.of_mappings;
    if (r == 0) {
        plan_pass(profile);
        r = ag_frame_table_init(&profile->frames, &profile->definitions, profile->options.symbol);
    }
    r = r < 0 ? r : load_sums_and_stacks(profile);
    r = r < 0 ? r
              : ag_thread_filter_check(&profile->definitions, &profile->sums,
                                       profile->options.thread, path, message);
    r = r < 0 ? r : ag_profile_make_rows(profile);
    r = r < 0 ? r
              : ag_runtime_filter_check(&profile->definitions, &profile->frames,
                                        profile->options.runtime, path, message);
    drop_stack_sums(profile);
    r = r < 0 ? r : make_threads(profile);
    r = r < 0 ? r : make_heaps(profile);
    if (r == 0) {
        make_summary(profile);
        make_identity(profile);
    }
    return r;
}

int ag_profile_open(const char *path, const struct ag_profile_options *options,
                    struct ag_profile **ret_profile, char ret_message[512]) {
    struct ag_profile_options known = {.thread = -1};
    /* options->size is smaller if the caller was compiled with an older struct; the members that
     * are missing keep their defaults */
    if (options) {
        memcpy(&known, options, options->size < sizeof(known) ? options->size : sizeof(known));
    }
    struct ag_profile *profile = calloc(1, sizeof(*profile));
    if (profile) {
        profile->options = known;
    }
    const int r = profile ? open_profile(profile, path, ret_message) : -ENOMEM;
    if (r < 0) {
        if (!profile || ret_message[0] == '\0') {
            snprintf(ret_message, 512, "%.400s: %s", path, strerror(-r));
        }
        (void)ag_profile_close(profile);
        return r;
    }
    *ret_profile = profile;
    return 0;
}

struct ag_profile *ag_profile_close(struct ag_profile *profile) {
    if (!profile) {
        return NULL;
    }
    for (size_t i = 0; i < profile->n_lists; i++) {
        free(profile->lists[i].frames);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(profile->sites); i++) {
        free(profile->sites[i]);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(profile->lifetimes); i++) {
        ag_lifetimes_end(&profile->lifetimes[i]);
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(profile->trees); i++) {
        free(profile->trees[i]);
    }
    if (profile->has_focus) {
        regfree(&profile->focus);
    }
    if (profile->has_ignore) {
        regfree(&profile->ignore);
    }
    ag_index_map_done(&profile->frame_lists);
    ag_index_map_done(&profile->heaps_by_name);
    free(profile->lists);
    free(profile->blamed_lines);
    free(profile->line_of_row);
    free(profile->known_of_row);
    free(profile->left_out);
    free(profile->folded_start);
    free(profile->row_types);
    ag_index_map_done(&profile->type_of_stack);
    free(profile->site_types);
    ag_profile_forget_types(profile);
    free(profile->types);
    free(profile->threads);
    free(profile->heaps);
    free(profile->rows);
    free(profile->row_nodes);
    free(profile->node_is_used);
    free(profile->live);
    ag_model_sums_done(&profile->sums);
    ag_frame_table_done(&profile->frames);
    ag_definitions_done(&profile->definitions);
    (void)ag_trace_file_close(profile->file);
    ag_functions_end(profile);
    ag_collections_end(profile);
    ag_profile_close_parts(profile);
    (void)ag_profile_close(profile->mappings);
    free(profile->path);
    free(profile);
    return NULL;
}

/* ---- queries ---- */

const struct ag_profile_sampler *ag_profile_sampler(const struct ag_profile *profile) {
    return &profile->definitions.sampler;
}

const struct ag_metrics *ag_profile_total(const struct ag_profile *profile) {
    return &profile->total;
}

struct ag_metrics ag_profile_sums(const struct ag_profile *profile) {
    const struct ag_summary *summary = &profile->summary;
    struct ag_metrics all = profile->total;
    if (!profile->identity.is_sampled) {
#define TAKE(NAME, name) all.name = summary->name;
        AG_METRIC_TABLE(TAKE)
#undef TAKE
    }
    return all;
}

struct ag_metrics ag_profile_nothing(const struct ag_profile *profile) {
    return (struct ag_metrics){.portion_bytes = profile->total.portion_bytes};
}

const struct ag_summary *ag_profile_summary(const struct ag_profile *profile) {
    return &profile->summary;
}

/* Copies the damage found so far to the identity, because passes over the events that were made
 * after the profile was opened may have found more damage. */
static void refresh_damage(struct ag_profile *profile) {
    struct ag_profile_identity *identity = &profile->identity;
    if (profile->n_parts == 0) {
        const struct ag_definitions *definitions = &profile->definitions;
        identity->is_damaged = is_damaged(definitions);
        identity->is_file_cut = definitions->damage.code == AG_DECODE_CUT;
        identity->end = end_name(definitions);
        identity->damage =
            (struct ag_profile_damage){.offset = definitions->damage.offset,
                                       .what = ag_decode_code_text(definitions->damage.code)};
        const struct ag_damaged_chunks *events = &definitions->damaged;
        const struct ag_damaged_chunks *others = &definitions->damaged_others;
        identity->missing =
            (struct ag_profile_missing){.chunks = events->chunks + others->chunks,
                                        .events = events->events,
                                        .bytes = events->bytes + others->bytes,
                                        .has_sums = profile->has_index_sums && events->chunks > 0};
        return;
    }
    identity->missing = (struct ag_profile_missing){.has_sums = true};
    for (size_t p = 0; p < profile->n_parts; p++) {
        const struct ag_profile_identity *part = ag_profile_identity(profile->parts[p].profile);
        if (part->is_damaged && !identity->is_damaged) {
            identity->is_damaged = true;
            identity->damage = part->damage;
        }
        identity->is_file_cut |= part->is_file_cut;
        identity->missing.chunks += part->missing.chunks;
        identity->missing.events += part->missing.events;
        identity->missing.bytes += part->missing.bytes;
        identity->missing.has_sums &= part->missing.events == 0 || part->missing.has_sums;
    }
}

const struct ag_profile_identity *ag_profile_identity(const struct ag_profile *profile) {
    /* the cast removes `const`: the identity is a cache */
    refresh_damage((struct ag_profile *)(uintptr_t)profile);
    return &profile->identity;
}

uint64_t ag_profile_lost(const struct ag_profile *profile, uint32_t cause) {
    return cause < AG_LOST_CAUSES ? profile->definitions.lost[cause] : 0;
}

const char *ag_profile_lost_name(uint32_t cause) {
    return cause < AG_LOST_CAUSES ? ag_lost_cause_name(cause) : NULL;
}

size_t ag_profile_runtimes(const struct ag_profile *profile,
                           const struct ag_profile_runtime **ret_runtimes) {
    *ret_runtimes = profile->definitions.runtimes;
    return profile->definitions.n_runtimes;
}

const struct ag_profile_cost *ag_profile_cost(const struct ag_profile *profile) {
    return &profile->definitions.cost;
}

uint64_t ag_profile_recording_ns(const struct ag_profile *profile) {
    return profile->has_window && profile->window.recording_ns > 0 ? profile->window.recording_ns
                                                                   : profile->summary.duration_ns;
}

const struct ag_profile_observed *ag_profile_observed(const struct ag_profile *profile) {
    return &profile->definitions.observed;
}

bool ag_profile_has_only_samples(const struct ag_profile *profile) {
    return profile->definitions.observed.is_there &&
           ag_profile_summary(profile)->allocated_blocks == 0;
}

size_t ag_profile_timeline(const struct ag_profile *profile,
                           const struct ag_timeline_point **ret_points) {
    *ret_points = profile->sums.timeline;
    return profile->sums.n_timeline;
}

size_t ag_profile_threads(const struct ag_profile *profile, const struct ag_thread_row **ret_rows) {
    *ret_rows = profile->threads;
    return profile->n_threads;
}

const struct ag_thread_row *ag_profile_thread(const struct ag_profile *profile, uint32_t stream) {
    for (size_t i = 0; i < profile->n_threads; i++) {
        if (profile->threads[i].stream == stream) {
            return &profile->threads[i];
        }
    }
    return NULL;
}

size_t ag_profile_thread_pairs(const struct ag_profile *profile,
                               const struct ag_thread_pair **ret_pairs) {
    *ret_pairs = profile->sums.pairs;
    return profile->sums.n_pairs;
}

struct ag_metrics ag_profile_pair_metrics(const struct ag_profile *profile, size_t at) {
    const struct ag_thread_pair *pair = &profile->sums.pairs[at];
    return profile->sums.pair_estimates
               ? profile->sums.pair_estimates[at]
               : (struct ag_metrics){.freed_blocks = pair->blocks, .freed_bytes = pair->bytes};
}

struct ag_metrics ag_profile_point_metrics(const struct ag_profile *profile, size_t at) {
    const struct ag_timeline_point *point = &profile->sums.timeline[at];
    return profile->sums.timeline_estimates
               ? profile->sums.timeline_estimates[at]
               : (struct ag_metrics){.in_use_bytes = point->in_use_bytes,
                                     .in_use_blocks = point->in_use_blocks,
                                     .allocated_bytes = point->allocated_bytes};
}

size_t ag_profile_heaps(const struct ag_profile *profile, const struct ag_heap_row **ret_rows) {
    *ret_rows = profile->heaps;
    return profile->sums.n_heaps;
}

size_t ag_profile_problems(const struct ag_profile *profile, const char *const **ret_lines) {
    if (profile->n_parts > 0) { /* the cast removes `const`: the lines are a cache */
        return ag_profile_problems_of_parts((struct ag_profile *)(uintptr_t)profile, ret_lines);
    }
    return ag_symbolizer_problems(profile->frames.symbolizer, ret_lines);
}

const struct ag_profile_window *ag_profile_window(const struct ag_profile *profile) {
    return profile->has_window ? &profile->window : NULL;
}
