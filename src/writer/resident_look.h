/* resident_look.h: reads what the resident memory of a process consists of, mapping by mapping. */
#ifndef AG_RESIDENT_LOOK_H
#define AG_RESIDENT_LOOK_H

#include "schema/resident_mapping.h"

/* Reads the resident memory of process PID, which goes on running meanwhile. The caller calls
 * ag_resident_look_done. Returns 0; -ESRCH: the process is gone or is a zombie; -EACCES; or another
 * negative errno. */
int ag_resident_look_read(uint32_t pid, struct ag_resident_look *ret_look);
/* To be called after ag_resident_look_read: reads which pages of writable anonymous memory are
 * resident, and finds the thread storage. Mappings whose list cannot be read or would be too long
 * are left without pages. Returns 0; -ESRCH: the process has ended meanwhile; or another negative
 * errno. */
int ag_resident_look_read_pages(uint32_t pid, struct ag_resident_look *look);
void ag_resident_look_done(struct ag_resident_look *look);

#endif
