/* foreign_file.h: opens files whose names come from the mappings of another process (the target),
 * from a trace, or from an ELF file.
 *
 * Opening a file can have effects: a process that waits to write to a pipe continues, and SIGPIPE
 * ends it when the pipe is closed again; a tape rewinds; a watchdog device starts to count. So a
 * file is checked before it is opened, and only regular files are opened. All code in src/remote,
 * src/symbol, src/observe and src/attach, and the adapters that read a target or its files, open
 * such files through this module; tools/check_opens.py enforces this. */
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
 * absolute links and ".." lead to the target's files and never to files outside of that root. Never
 * waits for the other end of a pipe. Returns a descriptor and fills *ret_facts (may be NULL);
 * -EINVAL: not a regular file; otherwise the negative errno of open. */
int ag_foreign_file_open(const char *path, enum ag_foreign_links links, struct stat *ret_facts);
/* Reads the status of the file at PATH without opening it. The file may be of any type; PATH is
 * resolved like that of ag_foreign_file_open. Returns 0 or a negative errno. */
int ag_foreign_file_look(const char *path, struct stat *ret_facts);

/* The bytes that the file occupies on disk: less than its size if it has holes. If the file system
 * does not count them, the size is returned. */
uint64_t ag_foreign_file_stored_bytes(const struct stat *facts);
/* Whether the file consists mostly of holes. Such a file, of a few KiB on disk, can make a reader
 * allocate gigabytes of memory. */
bool ag_foreign_file_is_sparse(const struct stat *facts);

/* Whether FACTS are those of the file that process PID has mapped at MAPPING. */
bool ag_foreign_file_is_mapped(const struct stat *facts, int pid,
                               const struct ag_remote_mapping *mapping);

#endif
