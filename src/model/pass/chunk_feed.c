/* chunk_feed.c: reads the event chunks of a trace for a pass over the events. A pool of worker
 * threads decodes chunks early. One thread, the consumer, uses the events. A stream is the sequence
 * of chunks of one thread of the traced program.
 *
 * 1. Jobs
 *
 * An open chunk is a job: a decoder at some position inside the chunk, and a ring of two blocks of
 * decoded events. A thread that works on a job fills one block and then releases the job. So no
 * thread waits while it holds a job, and the number of open streams does not depend on the number
 * of threads.
 *
 *     consumer   opens the current chunk of each stream that it asks for, and some later chunks
 *     worker     takes the earliest job that is neither done nor busy and has an empty block
 *     consumer   takes filled blocks in the stream's order; if there is none, fills one itself
 *
 * 2. What the lock protects
 *
 * The lock protects all fields of jobs except those that job_fill_block changes: the decoder, the
 * blocks, is_started, time_ns, interval_bytes, extra_bytes and error. These belong to the thread
 * that set is_busy. A block that is delivered to the consumer belongs to the consumer until it asks
 * for the next block. The lock is taken a few times for each block of 2,048 events, or for each
 * chunk if the consumer decodes whole chunks itself.
 *
 * 3. The order of chunks
 *
 * The chunks of a stream are in the order of their sequence numbers. In a correct trace the times
 * at which the chunks begin rise, too. In a damaged trace a chunk may begin before the previous
 * chunk of its stream; then the time of the previous chunk is used for both. */
#include "model/pass/chunk_feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/sorted.h"
#include "format/segment.h"
#include "table/array.h"

enum { RING = 2, MOST_THREADS = 4, AHEAD_PER_THREAD = 2 };

struct job {
    const struct ag_chunk_entry *entry;
    struct ag_chunk_decoder *decoder;
    struct ag_feed_block *blocks[RING];
    uint32_t first, n_filled; /* blocks[first] is the oldest filled block */
    bool is_lent;             /* the consumer is using blocks[first] */
    /* the chunk was opened early: it is not yet the current chunk of its stream */
    bool is_ahead;
    bool is_busy, is_started, is_done;
    /* the chunk is delivered whole: a worker reads, checks and decompresses it, and the consumer
     * gets the decoder and decodes the events */
    bool is_whole;
    /* is_whole, and the chunk is decompressed but not yet given to the consumer */
    bool is_ready;
    uint64_t time_ns;        /* time of the last stamp (a record with a time) that was decoded */
    uint64_t interval_bytes; /* from the last SAMPLING record that was decoded */
    uint32_t extra_bytes;
    struct ag_decode_error error;
    /* number of jobs opened before this job; jobs with equal times are sorted by this number */
    size_t opened;
    size_t at_idle;   /* 1 + index of the job in feed->idle; 0: the job is not in that heap */
    struct job *next; /* next job in the list feed->spare */
};
struct chunk {
    const struct ag_chunk_entry *entry;
    /* time at which the chunk begins, but at least that of the previous chunk of its stream */
    uint64_t time_ns;
    struct job *job; /* NULL: the chunk is not open */
    uint32_t stream; /* index of the chunk's stream */
    /* the chunk is read to its end and closed, but is still the current chunk of its stream */
    bool is_read;
};
struct stream {
    /* the stream's chunks are `count` elements of feed->chunks, beginning at index `first` */
    uint32_t first, count;
    uint32_t at; /* index of the current chunk */
};

struct ag_chunk_feed {
    const struct ag_trace_file *file;
    struct chunk *chunks; /* sorted by stream, then by sequence number */
    uint32_t *by_time;    /* indexes of all chunks, sorted by time */
    size_t n_chunks;
    struct ag_feed_stream *streams;
    struct stream *cursors;
    size_t n_streams;
    /* the first next_ahead chunks of by_time have been considered for early opening */
    size_t next_ahead;
    uint64_t to_ns; /* chunks that start at this time or later are not opened early */

    pthread_mutex_t lock;
    pthread_cond_t has_work, has_block;
    pthread_t threads[MOST_THREADS];
    size_t n_threads, n_ahead; /* n_ahead: number of jobs with is_ahead */
    bool is_ending;
    enum ag_feed_way way; /* how jobs that are opened from now on are delivered */
    /* A binary heap of the open jobs that a thread may take (can_work); the earliest job is
     * first. */
    struct job **idle;
    size_t n_idle, idle_capacity, n_opened, n_open;
    struct job *spare;
    struct ag_feed_damage damage;
};

/* ---- filling a block; called without the lock ---- */

void ag_feed_block_add_map(struct ag_feed_block *block, const struct ag_record *record,
                           uint64_t time_ns) {
    /* MAP and UNMAP records have the same layout */
    if (record->kind == AG_RECORD_MAP || record->kind == AG_RECORD_UNMAP) {
        block->maps[block->n_maps++] = (struct ag_feed_map){.time_ns = time_ns,
                                                            .address = record->u.map.address,
                                                            .bytes = record->u.map.bytes,
                                                            .stack = record->u.map.stack,
                                                            .via = record->u.map.via,
                                                            .protection = record->u.map.protection,
                                                            .flags = record->u.map.flags,
                                                            .kind = record->kind};
    }
}

static void note_time(struct job *job, const struct ag_event *events, size_t count) {
    for (size_t i = count; i-- > 0;) {
        if (events[i].kind == AG_RECORD_STAMP) {
            job->time_ns = events[i].size;
            return;
        }
    }
}

static bool job_start(const struct ag_trace_file *file, struct job *job) {
    job->is_started = true;
    job->time_ns = job->entry->first_time_ns;
    job->interval_bytes = 0;
    job->extra_bytes = 1;
    return ag_chunk_decoder_start(job->decoder, file, job->entry, &job->error) == 0;
}

/* Returns whether the chunk has more events. */
static bool job_fill_block(const struct ag_trace_file *file, struct job *job,
                           struct ag_feed_block *block) {
    block->count = block->n_maps = 0;
    if (!job->is_started && !job_start(file, job)) {
        return false;
    }
    block->interval_bytes = job->interval_bytes;
    block->extra_bytes = job->extra_bytes;
    while (block->count < AG_FEED_EVENTS && block->n_maps < AG_FEED_MAPS) {
        struct ag_record record = {0};
        struct ag_event *events = block->events + block->count;
        const int n = ag_chunk_decoder_next(job->decoder, events, AG_FEED_EVENTS - block->count,
                                            &record, &job->error);
        if (n < 0 || (n == 0 && record.kind == 0)) {
            return false;
        }
        note_time(job, events, (size_t)n);
        block->count += (size_t)n;
        ag_feed_block_add_map(block, &record, job->time_ns);
        if (record.kind == AG_RECORD_SAMPLING) {
            job->interval_bytes = record.u.sampling.interval_bytes;
            job->extra_bytes = ag_sampling_extra_bytes(record.u.sampling.method);
            if (block->count > 0) {
                break; /* all events of a block have the same interval */
            }
            block->interval_bytes = job->interval_bytes;
            block->extra_bytes = job->extra_bytes;
        }
    }
    return true;
}

/* ---- jobs; called with the lock ---- */

static bool can_work(const struct job *job) {
    return !job->is_busy && !job->is_done && job->n_filled < RING;
}

static bool is_before(const struct job *a, const struct job *b) {
    const uint64_t left = a->entry->first_time_ns, right = b->entry->first_time_ns;
    return left != right ? left < right : a->opened < b->opened;
}

static void place(struct ag_chunk_feed *feed, size_t at, struct job *job) {
    feed->idle[at] = job;
    job->at_idle = at + 1;
}

/* Puts JOB into the heap at AT, then moves it up or down until the heap is in order. */
static void settle(struct ag_chunk_feed *feed, size_t at, struct job *job) {
    for (; at > 0 && is_before(job, feed->idle[(at - 1) / 2]); at = (at - 1) / 2) {
        place(feed, at, feed->idle[(at - 1) / 2]);
    }
    for (size_t child; (child = 2 * at + 1) < feed->n_idle; at = child) {
        if (child + 1 < feed->n_idle && is_before(feed->idle[child + 1], feed->idle[child])) {
            child++;
        }
        if (!is_before(feed->idle[child], job)) {
            break;
        }
        place(feed, at, feed->idle[child]);
    }
    place(feed, at, job);
}

/* Adds JOB to the heap of idle jobs if a thread may take it, and removes it otherwise. open_chunk
 * has reserved room for all open jobs. */
static void update_idle(struct ag_chunk_feed *feed, struct job *job) {
    if (can_work(job) && job->at_idle == 0) {
        settle(feed, feed->n_idle++, job);
        pthread_cond_signal(&feed->has_work);
    } else if (!can_work(job) && job->at_idle != 0) {
        const size_t at = job->at_idle - 1;
        struct job *last = feed->idle[--feed->n_idle];
        job->at_idle = 0;
        if (last != job) {
            settle(feed, at, last);
        }
    }
}

/* Returns the chunk at OFFSET of the file, or NULL. The list of chunks of a file is sorted by
 * offset. */
static const struct ag_chunk_entry *find_entry(const struct ag_chunk_feed *feed, uint64_t offset) {
    const struct ag_chunk_entry *entries;
    const size_t n = ag_trace_file_chunks(feed->file, &entries);
    const size_t after = AG_SORTED_UNTIL(entries, n, offset, offset);
    return after > 0 && entries[after - 1].offset == offset ? &entries[after - 1] : NULL;
}

static void note_damage_locked(struct ag_chunk_feed *feed, const struct ag_decode_error *error) {
    if (error->code == AG_DECODE_OK) {
        return;
    }
    if (feed->damage.first.code == AG_DECODE_OK) {
        feed->damage.first = *error;
    }
    const struct ag_chunk_entry *entry = find_entry(feed, error->offset);
    feed->damage.chunks++;
    feed->damage.events += entry ? entry->events : 0;
    feed->damage.bytes += entry ? entry->stored_bytes : 0;
}

/* Fills one block of the job. If the chunk is delivered whole, reads and decompresses it instead.
 * Releases the lock during this work. */
static void work(struct ag_chunk_feed *feed, struct job *job) {
    struct ag_feed_block *block = job->blocks[(job->first + job->n_filled) % RING];
    job->is_busy = true;
    update_idle(feed, job);
    pthread_mutex_unlock(&feed->lock);
    const bool goes_on =
        job->is_whole ? job_start(feed->file, job) : job_fill_block(feed->file, job, block);
    pthread_mutex_lock(&feed->lock);
    job->is_busy = false;
    job->is_ready = job->is_whole && goes_on;
    job->is_done = job->is_whole || !goes_on;
    job->n_filled += !job->is_whole && (block->count > 0 || block->n_maps > 0 || goes_on);
    if (job->is_done) {
        note_damage_locked(feed, &job->error);
    }
    update_idle(feed, job);
    pthread_cond_signal(&feed->has_block);
}

static void *worker(void *context) {
    struct ag_chunk_feed *feed = context;
    pthread_mutex_lock(&feed->lock);
    while (!feed->is_ending) {
        if (feed->n_idle > 0) {
            work(feed, feed->idle[0]);
        } else {
            pthread_cond_wait(&feed->has_work, &feed->lock);
        }
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

static struct job *free_job(struct job *job) {
    if (job) {
        for (size_t i = 0; i < RING; i++) {
            free(job->blocks[i]);
        }
        (void)ag_chunk_decoder_free(job->decoder);
        free(job);
    }
    return NULL;
}

static struct job *new_job(struct ag_chunk_feed *feed) {
    struct job *job = feed->spare;
    if (job) {
        feed->spare = job->next;
        *job = (struct job){.decoder = job->decoder, .blocks = {job->blocks[0], job->blocks[1]}};
        return job;
    }
    job = calloc(1, sizeof(*job));
    if (!job) {
        return NULL;
    }
    job->decoder = ag_chunk_decoder_new();
    for (size_t i = 0; i < RING; i++) {
        job->blocks[i] = malloc(sizeof(*job->blocks[i]));
    }
    return job->decoder && job->blocks[0] && job->blocks[1] ? job : free_job(job);
}

/* Opens a chunk, unless the chunk is open already. */
static int open_chunk(struct ag_chunk_feed *feed, struct chunk *chunk) {
    if (chunk->job) {
        return 0;
    }
    struct job *job = AG_ARRAY_RESERVE(feed->idle, feed->idle_capacity, feed->n_open + 1) == 0
                          ? new_job(feed)
                          : NULL;
    if (!job) {
        return -ENOMEM;
    }
    job->entry = chunk->entry;
    job->is_whole = feed->way == AG_FEED_WHOLE;
    job->opened = feed->n_opened++;
    chunk->job = job;
    feed->n_open++;
    update_idle(feed, job);
    return 0;
}

/* Keeps the chunk's job for reuse. The job must be done; then no thread works on it, and it is not
 * in the heap. */
static void close_chunk(struct ag_chunk_feed *feed, struct chunk *chunk) {
    struct job *job = chunk->job;
    job->next = feed->spare;
    feed->spare = job;
    feed->n_open--;
    chunk->job = NULL;
}

static int open_ahead(struct ag_chunk_feed *feed) {
    while (feed->n_ahead < feed->n_threads * AHEAD_PER_THREAD &&
           feed->next_ahead < feed->n_chunks) {
        const uint32_t index = feed->by_time[feed->next_ahead];
        struct chunk *chunk = &feed->chunks[index];
        if (chunk->time_ns >= feed->to_ns) {
            break;
        }
        feed->next_ahead++;
        if (index < feed->cursors[chunk->stream].at || chunk->job || chunk->is_read) {
            continue; /* the stream has reached or passed this chunk */
        }
        const int r = open_chunk(feed, chunk);
        if (r < 0) {
            return r;
        }
        chunk->job->is_ahead = true;
        feed->n_ahead++;
    }
    return 0;
}

/* ---- the consumer ---- */

static bool has_ended(const struct stream *cursor) {
    return cursor->at == cursor->first + cursor->count;
}

static void take_back(struct ag_chunk_feed *feed, struct job *job) {
    if (job->is_lent) {
        job->is_lent = false;
        job->first = (job->first + 1) % RING;
        job->n_filled--;
        update_idle(feed, job);
    }
}

/* Opens CHUNK, the current chunk of its stream, if it is not open. Takes back the block that the
 * consumer has finished. */
static int come_to(struct ag_chunk_feed *feed, struct chunk *chunk) {
    int r = open_chunk(feed, chunk);
    if (r < 0) {
        return r;
    }
    struct job *job = chunk->job;
    if (job->is_ahead) {
        job->is_ahead = false;
        feed->n_ahead--;
    }
    take_back(feed, job);
    return open_ahead(feed);
}

static int go_to_next_chunk(const struct ag_chunk_feed *feed, struct stream *cursor,
                            struct ag_feed_piece *ret_piece) {
    cursor->at++;
    if (has_ended(cursor)) {
        return AG_FEED_END;
    }
    ret_piece->next_ns = feed->chunks[cursor->at].time_ns;
    return AG_FEED_PAUSE;
}

static int next_piece(struct ag_chunk_feed *feed, struct stream *cursor,
                      struct ag_feed_piece *ret_piece) {
    if (has_ended(cursor)) {
        return AG_FEED_END;
    }
    struct chunk *chunk = &feed->chunks[cursor->at];
    const int r = chunk->is_read ? open_ahead(feed) : come_to(feed, chunk);
    if (r < 0) {
        return r;
    }
    struct job *job = chunk->job;
    if (!job) {
        return go_to_next_chunk(feed, cursor, ret_piece);
    }
    while (job->n_filled == 0 && !job->is_done) {
        if (job->is_busy) {
            pthread_cond_wait(&feed->has_block, &feed->lock);
        } else {
            work(feed, job);
        }
    }
    if (job->n_filled > 0) {
        job->is_lent = true;
        ret_piece->block = job->blocks[job->first];
        return AG_FEED_BLOCK;
    }
    if (job->is_ready) {
        job->is_ready = false;
        ret_piece->chunk = job->decoder;
        return AG_FEED_CHUNK;
    }
    close_chunk(feed, chunk);
    return go_to_next_chunk(feed, cursor, ret_piece);
}

int ag_chunk_feed_next(struct ag_chunk_feed *feed, size_t index, struct ag_feed_piece *ret_piece) {
    *ret_piece = (struct ag_feed_piece){0};
    pthread_mutex_lock(&feed->lock);
    const int r = next_piece(feed, &feed->cursors[index], ret_piece);
    pthread_mutex_unlock(&feed->lock);
    return r;
}

void ag_chunk_feed_return(struct ag_chunk_feed *feed, size_t index) {
    pthread_mutex_lock(&feed->lock);
    struct chunk *chunk = &feed->chunks[feed->cursors[index].at];
    struct job *job = chunk->job;
    take_back(feed, job);
    if (job->is_done && job->n_filled == 0 && !job->is_ready) {
        close_chunk(feed, chunk);
        chunk->is_read = true;
    }
    pthread_mutex_unlock(&feed->lock);
}

void ag_chunk_feed_go(struct ag_chunk_feed *feed, enum ag_feed_way way) {
    pthread_mutex_lock(&feed->lock);
    feed->way = way;
    pthread_mutex_unlock(&feed->lock);
}

size_t ag_chunk_feed_streams(const struct ag_chunk_feed *feed,
                             const struct ag_feed_stream **ret_streams) {
    *ret_streams = feed->streams;
    return feed->n_streams;
}

void ag_chunk_feed_note_damage(struct ag_chunk_feed *feed, const struct ag_decode_error *error) {
    pthread_mutex_lock(&feed->lock);
    note_damage_locked(feed, error);
    pthread_mutex_unlock(&feed->lock);
}

struct ag_feed_damage ag_chunk_feed_damage(struct ag_chunk_feed *feed) {
    pthread_mutex_lock(&feed->lock);
    const struct ag_feed_damage damage = feed->damage;
    pthread_mutex_unlock(&feed->lock);
    return damage;
}

/* ---- creating and freeing ---- */

static int by_stream(const void *a, const void *b) {
    const struct chunk *left = a, *right = b;
    if (left->entry->stream != right->entry->stream) {
        return left->entry->stream < right->entry->stream ? -1 : 1;
    }
    if (left->entry->first_sequence != right->entry->first_sequence) {
        return left->entry->first_sequence < right->entry->first_sequence ? -1 : 1;
    }
    return (left->entry->offset > right->entry->offset) -
           (left->entry->offset < right->entry->offset);
}

static int by_time(const void *a, const void *b, void *context) {
    const struct chunk *chunks = context;
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    if (chunks[left].time_ns != chunks[right].time_ns) {
        return chunks[left].time_ns < chunks[right].time_ns ? -1 : 1;
    }
    return (left > right) - (left < right);
}

static void list_streams(struct ag_chunk_feed *feed) {
    for (size_t i = 0; i < feed->n_chunks; i++) {
        struct chunk *chunk = &feed->chunks[i];
        const bool is_new = i == 0 || chunk[-1].entry->stream != chunk->entry->stream;
        if (is_new) {
            feed->streams[feed->n_streams] =
                (struct ag_feed_stream){.stream = chunk->entry->stream,
                                        .thread_id = chunk->entry->thread_id,
                                        .first_time_ns = chunk->entry->first_time_ns};
            feed->cursors[feed->n_streams++] =
                (struct stream){.first = (uint32_t)i, .at = (uint32_t)i};
        }
        chunk->stream = (uint32_t)feed->n_streams - 1;
        chunk->time_ns = chunk->entry->first_time_ns;
        if (!is_new && chunk[-1].time_ns > chunk->time_ns) {
            chunk->time_ns = chunk[-1].time_ns;
        }
        feed->cursors[chunk->stream].count++;
        feed->by_time[i] = (uint32_t)i;
    }
    qsort_r(feed->by_time, feed->n_chunks, sizeof(*feed->by_time), by_time, feed->chunks);
}

static int list_chunks(struct ag_chunk_feed *feed) {
    const struct ag_chunk_entry *entries;
    const size_t n = ag_trace_file_chunks(feed->file, &entries);
    feed->chunks = calloc(n + 1, sizeof(*feed->chunks));
    feed->by_time = calloc(n + 1, sizeof(*feed->by_time));
    feed->streams = calloc(n + 1, sizeof(*feed->streams));
    feed->cursors = calloc(n + 1, sizeof(*feed->cursors));
    if (!feed->chunks || !feed->by_time || !feed->streams || !feed->cursors || n >= UINT32_MAX) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (entries[i].kind == AG_CHUNK_KIND_EVENTS) {
            feed->chunks[feed->n_chunks++] = (struct chunk){.entry = &entries[i]};
        }
    }
    qsort(feed->chunks, feed->n_chunks, sizeof(*feed->chunks), by_stream);
    list_streams(feed);
    return 0;
}

int ag_chunk_feed_new(const struct ag_trace_file *file, size_t n_threads,
                      struct ag_chunk_feed **ret_feed) {
    struct ag_chunk_feed *feed = calloc(1, sizeof(*feed));
    if (!feed) {
        return -ENOMEM;
    }
    feed->file = file;
    feed->to_ns = UINT64_MAX;
    /* with default attributes the three calls of pthread_..._init cannot fail */
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->has_work, NULL);
    pthread_cond_init(&feed->has_block, NULL);
    const int r = list_chunks(feed);
    if (r < 0) {
        (void)ag_chunk_feed_free(feed);
        return r;
    }
    while (feed->n_threads < n_threads && feed->n_threads < MOST_THREADS &&
           pthread_create(&feed->threads[feed->n_threads], NULL, worker, feed) == 0) {
        /* fewer threads than requested are enough, because the consumer also decodes */
        feed->n_threads++;
    }
    *ret_feed = feed;
    return 0;
}

void ag_chunk_feed_narrow(struct ag_chunk_feed *feed, uint64_t from_ns, uint64_t to_ns) {
    feed->to_ns = to_ns;
    for (size_t i = 0; i < feed->n_streams; i++) {
        struct stream *cursor = &feed->cursors[i];
        const uint32_t end = cursor->first + cursor->count;
        while (cursor->at + 1 < end && feed->chunks[cursor->at + 1].time_ns < from_ns) {
            cursor->at++;
        }
        feed->streams[i].first_time_ns = feed->chunks[cursor->at].time_ns;
    }
}

uint64_t ag_chunk_feed_bytes(const struct ag_chunk_feed *feed, uint64_t to_ns) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < feed->n_streams; i++) {
        const struct stream *cursor = &feed->cursors[i];
        for (uint32_t at = cursor->at; at < cursor->first + cursor->count; at++) {
            const struct chunk *chunk = &feed->chunks[at];
            bytes += chunk->time_ns < to_ns ? chunk->entry->stored_bytes : 0;
        }
    }
    return bytes;
}

struct ag_chunk_feed *ag_chunk_feed_free(struct ag_chunk_feed *feed) {
    if (!feed) {
        return NULL;
    }
    pthread_mutex_lock(&feed->lock);
    feed->is_ending = true;
    pthread_cond_broadcast(&feed->has_work);
    pthread_mutex_unlock(&feed->lock);
    for (size_t i = 0; i < feed->n_threads; i++) {
        (void)pthread_join(feed->threads[i], NULL);
    }
    for (size_t i = 0; i < feed->n_chunks; i++) {
        (void)free_job(feed->chunks[i].job);
    }
    for (struct job *list = feed->spare, *next; list; list = next) {
        next = list->next;
        (void)free_job(list);
    }
    pthread_cond_destroy(&feed->has_block);
    pthread_cond_destroy(&feed->has_work);
    pthread_mutex_destroy(&feed->lock);
    free(feed->chunks);
    free(feed->by_time);
    free(feed->streams);
    free(feed->idle);
    free(feed->cursors);
    free(feed);
    return NULL;
}
