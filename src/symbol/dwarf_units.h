/* dwarf_units.h: the compilation units of a file: finds the unit of an address, and its functions
 * and name spaces. */
#ifndef AG_DWARF_UNITS_H
#define AG_DWARF_UNITS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address_ranges.h"
#include "table/pointer_map.h"
#include "work_meter.h"

/* Visits the tree of debugging entries (DIEs) below one, without recursion and with any content of
 * the file. */
enum { AG_DIE_DEPTH = 256 }; /* deeper entries are not visited; compilers stay below 100 */

/* Called for each entry, parents first; DEPTH 0 is a child of the root. Returns true if its
 * children are to be visited. */
typedef bool ag_die_visit_fn(void *context, Dwarf_Die *die, size_t depth);

/* Ends early when METER (may be NULL) is spent. */
void ag_die_walk(const Dwarf_Die *root, struct ag_work_meter *meter, ag_die_visit_fn *visit,
                 void *context);

struct ag_dwarf_function {
    Dwarf_Die die;
    struct ag_inline_tree *tree; /* inlined calls; built at the first look-up */
};
/* A name space, class, or function: DIEs with offsets in (begin, end) are declared in it. */
struct ag_dwarf_container {
    Dwarf_Off begin, end;
    size_t parent; /* index + 1 of the one around it, 0: none */
    const char *name;
    bool is_function; /* its contents are known only if the unit was read completely */
};
struct ag_dwarf_unit {
    Dwarf_Die die;
    enum { AG_LINES_UNKNOWN, AG_LINES_READ, AG_LINES_REFUSED } lines;
    bool is_skeleton; /* its functions are in a split unit (a .dwo file), opened when it is read */
    enum { AG_UNIT_UNREAD, AG_UNIT_OUTLINE, AG_UNIT_COMPLETE } reading;
    struct ag_dwarf_function *functions;
    size_t n_functions;
    struct ag_address_ranges ranges;       /* of functions */
    struct ag_dwarf_container *containers; /* sorted by begin */
    size_t n_containers;
};
struct ag_dwarf_units {           /* all zero: empty */
    struct ag_work_meter *meter;  /* the image's; NULL: no bound */
    const Elf_Data *line_section; /* .debug_line, NULL: none */
    /* Bytes of line programs: read so far, and the maximum, of which one program may have half. (A
     * byte of a program can create a row of 120 bytes in memory.) */
    uint64_t line_bytes, most_line_bytes;
    size_t n_refused; /* units whose lines are not read because of that maximum */
    char *folder;     /* of the file, as the kernel names it */
    struct ag_dwarf_unit **units;
    size_t n_units;
    struct ag_address_ranges ranges; /* of units */
    struct ag_pointer_map
        by_cu; /* libdw's handle -> unit; also units without code, of other files */
    struct ag_index_map split_files; /* files of split units whose size is counted */
};

/* DWARF comes from the file at PATH. */
int ag_dwarf_units_read(struct ag_dwarf_units *units, Dwarf *dwarf, const char *path);
void ag_dwarf_units_clear(struct ag_dwarf_units *units);

struct ag_dwarf_unit *ag_dwarf_units_at(const struct ag_dwarf_units *units, uint64_t address);
/* The function of UNIT whose code contains ADDRESS, or NULL. */
struct ag_dwarf_function *ag_dwarf_unit_function_at(struct ag_dwarf_units *units,
                                                    struct ag_dwarf_unit *unit, uint64_t address);
/* NAME of the entry DIE after its name spaces, "outer::inner::name", truncated to CAPACITY. */
void ag_dwarf_units_qualify(struct ag_dwarf_units *units, Dwarf_Die *die, const char *name,
                            char *ret_text, size_t capacity);

/* Whether the line program of UNIT may be run: libdw runs all of it at the first query. */
bool ag_dwarf_unit_has_lines(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit);

/* Adds the code ranges of DIE, each with VALUE: all, or as many as METER (may be NULL) allows. */
int ag_dwarf_add_ranges(Dwarf_Die *die, size_t value, struct ag_address_ranges *ranges,
                        struct ag_work_meter *meter);

#endif
