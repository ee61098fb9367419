/* dwarf_units.c: reads the units (one for each compiled source file) of DWARF debug information,
 * but only the parts that look-ups need.
 *
 * When a file is opened, the first entry of each unit is read, for its address ranges. (clang and
 * rustc write no .debug_aranges.) At the first look-up in a unit, the outline of the unit is read:
 * all functions and name spaces outside of function bodies. If an address of the unit is in none of
 * these functions, the whole unit is read once, because functions of local classes and nested
 * functions are inside of bodies. The inlined calls of a function are read when an address of the
 * function is looked up, see inline_tree.c. */
#include "dwarf_units.h"

#include <dwarf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "elf_file.h"
#include "inline_tree.h"
#include "remote/foreign_file.h"
#include "table/array.h"

/* ---- visiting entries ---- */

/* The walk keeps the path of entries from the root. It ends at an entry whose offset is not greater
 * than that of the previous entry, so no file can make the walk endless. */
void ag_die_walk(const Dwarf_Die *root, struct ag_work_meter *meter, ag_die_visit_fn *visit,
                 void *context) {
    Dwarf_Die path[AG_DIE_DEPTH];
    Dwarf_Die start = *root;
    if (dwarf_child(&start, &path[0]) != 0) {
        return;
    }
    Dwarf_Off last = dwarf_dieoffset(&start);
    for (size_t depth = 0;;) {
        const Dwarf_Off offset = dwarf_dieoffset(&path[depth]);
        if (offset <= last || !ag_work_meter_step(meter)) {
            return;
        }
        last = offset;
        if (visit(context, &path[depth], depth) && depth + 1 < AG_DIE_DEPTH &&
            dwarf_child(&path[depth], &path[depth + 1]) == 0) {
            depth++;
            continue;
        }
        while (!ag_work_meter_step(meter) || dwarf_siblingof(&path[depth], &path[depth]) != 0) {
            if (depth == 0) {
                return;
            }
            depth--;
        }
    }
}

/* ---- split units ---- */

/* A split unit is in a file of its own (.dwo); the main file has only a skeleton of the unit. libdw
 * opens the .dwo file when the unit is first used, even if the path names a pipe without a writer,
 * which would block. So each path that libdw would open is checked first: there must be no file, or
 * a regular file. */

enum { PATH_BYTES = 4096 };

static const char *text_of(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr(die, name, &attribute));
}

static bool is_skeleton(Dwarf_Die *die) {
    return dwarf_tag(die) == DW_TAG_skeleton_unit || dwarf_hasattr(die, DW_AT_dwo_name) ||
           dwarf_hasattr(die, DW_AT_GNU_dwo_name);
}

/* Adds the bytes that the file at PATH occupies to meter->stored_bytes, once for each file. Returns
 * false if libdw would have to decompress too much. */
static bool is_readable(const char *path, const struct stat *status, struct ag_index_map *counted,
                        struct ag_work_meter *meter) {
    static const struct ag_build_id any;
    struct ag_elf_file file;
    const int r = ag_elf_file_open(path, &any, NULL, &file);
    if (r < 0) {
        /* libdw does not read such a file either, except a file with holes (-EFBIG) */
        return r != -EFBIG;
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

static bool split_unit_open(Dwarf_Die *skeleton, const char *folder, struct ag_index_map *counted,
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

enum {
    RANGES_PER_DIE = 1 << 16, /* the largest number seen is 30,000, in a unit of clang, which was
                               * linked with link-time optimization */
    CONTAINER_DEPTH = 32,     /* most name spaces that are shown before the name of a function */
    /* units that are read between two calls of ag_work_meter_look; libdw may read a long table for
     * each unit */
    UNITS_PER_LOOK = 8,
};

int ag_dwarf_add_ranges(Dwarf_Die *die, size_t value, struct ag_address_ranges *ranges,
                        struct ag_work_meter *meter) {
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    for (size_t n = 0; n < RANGES_PER_DIE && ag_work_meter_step(meter) &&
                       (at = dwarf_ranges(die, at, &base, &low, &high)) > 0;
         n++) {
        if (low == 0) {
            continue; /* the range of code that the linker removed */
        }
        const int r = ag_address_ranges_add(ranges, low, high, value);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static struct ag_dwarf_unit *unit_free(struct ag_dwarf_unit *unit) {
    for (size_t i = 0; i < unit->n_functions; i++) {
        ag_inline_tree_free(unit->functions[i].tree);
    }
    free(unit->functions);
    free(unit->containers);
    ag_address_ranges_clear(&unit->ranges);
    free(unit);
    return NULL;
}

/* Adds the unit whose first entry is DIE to UNITS. NULL: out of memory. */
static struct ag_dwarf_unit *unit_new(struct ag_dwarf_units *units, const Dwarf_Die *die) {
    struct ag_dwarf_unit *unit = calloc(1, sizeof(*unit));
    if (unit == NULL) {
        return NULL;
    }
    unit->die = *die;
    if (AG_ARRAY_ADD(units->units, units->n_units, unit) < 0) {
        return unit_free(unit);
    }
    return ag_pointer_map_put(&units->by_cu, (uintptr_t)die->cu, unit) == 0 ? unit : NULL;
}

static struct ag_dwarf_unit *unit_of(struct ag_dwarf_units *units, Dwarf_Die *die) {
    struct ag_dwarf_unit *unit = ag_pointer_map_find(&units->by_cu, (uintptr_t)die->cu);
    if (unit != NULL) {
        return unit;
    }
    Dwarf_Die first;
    return dwarf_diecu(die, &first, NULL, NULL) != NULL ? unit_new(units, &first) : NULL;
}

static bool is_unit(int tag) {
    return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit;
}

static char *folder_of(const char *path) {
    char *real = realpath(path, NULL);
    char *slash = real != NULL ? strrchr(real, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
    }
    return real;
}

int ag_dwarf_units_read(struct ag_dwarf_units *units, Dwarf *dwarf, const char *path) {
    units->folder = folder_of(path);
    Dwarf_Off offset = 0, next;
    size_t header_bytes;
    while ((units->n_units % UNITS_PER_LOOK == 0 ? ag_work_meter_look(units->meter)
                                                 : ag_work_meter_step(units->meter)) &&
           dwarf_nextcu(dwarf, offset, &next, &header_bytes, NULL, NULL, NULL) == 0 &&
           next > offset) {
        Dwarf_Die die;
        const bool is_read = dwarf_offdie(dwarf, offset + header_bytes, &die) != NULL;
        offset = next;
        if (!is_read || !is_unit(dwarf_tag(&die))) {
            continue;
        }
        struct ag_dwarf_unit *unit = unit_new(units, &die);
        if (unit == NULL) {
            return -ENOMEM;
        }
        unit->is_skeleton = is_skeleton(&die);
        const int r = ag_dwarf_add_ranges(&die, units->n_units - 1, &units->ranges, units->meter);
        if (r < 0) {
            return r;
        }
    }
    if (units->meter != NULL && units->meter->is_spent) {
        /* the ranges are dropped, because sorting them may cost as much as reading them */
        ag_address_ranges_clear(&units->ranges);
    }
    ag_address_ranges_sort(&units->ranges);
    return 0;
}

/* Returns the length of the unit's line program (which makes its line table) according to its
 * header; 0: there is none. */
static uint64_t line_program_bytes(const struct ag_dwarf_units *units, struct ag_dwarf_unit *unit) {
    Dwarf_Attribute attribute;
    Dwarf_Word offset;
    uint32_t length = 0;
    uint64_t long_length = 0;
    const Elf_Data *section = units->line_section;
    if (section == NULL ||
        dwarf_formudata(dwarf_attr(&unit->die, DW_AT_stmt_list, &attribute), &offset) != 0 ||
        offset > section->d_size || section->d_size - offset < sizeof length) {
        return 0;
    }
    const uint8_t *header = (const uint8_t *)section->d_buf + offset;
    memcpy(&length, header, sizeof length);
    if (length == UINT32_MAX && section->d_size - offset >= sizeof length + sizeof long_length) {
        memcpy(&long_length, header + sizeof length, sizeof long_length);
        return long_length;
    }
    return length;
}

bool ag_dwarf_unit_has_lines(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit) {
    if (units->meter == NULL || unit->lines == AG_LINES_READ) {
        return true;
    }
    if (unit->lines == AG_LINES_UNKNOWN) {
        const uint64_t n_bytes = line_program_bytes(units, unit);
        const bool is_within = n_bytes <= units->most_line_bytes / 2 &&
                               n_bytes <= units->most_line_bytes - units->line_bytes;
        unit->lines = is_within ? AG_LINES_READ : AG_LINES_REFUSED;
        (void)ag_work_meter_look(units->meter); /* before libdw reads the lines */
        units->line_bytes += is_within ? n_bytes : 0;
        units->n_refused += !is_within;
    }
    return unit->lines == AG_LINES_READ;
}

void ag_dwarf_units_clear(struct ag_dwarf_units *units) {
    for (size_t i = 0; i < units->n_units; i++) {
        unit_free(units->units[i]);
    }
    free(units->units);
    free(units->folder);
    ag_address_ranges_clear(&units->ranges);
    ag_pointer_map_done(&units->by_cu, NULL);
    ag_index_map_done(&units->split_files);
    *units = (struct ag_dwarf_units){0};
}

struct ag_dwarf_unit *ag_dwarf_units_at(const struct ag_dwarf_units *units, uint64_t address) {
    const struct ag_address_range *range = ag_address_ranges_find(&units->ranges, address);
    return range != NULL ? units->units[range->value] : NULL;
}

/* State while a unit is read. The first n_open elements of `open` are the containers (name spaces,
 * classes, functions) around the current entry, outermost first. */
struct unit_reading {
    struct ag_dwarf_unit *unit;
    struct ag_work_meter *meter;
    bool bodies; /* whether entries inside of functions are read, too */
    int result;
    size_t n_open;
    struct {
        size_t container, depth;
    } open[AG_DIE_DEPTH];
};

static bool is_container(int tag) {
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_enumeration_type: /* enumerations of Rust may contain functions */
    case DW_TAG_subprogram:       /* functions may contain local classes */
        return true;
    default:
        return false;
    }
}

static bool is_body(int tag) {
    return tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block ||
           tag == DW_TAG_inlined_subroutine || tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
}

static int add_function(struct unit_reading *reading, const Dwarf_Die *die) {
    struct ag_dwarf_unit *unit = reading->unit;
    const size_t n_ranges = unit->ranges.n;
    Dwarf_Die copy = *die;
    const int r = ag_dwarf_add_ranges(&copy, unit->n_functions, &unit->ranges, reading->meter);
    return r == 0 && unit->ranges.n > n_ranges
               ? AG_ARRAY_ADD(unit->functions, unit->n_functions,
                              (struct ag_dwarf_function){.die = *die})
               : r;
}

static int open_container(struct unit_reading *reading, Dwarf_Die *die, size_t depth) {
    struct ag_dwarf_unit *unit = reading->unit;
    const char *name = dwarf_diename(die);
    if (name == NULL && dwarf_tag(die) == DW_TAG_namespace) {
        name = "(anonymous namespace)";
    }
    const struct ag_dwarf_container container = {
        .begin = dwarf_dieoffset(die),
        .end = UINT64_MAX,
        .parent = reading->n_open > 0 ? reading->open[reading->n_open - 1].container + 1 : 0,
        .name = name,
        .is_function = dwarf_tag(die) == DW_TAG_subprogram,
    };
    reading->open[reading->n_open].container = unit->n_containers;
    reading->open[reading->n_open++].depth = depth;
    return AG_ARRAY_ADD(unit->containers, unit->n_containers, container);
}

static bool dwarf_units_visit(void *context, Dwarf_Die *die, size_t depth) {
    struct unit_reading *reading = context;
    while (reading->n_open > 0 && reading->open[reading->n_open - 1].depth >= depth) {
        reading->unit->containers[reading->open[--reading->n_open].container].end =
            dwarf_dieoffset(die);
    }
    if (reading->result < 0) {
        return false;
    }
    const int tag = dwarf_tag(die);
    if (tag == DW_TAG_subprogram) {
        reading->result = add_function(reading, die);
    }
    if (reading->result == 0 && is_container(tag)) {
        reading->result = open_container(reading, die, depth);
    }
    return is_body(tag) ? reading->bodies : is_container(tag);
}

/* Opens the split unit of a skeleton. The entries of the split unit belong to UNIT from then on. */
static bool open_split(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit,
                       Dwarf_Die *ret_root) {
    Dwarf_Die root;
    if (units->folder == NULL ||
        !split_unit_open(&unit->die, units->folder, &units->split_files, units->meter, &root) ||
        ag_pointer_map_put(&units->by_cu, (uintptr_t)root.cu, unit) < 0) {
        return false;
    }
    *ret_root = root;
    return true;
}

static void read_unit(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit, bool bodies) {
    for (size_t i = 0; i < unit->n_functions; i++) {
        unit->functions[i].tree = ag_inline_tree_free(unit->functions[i].tree);
    }
    free(unit->functions);
    free(unit->containers);
    ag_address_ranges_clear(&unit->ranges);
    unit->functions = NULL;
    unit->containers = NULL;
    unit->n_functions = unit->n_containers = 0;

    struct unit_reading reading = {.unit = unit, .meter = units->meter, .bodies = bodies};
    unit->reading = bodies ? AG_UNIT_COMPLETE : AG_UNIT_OUTLINE;
    Dwarf_Die root = unit->die;
    (void)ag_work_meter_look(units->meter);
    if (unit->is_skeleton && !open_split(units, unit, &root)) {
        return;
    }
    ag_die_walk(&root, units->meter, dwarf_units_visit, &reading);
    if (units->meter != NULL && units->meter->is_spent) {
        /* the ranges are dropped, because sorting them may cost as much as reading them */
        ag_address_ranges_clear(&unit->ranges);
    }
    ag_address_ranges_sort(&unit->ranges);
}

struct ag_dwarf_function *ag_dwarf_unit_function_at(struct ag_dwarf_units *units,
                                                    struct ag_dwarf_unit *unit, uint64_t address) {
    for (;;) {
        const struct ag_address_range *range = ag_address_ranges_find(&unit->ranges, address);
        if (range != NULL) {
            return &unit->functions[range->value];
        }
        if (unit->reading == AG_UNIT_COMPLETE) {
            return NULL;
        }
        read_unit(units, unit, /* bodies= */ unit->reading == AG_UNIT_OUTLINE);
    }
}

/* Returns 1 + the index of the innermost container around OFFSET, or 0. */
static size_t container_around(const struct ag_dwarf_unit *unit, Dwarf_Off offset) {
    size_t after = 0; /* containers[after - 1].begin < offset <= containers[after].begin */
    for (size_t end = unit->n_containers; after < end;) {
        const size_t middle = after + (end - after) / 2;
        if (unit->containers[middle].begin < offset) {
            after = middle + 1;
        } else {
            end = middle;
        }
    }
    while (after > 0 && unit->containers[after - 1].end <= offset) {
        after = unit->containers[after - 1].parent;
    }
    return after;
}

void ag_dwarf_units_qualify(struct ag_dwarf_units *units, Dwarf_Die *die, const char *name,
                            char *ret_text, size_t capacity) {
    const char *around[CONTAINER_DEPTH];
    size_t n = 0;
    struct ag_dwarf_unit *unit = unit_of(units, die);
    if (unit != NULL) {
        if (unit->reading == AG_UNIT_UNREAD) {
            read_unit(units, unit, /* bodies= */ false);
        }
        size_t at = container_around(unit, dwarf_dieoffset(die));
        if (at > 0 && unit->containers[at - 1].is_function && unit->reading != AG_UNIT_COMPLETE) {
            read_unit(units, unit, /* bodies= */ true);
            at = container_around(unit, dwarf_dieoffset(die));
        }
        for (; at > 0 && n < CONTAINER_DEPTH; at = unit->containers[at - 1].parent) {
            const char *outer = unit->containers[at - 1].name;
            if (outer == NULL) {
                outer = n == 0 && strcmp(name, "operator()") == 0 ? "{lambda}" : "{unnamed type}";
            }
            around[n++] = outer;
        }
    }
    size_t length = 0;
    for (size_t i = 0; i <= n; i++) {
        const char *piece = i < n ? around[n - 1 - i] : name;
        const size_t piece_bytes = strnlen(piece, capacity);
        if (length + piece_bytes + 3 > capacity) {
            break;
        }
        memcpy(ret_text + length, piece, piece_bytes);
        length += piece_bytes;
        if (i < n) {
            memcpy(ret_text + length, "::", 2);
            length += 2;
        }
    }
    ret_text[length] = '\0';
}
