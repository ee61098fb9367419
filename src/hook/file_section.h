/* file_section.h: finds a section of a loaded object by its name, in the section headers of the
 * object's file. The loader does not map these headers. */
#ifndef AG_FILE_SECTION_H
#define AG_FILE_SECTION_H

#include <link.h>
#include <stdint.h>

struct ag_file_section {
    uint64_t address; /* as in the file, without the load bias */
    uint64_t n_bytes;
};

/* Searches the file at PATH for a section that is loaded, but is no code. OBJECT: the loaded
 * object; the file is refused if its program headers differ from those in memory. Never waits and
 * never maps the file; the numbers in *ret_section are not checked. Returns 0; -ENOENT: the file
 * has no such section; -ESTALE: another file; -ENOEXEC: not a 64-bit ELF file, or a damaged one, or
 * reading failed; else the negative errno of opening the file. */
int ag_file_section_find(const char *path, const struct dl_phdr_info *object, const char *name,
                         struct ag_file_section *ret_section);

#endif
