/* adapter.h: what a runtime's adapter is to the agent, and what it may count on.
 *
 * An adapter lives in adapters/NAME, is compiled into the agent, and stands as one row in
 * adapters/adapters.def. When a program starts under `allogram run`, the agent asks each adapter
 * that --adapters admits whether its runtime is in the process. One that is puts itself into the
 * runtime's way (hook/detour.h, the runtime's own callbacks) and tells what it sees through the
 * public functions of allogram.h: its heaps, types, blocks, collections, frames. It gets nothing
 * that a program which embeds the library does not get, except for this moment.
 *
 * What holds for all code of an adapter in the process: no malloc, no stdio, no lock that the host
 * can hold, no dlsym after the start, errno as it was; a version that it does not know row by row,
 * or whose calibration fails, is refused and nothing of it is changed. */
#ifndef AG_ADAPTER_H
#define AG_ADAPTER_H

#include "record/recorder.h"

struct ag_late_adapter;

enum ag_adapter_answer {
    AG_ADAPTER_ABSENT,  /* the runtime is not here: nothing is said of it */
    AG_ADAPTER_REFUSED, /* it is here and is left alone: the note says why */
    AG_ADAPTER_ACTS
};

struct ag_adapter {
    /* Called once, with no lock held, by the thread that starts the agent: before the program's
     * first line, when all objects that it is linked with are in memory and relocated. What is left
     * of the program may not have been initialised. Fills ret_runtime, which has the name already:
     * version and note ("": nothing to say), strings that stay; and reads nothing but what it must
     * of an absent runtime, since every program pays for it. */
    enum ag_adapter_answer (*attach)(struct ag_runtime_definition *ret_runtime);
    /* exit has begun, or _exit, _Exit or quick_exit was called; NULL: nothing to do. Only where
     * attach answered ACTS. _exit may be called anywhere: in a signal handler, inside of the
     * runtime's own allocator with its lock held, while other threads run. So this reads, and calls
     * nothing that takes a lock of the host. Sets ret_runtime->told and ->counted where the runtime
     * counts for itself: what the adapter told of what the runtime handed out, in bytes (or blocks,
     * where it counts no bytes). */
    void (*end)(struct ag_runtime_definition *ret_runtime);
    const struct ag_late_adapter *late; /* NULL: only with the program's start */
};

/* An adapter in a program that runs already (`allogram attach`), and out again.
 *
 *     attach          other threads run, wherever they are. ag_detour_install prepares, and what it
 *                     is asked for is written later; memory is taken by ag_own_memory_take. Nothing
 *                     is called that takes a lock of the runtime, since another thread can hold it.
 *     stand(true)     all threads stand, none of them with a frame in a quiet range, the jumps have
 *                     just been written. So the runtime may be called, as far as it asks for no
 *                     lock of the libc.
 *     ...             it acts, as at any other time
 *     is_leaving      asked by an adapter that said has_to_leave at a place of its runtime where it
 *                     can end what it began; it does so, and says has_left. Some 3 s are waited
 *     stand(false)    again all stand, and nobody is in the agent: what is left of the adapter in
 *                     the runtime's data is taken away. Then the agent is unloaded
 *
 * What was allocated before is not known to it: only its death is told. */
struct ag_late_range {
    uintptr_t low, high; /* [low, high) of code */
};
enum { AG_LATE_RANGES_MOST = 4 };
struct ag_late_start {
    struct ag_late_range quiet[AG_LATE_RANGES_MOST]; /* high 0: none */
    bool has_to_leave;
};
struct ag_late_adapter {
    /* As ag_adapter's. ret_start is zero. */
    enum ag_adapter_answer (*attach)(struct ag_runtime_definition *ret_runtime,
                                     struct ag_late_start *ret_start);
    /* 0; with false -EBUSY: it cannot end now, and the agent has to stay. */
    int (*stand)(bool is_on);
};
bool ag_adapters_are_leaving(void);
void ag_adapter_has_left(void);

struct ag_adapter_row {
    const char *name; /* as in --adapters=LIST and the report's runtimes */
    const struct ag_adapter *adapter;
};
/* adapters/agent_adapters.c: all that were built, in the order of adapters.def; late_adapters.c:
 * those that can be started late. */
extern const struct ag_adapter_row ag_adapter_rows[] AG_HIDDEN;
extern const size_t ag_n_adapter_rows AG_HIDDEN;

/* Asks the adapters; once, when the recorder acts and the program's own session is joined. wanted:
 * "auto" or NULL: all; "none"; or names joined by commas, of which unknown ones are passed over
 * (`run` has refused them). */
void ag_adapters_attach(const char *wanted);
/* The same in a program that runs. is_leaving is set to 1 by who wants them out, n_left counts
 * those that have left. */
struct ag_late_sum {
    struct ag_late_range quiet[AG_MAX_ANNOUNCEMENTS * AG_LATE_RANGES_MOST];
    size_t n_quiet, n_acting, n_leaving;
};
void ag_adapters_attach_late(const char *wanted, _Atomic uint32_t *is_leaving,
                             _Atomic uint32_t *n_left, struct ag_late_sum *ret_sum);
/* Those that act, while all threads stand. 0, or the first of their errors. */
int ag_adapters_stand(bool is_on);
/* The process ends: what the runtimes counted is written. */
void ag_adapters_end(void);
/* Was there any for it? */
bool ag_adapters_are_there(void);

#endif
