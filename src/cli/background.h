/* background.h: detaches a process of allogram from the terminal and from the profiled program. */
#ifndef AG_BACKGROUND_H
#define AG_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>

/* Called in a child after fork: gives the process the NAME that ps shows and a session (setsid) of
 * its own, ignores the signals in IGNORED (a list that ends with 0), and unblocks all signals. */
void ag_background_begin(const char *name, const int *ignored);
/* Redirects the descriptors from FIRST to LAST to /dev/null. If there is no /dev/null, closes the
 * descriptors. */
void ag_background_replace_by_null(int first, int last);
/* Closes all descriptors from 3 on, except the COUNT descriptors in KEEP. Sorts KEEP. */
void ag_background_close_all_but(int *keep, size_t count);
/* Whether SIGHUP is ignored, as nohup arranges it: then the end of the terminal ends no
 * recording. */
bool ag_background_ignores_hangup(void);
/* Asks the kernel to kill this process last if memory runs out. Has an effect only with the
 * capability CAP_SYS_RESOURCE. */
void ag_background_outlive_memory(void);

#endif
