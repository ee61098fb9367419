/* debug_file.h: finds the debug information of a stripped file: in the places that gdb searches, in
 * its order. */
#ifndef AG_DEBUG_FILE_H
#define AG_DEBUG_FILE_H

#include "elf_file.h"

struct ag_debug_places {
    const char *const
        *folders; /* such as /usr/lib/debug: each has .build-id/ and copies of the tree */
    size_t n_folders;
    bool allow_debuginfod;
};

/* FOLDER/.build-id/ab/cdef...SUFFIX in each folder; SUFFIX is ".debug", or "" for the program
 * itself. 0 or -ENOENT. */
int ag_debug_file_by_build_id(const struct ag_debug_places *places, const struct ag_build_id *id,
                              const char *suffix, struct ag_elf_file *ret_file);
/* The separate debug file of MAIN: by its build id, by its .gnu_debuglink (name and checksum), by
 * debuginfod when that is allowed. 0 or -ENOENT. */
int ag_debug_file_find(const struct ag_debug_places *places, const struct ag_elf_file *main,
                       struct ag_elf_file *ret_file);
/* The file into which dwz has moved what DEBUG shares with other debug files. DEBUG's
 * .gnu_debugaltlink has its name and build id. Returns 0; -ENOENT: that file is not there;
 * -ENODATA: DEBUG names none. */
int ag_debug_file_find_shared(const struct ag_debug_places *places, const struct ag_elf_file *debug,
                              struct ag_elf_file *ret_file);

enum ag_debuginfod_kind { AG_DEBUGINFOD_DEBUG, AG_DEBUGINFOD_EXECUTABLE };

/* Gets a file by its build id from the cache of libdebuginfod, or from the servers in
 * DEBUGINFOD_URLS. Only called if the options of the symbolizer allow it. Returns 0 or -ENOENT. */
int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file);

#endif
