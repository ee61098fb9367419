/* eh_frame.h: looks up the CFI row of one pc (the row of the DWARF call frame table) in the
 * .eh_frame section of an image (a loaded file).
 *
 * A lookup reads mapped memory, checks every address against the caller's bounds, allocates
 * nothing, and needs half a KiB of stack. Registers have DWARF's numbers in this file. The caller
 * passes the number of the register whose rule it needs. An FDE is the entry of one function. The
 * FDE of a pc is found in the sorted table that the linker writes (.eh_frame_hdr). Programs that
 * were linked by `gcc -static` or musl-gcc have no such table, and neither does .debug_frame; for
 * these, the caller makes a sorted table with ag_eh_frame_index. */
#ifndef AG_EH_FRAME_H
#define AG_EH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_cfi_tables {
    uintptr_t eh_frame_hdr; /* address of the section .eh_frame_hdr; 0: none */
    uintptr_t low, high;    /* [low, high): readable memory; no byte outside is read */
    /* address of the section .debug_frame, whose entries contain absolute pcs; 0: the entries are
     * those of .eh_frame */
    uintptr_t debug_frame;
    /* For code without .eh_frame_hdr: a sorted table, which the caller owns. */
    const struct ag_cfi_place *places; /* NULL: none */
    size_t n_places;
    uintptr_t places_pc; /* the address to which ag_cfi_place.first_pc is relative */
};
struct ag_cfi_place {
    int32_t first_pc; /* relative to ag_cfi_tables.places_pc */
    int32_t entry;    /* offset of the FDE from ag_cfi_tables.low */
};

enum ag_cfi_rule_kind {
    AG_CFI_SAME,      /* the caller has the same value in the register; also if there is no rule */
    AG_CFI_UNDEFINED, /* no value; for the return address: this is the outermost frame */
    AG_CFI_AT_CFA,    /* the register is saved at CFA + offset */
    AG_CFI_IS_CFA,    /* the register's value is CFA + offset */
    /* rule of a register: its value is in register `reg`; rule of the CFA: the CFA is the value of
     * register `reg` plus offset */
    AG_CFI_IN_REGISTER,
    AG_CFI_AT_EXPRESSION, /* the register is saved at the address that the expression computes */
    AG_CFI_IS_EXPRESSION, /* the register (or the CFA) has the value of the expression */
};
struct ag_cfi_rule {
    union {
        int64_t offset;
        const uint8_t *expression; /* all bytes of the expression lie within the tables' bounds */
    };
    uint16_t expression_bytes;
    uint8_t kind; /* enum ag_cfi_rule_kind */
    uint8_t reg;
};
struct ag_cfi_row {
    struct ag_cfi_rule cfa; /* its kind is AG_CFI_IN_REGISTER or AG_CFI_IS_EXPRESSION */
    struct ag_cfi_rule return_address, wanted;
};
struct ag_cfi_entry {        /* properties of the whole function */
    uintptr_t function, end; /* [function, end): its pcs */
    bool is_signal_frame;
};

/* Finds the row of the instruction at pc, with the rule of register `wanted`. -ENOENT: no entry
 * covers pc; -EBADMSG: the tables are damaged or of an unknown kind. */
int ag_eh_frame_find(const struct ag_cfi_tables *tables, uintptr_t pc, uint32_t wanted,
                     struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry);

/* Finds the function that contains pc, in less time than ag_eh_frame_find. Returns the same
 * errors. */
int ag_eh_frame_function(const struct ag_cfi_tables *tables, uintptr_t pc,
                         struct ag_cfi_entry *ret_entry);

/* ---- tables without a header ---------------------------------------------- */

/* Whether `header`, the first bytes of .eh_frame_hdr, begins a table that ag_eh_frame_find can
 * search. (If a linker does not understand an entry, it writes a header without a table.) */
enum { AG_EH_FRAME_HEADER_BYTES = 4 };
bool ag_eh_frame_is_sorted(const uint8_t header[AG_EH_FRAME_HEADER_BYTES]);

/* Fills ret_places, sorted, with the FDEs of the section [section, section + n_bytes), which must
 * lie within the bounds of TABLES. The places are relative to tables->places_pc and tables->low.
 * Takes at most LIMIT FDEs; leaves out those that are damaged, have no code or are further than
 * 2 GiB away. Ends at an entry whose length is damaged, because the next entry cannot be found.
 * Returns the number of places. Takes about 50 ns for an FDE; more if the functions are not in the
 * order of their addresses. */
size_t ag_eh_frame_index(const struct ag_cfi_tables *tables, uintptr_t section, size_t n_bytes,
                         struct ag_cfi_place *ret_places, size_t limit);
/* Returns an upper limit of the number of places that ag_eh_frame_index makes. Reads only the
 * length and the id of each entry. */
size_t ag_eh_frame_count(const struct ag_cfi_tables *tables, uintptr_t section, size_t n_bytes);

#endif
