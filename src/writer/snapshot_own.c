/* snapshot_own.c: writes a trace of the present state inside the recording program itself
 * (snapshot.c does this in a writer beside the program).
 *
 * 1. Method. The live file is mapped again, privately, so that marks in that mapping have no effect
 *    on others (ag_session_open_private). The rest equals sealing the trace of a process that has
 *    just left, into a file of its own. The trace names no session, so that no reader looks for a
 *    live file.
 *
 * 2. Consistency. The controls say how far each stream has come. Without a writer no chunk is ever
 *    returned, so a later chunk of a stream has a higher index. The controls are copied from the
 *    last to the first (writing to a private page copies it). So a chunk that is found is found
 *    with all chunks before it, complete. Nodes and words are written before the words that name
 *    them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trace_file.h"
#include "trace_name.h"
#include "writer_state.h"

static void hold_still(struct ag_session *session) {
    enum { CONTROLS_A_PAGE = 4096 / sizeof(struct ag_chunk_control) };
    /* its value: the write makes the page private */
    *(volatile uint32_t *)&session->header->reserved2 = 0;
    atomic_thread_fence(memory_order_seq_cst);
    const uint32_t touched =
        atomic_load_explicit(&session->header->n_chunks_touched, memory_order_acquire);
    const uint32_t n = touched < session->n_chunks ? touched : session->n_chunks;
    for (uint32_t page = n / CONTROLS_A_PAGE + 1; page-- > 0;) {
        volatile uint64_t *unused =
            &ag_session_control(session, page * CONTROLS_A_PAGE)->reserved[0];
        *unused = 0; /* likewise */
        atomic_thread_fence(memory_order_seq_cst);
    }
    enum { HAS_LEFT = 2 };
    struct ag_process_slot *slot = ag_session_slot(session, 0);
    atomic_store_explicit(&slot->exiting, HAS_LEFT, memory_order_relaxed);
    atomic_store_explicit(&slot->state, AG_SLOT_REPLACED, memory_order_relaxed);
}

static int take_all(struct ag_session *session) {
    struct ag_writer writer;
    int64_t r = ag_writer_start(&writer, session);
    writer.is_offline = true;
    if (r == 0) {
        ag_writer_adopt(&writer, ag_session_slots_used(session));
        do {
            r = ag_writer_round(&writer);
            (void)ag_writer_finish_ended(&writer, ag_monotonic_ns());
        } while (r > 0 || (r == 0 && writer.n_open > 0));
    }
    ag_writer_done(&writer);
    return (int)r;
}

int ag_writer_snapshot_own(const char *live, const char *pattern, char ret_path[4096],
                           char ret_message[512]) {
    struct ag_session *session = NULL;
    int r = ag_session_open_private(live, &session, ret_message);
    if (r < 0) {
        return r;
    }
    session->id = 0;
    r = ag_trace_pattern_complete(pattern, session->trace_pattern, ret_message);
    if (r == 0) {
        const uint32_t pid = (uint32_t)getpid();
        r = ag_session_first_trace(session, pid, program_invocation_short_name, ret_path,
                                   ret_message);
    }
    if (r == 0) {
        hold_still(session);
        r = take_all(session);
        if (r < 0) {
            (void)snprintf(ret_message, 512, "write %.400s: %s", ret_path, strerror(-r));
            (void)unlink(ret_path); /* an incomplete file is of no use */
        }
    }
    (void)ag_session_close(session); /* NULL */
    return r;
}
