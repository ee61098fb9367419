/* ocaml_name.h: OCaml's names, from the linker's symbols and from debug information to what
 * programmers write. */
#ifndef AG_OCAML_NAME_H
#define AG_OCAML_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "camlKnown__pair_81" (4.x), "camlKnown.pair_81" (5.x): Known.pair. false: no OCaml function's
 * symbol, or no room. */
bool ag_ocaml_symbol_name(const char *linkage, char *ret_text, size_t capacity);
/* "Stdlib__List.map", as debug information has it: Stdlib.List.map. */
bool ag_ocaml_scoped_name(const char *scoped, char *ret_text, size_t capacity);

#endif
