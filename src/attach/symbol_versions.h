/* symbol_versions.h: whether the C library of a process is new enough for the agent. */
#ifndef AG_SYMBOL_VERSIONS_H
#define AG_SYMBOL_VERSIONS_H

#include <stdbool.h>

#include "remote/remote_elf.h"

enum { AG_VERSION_NAME_BYTES = 64 };

/* Whether AGENT needs a symbol version of the C library, such as GLIBC_2.17, that LIBC does not
 * define; then ret_name is the name of the version. Returns false if one of the files has no
 * readable table: then the loader has to decide. */
bool ag_symbol_versions_lack(const struct ag_remote_elf *agent, const struct ag_remote_elf *libc,
                             char ret_name[AG_VERSION_NAME_BYTES]);

#endif
