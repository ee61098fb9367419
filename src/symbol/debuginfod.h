/* debuginfod.h: gets files by build id from the network. Called only if the caller's options allow
 * it. */
#ifndef AG_DEBUGINFOD_H
#define AG_DEBUGINFOD_H

#include "elf_file.h"

enum ag_debuginfod_kind { AG_DEBUGINFOD_DEBUG, AG_DEBUGINFOD_EXECUTABLE };

/* Asks the library's cache and the servers in DEBUGINFOD_URLS (which the library reads). Returns 0
 * or -ENOENT. */
int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file);

#endif
