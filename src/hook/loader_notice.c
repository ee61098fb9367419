/* loader_notice.c: finds the empty function that the loader calls for debuggers, and detours it, so
 * that NOTICE is called when objects are loaded or unloaded.
 *
 * The variable _r_debug is found through the executable's DT_DEBUG, as debuggers do. The symbol
 * _r_debug is not enough: a program that refers to this symbol may contain a copy of the variable
 * from the start of the program. Only the list of the first namespace matters, because
 * dl_iterate_phdr visits only this list. The loader also calls the function for changes of other
 * namespaces (dlmopen); then r_state says that the first list is consistent. */
#include "loader_notice.h"

#include <elf.h>
#include <errno.h>
#include <link.h>

#include "arch/x86_64/saving_entry.h"
#include "base/compiler.h"
#include "detour.h"

extern struct r_debug _r_debug __attribute__((weak)); /* see loaded_objects.c */

static struct {
    struct ag_detour detour;
    ag_loader_notice_fn *notice;
    const struct r_debug *debug;
} loader;

void ag_loader_called(void) AG_HIDDEN;
void ag_loader_called_here(void) AG_HIDDEN;
AG_SAVING_ENTRY(ag_loader_called_here, ag_loader_called);

__attribute__((used)) void ag_loader_called(void) {
    switch (loader.debug->r_state) {
    case RT_ADD:
        loader.notice(AG_LOADER_ADDS);
        break;
    case RT_DELETE:
        loader.notice(AG_LOADER_DELETES);
        break;
    case RT_CONSISTENT:
        loader.notice(AG_LOADER_IS_WHOLE);
        break;
    }
}

static const struct r_debug *find_debug(void) {
    if (!&_r_debug || !_r_debug.r_map) {
        return NULL;
    }
    for (const ElfW(Dyn) *entry = _r_debug.r_map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_DEBUG && entry->d_un.d_ptr != 0) {
            return (const struct r_debug *)entry->d_un.d_ptr;
        }
    }
    return &_r_debug;
}

uintptr_t ag_loader_address(void) {
    const struct r_debug *debug = find_debug();
    return debug ? debug->r_brk : 0;
}

/* glibc 2.35 and newer: struct r_debug_extended of link.h. When the loader makes the second
 * namespace, it sets r_version to 2. It never removes a namespace from the list. */
bool ag_loader_has_namespaces(void) {
    const struct {
        struct r_debug first;
        const void *next;
    } *debug = (const void *)find_debug();
    return debug && debug->first.r_version >= 2 && debug->next;
}

int ag_loader_notice_install(ag_loader_notice_fn *notice) {
    loader.debug = find_debug();
    if (!loader.debug || loader.debug->r_brk == 0) {
        return -ENOENT;
    }
    loader.notice = notice;
    return ag_detour_install_empty(&loader.detour, (void *)loader.debug->r_brk,
                                   (void *)(uintptr_t)ag_loader_called_here);
}

bool ag_loader_notice_is_written(void) {
    return ag_detour_is_written(&loader.detour);
}
