/* descriptor.h: closes a file descriptor, if there is one (a negative number: there is none). */
#ifndef AG_DESCRIPTOR_H
#define AG_DESCRIPTOR_H

#include <unistd.h>

/* Closes FD unless it is negative. Errors are ignored. So use this function only if nothing was
 * written through FD, or if write errors were reported already. */
static inline void ag_descriptor_close(int fd) {
    if (fd >= 0) {
        (void)close(fd); /* see above */
    }
}

#endif
