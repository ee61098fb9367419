/* julia_profile_joined.c: the functions of julia_profile.h, which Allogram.jl calls, for a process
 * under `allogram run`. The expressions are recorded in the trace of `run`. The counts from before
 * the first expression are dropped, and between two expressions nothing is recorded. */
#include <errno.h>
#include <time.h>

#include "allogram/allogram.h"
#include "base/join_text.h"
#include "base/raw_syscall.h"
#include "julia_code.h"
#include "julia_objects.h"
#include "julia_profile.h"
#include "julia_runtime.h"
#include "record/raw_clock.h"
#include "record/recorder.h"

static bool is_paused, is_begun, was_asked;
static uint64_t times_ns[2]; /* of the latest expression, since the start of the process */

static uint64_t since_start_ns(void) {
    const struct ag_segment_header *header = ag_recorder.header;
    return ag_segment_ns(header, ag_raw_clock(header->clock_kind) - ag_recorder.slot->start_raw);
}

static int fail(char *ret_message, int error, const char *why) {
    const char *const parts[] = {why, NULL};
    ag_join_text(ret_message, AG_JULIA_MESSAGE_BYTES, parts);
    return error;
}

int allogram_julia_prepare(char *ret_message) {
    if (is_begun) {
        return fail(ret_message, -EALREADY, "an expression is recorded already");
    }
    if (!ag_recorder_is_active()) {
        return fail(ret_message, -ENOENT, "allogram run does not record this process");
    }
    if (!ag_julia_own) { /* no allocation was seen */
        return fail(
            ret_message, -ENOTSUP,
            "allogram run does not record Julia's heaps in this process; see its option --adapters, "
            "and the line about julia in the summary");
    }
    was_asked = !was_asked;
    return was_asked;
}

int allogram_julia_begin(const char *output, char *ret_message) {
    (void)output;
    (void)ret_message;
    is_begun = true;
    if (is_paused) {
        ag_julia_record_pauses(false);
        ag_recorder_pause(AG_PAUSE_NONE);
        allogram_session_resume();
    } else {
        ag_julia_record_from_now();
        (void)allogram_session_reset(); /* the session records already */
    }
    is_paused = false;
    times_ns[0] = since_start_ns();
    allogram_session_mark("expression begins");
    return 0;
}

int allogram_julia_end(char *ret_message) {
    if (!is_begun) {
        return fail(ret_message, -ENOENT, "no expression is recorded");
    }
    ag_julia_settle(ag_julia_own, /* with_data= */ true);
    ag_julia_code_name_new();
    allogram_session_mark("expression ends");
    allogram_session_pause();
    ag_recorder_pause(AG_PAUSE_ALL);
    ag_julia_record_pauses(true);
    is_begun = false;
    is_paused = true;
    times_ns[1] = since_start_ns();
    return 0;
}

void allogram_julia_times(uint64_t ret_ns[2]) {
    ret_ns[0] = times_ns[0];
    ret_ns[1] = times_ns[1];
}

/* The writer creates the file within some milliseconds of the process' start. */
const char *allogram_julia_trace(void) {
    enum { TRIES_MOST = 1000 };
    static char path[1024];
    const struct timespec while_it_does = {.tv_nsec = 1000000};
    for (int i = 0; i < TRIES_MOST && !ag_recorder_trace(path, sizeof(path)); i++) {
        path[0] = '\0';
        (void)ag_syscall2(SYS_nanosleep, (long)&while_it_does, 0);
    }
    return path;
}
