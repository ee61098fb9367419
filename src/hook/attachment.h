/* attachment.h: the interface between `allogram attach` (the tool) and the agent, the library that
 * the tool has loaded into a running process. The interface is one variable of the agent, which the
 * tool finds by name and reads and writes from outside. A detour is a jump that is written over the
 * start of a hooked function. A session is one recording.
 *
 *     tool    dlopen(agent)
 *     tool    writes session_path or session_fd, calls ag_agent_attach
 *     agent   joins the session, prepares its detours, fills in the rest of the variable
 *     tool    stops all threads, writes the jumps of the detours, resumes the threads
 *     ...
 *     tool    stops all threads, restores the overwritten bytes; when no thread is in the agent:
 *     tool    calls ag_agent_detach, dlclose
 *
 * An adapter is the agent's code for one runtime, such as a garbage collector. If wants_all_stopped
 * is set, an adapter has steps that are only safe while the runtime is stopped. Then the tool also
 * waits until no thread is in the code of the `quiet` ranges before it writes the jumps, and lets
 * one thread call ag_agent_switch_runtimes(1) before it resumes all threads. To detach, the tool
 * sets is_leaving and waits for a limited time: n_leaving runtimes finish their work at a moment
 * that is safe for them. When no thread is in the quiet ranges, in the agent or in the allocator,
 * one thread calls ag_agent_switch_runtimes(0), ag_agent_detach and dlclose, while the other
 * threads are stopped. */
#ifndef AG_ATTACHMENT_H
#define AG_ATTACHMENT_H

#include <stdint.h>

enum {
    AG_ATTACHMENT_VERSION = 3,
    /* maximum numbers of hooked functions, of quiet ranges, and of pages with detours */
    AG_ATTACHMENT_SITES = 112,
    AG_ATTACHMENT_RANGES = 32,
    AG_ATTACHMENT_PAGES = 6,
    AG_ATTACHMENT_CODE_BYTES = 5, /* a jump */
};
struct ag_attachment_site { /* a hooked function; a jump overwrites its first bytes */
    uint64_t place;         /* address of the jump; 0: none */
    /* code at `place` without and with the jump; AG_ATTACHMENT_CODE_BYTES bytes of each are
     * valid */
    uint8_t before[8], after[8];
};
struct ag_attachment_range { /* [low, high) of the process' addresses */
    uint64_t low, high;
};
struct ag_attachment {
    uint32_t version;                   /* set at compile time */
    uint32_t n_sites, n_pages, n_quiet; /* numbers of elements in use of the arrays below */
    uint32_t wants_all_stopped;         /* 0 or 1 */
    /* number of runtimes that have to finish, each at a moment that is safe for it, before a
     * detach */
    uint32_t n_leaving;
    _Atomic uint32_t n_left;     /* how many of the n_leaving runtimes have finished */
    _Atomic uint32_t is_leaving; /* set to 1 by the tool when the tool wants to detach */
    struct ag_attachment_range pages[AG_ATTACHMENT_PAGES]; /* pages with the code of the detours */
    /* code in which no thread may be when the runtimes are switched */
    struct ag_attachment_range quiet[AG_ATTACHMENT_RANGES];
    /* address of a 32-bit word; if off_value is written to this word, all recording ends */
    uint64_t state;
    uint32_t off_value;
    /* set by the tool: address and size of the code of the libc's allocator */
    uint64_t own_low, own_bytes;
    /* set by the tool, so that another `allogram attach` can remove the agent if this tool was
     * killed */
    int32_t tool_pid;
    uint64_t tool_start_ticks, handle; /* start time of the tool; the agent's handle from dlopen */
    uint64_t tool_namespace;           /* inode of the tool's PID namespace; 0: unknown */
    struct ag_attachment_site sites[AG_ATTACHMENT_SITES];
    char session_path[512]; /* set by the tool: path of the live file of the session; "": the live
                             * file is passed by descriptor */
    /* set by the tool: descriptors in the process for ag_recorder_start_with (record/recorder.h),
     * which ag_agent_attach closes; -1: none, because the live file is opened by its path */
    int32_t session_fd, lock_fd;
    char adapters[128]; /* set by the tool: the value of --adapters */
    /* text of one line: why the agent failed to attach, or which functions are not hooked */
    char note[256];
};

/* The names by which the tool finds the variable and the functions. Each function returns 0 or a
 * negative errno, does not change errno, and is called by a thread that holds no lock of the libc.
 * ag_agent_detach must be called only when no other thread is in the agent and no thread can enter
 * it. */
#define AG_ATTACHMENT_VARIABLE "ag_agent_attachment"
#define AG_ATTACHMENT_BEGIN "ag_agent_attach"
#define AG_ATTACHMENT_END "ag_agent_detach"
/* Called with 1 (attach) or 0 (detach) if wants_all_stopped is set; an agent without runtimes does
 * not have this function. If it returns a negative errno, a runtime's work cannot be ended, and the
 * agent must not be unloaded. */
#define AG_ATTACHMENT_SWITCH "ag_agent_switch_runtimes"

#endif
