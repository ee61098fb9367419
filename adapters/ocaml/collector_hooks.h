/* collector_hooks.h: records the OCaml runtime's collections with their pauses, and finds the
 * runtime's functions. */
#ifndef AG_COLLECTOR_HOOKS_H
#define AG_COLLECTOR_HOOKS_H

#include "allogram/allogram.h"
#include "hook/kept_call.h"
#include "ocaml_runtime.h"

/* Called when the adapter is installed (ocaml_attach.c). Installs the hooks that can be
 * installed. */
void ag_ocaml_collections_follow(allogram_heap minor, allogram_heap major);

/* Called at an attach to a running program: whether the program uses none of the runtime's
 * hooks. */
bool ag_ocaml_hooks_are_free(void);
/* Removes the adapter's functions from the runtime's hooks. */
void ag_ocaml_hooks_take_back(void);
/* Whether a thread is inside of a collection. Called while all threads are stopped. */
bool ag_ocaml_is_collecting(void);
/* From now on FUNCTION is called at the end of each minor collection, when the minor heap is empty.
 * If FUNCTION is NULL, no function is called. */
void ag_ocaml_follow_minor_ends(void (*function)(void));

/* In ocaml_attach.c: the address of a function or variable of the runtime; NULL: there is none. */
void *ag_ocaml_find(const char *name);
void *ag_ocaml_find_data(const char *name);
/* From now on calls of the runtime's function NAME call REPLACEMENT. CALL: the entry code of
 * hook/kept_call.h that fits the type of the function's result. The entry code keeps all registers,
 * because the runtime is part of the program and its callers may rely on them. */
bool ag_ocaml_detour(const char *name, const unsigned char *call, void *replacement,
                     void **ret_original);

#endif
