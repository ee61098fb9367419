/* julia_name.h: names in Julia's compiled images to those of the functions. */
#ifndef AG_JULIA_NAME_H
#define AG_JULIA_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "julia_print_to_string_8631.clone_1" is print_to_string, "julia_YY.map_12" #map; what is without
 * such a prefix is the name already, as debug information has it ("push!", "push!;"). false: it is
 * no function of Julia's (the C start-up code of an image), or it does not fit. */
bool ag_julia_symbol_name(const char *linkage, char *ret_text, size_t capacity);

#endif
