/* next_symbol.c: finds the definition of a symbol, for hooks: walks the loaded objects in load
 * order and looks up the name in the hash table of each.
 *
 * For objects that are loaded at the start of the program, load order is the order in which the
 * loader searches for symbols. Objects that dlopen loads follow, and their definitions are found
 * too (libstdc++ may first be loaded with a plugin). */
#include "next_symbol.h"

#include <elf.h>
#include <link.h>

#include "base/join_text.h"
#include "loaded_objects.h"
#include "symbol_tables.h"

struct search {
    struct ag_symbol_name name;
    enum ag_symbol_scope scope;
    uintptr_t self;
    bool is_past_self, has_answer, has_fallback;
    bool is_first_object;
    struct ag_symbol_place answer, fallback;
};

static uint32_t wanted_types(enum ag_symbol_scope scope) {
    switch (scope) {
    case AG_SYMBOL_FIRST_DATA:
        return 1U << STT_OBJECT;
    case AG_SYMBOL_FIRST_TLS:
        return 1U << STT_TLS;
    case AG_SYMBOL_FIRST:
    case AG_SYMBOL_NEXT:
        return 1U << STT_FUNC | 1U << STT_NOTYPE;
    }
    return 0;
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size; /* only fields that every glibc since 2.4 has are read */
    struct search *search = context;
    const bool is_executable = search->is_first_object;
    search->is_first_object = false;
    if (ag_object_contains(info, search->self)) {
        search->is_past_self = true;
        if (search->scope == AG_SYMBOL_NEXT) {
            return 0;
        }
    }
    struct ag_symbol_tables tables;
    const ElfW(Sym) *symbol =
        ag_object_tables(info, &tables) ? ag_symbol_tables_find(&tables, &search->name) : NULL;
    if (!symbol) {
        return 0;
    }
    const uintptr_t base =
        search->scope == AG_SYMBOL_FIRST_TLS ? (uintptr_t)info->dlpi_tls_data : info->dlpi_addr;
    if (base == 0 && search->scope == AG_SYMBOL_FIRST_TLS) {
        return 0; /* this thread has no TLS block of the object yet */
    }
    struct ag_symbol_place place = {
        .address = (void *)(base + symbol->st_value),
        .bytes = symbol->st_size,
        .bias = info->dlpi_addr,
        .is_behind_self = search->is_past_self,
        .in_executable = is_executable,
    };
    ag_copy_text(place.image_name, sizeof(place.image_name),
                 info->dlpi_name ? info->dlpi_name : "");
    if (search->scope != AG_SYMBOL_NEXT || search->is_past_self) {
        search->answer = place;
        search->has_answer = true;
        return 1;
    }
    if (!search->has_fallback) {
        search->fallback = place;
        search->has_fallback = true;
    }
    return 0;
}

bool ag_symbol_find(const char *name, enum ag_symbol_scope scope, const void *self,
                    struct ag_symbol_place *ret_place) {
    struct search search = {
        .name = ag_symbol_name(name, wanted_types(scope)),
        .scope = scope,
        .self = (uintptr_t)self,
        .is_first_object = true,
    };
    (void)ag_objects_visit(visit_object,
                           /* the result of ag_objects_visit is not needed: visit_object stores its
                            * result in `search` */
                           &search);
    if (!search.has_answer && !search.has_fallback) {
        return false;
    }
    *ret_place = search.has_answer ? search.answer : search.fallback;
    return true;
}
