/* eh_frame.c: finds the CFI row of one pc (the row of the DWARF call frame table), for the
 * unwinder. It searches the sorted table of .eh_frame_hdr for the FDE, the entry of one function.
 * The FDE refers to its CIE, an entry with data that several FDEs share.
 *
 *     .eh_frame_hdr   version | encodings x 3 | &.eh_frame | n | (first pc, &FDE) x n, sorted
 *     FDE             length | back to CIE | first pc | bytes of code | augmentation | program
 *     CIE             length | 0 | version | "zPLRS" | alignments | RA | augmentation | program
 *
 * A row is computed on demand: most programs need a few hundred of the 10^5 rows in their images
 * (z3 needs 3,829), and the computation of one row takes 100 to 140 ns. The CFI program of the CIE
 * runs first and gives the initial row, whose rules DW_CFA_restore restores; then the FDE's program
 * runs until it passes the pc.
 *
 * Damaged tables are harmless: a reader never reads outside of [at, end); a read beyond the end
 * sets is_bad and returns zero. Every instruction takes a byte or more, so a CFI program ends. The
 * stack of remembered rows is limited to REMEMBERED_ROWS. The fields of a CIE before its program
 * are limited to CIE_HEAD_BYTES, so that an index of n FDEs takes time in proportion to n, even if
 * all of them refer to one damaged CIE. */
#include "unwind/eh_frame.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/byte_reader.h"
#include "base/compiler.h"

enum {
    ENCODING_OMIT = 0xff,
    ENCODING_FORMAT = 0x0f,
    ENCODING_BASE = 0x70,
    ENCODING_INDIRECT = 0x80,
    HDR_VERSION = 1,
    /* version of a CIE in DWARF 4, which added two bytes after the augmentation */
    VERSION_WITH_SIZES = 4,
    /* datarel | sdata4: every linker writes this encoding; the search supports no other */
    HDR_TABLE_ENCODING = 0x3b,
    REMEMBERED_ROWS = 3, /* compilers nest DW_CFA_remember_state once */
    CIE_HEAD_BYTES = 64, /* compilers write at most 25 */
};

/* ---- reading ------------------------------------------------------------- */

/* Reads a pointer in a DW_EH_PE_* encoding. `data_base` is the base of datarel pointers. If the
 * encoding has ENCODING_INDIRECT, returns the address of the pointer and not its value. */
static uint64_t read_encoded(struct ag_byte_reader *reader, uint8_t encoding, uintptr_t data_base) {
    const uintptr_t place = (uintptr_t)reader->at;
    uint64_t value = 0;
    if (encoding == ENCODING_OMIT) {
        return 0;
    }
    switch (encoding & ENCODING_FORMAT) {
    case 0x00: // absptr
    case 0x04: // udata8
    case 0x0c: // sdata8
        value = ag_byte_reader_take(reader, 8);
        break;
    case 0x01:
        value = ag_byte_reader_uleb(reader);
        break;
    case 0x02:
        value = ag_byte_reader_take(reader, 2);
        break;
    case 0x03:
        value = ag_byte_reader_take(reader, 4);
        break;
    case 0x09:
        value = (uint64_t)ag_byte_reader_sleb(reader);
        break;
    case 0x0a:
        value = (uint64_t)(int16_t)ag_byte_reader_take(reader, 2);
        break;
    case 0x0b:
        value = (uint64_t)(int32_t)ag_byte_reader_take(reader, 4);
        break;
    default:
        reader->is_bad = true;
        return 0;
    }
    switch (encoding & ENCODING_BASE) {
    case 0x00: // absolute
        return value;
    case 0x10: // pcrel
        return place + value;
    case 0x30: // datarel
        return data_base + value;
    default: // textrel, funcrel, aligned: no compiler writes them for x86-64 or AArch64
        reader->is_bad = true;
        return 0;
    }
}

static bool contains(const struct ag_cfi_tables *tables, uintptr_t address, size_t bytes) {
    return address >= tables->low && address <= tables->high && tables->high - address >= bytes;
}

/* ---- entries ------------------------------------------------------------- */
struct entry {                  /* a CIE or FDE */
    struct ag_byte_reader body; /* after the length and the id */
    uintptr_t id_address; /* address of the id; the CIE of an FDE is at this address minus the id */
    uint32_t id;
};
struct common { /* a parsed CIE */
    uint64_t code_alignment;
    int64_t data_alignment;
    uint64_t return_register;
    struct ag_byte_reader instructions;
    uint8_t pointer_encoding;
    bool is_signal_frame;
    bool has_augmentation;
};

static bool open_entry(const struct ag_cfi_tables *tables, uintptr_t address,
                       struct entry *ret_entry) {
    if (!contains(tables, address, 8)) {
        return false;
    }
    uint32_t length, id;
    memcpy(&length, (const void *)address, 4);
    memcpy(&id, (const void *)(address + 4), 4);
    /* A length of 0 ends the section. The length 0xffffffff begins an entry of 64-bit DWARF, which
     * is not supported, because sections below 4 GiB do not need it. */
    if (length < 4 || !contains(tables, address + 4, length)) {
        return false;
    }
    *ret_entry = (struct entry){
        .body = {.at = (const uint8_t *)address + 8, .end = (const uint8_t *)address + 4 + length},
        .id_address = address + 4,
        .id = id,
    };
    return true;
}

/* The id of a CIE. In an FDE, the same field contains the offset of its CIE. */
static uint32_t id_of_common(const struct ag_cfi_tables *tables) {
    return tables->debug_frame != 0 ? UINT32_MAX : 0;
}

/* Whether this version of a CIE is supported. Skips the fields that only DWARF 4 has after the
 * augmentation. */
static bool is_known_version(uint8_t version, struct ag_byte_reader *body) {
    if (version == VERSION_WITH_SIZES &&
        (ag_byte_reader_take(body, 1) != sizeof(uintptr_t) || ag_byte_reader_take(body, 1) != 0)) {
        return false; // addresses of another size, or with segments
    }
    return (version == 1 || version == 3 || version == VERSION_WITH_SIZES) && !body->is_bad;
}

static AG_NOINLINE bool parse_common(const struct ag_cfi_tables *tables, uintptr_t address,
                                     struct common *ret_common) {
    struct entry entry;
    if (!open_entry(tables, address, &entry) || entry.id != id_of_common(tables)) {
        return false;
    }
    struct ag_byte_reader head = entry.body, *body = &head;
    if (head.end - head.at > CIE_HEAD_BYTES) {
        head.end = head.at + CIE_HEAD_BYTES;
    }
    struct common common = {0};
    const uint8_t version = (uint8_t)ag_byte_reader_take(body, 1);
    const uint8_t *augmentation = body->at;
    while (ag_byte_reader_take(body, 1) != 0) {
    }
    const uint8_t *augmentation_end = body->at - 1;
    if (!is_known_version(version, body)) {
        return false;
    }
    common.code_alignment = ag_byte_reader_uleb(body);
    common.data_alignment = ag_byte_reader_sleb(body);
    common.return_register =
        version == 1 ? ag_byte_reader_take(body, 1) : ag_byte_reader_uleb(body);
    if (*augmentation == 'z') {
        common.has_augmentation = true;
        const uint64_t bytes = ag_byte_reader_uleb(body);
        const uint8_t *data = ag_byte_reader_skip(body, bytes);
        struct ag_byte_reader reader = {.at = data, .end = body->at};
        for (const uint8_t *letter = augmentation + 1; letter < augmentation_end; letter++) {
            switch (*letter) {
            case 'R':
                common.pointer_encoding = (uint8_t)ag_byte_reader_take(&reader, 1);
                break;
            case 'P': {
                const uint8_t encoding = (uint8_t)ag_byte_reader_take(&reader, 1);
                (void)read_encoded(&reader, encoding & ~ENCODING_INDIRECT,
                                   0); // the personality routine: not used
                break;
            }
            case 'L':
                (void)ag_byte_reader_take(&reader, 1);
                break;
            case 'S':
                common.is_signal_frame = true;
                break;
            default: // unknown: the rest cannot be parsed; it is skipped by its length
                letter = augmentation_end - 1;
                break;
            }
        }
        body->is_bad |= reader.is_bad;
    } else if (*augmentation != 0) {
        return false;
    }
    common.instructions = (struct ag_byte_reader){.at = body->at, .end = entry.body.end};
    if (body->is_bad) {
        return false;
    }
    *ret_common = common;
    return true;
}

/* Returns the address of the FDE that may cover pc: the last FDE whose first pc is at or before pc.
 * 0: none. bytes: a sorted array of struct ag_cfi_place, not empty, possibly unaligned. Its
 * first_pc fields are relative to pc_base, its entry fields to entry_base. */
static uintptr_t search_places(const uint8_t *bytes, uint64_t n_places, uintptr_t pc_base,
                               uintptr_t entry_base, uintptr_t pc) {
    const int64_t relative = (int64_t)(pc - pc_base);
    uint64_t low = 0, high = n_places; // place[low].first_pc <= relative < place[high].first_pc
    struct ag_cfi_place place;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        memcpy(&place, bytes + middle * sizeof place, sizeof place);
        if (place.first_pc <= relative) {
            low = middle;
        } else {
            high = middle;
        }
    }
    memcpy(&place, bytes + low * sizeof place, sizeof place);
    return place.first_pc <= relative ? entry_base + (uintptr_t)(intptr_t)place.entry : 0;
}

bool ag_eh_frame_is_sorted(const uint8_t header[AG_EH_FRAME_HEADER_BYTES]) {
    return header[0] == HDR_VERSION && header[2] != ENCODING_OMIT &&
           header[3] == HDR_TABLE_ENCODING;
}

static AG_NOINLINE uintptr_t search_header(const struct ag_cfi_tables *tables, uintptr_t pc) {
    const uintptr_t header = tables->eh_frame_hdr;
    if (header == 0 || !contains(tables, header, AG_EH_FRAME_HEADER_BYTES)) {
        return 0;
    }
    const uint8_t *bytes = (const uint8_t *)header;
    struct ag_byte_reader reader = {.at = bytes + AG_EH_FRAME_HEADER_BYTES,
                                    .end = (const uint8_t *)tables->high};
    if (!ag_eh_frame_is_sorted(bytes)) {
        return 0;
    }
    (void)read_encoded(&reader, /* of .eh_frame */ bytes[1], header);
    const uint64_t n_entries = read_encoded(&reader, /* of the count */ bytes[2], header);
    if (reader.is_bad || n_entries == 0 ||
        n_entries > (uint64_t)(reader.end - reader.at) / sizeof(struct ag_cfi_place)) {
        return 0;
    }
    return search_places(reader.at, n_entries, header, header, pc);
}

/* ---- the CFI program ----------------------------------------------------- */
struct machine {
    const struct common *common;
    uint32_t wanted;                /* DWARF register */
    struct ag_cfi_row row;          /* the current row */
    const struct ag_cfi_row *first; /* the row of the CIE; NULL while the CIE's program runs */
    struct ag_cfi_row remembered[REMEMBERED_ROWS];
    int n_remembered;
};

static void set_rule(struct machine *machine, uint64_t reg, struct ag_cfi_rule rule) {
    if (reg == machine->common->return_register) {
        machine->row.return_address = rule;
    }
    if (reg == machine->wanted) {
        machine->row.wanted = rule;
    }
}

static void restore_rule(struct machine *machine, uint64_t reg) {
    static const struct ag_cfi_row nothing;
    const struct ag_cfi_row *first = machine->first != NULL ? machine->first : &nothing;
    if (reg == machine->common->return_register) {
        machine->row.return_address = first->return_address;
    }
    if (reg == machine->wanted) {
        machine->row.wanted = first->wanted;
    }
}

static struct ag_cfi_rule offset_rule(enum ag_cfi_rule_kind kind, int64_t factored,
                                      int64_t alignment) {
    return (struct ag_cfi_rule){.kind = kind,
                                .offset = (int64_t)((uint64_t)factored * (uint64_t)alignment)};
}

static struct ag_cfi_rule read_expression_rule(struct ag_byte_reader *reader,
                                               enum ag_cfi_rule_kind kind) {
    const uint64_t bytes = ag_byte_reader_uleb(reader);
    if (bytes > UINT16_MAX) {
        reader->is_bad = true;
        return (struct ag_cfi_rule){0};
    }
    const uint8_t *expression = ag_byte_reader_skip(reader, bytes);
    return (struct ag_cfi_rule){
        .kind = kind, .expression = expression, .expression_bytes = (uint16_t)bytes};
}

static void define_cfa(struct machine *machine, uint64_t reg, int64_t offset) {
    machine->row.cfa = (struct ag_cfi_rule){
        .kind = AG_CFI_IN_REGISTER, .reg = (uint8_t)(reg < 255 ? reg : 255), .offset = offset};
}

/* Runs an instruction that sets the rule of a register. Returns false if `operation` is another
 * instruction. */
static bool run_register_instruction(struct machine *machine, struct ag_byte_reader *reader,
                                     uint8_t operation) {
    const int64_t data = machine->common->data_alignment;
    const uint64_t reg = ag_byte_reader_uleb(reader);
    switch (operation) {
    case 0x05: // offset_extended
        set_rule(machine, reg,
                 offset_rule(AG_CFI_AT_CFA, (int64_t)ag_byte_reader_uleb(reader), data));
        return true;
    case 0x06: // restore_extended
        restore_rule(machine, reg);
        return true;
    case 0x07: // undefined
        set_rule(machine, reg, (struct ag_cfi_rule){.kind = AG_CFI_UNDEFINED});
        return true;
    case 0x08: // same_value
        set_rule(machine, reg, (struct ag_cfi_rule){.kind = AG_CFI_SAME});
        return true;
    case 0x09: { // register
        const uint64_t other = ag_byte_reader_uleb(reader);
        set_rule(machine, reg,
                 (struct ag_cfi_rule){.kind = AG_CFI_IN_REGISTER,
                                      .reg = (uint8_t)(other < 255 ? other : 255)});
        return true;
    }
    case 0x10: // expression
        set_rule(machine, reg, read_expression_rule(reader, AG_CFI_AT_EXPRESSION));
        return true;
    case 0x11: // offset_extended_sf
        set_rule(machine, reg, offset_rule(AG_CFI_AT_CFA, ag_byte_reader_sleb(reader), data));
        return true;
    case 0x14: // val_offset
        set_rule(machine, reg,
                 offset_rule(AG_CFI_IS_CFA, (int64_t)ag_byte_reader_uleb(reader), data));
        return true;
    case 0x15: // val_offset_sf
        set_rule(machine, reg, offset_rule(AG_CFI_IS_CFA, ag_byte_reader_sleb(reader), data));
        return true;
    case 0x16: // val_expression
        set_rule(machine, reg, read_expression_rule(reader, AG_CFI_IS_EXPRESSION));
        return true;
    case 0x2f: // GNU_negative_offset_extended
        set_rule(machine, reg,
                 offset_rule(AG_CFI_AT_CFA, -(int64_t)ag_byte_reader_uleb(reader), data));
        return true;
    default:
        return false;
    }
}

/* Runs an instruction that changes the CFA, the whole row or the rule of a register. Returns false
 * if the instruction is unknown, or invalid at this place. */
static bool run_row_instruction(struct machine *machine, struct ag_byte_reader *reader,
                                uint8_t operation) {
    struct ag_cfi_row *row = &machine->row;
    const int64_t data = machine->common->data_alignment;
    switch (operation) {
    case 0x00: // nop
        return true;
    case 0x0a: // remember_state
        if (machine->n_remembered == REMEMBERED_ROWS) {
            return false;
        }
        machine->remembered[machine->n_remembered++] = *row;
        return true;
    case 0x0b: // restore_state
        if (machine->n_remembered == 0) {
            return false;
        }
        *row = machine->remembered[--machine->n_remembered];
        return true;
    case 0x0c: { // def_cfa
        const uint64_t reg = ag_byte_reader_uleb(reader);
        define_cfa(machine, reg, (int64_t)ag_byte_reader_uleb(reader));
        return true;
    }
    case 0x12: { // def_cfa_sf
        const uint64_t reg = ag_byte_reader_uleb(reader);
        define_cfa(machine, reg,
                   offset_rule(AG_CFI_AT_CFA, ag_byte_reader_sleb(reader), data).offset);
        return true;
    }
    case 0x0d: // def_cfa_register
        define_cfa(machine, ag_byte_reader_uleb(reader),
                   row->cfa.kind == AG_CFI_IN_REGISTER ? row->cfa.offset : 0);
        return true;
    case 0x0e: // def_cfa_offset
    case 0x13: // def_cfa_offset_sf
        if (row->cfa.kind != AG_CFI_IN_REGISTER) {
            return false;
        }
        row->cfa.offset =
            operation == 0x0e
                ? (int64_t)ag_byte_reader_uleb(reader)
                : offset_rule(AG_CFI_AT_CFA, ag_byte_reader_sleb(reader), data).offset;
        return true;
    case 0x0f: // def_cfa_expression
        row->cfa = read_expression_rule(reader, AG_CFI_IS_EXPRESSION);
        return true;
    case 0x2e: // GNU_args_size
        (void)ag_byte_reader_uleb(reader);
        return true;
    default:
        return run_register_instruction(machine, reader, operation);
    }
}

/* Runs a CFI program until the row of pc is complete. `location`: the first pc of the program. */
static bool cfi_program_run(struct machine *machine, struct ag_byte_reader reader,
                            uintptr_t location, uintptr_t pc) {
    const struct common *common = machine->common;
    while (reader.at < reader.end) {
        const uint8_t byte = (uint8_t)ag_byte_reader_take(&reader, 1);
        const uint8_t low_bits = byte & 0x3f;
        uint64_t delta;
        switch (byte) {
        case 0x01: // set_loc
            delta = read_encoded(&reader, common->pointer_encoding, 0) - location;
            break;
        case 0x02: // advance_loc1, 2, 4
            delta = ag_byte_reader_take(&reader, 1) * common->code_alignment;
            break;
        case 0x03:
            delta = ag_byte_reader_take(&reader, 2) * common->code_alignment;
            break;
        case 0x04:
            delta = ag_byte_reader_take(&reader, 4) * common->code_alignment;
            break;
        default:
            switch (byte >> 6) {
            case 1: // advance_loc
                delta = low_bits * common->code_alignment;
                break;
            case 2: // offset
                set_rule(machine, low_bits,
                         offset_rule(AG_CFI_AT_CFA, (int64_t)ag_byte_reader_uleb(&reader),
                                     common->data_alignment));
                continue;
            case 3: // restore
                restore_rule(machine, low_bits);
                continue;
            default:
                if (!run_row_instruction(machine, &reader, byte)) {
                    return false;
                }
                continue;
            }
        }
        location += delta;
        if (location > pc) {
            break;
        }
    }
    return !reader.is_bad;
}

/* Reads the head of the FDE: its CIE and its range of code. Afterward ret_entry->body begins after
 * this head. */
static bool open_description(const struct ag_cfi_tables *tables, uintptr_t fde,
                             struct entry *ret_entry, struct common *ret_common,
                             uintptr_t *ret_first_pc, uintptr_t *ret_code_bytes) {
    struct entry entry;
    struct common common;
    if (!open_entry(tables, fde, &entry) || entry.id == id_of_common(tables)) {
        return false;
    }
    const uintptr_t cie =
        tables->debug_frame != 0 ? tables->debug_frame + entry.id : entry.id_address - entry.id;
    if (!parse_common(tables, cie, &common)) {
        return false;
    }
    struct ag_byte_reader *body = &entry.body;
    *ret_first_pc = read_encoded(body, common.pointer_encoding, 0);
    *ret_code_bytes = read_encoded(body, common.pointer_encoding & ENCODING_FORMAT, 0);
    if (common.has_augmentation) {
        const uint64_t bytes = ag_byte_reader_uleb(body);
        (void)ag_byte_reader_skip(body, bytes);
    }
    *ret_entry = entry;
    *ret_common = common;
    return !body->is_bad;
}

/* Returns the FDE that may cover pc; 0: none. */
static uintptr_t find_description(const struct ag_cfi_tables *tables, uintptr_t pc) {
    return tables->n_places > 0 ? search_places((const uint8_t *)tables->places, tables->n_places,
                                                tables->places_pc, tables->low, pc)
                                : search_header(tables, pc);
}

/* Finds and opens the FDE that covers pc; see open_description. */
static int open_covering(const struct ag_cfi_tables *tables, uintptr_t pc, struct entry *ret_entry,
                         struct common *ret_common, struct ag_cfi_entry *ret_function) {
    uintptr_t first_pc, code_bytes;
    const uintptr_t fde = find_description(tables, pc);
    if (fde == 0) {
        return -ENOENT;
    }
    if (!open_description(tables, fde, ret_entry, ret_common, &first_pc, &code_bytes)) {
        return -EBADMSG;
    }
    *ret_function =
        (struct ag_cfi_entry){first_pc, first_pc + code_bytes, ret_common->is_signal_frame};
    return pc < first_pc || pc - first_pc >= code_bytes ? -ENOENT : 0;
}

int ag_eh_frame_find(const struct ag_cfi_tables *tables, uintptr_t pc, uint32_t wanted,
                     struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry) {
    struct entry entry;
    struct common common;
    struct ag_cfi_entry function;
    const int r = open_covering(tables, pc, &entry, &common, &function);
    if (r < 0) {
        return r;
    }
    struct ag_cfi_row first = {0};
    struct machine machine = {.common = &common, .wanted = wanted};
    if (!cfi_program_run(&machine, common.instructions, /* location= */ 0, UINTPTR_MAX)) {
        return -EBADMSG;
    }
    first = machine.row;
    machine.first = &first;
    machine.n_remembered = 0;
    if (!cfi_program_run(&machine, entry.body, function.function, pc)) {
        return -EBADMSG;
    }
    *ret_row = machine.row;
    *ret_entry = function;
    return 0;
}

int ag_eh_frame_function(const struct ag_cfi_tables *tables, uintptr_t pc,
                         struct ag_cfi_entry *ret_entry) {
    struct entry entry;
    struct common common;
    struct ag_cfi_entry function;
    const int r = open_covering(tables, pc, &entry, &common, &function);
    if (r == 0) {
        *ret_entry = function;
    }
    return r;
}

/* ---- an index of tables without a header ---------------------------------- */

size_t ag_eh_frame_count(const struct ag_cfi_tables *tables, uintptr_t section, size_t n_bytes) {
    size_t n = 0;
    struct entry entry;
    for (uintptr_t at = section; at - section < n_bytes && open_entry(tables, at, &entry);
         at = (uintptr_t)entry.body.end) {
        n += entry.id != id_of_common(tables);
    }
    return n;
}

/* Moves place `at` down to its position in a binary heap of n places. No parent has a lower
 * first_pc than its children. */
static void sift_down(struct ag_cfi_place *places, size_t at, size_t n) {
    const struct ag_cfi_place moved = places[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && places[child + 1].first_pc > places[child].first_pc;
        if (places[child].first_pc <= moved.first_pc) {
            break;
        }
        places[at] = places[child];
    }
    places[at] = moved;
}

/* A heap sort, because it needs neither memory nor recursion, and no order of the places makes it
 * slow. */
static void sort_places(struct ag_cfi_place *places, size_t n) {
    for (size_t at = n / 2; at-- > 0;) {
        sift_down(places, at, n);
    }
    for (size_t end = n; end-- > 1;) {
        const struct ag_cfi_place last = places[0];
        places[0] = places[end];
        places[end] = last;
        sift_down(places, 0, end);
    }
}

static bool fits_in_place(uintptr_t value, uintptr_t base, int32_t *ret_distance) {
    const int64_t distance = (int64_t)(value - base);
    *ret_distance = (int32_t)distance;
    return *ret_distance == distance;
}

size_t ag_eh_frame_index(const struct ag_cfi_tables *tables, uintptr_t section, size_t n_bytes,
                         struct ag_cfi_place *ret_places, size_t limit) {
    size_t n = 0;
    bool is_sorted = true;
    struct entry entry;
    /* a length of zero ends the section */
    for (uintptr_t at = section;
         at - section < n_bytes && n < limit && open_entry(tables, at, &entry);) {
        struct entry description;
        struct common common;
        struct ag_cfi_place place;
        uintptr_t first_pc, code_bytes;
        if (entry.id != id_of_common(tables) &&
            open_description(tables, at, &description, &common, &first_pc, &code_bytes) &&
            code_bytes != 0 && fits_in_place(first_pc, tables->places_pc, &place.first_pc) &&
            fits_in_place(at, tables->low, &place.entry)) {
            is_sorted = is_sorted && (n == 0 || ret_places[n - 1].first_pc <= place.first_pc);
            ret_places[n++] = place;
        }
        at = (uintptr_t)entry.body.end;
    }
    if (!is_sorted) {
        sort_places(ret_places, n);
    }
    return n;
}
