/* allocation_path.h: records every block of a native OCaml program, by observing how the runtime
 * allocates. This code allocates nothing on the program's heap and runs no OCaml code. */
#ifndef AG_OCAML_ALLOCATION_PATH_H
#define AG_OCAML_ALLOCATION_PATH_H

#include "ocaml_runtime.h"

/* Whether this runtime's allocations can be observed: native code of a release whose functions have
 * the expected instructions. Changes nothing. */
bool ag_ocaml_path_is_known(void);
/* Installs the detours (jumps at the start of functions of the runtime), which have no effect
 * before ag_ocaml_path_begin. Returns false if a detour cannot be installed. */
bool ag_ocaml_path_follow(void);
/* Begins to record. Called when the runtime is initialized, by a thread that holds the runtime's
 * lock and is in no allocation. Returns false if the runtime's data are not as expected; then
 * nothing is recorded. */
bool ag_ocaml_path_begin(void);
/* Leaves the runtime as it would be without the adapter, allogram's code for OCaml; other domains
 * than that of the caller follow at their next allocation. May be called before
 * ag_ocaml_path_begin. */
void ag_ocaml_path_end(void);
/* Whether blocks are recorded: between ag_ocaml_path_begin and ag_ocaml_path_end. */
bool ag_ocaml_path_is_on(void);
/* All words of the blocks that the hooks saw while blocks are recorded, with their headers; also of
 * blocks that the recording's filter leaves out. */
uint64_t ag_ocaml_path_words(void);

#endif
