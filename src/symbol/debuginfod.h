/* debuginfod.h: files by build id from the network. Only called when the caller's options allow it.
 */
#ifndef AG_DEBUGINFOD_H
#define AG_DEBUGINFOD_H

#include "elf_file.h"

enum ag_debuginfod_kind { AG_DEBUGINFOD_DEBUG, AG_DEBUGINFOD_EXECUTABLE };

/* Asks the servers that DEBUGINFOD_URLS names (the library reads it) and its cache. 0, or -ENOENT.
 */
int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file);

#endif
