/* observe_rss.h: `allogram observe PID --rss`: shows what the resident memory of a process consists
 * of. */
#ifndef AG_OBSERVE_RSS_H
#define AG_OBSERVE_RSS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct ag_rss_request {
    pid_t pid;
    size_t limit; /* most rows of the table of mappings in text; 0: all */
    bool json;
};
/* Looks once, and prints the result. Returns the exit status. */
int ag_observe_rss(const struct ag_rss_request *request);

#endif
