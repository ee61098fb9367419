/* adapter.h: the interface between a runtime's adapter and the agent, the shared library that
 * allogram loads into programs.
 *
 * An adapter is the code for one runtime (a language's virtual machine or library, see
 * base/runtimes.h) that is compiled into the agents, from the runtime's folder in adapters/. When a
 * program starts under `allogram run`, or when `allogram attach` has loaded the agent into it, the
 * agent calls each adapter that --adapters selects. The adapter checks whether its runtime is in
 * the process. If the runtime is there, the adapter hooks it (by detours, hook/detour.h, or by the
 * runtime's own callbacks) and reports events (heaps, types, blocks, collections, frames) through
 * the functions of allogram.h and, if a stack has to begin at another frame than the adapter's,
 * through those of host_events.h and record/.
 *
 * Rules for all code of an adapter in the process: no malloc, no stdio, no lock that the host (the
 * program with its runtime) can hold, no dlsym after the start, errno unchanged. An adapter refuses
 * a version of the runtime that is not in its tables, or whose data structures do not pass the
 * adapter's check (its calibration). In that case the adapter changes nothing in the runtime. */
#ifndef AG_ADAPTER_H
#define AG_ADAPTER_H

#include "record/recorder.h"

struct ag_late_adapter;

enum ag_adapter_answer {
    AG_ADAPTER_ABSENT,  /* the runtime is not in the process: the trace does not mention it */
    AG_ADAPTER_REFUSED, /* the runtime is in the process and not hooked: `note` says why */
    AG_ADAPTER_ACTS
};

struct ag_adapter {
    /* Called once, with no lock held, by the thread that starts the agent: before main, when all
     * objects that the program is linked with are in memory and relocated. Other parts of the
     * program may not be initialized. The name in ret_runtime is set already; the function fills in
     * version and note ("": none), with strings of static lifetime. If the runtime is absent, the
     * function should read as little as possible, since it delays the start of every program. */
    enum ag_adapter_answer (*attach)(struct ag_runtime_definition *ret_runtime);
    /* May be NULL. If attach returned ACTS, this function is called when exit has begun, or when
     * _exit, _Exit or quick_exit was called. _exit may be called anywhere: in a signal handler,
     * inside of the runtime's own allocator with its lock held, while other threads run. So this
     * function only reads, and calls nothing that takes a lock of the host. If the runtime keeps
     * counts, the function sets two fields of ret_runtime: `reported`, the allocations that the
     * adapter has reported, and `counted`, all allocations that the runtime has counted. Both are
     * in bytes, or in blocks if the runtime counts no bytes. */
    void (*end)(struct ag_runtime_definition *ret_runtime);
    /* NULL: the adapter cannot be attached to a running program */
    const struct ag_late_adapter *late;
};

/* The phases of an adapter in a running program (`allogram attach`), in this order:
 *
 *     attach       Other threads run, and may be anywhere. ag_detour_install (hook/detour.h) only
 *                  prepares; the jumps are written later. Memory comes from ag_own_memory_take
 *                  (base/own_memory.h). The adapter must not call anything that takes a lock of the
 *                  runtime, since another thread can hold that lock.
 *     stand(true)  All threads are stopped, no thread has a frame in the ranges `quiet`, and the
 *                  jumps have just been written. So the runtime may be called, unless the call
 *                  takes a lock of the libc.
 *     ...          The adapter works as at any other time.
 *     leaving      An adapter that set has_to_leave polls ag_adapters_are_leaving where it can end
 *                  its work, ends it, and calls ag_adapter_has_left. `attach` waits up to 1 s.
 *     stand(false) All threads are stopped again, and none is in the agent: the adapter removes its
 *                  remaining changes from the runtime's data. Then the agent is unloaded.
 *
 * Of blocks that were allocated before the attachment, the adapter reports only the frees. */
struct ag_late_range {
    uintptr_t low, high; /* [low, high) of code */
};
enum { AG_LATE_RANGES_MOST = 4 };
struct ag_late_start {
    /* code in which no thread may have a frame while stand is called; high 0: unused element */
    struct ag_late_range quiet[AG_LATE_RANGES_MOST];
    /* the adapter can end its work only at certain moments: see `leaving` above */
    bool has_to_leave;
};
struct ag_late_adapter {
    /* Like attach of struct ag_adapter, but other threads run. ret_start is zeroed by the
     * caller. */
    enum ag_adapter_answer (*attach)(struct ag_runtime_definition *ret_runtime,
                                     struct ag_late_start *ret_start);
    /* Returns 0. stand(false) may also return -EBUSY: the adapter cannot end now, and the agent has
     * to stay. */
    int (*stand)(bool is_on);
};
bool ag_adapters_are_leaving(void);
void ag_adapter_has_left(void);

/* Calls the wanted adapters, in the order of the table ag_runtimes (base/runtimes.h). Called once,
 * when the recorder is active and ag_host_join (session_joined.h) has returned. wanted: "auto" or
 * NULL: all; "none"; or names joined by commas. Unknown names are ignored (`allogram run` has
 * refused them before). */
void ag_adapters_attach(const char *wanted);
/* Does what ag_adapters_attach does, but in a running program. To remove the adapters, `allogram
 * attach` sets is_leaving to 1; n_left counts the adapters that have left. */
struct ag_late_sum {
    struct ag_late_range quiet[AG_MAX_ANNOUNCEMENTS * AG_LATE_RANGES_MOST];
    size_t n_quiet, n_acting, n_leaving; /* n_leaving: adapters that have to leave */
};
void ag_adapters_attach_late(const char *wanted, _Atomic uint32_t *is_leaving,
                             _Atomic uint32_t *n_left, struct ag_late_sum *ret_sum);
/* Calls stand of the active adapters, while all threads are stopped. Returns 0, or the first
 * error. */
int ag_adapters_stand(bool is_on);
/* Called when the process ends: records the counts of the runtimes. */
void ag_adapters_end(void);
/* Whether a runtime was found in the process, hooked or refused. */
bool ag_adapters_are_there(void);

#endif
