/* attachment.h: what `allogram attach` and the agent that it has put into a running process tell
 * each other: one variable of the agent, which the tool finds by its name and reads and writes from
 * outside.
 *
 *     tool    dlopen(agent)
 *     tool    writes session_path, calls ag_agent_attach
 *     agent   joins the session, prepares its detours, fills in the rest
 *     tool    stops all threads, writes the sites' jumps, lets them go
 *     ...
 *     tool    stops all threads, writes back what stood there; when nobody is in the agent any more
 *     tool    calls ag_agent_detach, dlclose
 *
 * With adapters of runtimes there is more that may only be done where the runtime stands still
 * (wants_standing): the jumps are written when nobody is in the quiet ranges either, and one thread
 * calls ag_agent_stand(1) before all go on. On the way out n_leaving runtimes have to end what they
 * do at a place of their own: the tool says is_leaving, and waits a while; then, when nobody is in
 * the quiet ranges, in the agent or in the allocator, one thread calls ag_agent_stand(0),
 * ag_agent_detach and dlclose while the others stand. */
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
struct ag_attachment_site { /* where a hooked function's first instructions make room for a jump */
    uint64_t place;         /* 0: none */
    uint8_t before[8], after[8]; /* the first AG_ATTACHMENT_CODE_BYTES of each */
};
struct ag_attachment_range { /* [low, high) of the process' addresses */
    uint64_t low, high;
};
struct ag_attachment {
    uint32_t version; /* set by the agent when it is built */
    uint32_t n_sites, n_pages, n_quiet;
    uint32_t wants_standing; /* 0 or 1 */
    uint32_t n_leaving;      /* runtimes that have to end something at a place of their own ... */
    _Atomic uint32_t n_left; /* ... and those of them that have */
    _Atomic uint32_t is_leaving;                           /* by the tool */
    struct ag_attachment_range pages[AG_ATTACHMENT_PAGES]; /* the detours' own code */
    struct ag_attachment_range quiet[AG_ATTACHMENT_RANGES];
    uint64_t state; /* address of a 32-bit word: who writes off_value there ends all recording */
    uint32_t off_value;
    uint64_t own_low, own_bytes; /* by the tool: the code of the libc's allocator */
    /* by the tool, so that another one can take out what it left when it was killed */
    int32_t tool_pid;
    uint64_t tool_start_ticks, handle; /* of dlopen */
    struct ag_attachment_site sites[AG_ATTACHMENT_SITES];
    char session_path[512];
    char adapters[128]; /* by the tool: as --adapters */
    char note[256];     /* why not, one line; or what is not hooked */
};

/* Each returns 0 or a negative errno in eax, leaves errno alone, and is called by a thread that
 * holds no lock of the libc. ag_agent_detach: nobody else is in the agent, and nobody can come. */
#define AG_ATTACHMENT_VARIABLE "ag_agent_attachment"
#define AG_ATTACHMENT_BEGIN "ag_agent_attach"
#define AG_ATTACHMENT_END "ag_agent_detach"
/* Where wants_standing; not in an agent without runtimes. is_on: 1 or 0. A negative errno: it
 * cannot be ended, and the agent has to stay. */
#define AG_ATTACHMENT_STAND "ag_agent_stand"

#endif
