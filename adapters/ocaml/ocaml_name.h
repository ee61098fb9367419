/* ocaml_name.h: converts OCaml's names in linker symbols and debug information to names as
 * programmers write them. */
#ifndef AG_OCAML_NAME_H
#define AG_OCAML_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* Converts "camlKnown__pair_81" (up to 5.0) or "camlKnown.pair_81" (from 5.1 on) to Known.pair.
 * Returns false if LINKAGE is not the symbol of an OCaml function, or the name does not fit. */
bool ag_ocaml_symbol_name(const char *linkage, char *ret_text, size_t capacity);
/* Converts "Stdlib__List.map", a name of debug information, to Stdlib.List.map. */
bool ag_ocaml_scoped_name(const char *scoped, char *ret_text, size_t capacity);

#endif
