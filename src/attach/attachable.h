/* attachable.h: checks whether the agent (the shared library that records allocations) can be
 * loaded into a process, before the process is touched. */
#ifndef AG_ATTACHABLE_H
#define AG_ATTACHABLE_H

#include "observe/observed_images.h"
#include "remote/remote_process.h"
#include "remote_call.h"

/* The functions of the process' libc that are called from outside, by their addresses in the memory
 * of the process. */
struct ag_attachable {
    struct ag_observed_image *libc;
    uint64_t dlopen, dlclose;
    uint64_t dlerror;     /* 0: not in the libc, but in libdl.so (before glibc 2.34) */
    uint64_t system_call; /* syscall */
    struct ag_remote_libc functions;
    uint64_t dlopen_flags;
    bool has_filter; /* a seccomp filter, which may refuse system calls (seccomp_filter.h) */
    /* address of a byte 0xcc (int3) in the libc's code, to which called functions return; 0: the
     * process ignores SIGTRAP */
    uint64_t trap;
};

/* Returns the image of an attached agent, or NULL. */
struct ag_observed_image *ag_attachable_agent(const struct ag_observed_images *images);
/* Returns 0, or a negative errno with the reason in ret_message, in one line: for example, the
 * process is traced, stopped or statically linked, uses another libc, or is in a seccomp sandbox.
 * images: the mapped files of the process, already read. */
int ag_attachable_check(const struct ag_remote_process *process, struct ag_observed_images *images,
                        struct ag_attachable *ret_attachable, char ret_message[512]);
/* Checks that the process has mapped no agent and no live file (the file through which a recorded
 * process shares memory with allogram). Returns 0, or -EALREADY with a message. */
int ag_attachable_check_not_recorded(const struct ag_remote_process *process,
                                     const struct ag_observed_images *images,
                                     char ret_message[512]);
/* Whether PATH names the same file for the process as for us. */
bool ag_attachable_sees(const struct ag_remote_process *process, const char *path);
/* Checks that files can be passed to a process that does not see them (passed_files.h). Returns 0
 * or a negative errno with a message. */
int ag_attachable_check_passing(const struct ag_remote_process *process,
                                const struct ag_attachable *attachable, char ret_message[512]);

#endif
