/* test_unwind_rows.c: reads the unwind rows of .eh_frame (rules for a range of addresses) in the
 * libraries of this process, and compares them with those that elfutils reads from the files, and
 * with those found by an index without .eh_frame_hdr. Also reads damaged tables. */
#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "unwind/arch/arch.h"
#include "unwind/eh_frame.h"

enum { DWARF_RBP = AG_DWARF_FRAME_POINTER, DWARF_RIP = 16, FDES_MAX = 4000, PCS_PER_FDE = 12 };

struct library {
    const char *name;
    uintptr_t bias;
    struct ag_cfi_tables tables;
    Dwarf_CFI *cfi;
    Elf *elf;
    int fd;
};

static int take_tables(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct library *library = context;
    if (info->dlpi_addr != library->bias) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_GNU_EH_FRAME) {
            library->tables.eh_frame_hdr = info->dlpi_addr + header->p_vaddr;
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && library->tables.eh_frame_hdr - start < header->p_memsz) {
            library->tables.low = start;
            library->tables.high = start + header->p_memsz;
        }
    }
    return 1;
}

/* Returns false when the library is not installed. */
static bool open_library(const char *name, struct library *ret_library) {
    void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map;
    if (handle == NULL || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) {
        return false;
    }
    struct library library = {.name = name, .bias = map->l_addr};
    dl_iterate_phdr(take_tables, &library);
    elf_version(EV_CURRENT);
    library.fd = open(map->l_name, O_RDONLY | O_CLOEXEC);
    library.elf = elf_begin(library.fd, ELF_C_READ_MMAP, NULL);
    library.cfi = dwarf_getcfi_elf(library.elf);
    *ret_library = library;
    return library.cfi != NULL;
}

static void close_library(struct library *library) {
    dwarf_cfi_end(library->cfi);
    elf_end(library->elf);
    close(library->fd);
}

/* Whether the operations that elfutils returns mean the same as the rule. */
static bool same_cfa(const struct ag_cfi_rule *rule, const Dwarf_Op *ops, size_t n_ops) {
    if (rule->kind == AG_CFI_IN_REGISTER) {
        return n_ops == 1 && ((ops[0].atom == DW_OP_breg0 + rule->reg &&
                               (int64_t)ops[0].number == rule->offset) ||
                              (ops[0].atom == DW_OP_bregx && ops[0].number == rule->reg &&
                               (int64_t)ops[0].number2 == rule->offset));
    }
    return rule->kind == AG_CFI_IS_EXPRESSION && rule->expression_bytes > 0 &&
           ops[0].atom == rule->expression[0];
}
static bool same_register(const struct ag_cfi_rule *rule, const Dwarf_Op *ops, size_t n_ops) {
    switch ((enum ag_cfi_rule_kind)rule->kind) {
    case AG_CFI_SAME:
        return n_ops == 0 && ops == NULL;
    case AG_CFI_UNDEFINED:
        return n_ops == 0 && ops != NULL;
    case AG_CFI_AT_CFA:
        return n_ops >= 1 && ops[0].atom == DW_OP_call_frame_cfa &&
               (rule->offset == 0 || (n_ops == 2 && ops[1].atom == DW_OP_plus_uconst &&
                                      (int64_t)ops[1].number == rule->offset));
    case AG_CFI_IS_CFA:
    case AG_CFI_IN_REGISTER:
        return n_ops >= 1;
    case AG_CFI_AT_EXPRESSION:
    case AG_CFI_IS_EXPRESSION: // libdw pushes the CFA first
        return n_ops >= 1;
    }
    return false;
}

struct tally {
    unsigned rows, general, by_kind[8];
};

static void compare_row(const struct library *library, uintptr_t pc, struct tally *tally) {
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    Dwarf_Frame *frame = NULL;
    const int r = ag_eh_frame_find(&library->tables, pc, DWARF_RBP, &row, &entry);
    const bool theirs = dwarf_cfi_addrframe(library->cfi, pc - library->bias, &frame) == 0;
    if (!theirs) {
        assert_int_equal(r, -ENOENT);
        return;
    }
    assert_int_equal(r, 0);
    Dwarf_Op *ops, memory[3];
    size_t n_ops;
    bool is_signal;
    assert_int_equal(dwarf_frame_info(frame, NULL, NULL, &is_signal), DWARF_RIP);
    assert_int_equal(is_signal, entry.is_signal_frame);
    assert_int_equal(dwarf_frame_cfa(frame, &ops, &n_ops), 0);
    assert_true(same_cfa(&row.cfa, ops, n_ops));
    assert_int_equal(dwarf_frame_register(frame, DWARF_RIP, memory, &ops, &n_ops), 0);
    assert_true(same_register(&row.return_address, ops, n_ops));
    assert_int_equal(dwarf_frame_register(frame, DWARF_RBP, memory, &ops, &n_ops), 0);
    assert_true(same_register(&row.wanted, ops, n_ops));
    free(frame);
    const uint32_t rule = ag_frame_rule_pack(&row, entry.is_signal_frame);
    tally->rows++;
    tally->by_kind[AG_RULE_KIND(rule)]++;
    tally->general += rule == AG_RULE_GENERAL;
}

static struct tally compare_library(const char *name) {
    struct library library;
    struct tally tally = {0};
    if (!open_library(name, &library)) {
        return tally;
    }
    struct { /* the header that every linker writes */
        uint8_t version, encodings[3];
        int32_t eh_frame;
        uint32_t n_entries;
        struct {
            int32_t pc, entry;
        } entries[];
    } const *header = (const void *)library.tables.eh_frame_hdr;
    const uint32_t stride = header->n_entries / FDES_MAX + 1;
    for (uint32_t i = 0; i + 1 < header->n_entries; i += stride) {
        const uintptr_t first =
            library.tables.eh_frame_hdr + (uintptr_t)(intptr_t)header->entries[i].pc;
        const uintptr_t next =
            library.tables.eh_frame_hdr + (uintptr_t)(intptr_t)header->entries[i + 1].pc;
        const uintptr_t step = (next - first) / PCS_PER_FDE + 1;
        for (uintptr_t pc = first; pc < next; pc += step) {
            compare_row(&library, pc, &tally);
        }
    }
    print_message("# %s: %u rows: sp %u, rbp %u, deref %u, plt %u, signal %u, end %u, general %u\n",
                  name, tally.rows, tally.by_kind[AG_RULE_SP], tally.by_kind[AG_RULE_BP],
                  tally.by_kind[AG_RULE_BP_DEREF], tally.by_kind[AG_RULE_PLT],
                  tally.by_kind[AG_RULE_SIGNAL], tally.by_kind[AG_RULE_END], tally.general);
    close_library(&library);
    return tally;
}

static void rows_of_libc(void **state) {
    (void)state;
    const struct tally tally = compare_library("libc.so.6");
    assert_true(tally.rows > 10000);
    assert_true(tally.by_kind[AG_RULE_SIGNAL] > 0);
    assert_true(tally.general * 1000 < tally.rows);
}
static void rows_of_other_libraries(void **state) {
    (void)state;
    static const char *const names[] = {
        "ld-linux-x86-64.so.2", "libstdc++.so.6", "libcrypto.so.3", "libz3.so.4",
        "libpython3.11.so.1.0", "libm.so.6",      "libelf.so.1"};
    unsigned n_rows = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        n_rows += compare_library(names[i]).rows;
    }
    assert_true(n_rows > 0);
}

/* ---- damage -------------------------------------------------------------- */

/* A copy of libc's tables, at the same distances from each other, between two inaccessible pages,
 * so that a read beyond them crashes. */
struct copy {
    uint8_t *memory;
    size_t bytes;
    struct ag_cfi_tables tables;
    uintptr_t distance; /* a pc of libc + distance is the corresponding pc in the copy */
};
static struct copy copy_tables(const struct library *library) {
    const uintptr_t page = 4096, low = library->tables.low & ~(page - 1);
    const uintptr_t high = (library->tables.high + page - 1) & ~(page - 1);
    struct copy copy = {.bytes = high - low};
    uint8_t *pages =
        mmap(NULL, copy.bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + page, copy.bytes, PROT_READ | PROT_WRITE);
    copy.memory = pages + page;
    memcpy(copy.memory, (const void *)low, library->tables.high - low);
    copy.distance = (uintptr_t)copy.memory - low;
    copy.tables = (struct ag_cfi_tables){
        .eh_frame_hdr = library->tables.eh_frame_hdr + copy.distance,
        .low = (uintptr_t)copy.memory,
        .high = (uintptr_t)copy.memory + copy.bytes,
    };
    return copy;
}

/* The qsort of libc itself, also if a sanitizer replaces qsort. */
static uintptr_t qsort_of_libc(void) {
    return (uintptr_t)dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "qsort");
}

static void damaged_tables_never_crash_or_loop(void **state) {
    (void)state;
    struct library library;
    assert_true(open_library("libc.so.6", &library));
    struct copy copy = copy_tables(&library);
    uint64_t random_state = 1;
    unsigned n_found = 0, n_refused = 0;
    const uintptr_t text = qsort_of_libc(), header_bytes = 64 * 1024;
    for (int round = 0; round < 20000; round++) {
        /* change a few bytes of the header, of its table, or of the entries after it */
        for (int flip = 0; flip < 40; flip++) {
            random_state =
                random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uintptr_t offset = copy.tables.eh_frame_hdr - copy.tables.low;
            const uintptr_t span = flip == 0 ? 12 : flip < 8 ? header_bytes : copy.bytes - offset;
            const uintptr_t place = offset + (random_state >> 20) % span;
            if (flip != 0 || round % 10 == 0) {
                copy.memory[place] ^= (uint8_t)(random_state >> 56);
            }
        }
        for (int i = 0; i < 20; i++) {
            struct ag_cfi_row row;
            struct ag_cfi_entry entry;
            random_state =
                random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uintptr_t pc = text + copy.distance + (random_state >> 30) % 0x40000;
            const int r = ag_eh_frame_find(&copy.tables, pc, DWARF_RBP, &row, &entry);
            if (r == 0) {
                (void)ag_frame_rule_pack(&row, entry.is_signal_frame);
                n_found++;
            } else {
                n_refused++;
            }
        }
        if (round % 50 == 49) { // restore the tables
            memcpy(copy.memory, (const void *)(copy.tables.low - copy.distance),
                   library.tables.high - library.tables.low);
        }
    }
    assert_true(n_found > 1000 && n_refused > 1000);
    munmap(copy.memory - 4096, copy.bytes + 8192);
    close_library(&library);
}

static void tables_outside_their_bounds_are_refused(void **state) {
    (void)state;
    struct library library;
    assert_true(open_library("libc.so.6", &library));
    const uintptr_t pc = qsort_of_libc();
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    assert_int_equal(ag_eh_frame_find(&library.tables, pc, DWARF_RBP, &row, &entry), 0);
    struct ag_cfi_tables cut = library.tables;
    cut.high = cut.eh_frame_hdr + 4;
    assert_int_equal(ag_eh_frame_find(&cut, pc, DWARF_RBP, &row, &entry), -ENOENT);
    cut.high = cut.eh_frame_hdr + 2;
    assert_int_equal(ag_eh_frame_find(&cut, pc, DWARF_RBP, &row, &entry), -ENOENT);
    cut = library.tables;
    cut.low = cut.eh_frame_hdr; // .eh_frame lies after .eh_frame_hdr
    assert_int_equal(ag_eh_frame_find(&cut, pc, DWARF_RBP, &row, &entry), 0);
    cut.low = cut.high;
    assert_int_equal(ag_eh_frame_find(&cut, pc, DWARF_RBP, &row, &entry), -ENOENT);
    close_library(&library);
}

/* ---- tables without a header ------------------------------------------------ */

/* Finds .eh_frame in memory by the section headers of the library's file. */
static uintptr_t eh_frame_of(const struct library *library, size_t *ret_bytes) {
    size_t names;
    assert_int_equal(elf_getshdrstrndx(library->elf, &names), 0);
    for (Elf_Scn *section = NULL; (section = elf_nextscn(library->elf, section)) != NULL;) {
        GElf_Shdr header;
        assert_non_null(gelf_getshdr(section, &header));
        if (strcmp(elf_strptr(library->elf, names, header.sh_name), ".eh_frame") == 0) {
            *ret_bytes = header.sh_size;
            return library->bias + header.sh_addr;
        }
    }
    fail();
    return 0;
}

/* The tables of the section without their header, with an index. The caller frees the places. */
static struct ag_cfi_tables indexed_tables(uintptr_t section, size_t n_bytes, uintptr_t pc_base) {
    struct ag_cfi_tables tables = {.low = section, .high = section + n_bytes, .places_pc = pc_base};
    const size_t n = ag_eh_frame_count(&tables, section, n_bytes);
    struct ag_cfi_place *places = malloc((n + 1) * sizeof *places);
    tables.n_places = ag_eh_frame_index(&tables, section, n_bytes, places, n);
    tables.places = places;
    assert_true(tables.n_places <= n);
    for (size_t i = 1; i < tables.n_places; i++) {
        assert_true(places[i - 1].first_pc <= places[i].first_pc);
    }
    return tables;
}

static bool is_same_row(const struct ag_cfi_row *a, const struct ag_cfi_row *b) {
    return a->cfa.kind == b->cfa.kind && a->cfa.offset == b->cfa.offset &&
           a->return_address.kind == b->return_address.kind &&
           a->return_address.offset == b->return_address.offset &&
           a->wanted.kind == b->wanted.kind && a->wanted.offset == b->wanted.offset;
}

static void an_index_finds_the_rows_of_the_header(void **state) {
    (void)state;
    struct library library;
    assert_true(open_library("libc.so.6", &library));
    size_t n_bytes = 0;
    const uintptr_t section = eh_frame_of(&library, &n_bytes);
    const struct ag_cfi_tables indexed = indexed_tables(section, n_bytes, library.bias);
    assert_true(indexed.n_places > 1000);
    for (size_t i = 0; i < indexed.n_places; i++) {
        const uintptr_t first = library.bias + (uintptr_t)(intptr_t)indexed.places[i].first_pc;
        for (uintptr_t pc = first - 1; pc < first + 40; pc += 13) {
            struct ag_cfi_row row, expected;
            struct ag_cfi_entry entry, expected_entry;
            const int r =
                ag_eh_frame_find(&library.tables, pc, DWARF_RBP, &expected, &expected_entry);
            assert_int_equal(ag_eh_frame_find(&indexed, pc, DWARF_RBP, &row, &entry), r);
            assert_int_equal(ag_eh_frame_function(&indexed, pc, &entry), r);
            if (r == 0) {
                assert_true(is_same_row(&row, &expected));
                assert_int_equal(entry.function, expected_entry.function);
                assert_int_equal(entry.end, expected_entry.end);
                assert_true(entry.function <= pc && pc < entry.end);
            }
        }
    }
    free((void *)indexed.places);
    close_library(&library);
}

/* Entries in a descending order of their addresses: the index sorts them. */
static void an_index_is_sorted(void **state) {
    (void)state;
    enum { FUNCTIONS = 1001 };
    static const uint8_t cie[] = {20, 0,    0,    0, 0,    0,    0, 0, 1,    'z', 'R', 0,
                                  1,  0x78, 0x10, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,   0};
    const size_t fde_bytes = 20, n_bytes = sizeof cie + FUNCTIONS * fde_bytes;
    uint8_t *section = calloc(1, n_bytes);
    memcpy(section, cie, sizeof cie);
    const uintptr_t code = (uintptr_t)section + 0x100000;
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        uint8_t *fde = section + sizeof cie + i * fde_bytes;
        const uint32_t head[2] = {(uint32_t)fde_bytes - 4, (uint32_t)(fde + 4 - section)};
        const int32_t code_range[2] = {
            (int32_t)(code + (FUNCTIONS - i) * UINT32_C(64) - (uintptr_t)(fde + 8)), 48};
        memcpy(fde, head, sizeof head);
        memcpy(fde + 8, code_range, sizeof code_range);
    }
    const struct ag_cfi_tables tables = indexed_tables((uintptr_t)section, n_bytes, code);
    assert_int_equal(tables.n_places, FUNCTIONS);
    for (uintptr_t i = 1; i <= FUNCTIONS; i++) {
        struct ag_cfi_entry entry;
        assert_int_equal(ag_eh_frame_function(&tables, code + i * 64 + 47, &entry), 0);
        assert_int_equal(entry.function, code + i * 64);
        assert_int_equal(entry.end, code + i * 64 + 48);
        assert_int_equal(ag_eh_frame_function(&tables, code + i * 64 + 48, &entry), -ENOENT);
    }
    free((void *)tables.places);
    free(section);
}

static void damaged_tables_without_a_header_never_crash_or_loop(void **state) {
    (void)state;
    struct library library;
    assert_true(open_library("libc.so.6", &library));
    size_t n_bytes = 0;
    const uintptr_t section = eh_frame_of(&library, &n_bytes);
    /* inaccessible pages lie before and after the copy, which ends where the second one begins */
    const size_t copy_bytes = (n_bytes + 4095) / 4096 * 4096;
    uint8_t *pages = mmap(NULL, copy_bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + 4096, copy_bytes, PROT_READ | PROT_WRITE), 0);
    uint8_t *copy = pages + 4096 + (copy_bytes - n_bytes);
    uint64_t random_state = 7;
    for (int round = 0; round < 40; round++) {
        memcpy(copy, (const void *)section, n_bytes);
        for (int flip = 0; flip < 2000; flip++) {
            random_state =
                random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            /* half of the changed bytes (in every fourth round all) are near the end: the index
             * ends at a damaged length, so damage behind that length has no effect */
            const size_t span = flip % 2 == 0 && round % 4 != 0 ? n_bytes : 4096;
            copy[n_bytes - 1 - (random_state >> 20) % span] ^= (uint8_t)(random_state >> 56);
        }
        const struct ag_cfi_tables tables =
            indexed_tables((uintptr_t)copy, n_bytes, (uintptr_t)copy);
        for (size_t i = 0; i < tables.n_places; i += 7) {
            struct ag_cfi_row row;
            struct ag_cfi_entry entry;
            const uintptr_t pc = (uintptr_t)copy + (uintptr_t)(intptr_t)tables.places[i].first_pc;
            (void)ag_eh_frame_find(&tables, pc + i % 50, DWARF_RBP, &row, &entry);
        }
        free((void *)tables.places);
    }
    munmap(pages, copy_bytes + 8192);
    close_library(&library);
}

/* A million entries refer to a CIE whose fields are a megabyte long: such a CIE is refused after
 * some bytes, otherwise this would take hours. */
static void a_long_common_entry_does_not_slow_down_the_index(void **state) {
    (void)state;
    enum { CIE_BYTES = 1 << 20, FDES = 1 << 20, FDE_BYTES = 12 };
    const size_t n_bytes = CIE_BYTES + (size_t)FDES * FDE_BYTES;
    uint8_t *section = malloc(n_bytes);
    memset(section, 'z', n_bytes);
    const uint32_t cie[2] = {CIE_BYTES - 4, 0};
    memcpy(section, cie, sizeof cie);
    section[8] = 1;
    for (uint32_t i = 0; i < FDES; i++) {
        uint8_t *fde = section + CIE_BYTES + (size_t)i * FDE_BYTES;
        const uint32_t head[2] = {FDE_BYTES - 4, (uint32_t)(fde + 4 - section)};
        memcpy(fde, head, sizeof head);
    }
    const struct ag_cfi_tables tables = indexed_tables((uintptr_t)section, n_bytes, 0);
    assert_int_equal(tables.n_places, 0);
    free((void *)tables.places);
    free(section);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_index_finds_the_rows_of_the_header),
        cmocka_unit_test(an_index_is_sorted),
        cmocka_unit_test(damaged_tables_without_a_header_never_crash_or_loop),
        cmocka_unit_test(a_long_common_entry_does_not_slow_down_the_index),
        cmocka_unit_test(rows_of_libc),
        cmocka_unit_test(rows_of_other_libraries),
        cmocka_unit_test(damaged_tables_never_crash_or_loop),
        cmocka_unit_test(tables_outside_their_bounds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
