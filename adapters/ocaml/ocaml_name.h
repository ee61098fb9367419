/* ocaml_name.h: converts OCaml's names in linker symbols and debug information to names as
 * programmers write them. */
#ifndef AG_OCAML_NAME_H
#define AG_OCAML_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "camlKnown__pair_81" (4.x), "camlKnown.pair_81" (5.x): Known.pair. Returns false if it is not the
 * symbol of an OCaml function, or does not fit. */
bool ag_ocaml_symbol_name(const char *linkage, char *ret_text, size_t capacity);
/* "Stdlib__List.map", as debug information has it: Stdlib.List.map. */
bool ag_ocaml_scoped_name(const char *scoped, char *ret_text, size_t capacity);

#endif
