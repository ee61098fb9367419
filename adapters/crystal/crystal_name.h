/* crystal_name.h: converts Crystal's linker symbols to names as Crystal programmers write them. */
#ifndef AG_CRYSTAL_NAME_H
#define AG_CRYSTAL_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "*Hash(Int32, String)@Hash(K, V)#[]=<Int32, String>:String" becomes "Hash(Int32, String)#[]=".
 * Class methods have a dot; procs are named by file and line. Returns false if the symbol is not
 * Crystal's, or if the name is longer than CAPACITY. */
bool ag_crystal_name(const char *linkage, char *ret_text, size_t capacity);

enum ag_crystal_place {
    AG_CRYSTAL_NO_PLACE, /* the frame says nothing about the block */
    AG_CRYSTAL_SHIM,     /* a wrapper of the collector's functions: the caller of the wrapper
                          * allocates */
    AG_CRYSTAL_OBJECT,   /* makes an object of the type */
    AG_CRYSTAL_BUFFER,   /* makes memory for elements; the type is that of the pointer to the
                          * elements */
};
/* Classifies a frame by the block that it allocates. ret_type: the name of the type; "": unknown.
 * function: as returned by ag_crystal_name, or the short name of an inlined function. */
enum ag_crystal_place ag_crystal_place(const char *function, const char *file, char *ret_type,
                                       size_t capacity);

#endif
