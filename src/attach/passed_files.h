/* passed_files.h: gives the target (the process that is attached to) open files that it cannot open
 * by their paths, because it is in another mount namespace: in a container. */
#ifndef AG_PASSED_FILES_H
#define AG_PASSED_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "remote_call.h"

enum { AG_PASSED_FILES_MOST = 4 };

/* Makes the target's thread receive N descriptors (at most AG_PASSED_FILES_MOST) for the open files
 * FDS; ret_fds are their numbers in the thread, which are closed by an exec. Called between
 * ag_remote_call_begin and ag_remote_call_end. system_call: address of the libc's function
 * syscall. Returns 0; or a negative errno, with the operation that failed in *ret_operation; then
 * the thread has no descriptor more than before. */
int ag_passed_files_pass(struct ag_remote_call *call, uint64_t system_call, const int *fds,
                         size_t n, int *ret_fds, const char **ret_operation);
/* Closes a descriptor of the target's thread, unless it is negative, and sets it to -1. */
void ag_passed_files_close(struct ag_remote_call *call, uint64_t system_call, int *fd);

#endif
