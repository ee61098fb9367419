/* generated.c: a program that generates code, like a JIT compiler. It writes two functions into
 * memory, publishes their names in one of two ways, and runs the functions: the first one three
 * times as long as the second.
 *
 *     generated list|map
 *
 * list: publishes the names in the list for debuggers, `__jit_debug_descriptor`. The list has one
 *       entry, an ELF object with a symbol for each function.
 * map:  publishes the names in /tmp/perf-PID.map, and removes this file at SIGTERM. */
#include <elf.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the interface for debuggers: debuggers rely on these names and layouts ---- */
struct jit_code_entry {
    struct jit_code_entry *next, *previous;
    const void *symbol_file;
    uint64_t symbol_file_bytes;
};
struct jit_descriptor {
    uint32_t version, action;
    struct jit_code_entry *relevant, *first;
};
struct jit_descriptor __jit_debug_descriptor = {.version = 1};
__attribute__((noinline)) void __jit_debug_register_code(void) {
    __asm__ volatile("");
}

/* ---- the code -------------------------------------------------------------------------- */
typedef void function(uint64_t rounds);

/* The machine code of both functions. They have a frame pointer, by which profilers find the
 * caller: push %rbp; mov %rsp, %rbp; 1: dec %rdi; jnz 1b; pop %rbp; ret */
static const uint8_t loop[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xff, 0xcf, 0x75, 0xfb, 0x5d, 0xc3};
enum { APART = 64 }; /* distance of the two functions in bytes */
static const char *const names[2] = {"generated_hot", "generated_cold"};

/* ---- the ELF object: header, sections, symbols, names of symbols, names of sections ----- */
struct object {
    Elf64_Ehdr header;
    Elf64_Shdr sections[5]; /* a null section, .text, .symtab, .strtab, .shstrtab */
    Elf64_Sym symbols[3];   /* a null symbol, and the two functions */
    char strings[40], section_names[40];
};

static struct object *make_object(const uint8_t *code) {
    static struct object object;
    static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";
    memcpy(object.header.e_ident, ELFMAG, SELFMAG);
    object.header.e_ident[EI_CLASS] = ELFCLASS64;
    object.header.e_ident[EI_DATA] = ELFDATA2LSB;
    object.header.e_ident[EI_VERSION] = EV_CURRENT;
    object.header.e_type = ET_REL;
    object.header.e_machine = EM_X86_64;
    object.header.e_version = EV_CURRENT;
    object.header.e_ehsize = sizeof object.header;
    object.header.e_shoff = offsetof(struct object, sections);
    object.header.e_shentsize = sizeof(Elf64_Shdr);
    object.header.e_shnum = 5;
    object.header.e_shstrndx = 4;
    object.sections[1] = (Elf64_Shdr){.sh_name = 1,
                                      .sh_type = SHT_NOBITS,
                                      .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                      .sh_addr = (uintptr_t)code,
                                      .sh_size = 2 * APART};
    object.sections[2] = (Elf64_Shdr){.sh_name = 7,
                                      .sh_type = SHT_SYMTAB,
                                      .sh_offset = offsetof(struct object, symbols),
                                      .sh_size = sizeof object.symbols,
                                      .sh_link = 3,
                                      .sh_entsize = sizeof(Elf64_Sym)};
    object.sections[3] = (Elf64_Shdr){.sh_name = 15,
                                      .sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct object, strings),
                                      .sh_size = sizeof object.strings};
    object.sections[4] = (Elf64_Shdr){.sh_name = 23,
                                      .sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(struct object, section_names),
                                      .sh_size = sizeof object.section_names};
    memcpy(object.section_names, section_names, sizeof section_names);
    char *string = object.strings + 1;
    for (int i = 0; i < 2; i++) {
        object.symbols[1 + i] = (Elf64_Sym){.st_name = (uint32_t)(string - object.strings),
                                            .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                            .st_shndx = 1,
                                            .st_value = (uint64_t)i * APART,
                                            .st_size = sizeof loop};
        string = stpcpy(string, names[i]) + 1;
    }
    return &object;
}

static void tell_list(const uint8_t *code) {
    static struct jit_code_entry entry;
    entry.symbol_file = make_object(code);
    entry.symbol_file_bytes = sizeof(struct object);
    __jit_debug_descriptor.first = __jit_debug_descriptor.relevant = &entry;
    __jit_debug_descriptor.action = 1; /* 1: the entry is registered */
    __jit_debug_register_code();
}

static char map_path[64];

static void tell_map(const uint8_t *code) {
    (void)snprintf(map_path, sizeof map_path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(map_path, "w");
    if (map == NULL) {
        exit(1);
    }
    for (int i = 0; i < 2; i++) {
        fprintf(map, "%llx %zx %s\n", (unsigned long long)(uintptr_t)(code + i * APART),
                sizeof loop, names[i]);
    }
    fclose(map);
}

static void end(int signal) {
    (void)signal;
    unlink(map_path);
    _exit(0);
}

int main(int argc, char **argv) {
    uint8_t *code =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (argc != 2 || code == MAP_FAILED) {
        return 2;
    }
    signal(SIGTERM, end);
    memcpy(code, loop, sizeof loop);
    memcpy(code + APART, loop, sizeof loop);
    (strcmp(argv[1], "list") == 0 ? tell_list : tell_map)(code);
    puts("ready");
    fflush(stdout);
    for (uint32_t random = 1;;) {
        random = random * 1664525 + 1013904223;
        const uint64_t rounds = 20000 + (random >> 16) % 40000;
        ((function *)(uintptr_t)code)(3 * rounds);
        ((function *)(uintptr_t)(code + APART))(rounds);
    }
}
