/* chunk_round.c: one round of the writer, the process that copies events into traces. Threads write
 * their events into chunks, pieces of shared memory. A round examines the controls (the
 * descriptions) of all chunks (segment.h), and takes the chunks that are ready.
 *
 * A chunk is ready if it will not change any more: it is FULL, or its process has ended. The ready
 * chunks of a process are taken in the order of their first stamps, so that merging several threads
 * needs little memory. The ACTIVE chunk of a thread, into which the thread is writing, is taken
 * when it is full. But if the totals (the running sums over all events) wait for that thread, or if
 * a dump depends on the totals (follows_bytes in session.h), the chunk's events so far are added to
 * the totals.
 *
 * The totals advance to the time up to which all threads have delivered their events. For a stream
 * (the events of one thread) with an unread chunk, this time is the stream's last known stamp, a
 * clock value among its events. For all other streams this time is the time of the round minus
 * MARGIN_NS. This margin is sufficient, because a recorder (the code inside a program) writes a new
 * stamp before an event if its last stamp is older than one or two ticks (the writer increments the
 * tick every millisecond). If a thread is descheduled between stamp and event, the event comes
 * late; the ledger (which keeps the table of live blocks) repairs the order and counts late events.
 *
 * A snapshot (snapshot.c) shows one moment, although the threads continue and might fill chunks
 * faster than they are taken. So a snapshot examines the controls only once. The snapshot ignores
 * the chunks of a stream that come after a chunk that is not full, and repeats rounds until all
 * other chunks are taken. */
#include "writer_state.h"

#include <errno.h>
#include <stdlib.h>

#include "table/array.h"

enum {
    MARGIN_NS = 2 * 1000 * 1000, /* two ticks */
    /* a stream is quiet if its last stamp in the totals is older than this */
    PEEK_AFTER_NS = 4 * 1000 * 1000,
    /* how long to wait for a chunk that is missing in its stream: a thread that takes a chunk may
     * not have filled in its control yet */
    GAP_PATIENCE_NS = 2 * 1000 * 1000 * 1000 - 1,
    /* words per round (4 MiB), before the controls are examined again; a chunk counts as
     * CHUNK_LEAST_WORDS at least */
    WORDS_PER_ROUND = 64 * AG_CHUNK_WORDS,
    CHUNK_LEAST_WORDS = AG_CHUNK_WORDS / 64,
};

/* Copies the control of a chunk. false: this round does not use the chunk. */
static bool control_examine(struct ag_writer *writer, uint32_t chunk,
                            struct ag_chunk_ready *ret_ready) {
    const struct ag_session *session = writer->session;
    struct ag_chunk_control *control = ag_session_control(session, chunk);
    /* acquire: pairs with the recorder's release: the other fields are set; if the state is FULL,
     * all words are written, too */
    const uint32_t state = atomic_load_explicit(&control->state, memory_order_acquire);
    if (state != AG_CHUNK_ACTIVE && state != AG_CHUNK_FULL && state != AG_CHUNK_COUNTERS) {
        return false;
    }
    const uint32_t generation = control->slot_generation;
    *ret_ready = (struct ag_chunk_ready){
        .chunk = chunk,
        .slot = control->slot,
        .stream = control->stream,
        .thread_id = control->thread_id,
        .used_words = atomic_load_explicit(
            &control->used_words, memory_order_acquire), /* pairs with the recorder's release */
        .is_full = state == AG_CHUNK_FULL,
        .sequence = control->sequence,
    };
    if (ret_ready->used_words > AG_CHUNK_WORDS) {
        ret_ready->used_words = AG_CHUNK_WORDS;
    }
    if (ret_ready->slot >= session->n_slots) {
        ag_session_release_chunk(writer->session, chunk);
        return false;
    }
    struct ag_process_slot *slot = ag_session_slot(session, ret_ready->slot);
    if (generation != atomic_load_explicit(&slot->generation, memory_order_acquire)) {
        /* the chunk belongs to a process whose trace has been sealed (completed) */
        ag_session_release_chunk(writer->session, chunk);
        return false;
    }
    const struct ag_watched_slot *watched = &writer->slots[ret_ready->slot];
    if (watched->phase != AG_PHASE_OPEN || state == AG_CHUNK_COUNTERS) {
        return false;
    }
    if (!watched->has_ended) {
        ag_recording_look_for_name(watched->recording, ret_ready->stream, ret_ready->thread_id,
                                   writer->clock.last_tick_ns);
    }
    return !ag_recording_has(watched->recording, ret_ready);
}

static uint64_t first_raw(const struct ag_writer *writer, const struct ag_chunk_ready *ready) {
    const uint64_t word =
        ready->used_words > 0
            ? __atomic_load_n(ag_session_chunk_words(writer->session, ready->chunk),
                              __ATOMIC_RELAXED)
            : 0;
    return AG_WORD_KIND(word) == AG_WORD_STAMP ? AG_WORD_STAMP_RAW(word) : 0;
}

/* Fills writer->ready: n_ready ready chunks at its start, n_active ACTIVE chunks at its end. */
static int controls_examine(struct ag_writer *writer) {
    const struct ag_session *session = writer->session;
    const uint32_t touched = ag_session_chunks_touched(session);
    if (AG_ARRAY_RESERVE(writer->ready, writer->capacity, touched) < 0) {
        return -ENOMEM;
    }
    size_t n_ready = 0, active_from = writer->capacity;
    uint64_t pulse = 0;
    for (uint32_t chunk = 0; chunk < touched; chunk++) {
        struct ag_chunk_ready ready;
        if (!control_examine(writer, chunk, &ready)) {
            continue;
        }
        pulse += ready.used_words + ready.sequence * AG_CHUNK_WORDS;
        if (ready.is_full || writer->slots[ready.slot].has_ended) {
            ready.first_raw = first_raw(writer, &ready);
            writer->ready[n_ready++] = ready;
        } else {
            writer->ready[--active_from] = ready;
        }
    }
    writer->pulse = pulse;
    writer->n_ready = n_ready;
    writer->n_active = writer->capacity - active_from;
    return 0;
}

static int by_time(const void *left, const void *right) {
    const struct ag_chunk_ready *a = left, *b = right;
    if (a->slot != b->slot) {
        return a->slot < b->slot ? -1 : 1;
    }
    if (a->first_raw != b->first_raw) {
        return a->first_raw < b->first_raw ? -1 : 1;
    }
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Lets the totals advance at most to the last known stamp of this stream. */
static void totals_hold_back(struct ag_watched_slot *watched, uint32_t stream) {
    const uint64_t totaled_ns = ag_recording_totaled_ns(watched->recording, stream);
    watched->advance_ns = totaled_ns < watched->advance_ns ? totaled_ns : watched->advance_ns;
}

static const struct ag_chunk_ready *active_at(const struct ag_writer *writer, size_t i) {
    return &writer->ready[writer->capacity - 1 - i];
}

/* Adds the events in unfilled chunks of quiet threads to the totals, so that these threads do not
 * hold up the events of the other threads, and ends the windows of threads that rest (recording.c,
 * section 3). The last stamps of all other threads limit how far the totals advance. If a dump
 * depends on the totals, the events of all unfilled chunks are added. */
static void peek_at_quiet_streams(struct ag_writer *writer, uint64_t now_ns) {
    for (size_t i = 0; i < writer->n_active; i++) {
        const struct ag_chunk_ready *active = active_at(writer, i);
        struct ag_watched_slot *watched = &writer->slots[active->slot];
        if (writer->session->follows_bytes) {
            (void)ag_recording_peek(watched->recording, active); /* the next round tries again */
        }
        if (!ag_recording_has_threads(watched->recording)) {
            continue;
        }
        const bool is_quiet =
            ag_recording_totaled_ns(watched->recording, active->stream) + PEEK_AFTER_NS < now_ns;
        const bool rests = ag_recording_rests(watched->recording, active, now_ns);
        if ((!is_quiet && !rests) || !ag_recording_peek(watched->recording, active)) {
            totals_hold_back(watched, active->stream);
        } else if (rests) {
            ag_recording_end_window(watched->recording, active);
        }
    }
}

void ag_writer_end_windows(struct ag_writer *writer, uint32_t slot) {
    for (size_t i = 0; i < writer->n_active; i++) {
        const struct ag_chunk_ready *active = active_at(writer, i);
        struct ag_recording *recording = writer->slots[slot].recording;
        if (active->slot == slot && ag_recording_peek(recording, active)) {
            ag_recording_end_window(recording, active);
        }
    }
}

/* Whether GAP_PATIENCE_NS have passed since a missing chunk was noticed first. Such a chunk appears
 * soon or never. */
static bool is_out_of_patience(struct ag_watched_slot *watched, uint64_t now_ns) {
    if (watched->gap_ns == 0) {
        watched->gap_ns = now_ns;
    }
    return now_ns - watched->gap_ns > GAP_PATIENCE_NS;
}

static int64_t take_ready(struct ag_writer *writer) {
    int64_t taken = 0, first_left = 0;
    uint32_t taken_words = 0;
    for (size_t i = 0; i < writer->n_ready; i++) {
        const struct ag_chunk_ready *ready = &writer->ready[i];
        struct ag_watched_slot *watched = &writer->slots[ready->slot];
        if (taken_words >= WORDS_PER_ROUND ||
            !ag_recording_take(watched->recording, ready, /* skip_gap= */ false)) {
            writer->ready[first_left++] = *ready;
            watched->has_unread = true;
            totals_hold_back(watched, ready->stream);
            continue;
        }
        taken++;
        taken_words +=
            ready->used_words > CHUNK_LEAST_WORDS ? ready->used_words : CHUNK_LEAST_WORDS;
        if (!writer->is_offline) {
            (void)ag_session_clock_tick(&writer->clock,
                                        writer->session); /* a round may take longer than a tick */
        }
    }
    writer->n_ready = (size_t)first_left;
    return taken;
}

/* Called if every ready chunk has a missing chunk before it in its stream. */
static int64_t take_behind_gaps(struct ag_writer *writer, uint64_t now_ns) {
    int64_t taken = 0;
    for (size_t i = 0; i < writer->n_ready; i++) {
        const struct ag_chunk_ready *ready = &writer->ready[i];
        struct ag_watched_slot *watched = &writer->slots[ready->slot];
        if (watched->has_ended || is_out_of_patience(watched, now_ns)) {
            taken += ag_recording_take(watched->recording, ready, /* skip_gap= */ true);
            watched->gap_ns = 0;
        }
    }
    return taken;
}

/* For a snapshot, which takes the words that a chunk had when its control was copied. While other
 * controls were copied, the thread may have filled this chunk and begun another. Drops such later
 * chunks, because the snapshot lacks the words before them. */
static void leave_what_came_later(struct ag_writer *writer) {
    enum { LEFT = UINT32_MAX };
    struct ag_chunk_ready *ready = writer->ready;
    for (size_t i = 0; i < writer->n_ready; i++) {
        for (size_t j = 0; !ready[i].is_full && j < writer->n_ready; j++) {
            const bool is_behind = ready[j].stream == ready[i].stream &&
                                   ready[j].slot == ready[i].slot &&
                                   ready[j].sequence > ready[i].sequence;
            ready[j].slot = is_behind ? LEFT : ready[j].slot;
        }
    }
    size_t n_kept = 0;
    for (size_t i = 0; i < writer->n_ready; i++) {
        if (ready[i].slot != LEFT) {
            ready[n_kept++] = ready[i];
        }
    }
    writer->n_ready = n_kept;
}

/* Writes to the chunk's pages, which makes the kernel copy them to private memory. The program does
 * not change complete words meanwhile. */
static void copy_words(const struct ag_writer *writer, const struct ag_chunk_ready *ready) {
    enum { PAGE_WORDS = 4096 / 8 };
    struct ag_session *session = writer->session;
    uint64_t *words = (uint64_t *)(void *)(session->base + session->chunks_offset +
                                           (uint64_t)ready->chunk * AG_CHUNK_BYTES);
    for (uint32_t at = 0; at < ready->used_words; at += PAGE_WORDS) {
        (void)__atomic_fetch_or(&words[at], 0, __ATOMIC_RELAXED);
    }
}

int ag_writer_freeze(struct ag_writer *writer) {
    const int r = controls_examine(writer);
    if (r < 0) {
        return r;
    }
    leave_what_came_later(writer);
    for (size_t i = 0; i < writer->n_ready; i++) {
        copy_words(writer, &writer->ready[i]);
    }
    writer->is_frozen = true;
    return 0;
}

/* Called if no ready chunk could be taken: skips missing chunks, or ends a snapshot. */
static int64_t take_the_rest(struct ag_writer *writer) {
    if (!writer->is_frozen) {
        return take_behind_gaps(writer, ag_monotonic_ns());
    }
    for (size_t i = 0; i < writer->n_ready; i++) {
        /* the remaining chunks were recorded after the snapshot's moment */
        writer->slots[writer->ready[i].slot].has_unread = false;
    }
    writer->n_ready = 0;
    return 0;
}

int64_t ag_writer_round(struct ag_writer *writer) {
    const uint64_t look_ns = ag_session_clock_now_ns(writer->session);
    for (uint32_t i = 0; i < writer->n_slots_seen; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        watched->has_unread = false;
        watched->advance_ns = look_ns > MARGIN_NS ? look_ns - MARGIN_NS : 0;
    }
    int64_t taken = writer->is_frozen ? 0 : controls_examine(writer);
    if (taken < 0) {
        return taken;
    }
    if (writer->n_ready > 1) {
        qsort(writer->ready, writer->n_ready, sizeof(*writer->ready), by_time);
    }
    taken = take_ready(writer);
    if (taken == 0 && writer->n_ready > 0) {
        taken = take_the_rest(writer);
    }
    peek_at_quiet_streams(writer, look_ns);
    for (uint32_t i = 0; i < writer->n_slots_seen && writer->n_open > 0; i++) {
        struct ag_watched_slot *watched = &writer->slots[i];
        if (watched->phase == AG_PHASE_OPEN && watched->recording->has_threads) {
            ag_recording_advance(watched->recording, watched->advance_ns);
        }
    }
    return taken;
}
