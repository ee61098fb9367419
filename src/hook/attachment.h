/* attachment.h: the interface between `allogram attach` (the tool) and the agent that it has loaded
 * into a running process: one variable of the agent, which the tool finds by name and reads and
 * writes from outside. A detour is a jump that is written over the start of a hooked function.
 *
 *     tool    dlopen(agent)
 *     tool    writes session_path, calls ag_agent_attach
 *     agent   joins the session, prepares its detours, fills in the rest of the variable
 *     tool    stops all threads, writes the sites' jumps, resumes the threads
 *     ...
 *     tool    stops all threads, restores the overwritten bytes; once no thread is in the agent:
 *     tool    calls ag_agent_detach, dlclose
 *
 * If wants_all_stopped is set, an adapter of a runtime has steps that are only safe while the
 * runtime is stopped. Then the jumps are written when also no thread is in the code of the `quiet`
 * ranges, and one thread calls ag_agent_switch_runtimes(1) before all are resumed. To detach, the
 * tool sets is_leaving and waits for a while: n_leaving runtimes finish their work at a safe point
 * of their own. When no thread is in the quiet ranges, in the agent or in the allocator, one thread
 * calls ag_agent_switch_runtimes(0), ag_agent_detach and dlclose; the others are stopped. */
#ifndef AG_ATTACHMENT_H
#define AG_ATTACHMENT_H

#include <stdint.h>

enum {
    AG_ATTACHMENT_VERSION = 2,
    AG_ATTACHMENT_SITES = 112,
    AG_ATTACHMENT_RANGES = 32,
    AG_ATTACHMENT_PAGES = 6,
    AG_ATTACHMENT_CODE_BYTES = 5, /* a jump */
};
struct ag_attachment_site { /* a hooked function whose first instructions make room for a jump */
    uint64_t place;         /* address of the jump; 0: none */
    uint8_t before[8], after[8]; /* the first AG_ATTACHMENT_CODE_BYTES of each are valid */
};
struct ag_attachment_range { /* [low, high) of the process' addresses */
    uint64_t low, high;
};
struct ag_attachment {
    uint32_t version; /* set at compile time */
    uint32_t n_sites, n_pages, n_quiet;
    uint32_t wants_all_stopped;  /* 0 or 1 */
    uint32_t n_leaving;          /* runtimes that have to finish at a safe point of their own ... */
    _Atomic uint32_t n_left;     /* ... and those of them that have finished */
    _Atomic uint32_t is_leaving; /* set by the tool */
    struct ag_attachment_range pages[AG_ATTACHMENT_PAGES]; /* pages with the code of the detours */
    struct ag_attachment_range quiet[AG_ATTACHMENT_RANGES];
    uint64_t state; /* address of a 32-bit word: writing off_value to it ends all recording */
    uint32_t off_value;
    uint64_t own_low, own_bytes; /* set by the tool: the code of the libc's allocator */
    /* set by the tool, so that another tool can remove the agent after this one was killed */
    int32_t tool_pid;
    uint64_t tool_start_ticks, handle; /* start time of the tool; the agent's handle from dlopen */
    struct ag_attachment_site sites[AG_ATTACHMENT_SITES];
    char session_path[512];
    char adapters[128]; /* set by the tool: the value of --adapters */
    char note[256];     /* one line: why it failed, or what is not hooked */
};

/* The names by which the tool finds the variable and the functions. Each function returns 0 or a
 * negative errno, leaves errno alone, and is called by a thread that holds no lock of the libc.
 * ag_agent_detach is called when no other thread is in the agent and none can enter. */
#define AG_ATTACHMENT_VARIABLE "ag_agent_attachment"
#define AG_ATTACHMENT_BEGIN "ag_agent_attach"
#define AG_ATTACHMENT_END "ag_agent_detach"
/* Called with 1 or 0 if wants_all_stopped is set; missing in an agent without runtimes. A negative
 * errno: a runtime's work cannot be ended, and the agent has to stay. */
#define AG_ATTACHMENT_SWITCH "ag_agent_switch_runtimes"

#endif
