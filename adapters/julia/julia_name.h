/* julia_name.h: converts symbol names of Julia's compiled images to names of functions. */
#ifndef AG_JULIA_NAME_H
#define AG_JULIA_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "julia_print_to_string_8631.clone_1" becomes print_to_string, "julia_YY.map_12" becomes #map. A
 * name without such a prefix is unchanged, as debug information has it ("push!", "push!;"). Returns
 * false if it is not a function of Julia (the C start-up code of an image), or does not fit. */
bool ag_julia_symbol_name(const char *linkage, char *ret_text, size_t capacity);

#endif
