/* memory_sharers.h: processes that run in the memory of another process: children that clone made
 * with CLONE_VM and without CLONE_THREAD. These processes execute the other process' code, but are
 * not among its threads. */
#ifndef AG_MEMORY_SHARERS_H
#define AG_MEMORY_SHARERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { AG_MEMORY_SHARERS_MOST = 63 }; /* the search ends at this number */

/* Lists the other processes that share the memory of PID, and returns their number. They are
 * searched among the children and the parent of PID, then among the children and the parents of
 * those that were found, and so on. If the kernel cannot compare memory (kcmp, CONFIG_KCMP), none
 * is found. */
size_t ag_memory_sharers(pid_t pid, pid_t ret_pids[AG_MEMORY_SHARERS_MOST]);
/* Whether the thread has a child process that shares its memory, or is the first thread of such a
 * child. Parent and child may use the same thread-local storage, because the caller of clone
 * decides that. */
bool ag_thread_has_memory_sharer(pid_t pid, pid_t tid);

#endif
