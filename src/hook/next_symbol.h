/* next_symbol.h: the result of dlsym(RTLD_NEXT, ...) without calling dlsym.
 *
 * dlsym may allocate and takes the loader's main lock. Also, a program that is built with glibc
 * 2.34 or later needs the version of dlsym of glibc 2.34, which older systems lack. So
 * ag_symbol_find reads the symbol tables in memory itself (symbol_tables.h). */
#ifndef AG_NEXT_SYMBOL_H
#define AG_NEXT_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AG_SYMBOL_IMAGE_NAME_BYTES = 256 };

struct ag_symbol_place {
    void *address;      /* NULL: not found */
    size_t bytes;       /* size of the symbol; 0: unknown */
    uintptr_t bias;     /* load bias of the object that defines the symbol */
    bool in_executable; /* the main program defines it */
    /* the defining object is the one that contains `self`, or comes after it in load order */
    bool is_behind_self;
    /* the path of the defining object as the loader has it, truncated if too long; "" for the
     * program */
    char image_name[AG_SYMBOL_IMAGE_NAME_BYTES];
};

enum ag_symbol_scope {
    AG_SYMBOL_FIRST, /* the first definition in load order, to which a call binds */
    /* the first definition in the objects after the one that contains `self`; if there is none, the
     * first definition in the objects before it */
    AG_SYMBOL_NEXT,
    AG_SYMBOL_FIRST_DATA, /* as AG_SYMBOL_FIRST, for a variable */
    AG_SYMBOL_FIRST_TLS, /* as AG_SYMBOL_FIRST, for a thread-local variable of the calling thread */
};

/* Finds the definition of a function, or of a variable with AG_SYMBOL_FIRST_DATA or
 * AG_SYMBOL_FIRST_TLS. `self` is an address inside the calling object. Takes the lock of the
 * loader's list briefly (ag_objects_visit in loaded_objects.h), so the caller should hold no lock.
 * Never allocates. Returns whether the symbol was found. */
bool ag_symbol_find(const char *name, enum ag_symbol_scope scope, const void *self,
                    struct ag_symbol_place *ret_place);

#endif
