/* collector_hooks.h: records collections with their pauses, and finds functions of the runtime. */
#ifndef AG_COLLECTOR_HOOKS_H
#define AG_COLLECTOR_HOOKS_H

#include "allogram/allogram.h"
#include "hook/kept_call.h"
#include "ocaml_runtime.h"

/* Called before any code of the runtime has run. Installs the hooks that can be installed. */
void ag_ocaml_collections_follow(allogram_heap minor, allogram_heap major);
void ag_ocaml_backing_follow(allogram_heap minor, allogram_heap major);
/* OCaml 5. false: its large blocks will count twice. */
bool ag_ocaml_large_blocks_follow(void);
bool ag_ocaml_large_blocks_count_once(void);

/* For a program that was attached to: whether the runtime's hooks are unused; removes the
 * adapter's; whether a thread is inside a collection (called while all are stopped). function:
 * called at the end of each minor collection, when the minor heap is empty. */
bool ag_ocaml_hooks_are_free(void);
void ag_ocaml_hooks_take_back(void);
bool ag_ocaml_is_collecting(void);
void ag_ocaml_follow_minor_ends(void (*function)(void));

/* From ocaml_attach.c: the address of a function or variable of the runtime; or NULL. */
void *ag_ocaml_find(const char *name);
void *ag_ocaml_find_data(const char *name);
/* Calls REPLACEMENT instead of the runtime's function NAME, through CALL, which fits what it
 * returns (hook/kept_call.h): the runtime is part of the program. */
bool ag_ocaml_detour(const char *name, const unsigned char *call, void *replacement,
                     void **ret_original);

#endif
