/* next_symbol.h: what dlsym(RTLD_NEXT, ...) answers, without calling dlsym.
 *
 * dlsym may allocate, takes the loader's big lock and was bound to a new version in glibc 2.34. The
 * tables it reads are in memory anyway, so this file reads them itself (symbol_tables.h). */
#ifndef AG_NEXT_SYMBOL_H
#define AG_NEXT_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_SYMBOL_IMAGE_NAME_BYTES = 256 };

struct ag_symbol_place {
    void *address;       /* NULL: not found */
    size_t bytes;        /* as the symbol has it; 0: it does not say */
    uintptr_t bias;      /* load bias of the object that defines it */
    bool in_executable;  /* the main program itself defines it */
    bool is_behind_self; /* its object stands behind that of `self` in the load order */
    char image_name[AG_SYMBOL_IMAGE_NAME_BYTES]; /* path as the loader knows it, cut when longer; ""
                                                    for the program */
};

enum ag_symbol_scope {
    AG_SYMBOL_FIRST, /* the first definition in load order: what a call binds to */
    AG_SYMBOL_NEXT,  /* the first definition behind the object that contains `self`; else any other
                        object's */
    AG_SYMBOL_FIRST_DATA, /* as FIRST, of a variable */
    AG_SYMBOL_FIRST_TLS,  /* as FIRST, of a thread's variable: the calling thread's own */
};

/* Finds a defined symbol, of a function where the scope does not say otherwise. `self` is an
 * address inside the calling object. Takes the loader's list lock for a moment (loaded_objects.h):
 * hold none of your own. Never allocates. Returns whether it was found. */
bool ag_symbol_find(const char *name, enum ag_symbol_scope scope, const void *self,
                    struct ag_symbol_place *ret_place);

#endif
