/* event_pass.c: streams are read side by side, only as far as time has come: whose delivered events
 * end earliest gives its next block, so no stream is read ahead of the others, and one whose next
 * chunk starts later is not read at all. A trace of one stream needs no merge.
 *
 * A time window cuts each stream at a stamp: windows of events belong to where they start. */
#include "model/event_pass.h"

#include <errno.h>
#include <stdlib.h>

#include "format/segment.h"
#include "ledger/merge.h"
#include "model/chunk_feed.h"

struct reader {                  /* of one stream */
    struct ag_feed_block *block; /* the current one, [at, count) is not delivered */
    size_t at;
    uint64_t reached_ns; /* everything before is delivered */
    uint64_t now_ns;     /* last stamp seen */
    uint32_t stream, thread_id;
    bool has_ended;
};
struct pass {
    const struct ag_pass_options *options;
    struct ag_definitions *definitions;
    struct ag_ledger *ledger;
    struct ag_merge *merge; /* NULL: a single stream */
    struct ag_chunk_feed *feed;
    struct reader *readers;
    size_t n_readers;
    uint32_t *heap; /* readers that have not ended, the least reached_ns on top */
    size_t heap_count;
    struct ag_feed_map *maps; /* not yet applied */
    size_t n_maps, map_capacity;
    size_t next_sample;
    uint64_t last_ns;
};

/* ---- what happens beside the events ---- */

static void apply_map(struct pass *pass, const struct ag_feed_map *map) {
    if (map->kind == AG_RECORD_MAP) {
        const uint32_t heap = pass->definitions->vias[map->via % AG_MODEL_VIAS].heap;
        ag_ledger_map(pass->ledger, heap, map->address, map->bytes);
    } else {
        ag_ledger_unmap(pass->ledger, map->address, map->bytes);
    }
}

static int by_time(const void *a, const void *b) {
    const struct ag_feed_map *left = a, *right = b;
    return (left->time_ns > right->time_ns) - (left->time_ns < right->time_ns);
}

/* Maps and resident sizes from before TIME_NS. */
static void apply_rare(struct pass *pass, uint64_t time_ns) {
    if (pass->n_maps > 0) {
        size_t kept = 0;
        qsort(pass->maps, pass->n_maps, sizeof(*pass->maps), by_time); /* merge sort: stable */
        for (size_t i = 0; i < pass->n_maps; i++) {
            if (pass->maps[i].time_ns < time_ns) {
                apply_map(pass, &pass->maps[i]);
            } else {
                pass->maps[kept++] = pass->maps[i];
            }
        }
        pass->n_maps = kept;
    }
    const struct ag_definitions *definitions = pass->definitions;
    while (pass->next_sample < definitions->n_samples &&
           definitions->samples[pass->next_sample].time_ns < time_ns) {
        const struct ag_model_sample *sample = &definitions->samples[pass->next_sample++];
        ag_ledger_resident(pass->ledger, sample->time_ns, sample->bytes);
    }
}

static int keep_maps(struct pass *pass, const struct ag_feed_block *block) {
    for (size_t i = 0; i < block->n_maps; i++) {
        if (pass->n_maps == pass->map_capacity) {
            const size_t capacity = pass->map_capacity ? pass->map_capacity * 2 : AG_FEED_MAPS;
            struct ag_feed_map *maps = realloc(pass->maps, capacity * sizeof(*maps));
            if (!maps) {
                return -ENOMEM;
            }
            pass->maps = maps;
            pass->map_capacity = capacity;
        }
        pass->maps[pass->n_maps++] = block->maps[i];
    }
    return 0;
}

/* ---- what the reader does not want ---- */

static bool is_plain(const struct ag_pass_options *options) {
    return options->thread < 0 && options->tail_ns == UINT64_MAX && !options->is_by_stream &&
           !options->kept;
}

static void rewrite(const struct pass *pass, struct reader *reader, struct ag_event *events,
                    size_t count) {
    const struct ag_pass_options *options = pass->options;
    const bool is_wanted =
        options->thread < 0 || (reader->thread_id & ~AG_THREAD_NESTED) == options->thread;
    for (size_t i = 0; i < count; i++) {
        struct ag_event *event = &events[i];
        if (event->kind == AG_RECORD_STAMP) {
            reader->now_ns = event->size;
        } else if (event->kind == AG_RECORD_ALLOC) {
            const bool is_kept =
                !options->kept || ag_index_map_find(options->kept, event->stack) != AG_INDEX_NONE;
            if (!is_wanted || !is_kept || reader->now_ns >= options->tail_ns) {
                event->stack = AG_STACK_OTHER;
            } else if (options->is_by_stream) {
                event->stack = reader->stream;
            }
        }
    }
}

/* ---- delivering ---- */

/* Where events that start at LIMIT_NS or later begin in the reader's block. */
static size_t find_limit(const struct reader *reader, uint64_t limit_ns) {
    const struct ag_feed_block *block = reader->block;
    size_t at = reader->at;
    while (at < block->count &&
           (block->events[at].kind != AG_RECORD_STAMP || block->events[at].size < limit_ns)) {
        at++;
    }
    return at;
}

static void note_reached(struct pass *pass, struct reader *reader, size_t end) {
    for (size_t i = end; i-- > reader->at;) {
        if (reader->block->events[i].kind == AG_RECORD_STAMP) {
            if (reader->block->events[i].size > reader->reached_ns) {
                reader->reached_ns = reader->block->events[i].size;
            }
            break;
        }
    }
    if (reader->reached_ns > pass->last_ns) {
        pass->last_ns = reader->reached_ns;
    }
}

/* Delivers the rest of the reader's block, or what of it comes before the limit. */
static int deliver(struct pass *pass, struct reader *reader, uint64_t limit_ns) {
    struct ag_event *events = reader->block->events + reader->at;
    const size_t end = limit_ns == UINT64_MAX ? reader->block->count : find_limit(reader, limit_ns);
    const size_t count = end - reader->at;
    if (!is_plain(pass->options)) {
        rewrite(pass, reader, events, count);
    }
    note_reached(pass, reader, end);
    int r;
    if (pass->merge) {
        r = ag_merge_add(pass->merge, reader->stream, events, count);
    } else {
        apply_rare(pass, count > 0 && events[0].kind == AG_RECORD_STAMP ? events[0].size
                                                                        : reader->reached_ns);
        r = ag_ledger_apply(pass->ledger, reader->stream, events, count);
    }
    if (end < reader->block->count) {
        reader->reached_ns = reader->block->events[end].size;
    }
    reader->at = end;
    return r;
}

/* Makes sure that the reader has events to deliver; or notes how far it has come without. */
static int refill(struct pass *pass, size_t index) {
    struct reader *reader = &pass->readers[index];
    if (reader->block && reader->at < reader->block->count) {
        return 0;
    }
    uint64_t next_ns = 0;
    reader->at = 0;
    const int r = ag_chunk_feed_next(pass->feed, index, &reader->block, &next_ns);
    if (r == AG_FEED_BLOCK) {
        return keep_maps(pass, reader->block);
    }
    reader->block = NULL;
    if (r == AG_FEED_PAUSE && next_ns > reader->reached_ns) {
        reader->reached_ns = next_ns;
    }
    reader->has_ended = r <= 0;
    return r < 0 ? r : 0;
}

static void sink(struct pass *pass, uint32_t reader) {
    const struct reader *readers = pass->readers;
    size_t at = 0;
    for (size_t child = 1; child < pass->heap_count; child = 2 * at + 1) {
        if (child + 1 < pass->heap_count &&
            readers[pass->heap[child + 1]].reached_ns < readers[pass->heap[child]].reached_ns) {
            child++;
        }
        if (readers[pass->heap[child]].reached_ns >= readers[reader].reached_ns) {
            break;
        }
        pass->heap[at] = pass->heap[child];
        at = child;
    }
    pass->heap[at] = reader;
}

/* Delivers all windows of all streams that start before the limit. */
static int run_until(struct pass *pass, uint64_t limit_ns) {
    int r = 0;
    while (r == 0 && pass->heap_count > 0) {
        const uint32_t index = pass->heap[0];
        struct reader *reader = &pass->readers[index];
        if (reader->reached_ns >= limit_ns) {
            break;
        }
        if (pass->merge) {
            apply_rare(pass, reader->reached_ns);
            r = ag_merge_advance(pass->merge, reader->reached_ns);
        }
        r = r < 0 ? r : refill(pass, index);
        if (r == 0 && reader->block) {
            r = deliver(pass, reader, limit_ns);
        }
        if (reader->has_ended) {
            if (--pass->heap_count > 0) {
                sink(pass, pass->heap[pass->heap_count]);
            }
        } else {
            sink(pass, index);
        }
    }
    r = r == 0 && pass->merge ? ag_merge_finish(pass->merge) : r;
    apply_rare(pass, limit_ns);
    return r;
}

/* ---- the pass ---- */

static int by_first_time(const void *a, const void *b, void *context) {
    const struct reader *readers = context;
    const uint64_t left = readers[*(const uint32_t *)a].reached_ns,
                   right = readers[*(const uint32_t *)b].reached_ns;
    return (left > right) - (left < right);
}

static int start(struct pass *pass, const struct ag_trace_file *file) {
    int r = ag_chunk_feed_new(file, pass->options->n_threads, &pass->feed);
    if (r < 0) {
        return r;
    }
    const struct ag_feed_stream *streams;
    const size_t n = ag_chunk_feed_streams(pass->feed, &streams);
    pass->readers = calloc(n + 1, sizeof(*pass->readers));
    pass->heap = calloc(n + 1, sizeof(*pass->heap));
    pass->merge = n > 1 ? ag_merge_new(pass->ledger) : NULL;
    if (!pass->readers || !pass->heap || (n > 1 && !pass->merge)) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        pass->readers[i] = (struct reader){.stream = streams[i].stream,
                                           .thread_id = streams[i].thread_id,
                                           .reached_ns = streams[i].first_time_ns,
                                           .now_ns = streams[i].first_time_ns};
        pass->heap[pass->heap_count++] = (uint32_t)i;
        ag_ledger_thread(pass->ledger, streams[i].stream, streams[i].thread_id);
    }
    pass->n_readers = n;
    /* a sorted array is a heap */
    qsort_r(pass->heap, n, sizeof(*pass->heap), by_first_time, pass->readers);
    for (uint32_t via = 0; via < AG_MODEL_VIAS; via++) {
        ag_ledger_via_heap(pass->ledger, via, pass->definitions->vias[via].heap);
    }
    ag_ledger_set_temporary_within(pass->ledger, pass->options->temporary_within);
    return 0;
}

static int run(struct pass *pass) {
    const struct ag_pass_options *options = pass->options;
    int r = 0;
    if (options->from_ns > 0) {
        r = run_until(pass, options->from_ns);
        ag_ledger_reach(pass->ledger, options->from_ns);
        r = r < 0 ? r : ag_ledger_restart(pass->ledger);
    }
    r = r < 0 ? r : run_until(pass, options->to_ns);
    uint64_t end_ns = pass->definitions->end_ns;
    end_ns = pass->last_ns > end_ns ? pass->last_ns : end_ns;
    ag_ledger_reach(pass->ledger, end_ns < options->to_ns ? end_ns : options->to_ns);
    return r < 0 ? r : ag_ledger_close(pass->ledger);
}

int ag_event_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                  const struct ag_pass_options *options, struct ag_ledger *ledger) {
    struct pass pass = {.options = options, .definitions = definitions, .ledger = ledger};
    int r = start(&pass, file);
    r = r < 0 ? r : run(&pass);
    if (pass.feed) {
        const struct ag_decode_error damage = ag_chunk_feed_damage(pass.feed);
        if (damage.code == AG_DECODE_NO_MEMORY) {
            r = -ENOMEM;
        } else if (damage.code != AG_DECODE_OK) {
            ag_definitions_note_damage(definitions, &damage);
        }
    }
    (void)ag_chunk_feed_free(pass.feed);
    (void)ag_merge_free(pass.merge);
    free(pass.readers);
    free(pass.heap);
    free(pass.maps);
    return r;
}
