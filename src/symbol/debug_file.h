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
/* The file that dwz made of DEBUG's shared parts: named in its .gnu_debugaltlink, with the build id
 * stated there. Returns 0, -ENOENT: the named file is not there; -ENODATA: it names none. */
int ag_debug_file_find_shared(const struct ag_debug_places *places, const struct ag_elf_file *debug,
                              struct ag_elf_file *ret_file);

/* Gets files by build id from the network. Called only if the caller's options allow
 * it. */
enum ag_debuginfod_kind { AG_DEBUGINFOD_DEBUG, AG_DEBUGINFOD_EXECUTABLE };

/* Asks the library's cache and the servers in DEBUGINFOD_URLS (which the library reads). Returns 0
 * or -ENOENT. */
int ag_debuginfod_open(const struct ag_build_id *id, enum ag_debuginfod_kind kind,
                       struct ag_elf_file *ret_file);

#endif
