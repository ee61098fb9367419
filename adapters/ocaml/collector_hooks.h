/* collector_hooks.h: what the collector does: collections with their pauses, and the memory that it
 * has its heap in. */
#ifndef AG_COLLECTOR_HOOKS_H
#define AG_COLLECTOR_HOOKS_H

#include "allogram/allogram.h"
#include "hook/kept_call.h"
#include "ocaml_runtime.h"

/* Before anything of the runtime has run. Installs what can be installed. */
void ag_ocaml_collections_follow(allogram_heap minor, allogram_heap major);
void ag_ocaml_backing_follow(allogram_heap minor, allogram_heap major);
/* OCaml 5: false: its large blocks count twice. */
bool ag_ocaml_large_blocks_follow(void);
bool ag_ocaml_large_blocks_count_once(void);

/* In a program that was attached to. Are the runtime's hooks unused? Ours go out again. Is some
 * thread in the middle of a collection (asked while all stand)? function: called at the end of each
 * minor collection, when the minor heap is empty. */
bool ag_ocaml_hooks_are_free(void);
void ag_ocaml_hooks_take_back(void);
bool ag_ocaml_is_collecting(void);
void ag_ocaml_follow_minor_ends(void (*function)(void));

/* ocaml_attach.c: where the runtime's function, its variable, is; or NULL. */
void *ag_ocaml_find(const char *name);
void *ag_ocaml_find_data(const char *name);
/* REPLACEMENT is called instead of the runtime's function NAME, by way of CALL, which says what it
 * returns (hook/kept_call.h): the runtime is part of the program. */
bool ag_ocaml_detour(const char *name, const unsigned char *call, void *replacement,
                     void **ret_original);

#endif
