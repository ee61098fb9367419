/* session_joined.c: the session functions of allogram.h in an agent, the library that `allogram
 * run` or `allogram attach` loads into a program. The session is that of the command: the program
 * can neither start nor stop a session. */
#include "session_joined.h"

#include <errno.h>

#include "allogram/allogram.h"
#include "base/join_text.h"
#include "counters.h"
#include "host_events.h"
#include "host_heaps.h"
#include "host_lock.h"
#include "host_rate.h"
#include "record/recorder.h"

static struct ag_host_lock lock;

void ag_host_join(void) {
    ag_host_announce();
    ag_counters_follow();
    ag_host_mode(ALLOGRAM_TELLS_ | ALLOGRAM_COUNTS_, 0);
    ag_host_rate_follow(/* has_tracker= */ false);
}

void ag_host_leave(void) {
    ag_host_mode(0, ALLOGRAM_COUNTS_);
}

static int session_refuse(const char *why, int error, char *ret_message, size_t message_bytes) {
    if (ret_message && message_bytes > 0) {
        ag_copy_text(ret_message, message_bytes, why);
    }
    return error;
}

static const char is_recorded[] = "this program is already recorded by allogram run or attach";

int allogram_session_start(const struct allogram_options *options, char *ret_message,
                           size_t message_bytes) {
    (void)options;
    return session_refuse(is_recorded, -EALREADY, ret_message, message_bytes);
}

int allogram_session_join(const char *live_path, char *ret_message, size_t message_bytes) {
    (void)live_path;
    return session_refuse(is_recorded, -EALREADY, ret_message, message_bytes);
}

void allogram_session_tell(void) {
    /* nothing to do: the counters are at any time in the memory that the writer process shares */
}

int allogram_session_stop(void) {
    return -ENOENT;
}

int allogram_session_reset(void) {
    ag_host_get_ready();
    ag_record_reset();
    return 0;
}

int allogram_session_snapshot(const struct allogram_snapshot_options *options, char *ret_message,
                              size_t message_bytes) {
    (void)options;
    return session_refuse(
        "cannot take a snapshot: the recording belongs to the allogram command; use its option --dump-at",
        -ENOTSUP, ret_message, message_bytes);
}

const char *allogram_session_trace(void) {
    return ""; /* only the writer process knows the name of the trace */
}

static void change_mode(uint32_t set, uint32_t clear) {
    if (ag_host_lock_take(&lock)) {
        ag_host_mode(set, clear);
        ag_host_lock_give(&lock);
    }
}

void allogram_session_pause(void) {
    change_mode(0, ALLOGRAM_TELLS_);
}

void allogram_session_resume(void) {
    change_mode(ALLOGRAM_TELLS_, 0);
}
