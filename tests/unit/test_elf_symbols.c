/* test_elf_symbols.c: finds functions by name in the file of this program, and in files in which
 * several symbols have one name. Files without symbols or with invalid symbol tables are
 * refused. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "hook/elf_symbols.h"

__attribute__((noinline, used)) static int local_function(int x) {
    return x + 1;
}

int global_function(int x);
__attribute__((noinline, used)) int global_function(int x) {
    return x + 2;
}

int global_variable = 1;

static int note_bias(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    *(uint64_t *)context = info->dlpi_addr;
    return 1; /* stops after the first object, which is the program */
}

static void functions_of_this_program_are_found(void **state) {
    (void)state;
    static const char *const names[] = {
        "local_function", "global_function", "global_variable", "no_such_name", "main", ""};
    struct ag_elf_symbols symbols;
    struct ag_elf_symbol found[6];
    uint64_t bias = 0;
    dl_iterate_phdr(note_bias, &bias);
    assert_int_equal(ag_elf_symbols_open("/proc/self/exe", &symbols), 0);
    assert_int_equal(ag_elf_symbols_find(&symbols, names, 6, found), 3);
    assert_int_equal(found[0].address + bias, (uintptr_t)local_function);
    assert_int_equal(found[1].address + bias, (uintptr_t)global_function);
    assert_true(found[1].size_bytes > 0);
    assert_int_equal(found[2].address, 0); /* is not a function */
    assert_int_equal(found[3].address, 0);
    assert_true(found[4].address != 0);
    assert_int_equal(found[5].address, 0);
    ag_elf_symbols_close(&symbols);
    ag_elf_symbols_close(&symbols);
}

static void files_without_symbols_are_refused(void **state) {
    (void)state;
    struct ag_elf_symbols symbols;
    assert_int_equal(ag_elf_symbols_open("/lib/x86_64-linux-gnu/libc.so.6", &symbols), -ENODATA);
    assert_int_equal(ag_elf_symbols_open("/nonexistent", &symbols), -ENOENT);
    assert_int_equal(ag_elf_symbols_open("/dev/null", &symbols), -ENOEXEC);
    assert_int_equal(ag_elf_symbols_open("/tmp", &symbols), -ENOEXEC);
    assert_int_equal(ag_elf_symbols_open("/etc/passwd", &symbols), -ENOEXEC);
}

/* A file with one symbol table of the given symbols. A symbol's name is at offset 1, 5 or 9 of the
 * string table "\0one\0two\0six". */
struct image {
    Elf64_Ehdr header;
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[4];
    char names[16];
};

static struct image image_with(const Elf64_Sym symbols[4]) {
    struct image image = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                   .e_shoff = offsetof(struct image, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 3},
        .sections = {{0},
                     {.sh_type = SHT_SYMTAB,
                      .sh_offset = offsetof(struct image, symbols),
                      .sh_size = 4 * sizeof(Elf64_Sym),
                      .sh_link = 2},
                     {.sh_type = SHT_STRTAB,
                      .sh_offset = offsetof(struct image, names),
                      .sh_size = 16}},
        .names = "\0one\0two\0six\0",
    };
    memcpy(image.symbols, symbols, sizeof(image.symbols));
    return image;
}

static int open_image(const struct image *image, struct ag_elf_symbols *ret_symbols) {
    char path[] = "/tmp/allogram-symbols-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, sizeof(*image)), sizeof(*image));
    close(fd);
    const int r = ag_elf_symbols_open(path, ret_symbols);
    unlink(path);
    return r;
}

#define SYMBOL(name, bind, type, value)                                         \
    {                                                                           \
        .st_name = (name), .st_info = ELF64_ST_INFO(bind, type), .st_shndx = 1, \
        .st_value = (value), .st_size = 8                                       \
    }

static const char *const three_names[] = {"one", "two", "six"};

static void global_symbols_precede_weak_and_weak_precede_local(void **state) {
    (void)state;
    const struct image image = image_with((const Elf64_Sym[]){
        SYMBOL(1, STB_LOCAL, STT_FUNC, 0x10), SYMBOL(1, STB_GLOBAL, STT_FUNC, 0x20),
        SYMBOL(1, STB_WEAK, STT_FUNC, 0x30), SYMBOL(5, STB_WEAK, STT_FUNC, 0x40)});
    struct ag_elf_symbols symbols;
    struct ag_elf_symbol found[3];
    assert_int_equal(open_image(&image, &symbols), 0);
    assert_int_equal(ag_elf_symbols_find(&symbols, three_names, 3, found), 2);
    assert_int_equal(found[0].address, 0x20);
    assert_int_equal(found[1].address, 0x40);
    ag_elf_symbols_close(&symbols);
}

static void several_local_symbols_with_the_same_name_are_not_found(void **state) {
    (void)state;
    const struct image image = image_with((const Elf64_Sym[]){
        SYMBOL(1, STB_LOCAL, STT_FUNC, 0x10), SYMBOL(1, STB_LOCAL, STT_FUNC, 0x20),
        SYMBOL(5, STB_LOCAL, STT_FUNC, 0x30), SYMBOL(9, STB_GLOBAL, STT_GNU_IFUNC, 0x40)});
    struct ag_elf_symbols symbols;
    struct ag_elf_symbol found[3];
    assert_int_equal(open_image(&image, &symbols), 0);
    assert_int_equal(ag_elf_symbols_find(&symbols, three_names, 3, found), 1);
    assert_int_equal(found[0].address, 0);
    assert_int_equal(found[1].address, 0x30);
    assert_int_equal(found[2].address, 0); /* an indirect function (IFUNC) is left out, because its
                                            * symbol has the address of the resolver */
    ag_elf_symbols_close(&symbols);
}

static void damaged_tables_are_refused(void **state) {
    (void)state;
    const Elf64_Sym symbols[4] = {SYMBOL(1, STB_GLOBAL, STT_FUNC, 0x10)};
    const struct image good = image_with(symbols);
    struct ag_elf_symbols opened;
    struct image bad = good;
    bad.header.e_shoff = UINT64_MAX - 7;
    assert_int_equal(open_image(&bad, &opened), -ENOEXEC);
    bad = good;
    bad.header.e_shnum = 0xffff;
    assert_int_equal(open_image(&bad, &opened), -ENOEXEC);
    bad = good;
    bad.sections[1].sh_size = UINT64_MAX / 2;
    assert_int_equal(open_image(&bad, &opened), -ENOEXEC);
    bad = good;
    bad.sections[1].sh_offset = sizeof(bad) + 8;
    assert_int_equal(open_image(&bad, &opened), -ENOEXEC);
    bad = good;
    bad.sections[1].sh_link = 3;
    assert_int_equal(open_image(&bad, &opened), -ENOEXEC);
    bad = good;
    bad.names[15] = 'x'; /* the last name has no terminator */
    assert_int_equal(open_image(&bad, &opened), -ENOEXEC);
    bad = good;
    bad.symbols[0].st_name = 0xffffffff;
    struct ag_elf_symbol found[3];
    assert_int_equal(open_image(&bad, &opened), 0);
    assert_int_equal(ag_elf_symbols_find(&opened, three_names, 3, found), 0);
    ag_elf_symbols_close(&opened);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_this_program_are_found),
        cmocka_unit_test(files_without_symbols_are_refused),
        cmocka_unit_test(global_symbols_precede_weak_and_weak_precede_local),
        cmocka_unit_test(several_local_symbols_with_the_same_name_are_not_found),
        cmocka_unit_test(damaged_tables_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
