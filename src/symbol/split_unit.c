/* split_unit.c: libdw opens the split file when such a unit is first used, whatever the file is,
 * even a pipe without a writer. So each path that libdw would try is checked before: it must not
 * exist, or be a regular file. */
#include "split_unit.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "elf_file.h"
#include "remote/foreign_file.h"

enum { PATH_BYTES = 4096 };

static const char *text_of(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr(die, name, &attribute));
}

bool ag_split_unit_is_skeleton(Dwarf_Die *die) {
    return dwarf_tag(die) == DW_TAG_skeleton_unit || dwarf_hasattr(die, DW_AT_dwo_name) ||
           dwarf_hasattr(die, DW_AT_GNU_dwo_name);
}

/* Counts what the file occupies, once. Returns false if libdw would have to decompress too much. */
static bool is_readable(const char *path, const struct stat *status, struct ag_index_map *counted,
                        struct ag_work_meter *meter) {
    static const struct ag_build_id any;
    struct ag_elf_file file;
    const int r = ag_elf_file_open(path, &any, NULL, &file);
    if (r < 0) {
        return r != -EFBIG; /* libdw would not read it */
    }
    const bool is = ag_elf_file_decompressed_bytes(&file) <= AG_ELF_GROWTH * file.stored_bytes;
    const uint64_t key = (uint64_t)status->st_ino ^ (uint64_t)status->st_dev << 40;
    if (is && meter != NULL && ag_index_map_number(counted, key, NULL) > 0) {
        meter->stored_bytes += file.stored_bytes;
    }
    ag_elf_file_close(&file);
    return is;
}

static bool is_absent_or_readable(const char *folder, const char *subfolder, const char *name,
                                  struct ag_index_map *counted, struct ag_work_meter *meter) {
    char path[PATH_BYTES];
    const bool name_is_absolute = name[0] == '/', subfolder_is_absolute = subfolder[0] == '/';
    const int length = snprintf(path, sizeof(path), "%s/%s/%s",
                                name_is_absolute || subfolder_is_absolute ? "" : folder,
                                name_is_absolute ? "" : subfolder, name);
    struct stat status;
    return length < (int)sizeof(path) &&
           (ag_foreign_file_look(path, &status) < 0 ||
            (S_ISREG(status.st_mode) && is_readable(path, &status, counted, meter)));
}

bool ag_split_unit_open(Dwarf_Die *skeleton, const char *folder, struct ag_index_map *counted,
                        struct ag_work_meter *meter, Dwarf_Die *ret_die) {
    const char *name = text_of(skeleton, DW_AT_dwo_name);
    if (name == NULL) {
        name = text_of(skeleton, DW_AT_GNU_dwo_name);
    }
    const char *compiled_in = text_of(skeleton, DW_AT_comp_dir);
    if (name == NULL || !is_absent_or_readable(folder, "", name, counted, meter) ||
        (compiled_in != NULL &&
         !is_absent_or_readable(folder, compiled_in, name, counted, meter))) {
        return false;
    }
    Dwarf_Die die;
    if (dwarf_cu_info(skeleton->cu, NULL, NULL, NULL, &die, NULL, NULL, NULL) != 0 ||
        die.addr == NULL) {
        return false;
    }
    *ret_die = die;
    return true;
}
