/* dwarf_units.h: reads the compilation units of a file's DWARF debug information: finds the unit of
 * an address, and the functions and name spaces of a unit. */
#ifndef AG_DWARF_UNITS_H
#define AG_DWARF_UNITS_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address_ranges.h"
#include "table/pointer_map.h"
#include "work_meter.h"

/* ag_die_walk visits the tree of debugging information entries (DIEs) below one entry. It does not
 * recurse, and terminates for any contents of the file. Entries that are deeper than AG_DIE_DEPTH
 * are not visited; compilers make entries that are less than 100 deep. */
enum { AG_DIE_DEPTH = 256 };

/* Called for each entry, parents before children. DEPTH: 0 for a child of the root. Returns true if
 * the children of the entry are to be visited. */
typedef bool ag_die_visit_fn(void *context, Dwarf_Die *die, size_t depth);

/* The walk ends early if METER (may be NULL) reaches its limit. */
void ag_die_walk(const Dwarf_Die *root, struct ag_work_meter *meter, ag_die_visit_fn *visit,
                 void *context);

struct ag_dwarf_function {
    Dwarf_Die die;
    /* the inlined calls of the function; read at the first look-up in the function */
    struct ag_inline_tree *tree;
};
/* A name space, class, or function. DIEs with offsets after `begin` and before `end` are declared
 * in it. */
struct ag_dwarf_container {
    Dwarf_Off begin, end;
    size_t parent; /* 1 + index of the container around this container; 0: none */
    const char *name;
    /* the container is a function, whose contents are known only if the unit was read completely */
    bool is_function;
};
struct ag_dwarf_unit {
    Dwarf_Die die;
    /* whether libdw may read the line program; see ag_dwarf_unit_has_lines */
    enum { AG_LINES_UNKNOWN, AG_LINES_READ, AG_LINES_REFUSED } lines;
    /* the functions are in a split unit (a .dwo file), which is opened when the unit is read */
    bool is_skeleton;
    /* which functions were read: none, those outside of function bodies, or all */
    enum { AG_UNIT_UNREAD, AG_UNIT_OUTLINE, AG_UNIT_COMPLETE } reading;
    struct ag_dwarf_function *functions;
    size_t n_functions;
    struct ag_address_ranges ranges;       /* address ranges of the functions */
    struct ag_dwarf_container *containers; /* sorted by begin */
    size_t n_containers;
};
struct ag_dwarf_units {           /* all zero: empty */
    struct ag_work_meter *meter;  /* limits the work for a loaded file; NULL: no limit */
    const Elf_Data *line_section; /* .debug_line; NULL: the file has none */
    /* Bytes of line programs (which make line tables) that were read, and the most that may be
     * read. A single line program may have half of most_line_bytes. (A byte of a program can create
     * a row of 120 bytes in memory.) */
    uint64_t line_bytes, most_line_bytes;
    size_t n_refused; /* number of units whose lines are not read because of most_line_bytes */
    char *folder;     /* absolute path of the file's folder, without symbolic links */
    struct ag_dwarf_unit **units;
    size_t n_units;
    struct ag_address_ranges ranges; /* address ranges of the units */
    /* libdw's handle of a unit -> struct ag_dwarf_unit; also for units without code, and for
     * units of other files (.dwo, dwz) to which this file refers */
    struct ag_pointer_map by_cu;
    struct ag_index_map split_files; /* the files of split units whose sizes were counted */
};

/* Reads the units of DWARF, which is the debug information of the file at PATH. Returns 0 or
 * -ENOMEM. */
int ag_dwarf_units_read(struct ag_dwarf_units *units, Dwarf *dwarf, const char *path);
void ag_dwarf_units_clear(struct ag_dwarf_units *units);

struct ag_dwarf_unit *ag_dwarf_units_at(const struct ag_dwarf_units *units, uint64_t address);
/* Returns the function of UNIT whose code contains ADDRESS, or NULL. */
struct ag_dwarf_function *ag_dwarf_unit_function_at(struct ag_dwarf_units *units,
                                                    struct ag_dwarf_unit *unit, uint64_t address);
/* Writes NAME, the name of the entry DIE, after the names of its name spaces: "outer::inner::name".
 * The text is truncated to CAPACITY. */
void ag_dwarf_units_qualify(struct ag_dwarf_units *units, Dwarf_Die *die, const char *name,
                            char *ret_text, size_t capacity);

/* Whether lines of UNIT may be looked up. The first look-up makes libdw run the whole line program
 * of the unit, so the result is false if this program is too long. */
bool ag_dwarf_unit_has_lines(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit);

/* Adds the code ranges of DIE to RANGES, each with VALUE: all ranges, or as many as METER (may be
 * NULL) allows. Returns 0 or -ENOMEM. */
int ag_dwarf_add_ranges(Dwarf_Die *die, size_t value, struct ag_address_ranges *ranges,
                        struct ag_work_meter *meter);

#endif
