/* event_pass.c: reads all events of a trace and applies them to a ledger, which computes the sums;
 * profile.c and the queries for single blocks use it.
 *
 * A stream contains the events of one thread of the program. All streams are read at about the same
 * time of the recording: the next block is always taken from the stream whose delivered events end
 * earliest. So no stream is read ahead of the others, and a stream is not read before the time at
 * which its next chunk starts. The events of a trace with one stream need not be merged by time.
 * If, in addition, the options neither exclude blocks nor replace their stacks, and no visitor gets
 * the ledger's steps, the events of such a trace are applied to the ledger while they are decoded
 * (straight_pass.h).
 *
 * The events between two stamps (records with a time) of a stream belong to the time of the first
 * stamp. So in each stream a time window begins and ends at a stamp. With the option counts_older,
 * reading begins with the first chunk of each stream. Without it, blocks that were allocated before
 * the window do not count: in each stream, reading begins at the chunk that contains the start of
 * the window, and events before the start are dropped. */
#include "model/pass/event_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "format/segment.h"
#include "ledger/merge.h"
#include "model/pass/chunk_feed.h"
#include "model/pass/straight_pass.h"
#include "table/array.h"

enum {
    /* most events that are decoded at once after ag_straight_pass_run stops; near the end of a
     * chunk ag_straight_pass_run stops at most this many events before the end */
    REST_EVENTS = 64,
    MANY_STREAMS = 256,
    AHEAD = 16, /* the slot of a group is prefetched this many events before it is used */
    /* the via (allocation function) in the key of a group for a block whose type became known after
     * the allocation: the event with the type does not contain the via */
    VIA_UNKNOWN = AG_MODEL_VIAS,
};

struct reader { /* reads one stream */
    /* events of the current block; those from index `at` to `count` - 1 are not delivered yet */
    struct ag_event *events;
    /* a copy of the events that were not delivered when the block was given back to the feed; or
     * NULL */
    struct ag_event *kept;
    /* a whole chunk that this thread decodes; NULL: the feed delivers decoded blocks */
    struct ag_chunk_decoder *chunk;
    size_t at, count;
    bool is_lent; /* the current block belongs to the feed and must be given back */
    uint64_t interval_bytes;
    uint32_t extra_bytes;
    uint64_t reached_ns; /* all events before this time are delivered */
    uint64_t now_ns;     /* the last stamp that was delivered */
    uint32_t stream, thread_id;
    bool has_ended;
};
struct pass {
    const struct ag_pass_options *options;
    struct ag_definitions *definitions;
    struct ag_ledger *ledger;
    struct ag_merge *merge; /* NULL: the trace has only one stream */
    struct ag_chunk_feed *feed;
    struct reader *readers;
    size_t n_readers;
    /* a binary heap of the readers that have not ended; the least reached_ns is first */
    uint32_t *heap;
    size_t heap_count;
    /* Buffer for the events of a whole chunk that ag_straight_pass_run does not apply. NULL: the
     * feed delivers blocks, not whole chunks. */
    struct ag_feed_block *rest;
    struct ag_feed_map *maps; /* records of mapped memory that are not applied yet */
    size_t n_maps;
    uint64_t next_map;  /* number of the next element of `maps` */
    size_t next_sample; /* in definitions->samples: the first that is not applied yet */
    uint64_t last_ns;   /* the largest reached_ns of all readers */
    bool is_skipping;   /* the current events are before the time window, and are dropped */
};

/* ---- maps and resident sizes ---- */

static void apply_map(struct pass *pass, const struct ag_feed_map *map) {
    if (pass->is_skipping) {
        return;
    }
    if (pass->options->visit_map) {
        pass->options->visit_map(pass->options->visit_context, map);
    }
    if (map->kind == AG_RECORD_MAP) {
        const uint32_t heap = pass->definitions->vias[map->via % AG_MODEL_VIAS].heap;
        ag_ledger_map(pass->ledger, heap, map->address, map->bytes);
    } else {
        ag_ledger_unmap(pass->ledger, map->address, map->bytes);
    }
}

static int by_time(const void *a, const void *b) {
    const struct ag_feed_map *left = a, *right = b;
    return left->time_ns != right->time_ns ? (left->time_ns > right->time_ns ? 1 : -1)
                                           : (left->number > right->number ? 1 : -1);
}

/* Applies the MAP and UNMAP records and the resident sizes whose times are before TIME_NS. */
static void apply_rare(struct pass *pass, uint64_t time_ns) {
    if (pass->n_maps > 0) {
        size_t kept = 0;
        qsort(pass->maps, pass->n_maps, sizeof(*pass->maps), by_time);
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
        if (!pass->is_skipping) {
            ag_ledger_resident(pass->ledger, sample->time_ns, sample->bytes);
        }
    }
}

static int keep_maps(struct pass *pass, const struct reader *reader,
                     const struct ag_feed_block *block) {
    for (size_t i = 0; i < block->n_maps; i++) {
        struct ag_feed_map map = block->maps[i];
        map.number = pass->next_map++;
        map.stream = reader->stream;
        map.thread_id = reader->thread_id & ~AG_THREAD_NESTED;
        if (AG_ARRAY_ADD(pass->maps, pass->n_maps, map) < 0) {
            return -ENOMEM;
        }
    }
    return 0;
}

/* ---- leaving out and grouping ---- */

static bool is_plain(const struct ag_pass_options *options) {
    return options->thread < 0 && options->tail_ns == UINT64_MAX && !options->is_by_stream &&
           !options->kept && !options->groups && !options->weights;
}

static uint64_t group_key(uint32_t stack, uint32_t via) {
    return stack | (uint64_t)via << 32;
}

/* The key of an event in options->groups. Only the keys of allocations and of BLOCK_TYPE events are
 * used. */
static uint64_t group_key_of(const struct ag_event *event) {
    return group_key(event->stack, event->kind == AG_RECORD_BLOCK_TYPE ? VIA_UNKNOWN : event->via);
}

int ag_pass_group(struct ag_index_map *groups, const struct ag_stack_nodes *nodes, uint32_t stack,
                  uint32_t via, uint32_t group) {
    const uint64_t key = group_key(stack, via);
    if (ag_index_map_find(groups, key) != AG_INDEX_NONE) {
        return 0;
    }
    const int r = ag_index_map_insert(groups, key, group);
    return r == 0 && ag_stack_nodes_leaf(nodes, stack).type != 0
               ? ag_index_map_insert_first(groups, group_key(stack, VIA_UNKNOWN), group)
               : r;
}

uint32_t ag_pass_group_of(const struct ag_index_map *groups, uint32_t stack, uint32_t via) {
    return ag_index_map_find(groups, group_key(stack, via));
}

static uint32_t stack_of(const struct ag_pass_options *options, const struct reader *reader,
                         const struct ag_event *event) {
    if (options->groups) {
        const uint32_t group = ag_index_map_find(options->groups, group_key_of(event));
        return group == AG_INDEX_NONE ? AG_STACK_UNGROUPED : group;
    }
    return options->is_by_stream ? reader->stream : event->stack;
}

/* Whether to apply a BLOCK_TYPE event, which gives the type of an older block and so moves the
 * block to another stack. The event is not applied if the filters exclude that stack, if blocks are
 * summed by stream, or if the options may exclude blocks of a sampled trace. */
static bool takes_type(const struct ag_pass_options *options, const struct ag_event *event) {
    const bool is_kept =
        !options->kept || ag_index_map_find(options->kept, event->stack) != AG_INDEX_NONE;
    const bool has_left_out =
        options->thread >= 0 || options->tail_ns != UINT64_MAX || options->kept;
    return is_kept && !options->is_by_stream && !(options->weights && has_left_out);
}

/* Replaces the stack and size of a sampled block by those of its group (see weights.h). 0 or
 * -ENOMEM. */
static int weigh(const struct pass *pass, const struct reader *reader, struct ag_event *event) {
    struct ag_weights *weights = pass->options->weights;
    const uint32_t group = ag_weights_group(weights, event->stack, event->size,
                                            reader->interval_bytes, reader->extra_bytes);
    if (group == AG_INDEX_NONE) {
        return -ENOMEM;
    }
    event->stack = group;
    event->size = ag_weight_whole_bytes(&weights->groups[group]);
    return 0;
}

static int rewrite(const struct pass *pass, struct reader *reader, struct ag_event *events,
                   size_t count) {
    const struct ag_pass_options *options = pass->options;
    const bool is_wanted =
        options->thread < 0 || (reader->thread_id & ~AG_THREAD_NESTED) == options->thread;
    for (size_t i = 0; i < count; i++) {
        struct ag_event *event = &events[i];
        /* prefetched for events of all kinds, which avoids a branch */
        if (options->groups && i + AHEAD < count) {
            AG_PREFETCH(ag_index_map_home(options->groups, group_key_of(event + AHEAD)));
        }
        if (event->kind == AG_RECORD_STAMP) {
            reader->now_ns = event->size;
        } else if (event->kind == AG_RECORD_ALLOC) {
            const bool is_kept =
                !options->kept || ag_index_map_find(options->kept, event->stack) != AG_INDEX_NONE;
            if (!is_wanted || !is_kept || reader->now_ns >= options->tail_ns) {
                event->stack = AG_STACK_OTHER;
            } else {
                event->stack = stack_of(options, reader, event);
            }
            if (options->weights && weigh(pass, reader, event) < 0) {
                return -ENOMEM;
            }
        } else if (event->kind == AG_RECORD_BLOCK_TYPE) {
            if (!takes_type(options, event)) {
                event->address = 0; /* no block has this address */
                continue;
            }
            event->stack = stack_of(options, reader, event);
            if (options->weights && weigh(pass, reader, event) < 0) {
                return -ENOMEM;
            }
        }
    }
    return 0;
}

/* ---- delivering ---- */

/* Returns the index in the reader's block of the first stamp at LIMIT_NS or later, or the end of
 * the block. */
static size_t find_limit(const struct reader *reader, uint64_t limit_ns) {
    const struct ag_event *events = reader->events;
    size_t at = reader->at;
    while (at < reader->count &&
           (events[at].kind != AG_RECORD_STAMP || events[at].size < limit_ns)) {
        at++;
    }
    return at;
}

static void reach(struct pass *pass, struct reader *reader, uint64_t time_ns) {
    reader->reached_ns = time_ns > reader->reached_ns ? time_ns : reader->reached_ns;
    pass->last_ns = reader->reached_ns > pass->last_ns ? reader->reached_ns : pass->last_ns;
}

static void note_reached(struct pass *pass, struct reader *reader, size_t end) {
    uint64_t time_ns = 0;
    for (size_t i = end; i-- > reader->at && time_ns == 0;) {
        time_ns = reader->events[i].kind == AG_RECORD_STAMP ? reader->events[i].size : 0;
    }
    reach(pass, reader, time_ns);
}

/* Delivers the rest of the reader's block, up to the first stamp at LIMIT_NS or later. */
static int deliver(struct pass *pass, struct reader *reader, uint64_t limit_ns) {
    struct ag_event *events = reader->events + reader->at;
    const size_t end = limit_ns == UINT64_MAX ? reader->count : find_limit(reader, limit_ns);
    const size_t count = end - reader->at;
    if (pass->is_skipping) {
        note_reached(pass, reader, end);
        if (end < reader->count) {
            reader->reached_ns = reader->events[end].size;
        }
        reader->at = end;
        return 0;
    }
    int r = is_plain(pass->options) ? 0 : rewrite(pass, reader, events, count);
    note_reached(pass, reader, end);
    if (r < 0) {
        return r;
    }
    if (pass->merge) {
        r = ag_merge_add(pass->merge, reader->stream, events, count);
    } else {
        apply_rare(pass, count > 0 && events[0].kind == AG_RECORD_STAMP ? events[0].size
                                                                        : reader->reached_ns);
        r = ag_ledger_apply(pass->ledger, reader->stream, events, count);
    }
    if (end < reader->count) {
        reader->reached_ns = reader->events[end].size;
    }
    reader->at = end;
    return r;
}

static int take_block(struct pass *pass, struct reader *reader, struct ag_feed_block *block) {
    reader->events = block->events;
    reader->count = block->count;
    reader->interval_bytes = block->interval_bytes;
    reader->extra_bytes = block->extra_bytes;
    return keep_maps(pass, reader, block);
}

/* Decodes the next events of a whole chunk, at most CAPACITY, or its next record. */
static int decode_block(struct pass *pass, struct reader *reader, size_t capacity) {
    struct ag_feed_block *block = pass->rest;
    struct ag_record record = {0};
    struct ag_decode_error error;
    const int n = ag_chunk_decoder_next(reader->chunk, block->events, capacity, &record, &error);
    if (n < 0) {
        ag_chunk_feed_note_damage(pass->feed, &error);
    }
    if (n < 0 || (n == 0 && record.kind == 0)) {
        reader->chunk = NULL;
        return 0;
    }
    block->count = (size_t)n;
    block->n_maps = 0;
    ag_feed_block_add_map(block, &record, record.time_ns);
    return take_block(pass, reader, block);
}

/* Continues in a whole chunk: applies events with ag_straight_pass_run. If that stops at an event
 * that it cannot apply, decodes a block, which deliver() then applies. */
static int go_on(struct pass *pass, struct reader *reader, uint64_t limit_ns) {
    if (pass->is_skipping) {
        return decode_block(pass, reader, AG_FEED_EVENTS);
    }
    struct ag_straight_run run = {.limit_ns = limit_ns};
    apply_rare(pass, reader->reached_ns);
    const int r = ag_straight_pass_run(pass->ledger, reader->stream, reader->chunk, &run);
    reach(pass, reader, run.last_ns);
    if (run.next_ns > reader->reached_ns) {
        reader->reached_ns = run.next_ns;
    }
    return r == 0 && run.needs_next ? decode_block(pass, reader, REST_EVENTS) : r;
}

/* Gets the reader's next events. If the next chunk of the stream starts later, sets reached_ns to
 * its start instead. */
static int refill(struct pass *pass, size_t index, uint64_t limit_ns) {
    struct reader *reader = &pass->readers[index];
    if (reader->at < reader->count) {
        return 0;
    }
    reader->at = reader->count = 0;
    if (reader->chunk) {
        return go_on(pass, reader, limit_ns);
    }
    struct ag_feed_piece piece;
    reader->is_lent = false; /* ag_chunk_feed_next takes the block back */
    const int r = ag_chunk_feed_next(pass->feed, index, &piece);
    reader->chunk = piece.chunk;
    if (r == AG_FEED_BLOCK) {
        reader->is_lent = true;
        return take_block(pass, reader, piece.block);
    }
    if (r == AG_FEED_PAUSE && piece.next_ns > reader->reached_ns) {
        reader->reached_ns = piece.next_ns;
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

/* Gives the current block back to the feed if all of its events are delivered. If there are very
 * many streams, copies the events that are not delivered and gives the block back, because many
 * streams may have a few such events until the end of a period. */
static void return_block(struct pass *pass, size_t index) {
    struct reader *reader = &pass->readers[index];
    const size_t n_left = reader->count - reader->at;
    if (!reader->is_lent) {
        if (n_left == 0) {
            free(reader->kept);
            reader->kept = NULL;
        }
        return;
    }
    if (n_left > 0) {
        struct ag_event *kept =
            pass->n_readers > MANY_STREAMS ? malloc(n_left * sizeof(*kept)) : NULL;
        if (!kept) {
            return;
        }
        memcpy(kept, reader->events + reader->at, n_left * sizeof(*kept));
        reader->events = reader->kept = kept;
        reader->at = 0;
        reader->count = n_left;
    }
    reader->is_lent = false;
    ag_chunk_feed_return(pass->feed, index);
}

/* Delivers the events of all streams before LIMIT_NS. */
static int run_until(struct pass *pass, uint64_t limit_ns) {
    int r = 0;
    while (r == 0 && pass->heap_count > 0) {
        const uint32_t index = pass->heap[0];
        struct reader *reader = &pass->readers[index];
        if (reader->reached_ns >= limit_ns) {
            break;
        }
        if (pass->merge && !pass->is_skipping) {
            apply_rare(pass, reader->reached_ns);
            r = ag_merge_advance(pass->merge, reader->reached_ns);
        }
        r = r < 0 ? r : refill(pass, index, limit_ns);
        if (r == 0 && reader->count > 0) {
            r = deliver(pass, reader, limit_ns);
            return_block(pass, index);
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

static bool is_cut_off(const struct ag_pass_options *options) {
    return options->from_ns > 0 && !options->counts_older;
}

static int watch_blocks(struct pass *pass) {
    const struct ag_pass_options *options = pass->options;
    if (options->visit_ghost) {
        ag_ledger_on_ghost(pass->ledger, options->visit_ghost, options->visit_context);
    }
    return options->visit_block
               ? ag_ledger_on_block(pass->ledger, options->visit_block, options->visit_context)
               : 0;
}

static int event_pass_start(struct pass *pass, const struct ag_trace_file *file) {
    int r = ag_chunk_feed_new(file, pass->options->n_threads, &pass->feed);
    if (r < 0) {
        return r;
    }
    if (is_cut_off(pass->options)) {
        ag_chunk_feed_narrow(pass->feed, pass->options->from_ns, pass->options->to_ns);
    }
    const struct ag_feed_stream *streams;
    const size_t n = ag_chunk_feed_streams(pass->feed, &streams);
    pass->readers = calloc(n + 1, sizeof(*pass->readers));
    pass->heap = calloc(n + 1, sizeof(*pass->heap));
    pass->merge = n > 1 ? ag_merge_new(pass->ledger) : NULL;
    pass->rest = n == 1 && is_plain(pass->options) && ag_straight_pass_is_for(pass->ledger)
                     ? malloc(sizeof(*pass->rest))
                     : NULL;
    if (pass->rest) { /* if there is no memory for `rest`, the feed delivers blocks */
        ag_chunk_feed_go(pass->feed, AG_FEED_WHOLE);
    }
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
    if (pass->definitions->origin == AG_ORIGIN_FORKED) {
        ag_ledger_expect_inherited(pass->ledger);
    }
    /* a sorted array is a valid heap */
    qsort_r(pass->heap, n, sizeof(*pass->heap), by_first_time, pass->readers);
    for (uint32_t via = 0; via < AG_MODEL_VIAS; via++) {
        ag_ledger_via_heap(pass->ledger, via, pass->definitions->vias[via].heap);
    }
    ag_ledger_set_temporary_within(pass->ledger, pass->options->temporary_within);
    return watch_blocks(pass);
}

/* Skips the events before the time window, so that nothing is in use when the window begins. The
 * window begins with the last resident size that was measured before it. */
static int skip_to(struct pass *pass, uint64_t from_ns) {
    const struct ag_definitions *definitions = pass->definitions;
    pass->is_skipping = true;
    const int r = run_until(pass, from_ns);
    pass->is_skipping = false;
    const uint64_t bytes =
        pass->next_sample > 0 ? definitions->samples[pass->next_sample - 1].bytes : 0;
    ag_ledger_resident(pass->ledger, from_ns, bytes);
    ag_ledger_reach(pass->ledger, from_ns);
    return r;
}

static int event_pass_run(struct pass *pass) {
    const struct ag_pass_options *options = pass->options;
    int r = 0;
    if (is_cut_off(options)) {
        r = skip_to(pass, options->from_ns);
    } else if (options->from_ns > 0) {
        r = run_until(pass, options->from_ns);
        ag_ledger_reach(pass->ledger, options->from_ns);
        r = r < 0 ? r : ag_ledger_restart(pass->ledger);
    }
    for (size_t i = 0; i + 1 < options->n_periods && r == 0; i++) {
        r = run_until(pass, options->period_ends_ns[i]);
        options->end_period(options->period_context, i, pass->ledger);
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
    int r = event_pass_start(&pass, file);
    if (r == 0) {
        ag_trace_file_begin_pass(file, ag_chunk_feed_bytes(pass.feed, options->to_ns));
        r = event_pass_run(&pass);
        ag_trace_file_end_pass(file);
    }
    if (pass.feed) {
        const struct ag_feed_damage damage = ag_chunk_feed_damage(pass.feed);
        if (damage.first.code == AG_DECODE_NO_MEMORY) {
            r = -ENOMEM;
        } else if (damage.first.code != AG_DECODE_OK) {
            ag_definitions_note_damage(definitions, &damage.first);
        }
        if (damage.chunks > definitions->damaged.chunks) {
            definitions->damaged = (struct ag_damaged_chunks){
                .chunks = damage.chunks, .events = damage.events, .bytes = damage.bytes};
        }
    }
    (void)ag_chunk_feed_free(pass.feed);
    (void)ag_merge_free(pass.merge);
    for (size_t i = 0; i < pass.n_readers; i++) {
        free(pass.readers[i].kept);
    }
    free(pass.readers);
    free(pass.heap);
    free(pass.rest);
    free(pass.maps);
    return r;
}
