/* eh_frame.h: what an image's .eh_frame says about one pc.
 *
 * Reads mapped memory, checks every address against the bounds it was given, allocates nothing, and
 * needs half a KiB of stack. No register has a name here: numbers are DWARF's, and the caller says
 * which register it wants to know about. */
#ifndef AG_EH_FRAME_H
#define AG_EH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_cfi_tables {
    uintptr_t eh_frame_hdr; /* address of the section */
    uintptr_t low, high;    /* readable memory; nothing outside of it is read */
    uintptr_t debug_frame;  /* not 0: the entries are those of a .debug_frame section that begins
                               here, and its pcs are absolute */
    /* Of code without a header, instead of it: a sorted table that somebody else keeps. */
    const struct ag_cfi_place *places; /* NULL: none */
    size_t n_places;
    uintptr_t places_pc; /* that the places' first pcs count from */
};
struct ag_cfi_place {
    int32_t first_pc;
    int32_t entry; /* counted from low */
};

enum ag_cfi_rule_kind {
    AG_CFI_SAME,          /* the register still has its value (also: nothing is said of it) */
    AG_CFI_UNDEFINED,     /* it has none; of the return address: this is the outermost frame */
    AG_CFI_AT_CFA,        /* saved at CFA + offset */
    AG_CFI_IS_CFA,        /* its value is CFA + offset */
    AG_CFI_IN_REGISTER,   /* its value is that of register `reg` (of the CFA: plus offset) */
    AG_CFI_AT_EXPRESSION, /* saved where the expression says */
    AG_CFI_IS_EXPRESSION, /* its value (of the CFA: the CFA) is what the expression says */
};
struct ag_cfi_rule {
    union {
        int64_t offset;
        const uint8_t *expression; /* within the tables' bounds ... */
    };
    uint16_t expression_bytes; /* ... with all its bytes */
    uint8_t kind;              /* enum ag_cfi_rule_kind */
    uint8_t reg;
};
struct ag_cfi_row {
    struct ag_cfi_rule cfa; /* IN_REGISTER or IS_EXPRESSION */
    struct ag_cfi_rule return_address, wanted;
};
struct ag_cfi_entry {   /* what holds for the whole function */
    uintptr_t function; /* its first pc */
    bool is_signal_frame;
};

/* The row that holds for the instruction at pc, with the rule of register `wanted`; -ENOENT: no
 * entry covers pc; -EBADMSG: the tables are damaged or of a kind we do not know. */
int ag_eh_frame_find(const struct ag_cfi_tables *tables, uintptr_t pc, uint32_t wanted,
                     struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry);

/* ---- without a sorted table: statically linked programs, .debug_frame ------ */

/* Visits each FDE of the section [section, section + n_bytes), which lies within the bounds; what
 * is damaged ends the walk. */
typedef void ag_cfi_entry_fn(void *context, uintptr_t fde, uintptr_t first_pc,
                             uintptr_t code_bytes);
void ag_eh_frame_walk(const struct ag_cfi_tables *tables, uintptr_t section, size_t n_bytes,
                      ag_cfi_entry_fn *visit, void *context);
/* As ag_eh_frame_find, of the FDE at this address. */
int ag_eh_frame_read(const struct ag_cfi_tables *tables, uintptr_t fde, uintptr_t pc,
                     uint32_t wanted, struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry);

#endif
