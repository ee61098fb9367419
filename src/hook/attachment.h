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
 *     tool    calls ag_agent_detach, dlclose */
#ifndef AG_ATTACHMENT_H
#define AG_ATTACHMENT_H

#include <stdint.h>

enum {
    AG_ATTACHMENT_VERSION = 1,
    AG_ATTACHMENT_SITES = 16,
    AG_ATTACHMENT_CODE_BYTES = 5, /* a jump */
};
struct ag_attachment_site { /* where a hooked function's first instructions make room for a jump */
    uint64_t place;         /* 0: none */
    uint8_t before[8], after[8]; /* the first AG_ATTACHMENT_CODE_BYTES of each */
};
struct ag_attachment {
    uint32_t version; /* set by the agent when it is built */
    uint32_t n_sites;
    uint64_t page, page_bytes; /* the detours' own code */
    uint64_t state; /* address of a 32-bit word: who writes off_value there ends all recording */
    uint32_t off_value;
    uint64_t own_low, own_bytes; /* by the tool: the code of the libc's allocator */
    /* by the tool, so that another one can take out what it left when it was killed */
    int32_t tool_pid;
    uint64_t tool_start_ticks, handle; /* of dlopen */
    struct ag_attachment_site sites[AG_ATTACHMENT_SITES];
    char session_path[512];
    char note[256]; /* why not, one line; or what is not hooked */
};

/* Each returns 0 or a negative errno in eax, leaves errno alone, and is called by a thread that
 * holds no lock of the libc. ag_agent_detach: nobody else is in the agent, and nobody can come. */
#define AG_ATTACHMENT_VARIABLE "ag_agent_attachment"
#define AG_ATTACHMENT_BEGIN "ag_agent_attach"
#define AG_ATTACHMENT_END "ag_agent_detach"

#endif
