/* foreign_file.h: opening files that somebody else named: a target's maps, a trace, an ELF file.
 *
 * To open a file can have effects: the writer of a pipe wakes up and dies of SIGPIPE when we leave,
 * a tape rewinds, a watchdog device starts to count. So a file is looked at before it is opened,
 * and only regular files are opened. All of remote, symbol, observe and attach, and the adapters
 * that read a target or its files, open such files here; tools/check_opens.py enforces it. */
#ifndef AG_FOREIGN_FILE_H
#define AG_FOREIGN_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct ag_remote_mapping;

enum ag_foreign_links {
    AG_LINKS_FOLLOWED,
    AG_LINK_REFUSED, /* the path's last component must not be a symbolic link */
};

/* Opens PATH for reading. A path that begins with /proc/PID/root/ is resolved inside of that root:
 * absolute links and ".." lead to the target's files and never out to ours. Never waits for a
 * pipe's other end. Returns a descriptor and fills *ret_facts (may be NULL); -EINVAL: not a regular
 * file; else the negative errno of open. */
int ag_foreign_file_open(const char *path, enum ag_foreign_links links, struct stat *ret_facts);
/* What PATH leads to, by the same rules and of any type, without opening it. 0 or a negative errno.
 */
int ag_foreign_file_look(const char *path, struct stat *ret_facts);

/* Bytes that the file occupies: less than its size where it has holes. A file system that does not
 * count them is believed. */
uint64_t ag_foreign_file_stored_bytes(const struct stat *facts);
/* Whether the file is mostly holes: a few KiB on a disk that cost whoever reads it gigabytes. */
bool ag_foreign_file_is_sparse(const struct stat *facts);

/* Whether FACTS are of the file that process PID has mapped there. */
bool ag_foreign_file_is_mapped(const struct stat *facts, int pid,
                               const struct ag_remote_mapping *mapping);

#endif
