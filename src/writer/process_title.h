/* process_title.h: what a process is called now, which user runs it, and the limit of its address
 * space, as /proc shows them. Programs change their names while they run (prctl, setproctitle). */
#ifndef AG_PROCESS_TITLE_H
#define AG_PROCESS_TITLE_H

#include <stdbool.h>
#include <stdint.h>

enum { AG_TITLE_COMMAND_BYTES = 1024, AG_TITLE_USER_BYTES = 64 };

struct ag_process_title {
    bool is_known;
    char name[17];                        /* of the main thread: up to 15 bytes and NUL; one byte
                                           * more for the newline of /proc */
    char command[AG_TITLE_COMMAND_BYTES]; /* strings that each end in NUL; truncated if too long */
    uint32_t command_bytes;               /* 0 only if the title is not known */
    uint32_t user_id;                     /* effective user id */
    char user[AG_TITLE_USER_BYTES];       /* "": not in /etc/passwd */
    uint64_t address_space_limit_bytes;   /* RLIMIT_AS; UINT64_MAX: no limit, or unknown */
    /* Where the command line is in the memory of the process; 0: unknown. Another address shows
     * that the process has executed another program. */
    uint64_t command_address;
};

/* PID: in the writer's PID namespace. If the process has ended, or if /proc does not show it,
 * *title is unchanged. */
void ag_process_title_read(uint32_t pid, struct ag_process_title *title);

#endif
