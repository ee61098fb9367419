/* import_slot.c: changes imports of a loaded object, for adapters (the code for one runtime or
 * allocator each). Finds the object that contains a given address, then the relocations of a
 * function in the two relocation tables of PT_DYNAMIC. The type of a relocation is JUMP_SLOT for
 * calls through a stub, and GLOB_DAT if the address of the function is taken. If a function has
 * both relocations, the words of both are changed. */
#include "import_slot.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/pages.h"
#include "base/raw_syscall.h"
#include "loaded_objects.h"
#include "symbol_tables.h"

enum { SLOTS_MOST = 4 };

struct fixed {
    /* PT_GNU_RELRO: memory that is read-only after the loader has relocated the object */
    uintptr_t low, high;
};

struct search {
    uintptr_t inside;
    const char *name;
    uintptr_t *slots[SLOTS_MOST];
    size_t n_slots;
    struct fixed fixed;
};

struct tables {
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * relocations[2];
    size_t counts[2];
};

/* The loader of glibc changes the pointers of PT_DYNAMIC to absolute addresses; other loaders leave
 * them relative to the load bias. */
static const void *pointer_of(const struct dl_phdr_info *info, const ElfW(Dyn) * entry) {
    const uintptr_t value = entry->d_un.d_ptr;
    return (const void *)(value >= info->dlpi_addr ? value : value + info->dlpi_addr);
}

static struct tables read_dynamic(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic) {
    struct tables tables = {.dynamic = dynamic};
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            tables.symbols = pointer_of(info, entry);
            break;
        case DT_STRTAB:
            tables.strings = pointer_of(info, entry);
            break;
        case DT_JMPREL:
            tables.relocations[0] = pointer_of(info, entry);
            break;
        case DT_PLTRELSZ:
            tables.counts[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            tables.relocations[1] = pointer_of(info, entry);
            break;
        case DT_RELASZ:
            tables.counts[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
    }
    return tables;
}

/* Reads the object's tables, and the part of it that the loader makes read-only. Returns false if
 * the object has no symbol table. */
static bool read_object(const struct dl_phdr_info *info, struct tables *ret_tables,
                        struct fixed *ret_fixed) {
    *ret_tables = (struct tables){0};
    *ret_fixed = (struct fixed){0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_RELRO) {
            *ret_fixed = (struct fixed){ag_page_of(start), start + segment->p_memsz};
        } else if (segment->p_type == PT_DYNAMIC) {
            *ret_tables = read_dynamic(info, (const ElfW(Dyn) *)start);
        }
    }
    return ret_tables->symbols && ret_tables->strings;
}

/* An import of an object: the word SLOT through which the object calls or uses the function. */
struct import {
    const struct dl_phdr_info *info;
    const struct tables *tables;
    const ElfW(Rela) * relocation;
    uintptr_t *slot;
};

static const ElfW(Sym) * symbol_of(const struct import *import) {
    return &import->tables->symbols[ELF64_R_SYM(import->relocation->r_info)];
}

static const char *name_of(const struct import *import) {
    return import->tables->strings + symbol_of(import)->st_name;
}

/* Calls VISIT for each import of the object until VISIT returns true. Returns whether VISIT
 * returned true. */
static bool imports_visit(const struct dl_phdr_info *info, const struct tables *tables,
                          bool (*visit)(void *context, const struct import *import),
                          void *context) {
    struct import import = {.info = info, .tables = tables};
    for (size_t table = 0; table < 2; table++) {
        const ElfW(Rela) *at = tables->relocations[table];
        for (size_t i = 0; at && i < tables->counts[table]; i++) {
            const uint32_t type = ELF64_R_TYPE(at[i].r_info);
            import.relocation = &at[i];
            import.slot = (uintptr_t *)(info->dlpi_addr + at[i].r_offset);
            if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) &&
                visit(context, &import)) {
                return true;
            }
        }
    }
    return false;
}

static bool add_slot(void *context, const struct import *import) {
    struct search *search = context;
    if (strcmp(name_of(import), search->name) == 0) {
        search->slots[search->n_slots++] = import->slot;
    }
    return search->n_slots == SLOTS_MOST;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)size; /* only fields that every glibc has are read */
    if (!ag_object_contains(info, search->inside)) {
        return 0;
    }
    struct tables tables;
    if (read_object(info, &tables, &search->fixed)) {
        (void)imports_visit(info, &tables, add_slot, search);
    }
    return 1;
}

static struct search search_slots(const void *inside, const char *name) {
    struct search search = {.inside = (uintptr_t)inside, .name = name};
    (void)ag_objects_visit(look_at_object, &search);
    return search;
}

uintptr_t ag_import_find(const void *inside, const char *name) {
    const struct search search = search_slots(inside, name);
    return search.n_slots > 0 ? *search.slots[0] : 0;
}

static int set_page_protection(uintptr_t page, int protection) {
    return (int)ag_syscall3(SYS_mprotect, (long)page, AG_PAGE_BYTES, protection);
}

static int import_slot_store(const struct fixed *fixed, uintptr_t *slot, uintptr_t value) {
    const uintptr_t page = ag_page_of((uintptr_t)slot);
    const bool is_fixed = (uintptr_t)slot >= fixed->low && (uintptr_t)slot < fixed->high;
    if (is_fixed && set_page_protection(page, PROT_READ | PROT_WRITE) < 0) {
        return -EACCES;
    }
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (is_fixed) {
        (void)set_page_protection(page, PROT_READ); /* if this fails, the page stays writable */
    }
    return 0;
}

int ag_import_replace(const void *inside, const char *name, void *replacement,
                      void **ret_original) {
    const struct search search = search_slots(inside, name);
    if (search.n_slots == 0) {
        return -ENOENT;
    }
    *ret_original = (void *)*search.slots[0]; // NOLINT(performance-no-int-to-ptr): a word of a GOT
    int r = 0;
    for (size_t i = 0; i < search.n_slots && r == 0; i++) {
        r = import_slot_store(&search.fixed, search.slots[i], (uintptr_t)replacement);
    }
    return r;
}

/* ---- all objects ---- */

struct rebinding {
    const struct ag_import_target *targets;
    size_t n_targets;
    struct fixed fixed; /* of the object whose imports are changed */
};

static const struct ag_import_target *target_of(const struct rebinding *rebinding,
                                                const struct import *import) {
    const char *name = name_of(import);
    for (size_t i = 0; i < rebinding->n_targets; i++) {
        if (strcmp(rebinding->targets[i].name, name) == 0) {
            return &rebinding->targets[i];
        }
    }
    return NULL;
}

static bool is_own_definition(void *context, const struct import *import) {
    return symbol_of(import)->st_shndx != SHN_UNDEF && target_of(context, import) != NULL;
}

static bool rebind(void *context, const struct import *import) {
    const struct rebinding *rebinding = context;
    const struct ag_import_target *target = target_of(rebinding, import);
    const bool is_unbound = ELF64_R_TYPE(import->relocation->r_info) == R_X86_64_JUMP_SLOT &&
                            ag_object_contains(import->info, *import->slot);
    if (target && (*import->slot == target->passed_by || is_unbound)) {
        (void)import_slot_store(&rebinding->fixed, import->slot, target->wanted);
    }
    return false;
}

/* If the object defines a target itself, its imports stay as they are. */
static int object_rebind(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct rebinding *rebinding = context;
    struct tables tables;
    if (read_object(info, &tables, &rebinding->fixed) &&
        !imports_visit(info, &tables, is_own_definition, rebinding)) {
        (void)imports_visit(info, &tables, rebind, rebinding);
    }
    return 0;
}

void ag_imports_rebind(const struct ag_import_target *targets, size_t n_targets,
                       uint64_t *version) {
    struct rebinding rebinding = {.targets = targets, .n_targets = n_targets};
    const uint64_t now = ag_objects_version();
    if (now != __atomic_load_n(version, __ATOMIC_RELAXED)) {
        __atomic_store_n(version, now, __ATOMIC_RELAXED);
        (void)ag_objects_visit(object_rebind, &rebinding);
    }
}

struct look {
    const uintptr_t *functions;
    size_t n_functions, n_first;
};

static bool leads_to_one(void *context, const struct import *import) {
    const struct look *look = context;
    for (size_t i = 0; i < look->n_functions; i++) {
        if (look->functions[i] == *import->slot) {
            return true;
        }
    }
    return false;
}

static int object_look(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct look *look = context;
    struct fixed fixed;
    struct tables tables;
    if (look->n_first > 0) {
        look->n_first--;
        return 0;
    }
    return read_object(info, &tables, &fixed) && imports_visit(info, &tables, leads_to_one, look);
}

bool ag_imports_lead_to(const uintptr_t *functions, size_t n_functions, size_t n_first) {
    struct look look = {functions, n_functions, n_first};
    return ag_objects_visit(object_look, &look) != 0;
}

struct named {
    const char *const *names;
    size_t n_names;
    struct ag_symbol_name unless;
};

static bool is_named(void *context, const struct import *import) {
    const struct named *named = context;
    if (symbol_of(import)->st_shndx != SHN_UNDEF ||
        ag_object_contains(import->info, *import->slot)) { /* not bound yet */
        return false;
    }
    for (size_t i = 0; i < named->n_names; i++) {
        if (strcmp(named->names[i], name_of(import)) == 0) {
            return true;
        }
    }
    return false;
}

static int object_has(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct named *named = context;
    struct fixed fixed;
    struct tables tables;
    struct ag_symbol_tables symbols;
    return read_object(info, &tables, &fixed) && imports_visit(info, &tables, is_named, named) &&
           !(ag_symbol_tables_read(tables.dynamic, info->dlpi_addr, &symbols) &&
             ag_symbol_tables_find(&symbols, &named->unless) != NULL);
}

bool ag_imports_have(const char *const *names, size_t n_names, const char *unless) {
    struct named named = {names, n_names, ag_symbol_name(unless, 1u << STT_FUNC)};
    return ag_objects_visit(object_has, &named) != 0;
}
