/* background.h: detaches a process of allogram from the terminal and from the profiled program. */
#ifndef AG_BACKGROUND_H
#define AG_BACKGROUND_H

#include <stddef.h>

/* Called in a fresh child: gives it the NAME that ps shows and a session of its own, ignores the
 * signals (0 ends the list), and unblocks all. */
void ag_background_begin(const char *name, const int *ignored);
/* Makes the descriptors from FIRST to LAST lead to /dev/null; closes them if there is none. */
void ag_background_replace_by_null(int first, int last);
/* Closes all descriptors from 3 on except these, and sorts these. */
void ag_background_close_all_but(int *keep, size_t count);

#endif
