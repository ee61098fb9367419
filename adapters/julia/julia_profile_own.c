/* julia_profile_own.c: the functions of julia_profile.h, which Allogram.jl calls, for a Julia that
 * was started without allogram. They are part of liballogram-julia, which Allogram.jl loads.
 *
 * The adapter is installed in a running program. It changes the first bytes of functions and the
 * words of an import table. So it waits until a collection has stopped all threads: then no thread
 * of Julia executes those bytes, since threads stop at safepoints and those bytes have none. The
 * first collection installs the adapter. The second collection is the first one that the adapter
 * observes from the beginning. The adapter stays installed, and records nothing outside of
 * expressions.
 *
 * Each expression is a session of its own (embed/session_own.c). Its trace has Julia's heaps only,
 * because calls of malloc are not hooked. */
#include <errno.h>

#include "allogram/allogram.h"
#include "base/join_text.h"
#include "julia_code.h"
#include "julia_collections.h"
#include "julia_imports.h"
#include "julia_objects.h"
#include "julia_profile.h"
#include "julia_runtime.h"
#include "record/recorder.h"

static enum { UNKNOWN, RECOGNISED, IN_PLACE, READY, REFUSED } state;
static bool is_begun, was_asked;
static struct ag_runtime_definition runtime = {.name = "julia", .version = "", .note = ""};
static const struct ag_announcement announcement = {.runtime = &runtime};

static int fail(char *ret_message, int error, const char *first, const char *second) {
    const char *const parts[] = {first, second, NULL};
    ag_join_text(ret_message, AG_JULIA_MESSAGE_BYTES, parts);
    return error;
}

/* Called at the beginning of a collection, when all threads are stopped. */
static void put_in_place(int collection) {
    (void)collection;
    if (state != RECOGNISED) {
        return;
    }
    if (!ag_julia_follow()) {
        state = REFUSED;
        return;
    }
    ag_julia_imports_follow_earlier_code();
    state = IN_PLACE;
}

/* Returns 1: the caller has to collect; or a negative errno and the reason. */
static int recognise(char *ret_message) {
    switch (ag_julia_recognise(&runtime)) {
    case AG_ADAPTER_ABSENT:
        return fail(ret_message, -ENOTSUP, "this Julia is not supported: it does not export ",
                    "jl_gc_counted_malloc");
    case AG_ADAPTER_REFUSED:
        state = REFUSED;
        return fail(ret_message, -ENOTSUP, "julia: ", runtime.note);
    case AG_ADAPTER_ACTS:
        break;
    }
    if (!ag_julia.jl_is_initialized()) {
        return fail(ret_message, -EAGAIN, "Julia is not initialized yet", "");
    }
    state = RECOGNISED;
    ag_julia.jl_gc_set_cb_pre_gc(put_in_place, 1);
    return 1;
}

/* Called in turns: the first call returns 1, so that the caller collects garbage. The second call
 * checks whether the collection has run (HAS_COME). */
static int wait_for_collection(bool has_come, char *ret_message) {
    was_asked = !was_asked;
    if (was_asked) {
        return 1;
    }
    return has_come ? 0
                    : fail(ret_message, -EAGAIN,
                           "Julia did not collect garbage, because GC.enable(false) was "
                           "called; call GC.enable(true) first",
                           "");
}

int allogram_julia_prepare(char *ret_message) {
    if (is_begun) {
        return fail(ret_message, -EALREADY, "an expression is recorded already", "");
    }
    struct ag_julia_thread *thread = ag_julia_thread();
    if (!thread) {
        return fail(ret_message, -ENOMEM, "out of memory", "");
    }
    switch (state) {
    case UNKNOWN:
        was_asked = true;
        return recognise(ret_message);
    case RECOGNISED:
        return wait_for_collection(/* has_come= */ false, ret_message);
    case IN_PLACE:
        state = READY;
        ag_julia.jl_gc_set_cb_pre_gc(put_in_place, 0);
        runtime.is_hooked = true;
        runtime.note =
            "recording began while Julia ran, so only the heaps of Julia are recorded, not malloc";
        ag_recorder_announce(&announcement);
        ag_julia_collections_follow(thread);
        was_asked = true;
        return 1;
    case READY:
        if (!was_asked) {
            ag_julia_collections_forget_next();
        }
        return wait_for_collection(ag_julia_collections_have_forgotten(), ret_message);
    case REFUSED:
        break;
    }
    return fail(ret_message, -ENOTSUP, "julia: ", runtime.note);
}

int allogram_julia_begin(const char *output, char *ret_message) {
    const struct allogram_options options = {.size = sizeof(options), .output = output};
    if (state != READY || is_begun) {
        return fail(
            ret_message, -EINVAL,
            "cannot begin: allogram_julia_prepare has not returned 0, or an expression is recorded already",
            "");
    }
    const int r = allogram_session_start(&options, ret_message, AG_JULIA_MESSAGE_BYTES);
    if (r == 0) {
        ag_julia_record_from_now();
        is_begun = true;
    }
    return r;
}

int allogram_julia_end(char *ret_message) {
    if (!is_begun) {
        return fail(ret_message, -ENOENT, "no expression is recorded", "");
    }
    struct ag_runtime_definition reported = runtime;
    ag_julia_settle(ag_julia_own, /* with_data= */ true);
    ag_julia_code_name_new();
    ag_julia_end(&reported);
    ag_record_runtime(&reported);
    is_begun = false;
    const int r = allogram_session_stop();
    return r < 0 ? fail(ret_message, r, "the trace could not be sealed; run: allogram check ",
                        allogram_session_trace())
                 : 0;
}

const char *allogram_julia_trace(void) {
    return allogram_session_trace();
}

void allogram_julia_times(uint64_t ret_ns[2]) {
    ret_ns[0] = 0;
    ret_ns[1] = 0;
}
