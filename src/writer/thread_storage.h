/* thread_storage.h: finds the thread control blocks and the thread-local storage of a process'
 * threads. */
#ifndef AG_THREAD_STORAGE_H
#define AG_THREAD_STORAGE_H

#include "schema/resident_mapping.h"

/* Sets look->storage, from the resident pages of LOOK. Reads memory of process PID, which goes on
 * running. If this is not permitted, or the process has another C library than glibc, nothing is
 * found. Returns 0 or -ENOMEM. */
int ag_thread_storage_find(uint32_t pid, struct ag_resident_look *look);

#endif
