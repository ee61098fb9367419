/* next_symbol.h: the result of dlsym(RTLD_NEXT, ...) without calling dlsym.
 *
 * dlsym may allocate, takes the loader's big lock, and has a symbol version of glibc 2.34, which
 * older systems lack. ag_symbol_find reads the same tables in memory itself (symbol_tables.h). */
#ifndef AG_NEXT_SYMBOL_H
#define AG_NEXT_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_SYMBOL_IMAGE_NAME_BYTES = 256 };

struct ag_symbol_place {
    void *address;       /* NULL: not found */
    size_t bytes;        /* size in the symbol; 0: not given */
    uintptr_t bias;      /* load bias of the object that defines it */
    bool in_executable;  /* the main program defines it */
    bool is_behind_self; /* its object is that of `self`, or comes after it in load order */
    /* the path that the loader has, truncated if too long; "" for the program */
    char image_name[AG_SYMBOL_IMAGE_NAME_BYTES];
};

enum ag_symbol_scope {
    AG_SYMBOL_FIRST, /* the first definition in load order, to which a call binds */
    /* the first definition after the object that contains `self`; else the first one before it */
    AG_SYMBOL_NEXT,
    AG_SYMBOL_FIRST_DATA, /* as FIRST, for a variable */
    AG_SYMBOL_FIRST_TLS,  /* as FIRST, for a thread-local variable of the calling thread */
};

/* Finds a defined symbol, of a function unless the scope says otherwise. `self` is an address
 * inside the calling object. Takes the loader's list lock briefly (loaded_objects.h): hold no lock
 * of your own. Never allocates. Returns whether it was found. */
bool ag_symbol_find(const char *name, enum ag_symbol_scope scope, const void *self,
                    struct ag_symbol_place *ret_place);

#endif
