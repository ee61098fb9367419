/* trace_sealing.c: writes the end of a trace: what was lost, how the process ended, the sums, the
 * index.
 *
 * A recording that was cut by a full disk still tries: truncating to the last whole chunk freed a
 * little room, and the end needs little. Without an end, a reader reports the trace as cut. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "recording.h"
#include "session_clock.h"
#include "trace_index.h"

static uint64_t lost_by(const struct ag_recording *recording, uint32_t cause) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    return recording->lost[cause] + atomic_load_explicit(&slot->lost[cause], memory_order_relaxed);
}

uint64_t ag_recording_lost(const struct ag_recording *recording) {
    uint64_t total = 0;
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        total += lost_by(recording, cause);
    }
    return total;
}

/* CPU time that the process spent on samples. */
static uint64_t sampler_ns(const struct ag_recording *recording) {
    const struct ag_session *session = recording->session;
    const struct ag_process_slot *slot = ag_session_slot(session, recording->slot);
    return ag_session_clock_ns(
        atomic_load_explicit(&session->header->clock_ns_per_2_32, memory_order_relaxed),
        atomic_load_explicit(&slot->sampler_raw, memory_order_relaxed));
}

static void append_end(struct ag_recording *recording, struct ag_blob *blob,
                       const struct ag_recording_end *end) {
    const struct ag_process_slot *slot = ag_session_slot(recording->session, recording->slot);
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        const struct ag_record lost = {
            .kind = AG_RECORD_LOST,
            .u.lost = {.cause = cause, .events = lost_by(recording, cause)}};
        if (lost.u.lost.events > 0) {
            (void)ag_record_append(blob, &lost); /* sticky: reported by the write, as all below */
        }
    }
    const struct ag_record profiler = {
        .kind = AG_RECORD_PROFILER,
        .u.profiler = {.rss_bytes = slot->profiler_private_bytes + end->profiler_rss_bytes,
                       .cpu_ns = end->profiler_cpu_ns,
                       .target_cpu_ns = end->target_cpu_ns,
                       .stack_checks =
                           atomic_load_explicit(&slot->stack_checks, memory_order_relaxed),
                       .failed_stack_checks =
                           atomic_load_explicit(&slot->failed_stack_checks, memory_order_relaxed)}};
    (void)ag_record_append(blob, &profiler);
    const struct ag_session *session = recording->session;
    const struct ag_record sampler = {
        .kind = AG_RECORD_SAMPLER,
        .u.sampler = {.cpu_ns = sampler_ns(recording),
                      .budget_millionths = (uint32_t)(session->budget_percent * 10000),
                      .least_interval_bytes = session->least_interval_bytes,
                      .most_interval_bytes = session->most_interval_bytes}};
    if (session->mode == AG_MODE_SAMPLE) {
        (void)ag_record_append(blob, &sampler);
    }
    const struct ag_record ended = {
        .kind = AG_RECORD_END,
        .u.end = {.how = end->how,
                  .wait_status = atomic_load_explicit(&slot->wait_status, memory_order_relaxed),
                  .wait_status_known =
                      atomic_load_explicit(&slot->wait_status_known, memory_order_acquire) != 0,
                  .time_ns = end->time_ns}};
    (void)ag_record_append(blob, &ended);
}

/* Applies a reset after which the program recorded no event that could report it. */
static void reset_unsaid(const struct ag_recording *recording) {
    const struct ag_segment_header *header = recording->session->header;
    const uint64_t raw = atomic_load_explicit(&header->reset_raw, memory_order_relaxed);
    const uint64_t asked_ns = ag_session_clock_ns(
        atomic_load_explicit(&header->clock_ns_per_2_32, memory_order_relaxed), raw);
    if (raw > 0 && asked_ns > recording->start_ns && asked_ns > recording->reset_ns) {
        ag_ledger_reset_at(recording->ledger, asked_ns);
    }
}

/* Makes the sums from the totals; when the totals do not match the file, reads them back from it.
 */
static int make_sums(struct ag_recording *recording, const struct ag_index_facts *facts,
                     struct ag_blob *ret_blob) {
    if (recording->ledger && !recording->is_cut) {
        int r = ag_merge_finish(recording->merge); /* does nothing for a single thread */
        reset_unsaid(recording);
        ag_ledger_reach(recording->ledger, facts->end_ns);
        r = r < 0 ? r : ag_ledger_close(recording->ledger);
        if (r == 0) {
            return ag_trace_index_of_ledger(recording->ledger, &recording->stacks, facts, ret_blob,
                                            &recording->sums);
        }
    }
    char path[64]; /* works even if the name has changed */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", recording->trace_fd);
    return ag_trace_index_of_file(path, facts, ret_blob, &recording->sums);
}

/* A trace writer that failed stays failed: the end gets a new one. */
static void revive_writer(struct ag_recording *recording) {
    recording->writer = ag_trace_writer_free(recording->writer);
    if (recording->trace_fd >= 0) {
        (void)ag_recording_resume_writer(recording); /* without one the trace just ends */
    }
}

/* Writes the index. If it would exceed the requested size it is removed again: readers work without
 * it. */
static int write_index(struct ag_recording *recording, const struct ag_blob *sums) {
    const uint64_t before_bytes = ag_trace_writer_bytes(recording->writer);
    const int r = ag_trace_writer_finish(recording->writer, sums);
    const uint64_t max_bytes = recording->room.max_bytes;
    if (r == 0 && max_bytes > 0 && ag_trace_writer_bytes(recording->writer) > max_bytes) {
        return ftruncate(recording->trace_fd, (off_t)before_bytes) < 0 ? -errno : 0;
    }
    return r;
}

static int write_end(struct ag_recording *recording, const struct ag_recording_end *end,
                     const struct ag_blob *sums) {
    struct ag_recording_end actual = *end;
    if (recording->is_cut) {
        actual.how = AG_END_CUT;
    }
    struct ag_blob blob = {0};
    const struct ag_chunk_info info = {.kind = AG_CHUNK_KIND_RECORDS,
                                       .first_time_ns = end->time_ns};
    append_end(recording, &blob, &actual);
    int r = blob.error < 0
                ? blob.error
                : ag_trace_writer_chunk(recording->writer, &info, blob.data, blob.length);
    ag_blob_done(&blob);
    return r < 0 ? r : write_index(recording, sums);
}

void ag_recording_finish(struct ag_recording *recording, const struct ag_recording_end *end) {
    ag_recording_flush(recording, UINT64_MAX);
    if (!recording->is_cut) {
        ag_recording_write_definitions(recording);
        ag_recording_write_records(recording, &recording->samples);
    }
    if (recording->is_cut && recording->error < 0 && !recording->was_finished) {
        revive_writer(recording);
    }
    struct ag_index_facts facts = {
        .start_ns = recording->start_ns,
        .end_ns = end->time_ns,
        .rss_peak_bytes = recording->rss_peak_bytes,
    };
    if (facts.end_ns < recording->last_event_ns) {
        facts.end_ns = recording->last_event_ns;
    }
    struct ag_blob sums = {0};
    int r = recording->trace_fd < 0 ? 0 : make_sums(recording, &facts, &sums);
    if (r == 0 && recording->writer && !recording->was_finished) {
        struct ag_recording_end actual = *end;
        actual.time_ns = recording->start_ns + recording->sums.summary.duration_ns;
        r = write_end(recording, &actual, &sums);
    }
    ag_trace_room_done(&recording->room, ag_recording_bytes(recording));
    if (r < 0 && recording->error == 0) {
        recording->error = r; /* readers work without the index; the failure is reported */
    }
    ag_blob_done(&sums);
}
