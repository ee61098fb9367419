/* seccomp_filter.h: whether the seccomp filters of a thread permit the system calls that `attach`
 * adds to a program: those of the agent, and those that load it. */
#ifndef AG_SECCOMP_FILTER_H
#define AG_SECCOMP_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Checks all filters of the thread TID, which this process has stopped by ptrace. Returns 0: they
 * permit all calls; -EPERM: they may refuse the call *ret_refused (its name); another negative
 * errno: the filters cannot be read, which needs the capability CAP_SYS_ADMIN outside of containers
 * and a kernel with CONFIG_CHECKPOINT_RESTORE. */
int ag_seccomp_filter_check(pid_t tid, const char **ret_refused);
/* Whether the program, of N instructions, permits the call with this number whatever its arguments
 * are. */
bool ag_seccomp_program_permits(const struct sock_filter *program, size_t n, long call);

#endif
