/* crystal_name.h: Crystal's linker symbols as a Crystal programmer writes them. */
#ifndef AG_CRYSTAL_NAME_H
#define AG_CRYSTAL_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* "*Hash(Int32, String)@Hash(K, V)#[]=<Int32, String>:String" as "Hash(Int32, String)#[]=", class
 * methods with a dot, procs by their place. false: it is not Crystal's, or does not fit. */
bool ag_crystal_name(const char *linkage, char *ret_text, size_t capacity);

enum ag_crystal_place {
    AG_CRYSTAL_NO_PLACE, /* says nothing */
    AG_CRYSTAL_SHIM,     /* of the collector's binding: who called it allocates */
    AG_CRYSTAL_OBJECT,   /* makes an object of the type */
    AG_CRYSTAL_BUFFER,   /* makes memory for elements; the type is that of the pointer */
};
/* What a frame says of the block that was allocated there. ret_type: the type's name; "": it does
 * not say which. function: as ag_crystal_name has it, or the short name of an inlined function. */
enum ag_crystal_place ag_crystal_place(const char *function, const char *file, char *ret_type,
                                       size_t capacity);

#endif
