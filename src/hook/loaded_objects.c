/* loaded_objects.c: finds the C library's dl_iterate_phdr without calling any function.
 *
 * The loader of every glibc has a list of the loaded objects for debuggers (_r_debug). This file
 * finds the object named libc.so.6 in this list, and the function in the symbol table of libc.so.6.
 * The walk needs no lock, because libc.so.6 and all objects before it are loaded at the program's
 * start, and are never moved in the list or unloaded. If there is no such list (musl, statically
 * linked programs), the dl_iterate_phdr with which this code is linked is used. */
#include "loaded_objects.h"

#include <elf.h>
#include <stdatomic.h>
#include <string.h>

#include "base/compiler.h"
#include "base/vector_state.h"
#include "symbol_tables.h"

typedef int visit_all_fn(ag_object_visit_fn *visit, void *context);

/* Declared weak, unlike in <link.h>. So a program without this symbol can still start, and the
 * agent (the library that contains this code) need not be linked with the loader. */
extern struct r_debug _r_debug __attribute__((weak));

AG_COLD static visit_all_fn *find_own(void) {
    const struct ag_symbol_name name = ag_symbol_name("dl_iterate_phdr", 1U << STT_FUNC);
    const struct link_map *object = &_r_debug ? _r_debug.r_map : NULL;
    for (; object; object = object->l_next) {
        struct ag_symbol_tables tables;
        if (!ag_symbol_tables_read(object->l_ld, object->l_addr, &tables) || !tables.own_name ||
            strcmp(tables.own_name, "libc.so.6") != 0) {
            continue;
        }
        const ElfW(Sym) *symbol = ag_symbol_tables_find(&tables, &name);
        return symbol ? (visit_all_fn *)(object->l_addr + symbol->st_value) : dl_iterate_phdr;
    }
    return dl_iterate_phdr;
}

static visit_all_fn *find_visitor(void) {
    /* several threads may store it, but all store the same value */
    static _Atomic(visit_all_fn *) found;
    visit_all_fn *visit_all = atomic_load_explicit(&found, memory_order_relaxed);
    if (AG_UNLIKELY(!visit_all)) {
        visit_all = find_own();
        atomic_store_explicit(&found, visit_all, memory_order_relaxed);
    }
    return visit_all;
}

struct visiting {
    visit_all_fn *visit_all;
    ag_object_visit_fn *visit;
    void *context;
    int answer;
};

static void visit_kept(void *context) {
    struct visiting *visiting = context;
    visiting->answer = visiting->visit_all(visiting->visit, visiting->context);
}

int ag_objects_visit(ag_object_visit_fn *visit, void *context) {
    struct visiting visiting = {.visit_all = find_visitor(), .visit = visit, .context = context};
    /* keeps the vector registers: the caller may run in a detour, which must not change them */
    ag_call_keeping_vectors(visit_kept, &visiting);
    return visiting.answer;
}

uintptr_t ag_objects_visitor(void) {
    return (uintptr_t)find_visitor();
}

const ElfW(Phdr) * ag_object_segment(const struct dl_phdr_info *object, uintptr_t address) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD &&
            address - (object->dlpi_addr + segment->p_vaddr) < segment->p_memsz) {
            return segment;
        }
    }
    return NULL;
}

struct segment_search {
    uintptr_t address;
    size_t n_visited;
    struct ag_loaded_segment found;
};

static int find_segment(struct dl_phdr_info *object, size_t size, void *context) {
    struct segment_search *search = context;
    (void)size; /* only fields that every glibc has are read */
    const ElfW(Phdr) *segment = ag_object_segment(object, search->address);
    const bool is_program = search->n_visited++ == 0;
    if (!segment) {
        return 0;
    }
    const uintptr_t low = object->dlpi_addr + segment->p_vaddr;
    search->found = (struct ag_loaded_segment){low, low + segment->p_memsz, is_program};
    return 1;
}

bool ag_objects_segment(uintptr_t address, struct ag_loaded_segment *ret_segment) {
    struct segment_search search = {.address = address};
    if (ag_objects_visit(find_segment, &search) == 0) {
        return false;
    }
    *ret_segment = search.found;
    return true;
}

static int read_version(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size;
    *(uint64_t *)context = ag_object_version(object);
    return 1;
}

uint64_t ag_objects_version(void) {
    uint64_t version = 0;
    (void)ag_objects_visit(read_version, &version);
    return version;
}

bool ag_object_tables(const struct dl_phdr_info *object, struct ag_symbol_tables *ret_tables) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_DYNAMIC) {
            const ElfW(Dyn) *dynamic = (const ElfW(Dyn) *)(object->dlpi_addr + segment->p_vaddr);
            return ag_symbol_tables_read(dynamic, object->dlpi_addr, ret_tables);
        }
    }
    return false;
}
