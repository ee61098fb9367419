/* observe_json.c: `allogram observe --json`: one object; docs/reference/report-schema.md names its
 * keys. */
#include <stdlib.h>
#include <string.h>

#include "cli/observe_report.h"
#include "text/json_writer.h"

static void frames(struct ag_json *json, struct ag_observation *observation, uint32_t node) {
    const struct ag_observed_frame *list;
    const size_t n = ag_observation_stack(observation, node, &list);
    ag_json_open(json, "frames", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", list[i].function);
        ag_json_string(json, "file", list[i].file);
        ag_json_nonzero(json, "line", list[i].line);
        ag_json_string(json, "image", list[i].image);
        ag_json_string(json, "runtime", list[i].runtime);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void facts(struct ag_json *json, const struct ag_observation_facts *facts) {
    static const char *const ends[] = {
        [AG_OBSERVED_TIME_OVER] = "time",
        [AG_OBSERVED_STOPPED] = "stopped",
        [AG_OBSERVED_TARGET_ENDED] = "target_ended",
    };
    ag_json_integer(json, "pid", (uint64_t)facts->pid);
    ag_json_string(json, "name", facts->name);
    ag_json_integer(json, "duration_ns", facts->duration_ns);
    ag_json_string(json, "end", ends[facts->end]);
    ag_json_integer(json, "samples", facts->samples);
    ag_json_integer(json, "lost", facts->lost);
    ag_json_integer(json, "stale", facts->stale);
    ag_json_integer(json, "complete_stacks", facts->complete_stacks);
    ag_json_decimal(json, "target_cost_percent", facts->target_cost_percent, /* decimals= */ 3);
    ag_json_integer(json, "target_cpu_ns", facts->target_cpu_ns);
    ag_json_bool(json, "sees_kernel", facts->sees_kernel);
    ag_json_integer(json, "resident_before_bytes", facts->resident_before_bytes);
    ag_json_integer(json, "resident_after_bytes", facts->resident_after_bytes);
    ag_json_open(json, "profiler", '{');
    ag_json_integer(json, "cpu_ns", facts->own_cpu_ns);
    ag_json_decimal(json, "sample_cost_ns", facts->sample_cost_ns, /* decimals= */ 0);
    ag_json_close(json, '}');
}

static void functions(struct ag_json *json, struct ag_observation *observation) {
    struct ag_observed_function *list = NULL;
    const ssize_t n = ag_observation_functions(observation, &list);
    ag_json_open(json, "functions", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", list[i].frame->function);
        ag_json_string(json, "image", list[i].frame->image);
        ag_json_string(json, "runtime", list[i].frame->runtime);
        ag_json_integer(json, "own", list[i].own);
        ag_json_integer(json, "total", list[i].total);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void blame(struct ag_json *json, struct ag_observation *observation, const char *glob) {
    struct ag_observed_function *list = NULL;
    const ssize_t n = ag_observation_blame(observation, glob, &list);
    uint64_t all = 0;
    for (ssize_t i = 0; i < n; i++) {
        all += list[i].own;
    }
    ag_json_open(json, "blame", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", list[i].frame->function);
        ag_json_string(json, "runtime", list[i].frame->runtime);
        ag_json_integer(json, "samples", list[i].own);
        ag_json_percent(json, "percent", 100.0 * (double)list[i].own / (double)all);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void stacks(struct ag_json *json, struct ag_observation *observation) {
    struct ag_observed_stack *list = NULL;
    const ssize_t n = ag_observation_stacks(observation, AG_SEEN_CPU, &list);
    ag_json_open(json, "stacks", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_integer(json, "thread", list[i].thread);
        ag_json_string(json, "thread_name",
                       ag_observation_thread_name(observation, list[i].thread));
        ag_json_integer(json, "count", list[i].samples);
        frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void growth(struct ag_json *json, struct ag_observation *observation) {
    struct ag_observed_stack *list = NULL;
    const ssize_t n = ag_observation_stacks(observation, AG_SEEN_GROWTH, &list);
    ag_json_open(json, "growth", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_integer(json, "bytes", list[i].bytes);
        frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void maps(struct ag_json *json, struct ag_observation *observation) {
    struct ag_observed_map *list = NULL;
    const ssize_t n = ag_observation_maps(observation, &list);
    ag_json_open(json, "maps", '[');
    for (ssize_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_integer(json, "bytes", list[i].bytes);
        ag_json_integer(json, "resident_bytes", list[i].resident_bytes);
        ag_json_integer(json, "mappings", list[i].n_mappings);
        frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    free(list);
}

static void allocators(struct ag_json *json, struct ag_observation *observation) {
    const struct ag_reported_allocator *list;
    const size_t n = ag_observation_allocators(observation, &list);
    ag_json_open(json, "allocators", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "name", list[i].name);
        ag_json_integer(json, "instance", list[i].instance);
        ag_json_integer(json, "carriers_bytes", list[i].carriers_bytes);
        ag_json_integer(json, "blocks_bytes", list[i].blocks_bytes);
        ag_json_integer(json, "mapped_bytes", list[i].mapped_bytes);
        ag_json_integer(json, "resident_bytes", list[i].resident_bytes);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void processes(struct ag_json *json, struct ag_observation *observation) {
    const struct ag_reported_process *list;
    const size_t n = ag_observation_processes(observation, &list);
    ag_json_open(json, "processes", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "id", list[i].id);
        ag_json_string(json, "name", list[i].name);
        ag_json_string(json, "current_function", list[i].current_function);
        ag_json_integer(json, "heap_words", list[i].heap_words);
        ag_json_integer(json, "stack_words", list[i].stack_words);
        ag_json_integer(json, "queue", list[i].queue);
        frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
}

static void collections(struct ag_json *json, struct ag_observation *observation) {
    const struct ag_reported_collection *list;
    const size_t n = ag_observation_collections(observation, &list);
    ag_json_open(json, "gc", '{');
    ag_json_integer(json, "seen", ag_observation_facts(observation)->collections_seen);
    ag_json_open(json, "collections", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "runtime", list[i].runtime);
        ag_json_string(json, "kind", list[i].kind);
        ag_json_integer(json, "start_ns", list[i].start_ns);
        ag_json_integer(json, "pause_ns", list[i].pause_ns);
        ag_json_integer(json, "heap_before_bytes", list[i].heap_before_bytes);
        ag_json_integer(json, "heap_after_bytes", list[i].heap_after_bytes);
        ag_json_integer(json, "needed_bytes", list[i].needed_bytes);
        ag_json_integer(json, "allocated_bytes", list[i].allocated_bytes);
        ag_json_integer(json, "weight_bytes", list[i].weight_bytes);
        ag_json_string(json, "process", list[i].process);
        frames(json, observation, list[i].node);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    struct ag_observed_collector *blamed = NULL;
    const ssize_t n_blamed = ag_observation_collectors(observation, &blamed);
    ag_json_open(json, "functions", '[');
    for (ssize_t i = 0; i < n_blamed; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "function", blamed[i].function);
        ag_json_integer(json, "collections", blamed[i].n_collections);
        ag_json_integer(json, "bytes", blamed[i].bytes);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    free(blamed);
}

void ag_observe_report_json(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection) {
    struct ag_json json = {.out = out, .line_depth = 2};
    const char *const *notes;
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "schema", "allogram-observe/1");
    facts(&json, ag_observation_facts(observation));
    functions(&json, observation);
    if (selection->stacks) {
        stacks(&json, observation);
    }
    if (selection->blame != NULL) {
        blame(&json, observation, selection->blame);
    }
    if ((selection->what & AG_OBSERVE_COLLECTIONS) != 0) {
        collections(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_GROWTH) != 0) {
        growth(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_MAPS) != 0) {
        maps(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_ALLOCATORS) != 0) {
        allocators(&json, observation);
    }
    if ((selection->what & AG_OBSERVE_PROCESSES) != 0) {
        processes(&json, observation);
    }
    const size_t n_notes = ag_observation_notes(observation, &notes);
    ag_json_strings(&json, "notes", notes, n_notes);
    ag_json_close(&json, '}');
    fputc('\n', out);
}
