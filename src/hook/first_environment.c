/* first_environment.c: finds the environment where the kernel puts it: on the stack, after argc,
 * the arguments and NULL. The loader's variable __libc_stack_end is the address of argc. A loader
 * without this variable, such as that of musl, sets the libc's __environ before any other code of
 * the process runs. */
#include "first_environment.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "next_symbol.h"

static char **find_environment(void) {
    struct ag_symbol_place place;
    if (!ag_symbol_find("__libc_stack_end", AG_SYMBOL_FIRST_DATA, NULL, &place)) {
        return __environ;
    }
    char **words = *(char ***)place.address;
    return words && words[1 + (size_t)words[0]] == NULL ? words + 1 + (size_t)words[0] + 1
                                                        : __environ;
}

char **ag_first_environment(void) {
    static char **found; /* kept, because the search examines all loaded objects */
    if (!found) {
        found = find_environment();
    }
    return found;
}

const char *ag_first_environment_value(const char *name) {
    const size_t length = strlen(name);
    for (char **variable = ag_first_environment(); variable && *variable; variable++) {
        if (strncmp(*variable, name, length) == 0 && (*variable)[length] == '=') {
            return *variable + length + 1;
        }
    }
    return NULL;
}
