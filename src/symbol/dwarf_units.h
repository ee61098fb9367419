/* dwarf_units.h: the compilation units of a file: which one holds an address, and its functions and
 * name spaces. */
#ifndef AG_DWARF_UNITS_H
#define AG_DWARF_UNITS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address_ranges.h"
#include "pointer_table.h"

struct ag_dwarf_function {
    Dwarf_Die die;
    struct ag_inline_tree *tree; /* what was inlined into it; built at the first look-up */
};
/* A name space, class, or function: DIEs with offsets in (begin, end) are declared in it. */
struct ag_dwarf_container {
    Dwarf_Off begin, end;
    size_t parent; /* index + 1 of the one around it, 0: none */
    const char *name;
    bool is_function; /* what it holds is only known of a unit that was read completely */
};
struct ag_dwarf_unit {
    Dwarf_Die die;
    bool is_skeleton; /* its functions are in a split unit, opened at reading */
    enum { AG_UNIT_UNREAD, AG_UNIT_OUTLINE, AG_UNIT_COMPLETE } reading;
    struct ag_dwarf_function *functions;
    size_t n_functions;
    struct ag_address_ranges ranges;       /* of functions */
    struct ag_dwarf_container *containers; /* by begin */
    size_t n_containers;
};
struct ag_dwarf_units { /* all zero: empty */
    char *folder;       /* of the file, as the kernel names it */
    struct ag_dwarf_unit **units;
    size_t n_units, capacity;
    struct ag_address_ranges ranges; /* of units */
    struct ag_pointer_table
        by_cu; /* libdw's handle -> unit; also units without code, of other files */
};

/* DWARF comes from the file at PATH. */
int ag_dwarf_units_read(struct ag_dwarf_units *units, Dwarf *dwarf, const char *path);
void ag_dwarf_units_clear(struct ag_dwarf_units *units);

struct ag_dwarf_unit *ag_dwarf_units_at(const struct ag_dwarf_units *units, uint64_t address);
/* The function of UNIT whose code holds ADDRESS, or NULL. */
struct ag_dwarf_function *ag_dwarf_unit_function_at(struct ag_dwarf_units *units,
                                                    struct ag_dwarf_unit *unit, uint64_t address);
/* NAME of the entry DIE with its name spaces before it, "outer::inner::name", cut to CAPACITY. */
void ag_dwarf_units_qualify(struct ag_dwarf_units *units, Dwarf_Die *die, const char *name,
                            char *ret_text, size_t capacity);

/* Adds all code ranges of DIE, each with VALUE. */
int ag_dwarf_add_ranges(Dwarf_Die *die, size_t value, struct ag_address_ranges *ranges);

#endif
