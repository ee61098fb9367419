/* julia_name.h: converts symbol names of Julia's compiled images to names of functions. */
#ifndef AG_JULIA_NAME_H
#define AG_JULIA_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "julia_print_to_string_8631.clone_1" becomes print_to_string, "julia_YY.map_12" becomes #map. A
 * name without such a prefix comes from debug information ("push!", "push!;") and is unchanged,
 * except for a semicolon at its end. Returns false if LINKAGE is not a function of Julia (but
 * C start-up code, or code that Julia's compiler adds), or if the name does not fit. */
bool ag_julia_symbol_name(const char *linkage, char *ret_text, size_t capacity);

#endif
