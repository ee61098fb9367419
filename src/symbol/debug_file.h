/* debug_file.h: finds the debug information of a stripped file, in the same places and in the same
 * order as gdb; then also directly in the folders with debug files. */
#ifndef AG_DEBUG_FILE_H
#define AG_DEBUG_FILE_H

#include "elf_file.h"

struct ag_debug_places {
    const char *const *folders; /* folders such as /usr/lib/debug: the debug file of /usr/bin/ls is
                                 * there as usr/bin/ls.debug, or in .build-id/, or as ls.debug or
                                 * ls (a copy that is not stripped) */
    size_t n_folders;
    bool allow_debuginfod;
};

/* Opens FOLDER/.build-id/ab/cdef...SUFFIX of the first folder that has this file. "abcdef..." is
 * the build id; SUFFIX is ".debug", or "" for the program itself. Returns 0 or -ENOENT. */
int ag_debug_file_by_build_id(const struct ag_debug_places *places, const struct ag_build_id *id,
                              const char *suffix, struct ag_elf_file *ret_file);
/* Opens the separate debug file of MAIN: by its build id, then by its .gnu_debuglink (name and
 * checksum), then by the name of MAIN, then by debuginfod if that is allowed. Returns 0 or
 * -ENOENT. */
int ag_debug_file_find(const struct ag_debug_places *places, const struct ag_elf_file *main,
                       struct ag_elf_file *ret_file);
/* Opens the shared file of DEBUG: the file into which the tool dwz has moved what DEBUG and other
 * debug files have in common. Section .gnu_debugaltlink of DEBUG has the name and the build id of
 * the shared file. Returns 0; -ENOENT: the shared file was not found; -ENODATA: DEBUG has no shared
 * file. */
int ag_debug_file_find_shared(const struct ag_debug_places *places, const struct ag_elf_file *debug,
                              struct ag_elf_file *ret_file);

enum ag_debuginfod_kind { AG_DEBUGINFOD_DEBUG, AG_DEBUGINFOD_EXECUTABLE };

/* Gets a file by its build id from the cache of libdebuginfod, or from the servers in
 * DEBUGINFOD_URLS. Must be called only if the options of the symbolizer allow debuginfod. Returns 0
 * or -ENOENT. */
int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file);

#endif
