/* owners_stubs.c: custom blocks that own memory outside of OCaml's heap, allocated in different
 * ways. */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/custom.h>
#include <caml/mlvalues.h>
#include <stdlib.h>

static void release(value block) {
    free(*(void **)Data_custom_val(block));
}

static struct custom_operations resource_operations = {
    "owners.resource",          release,
    custom_compare_default,     custom_hash_default,
    custom_serialize_default,   custom_deserialize_default,
    custom_compare_ext_default, custom_fixed_length_default};

/* Allocates memory, and the custom block that owns it. */
value owners_resource(value bytes) {
    void *memory = malloc((size_t)Long_val(bytes));
    value block =
        caml_alloc_custom_mem(&resource_operations, sizeof(void *), (size_t)Long_val(bytes));
    *(void **)Data_custom_val(block) = memory;
    return block;
}

/* owners_take and owners_own do in two calls what owners_resource does in one: when the memory is
 * allocated, its owner does not exist yet. */
static void *taken;
value owners_take(value bytes) {
    taken = malloc((size_t)Long_val(bytes));
    return Val_unit;
}
value owners_own(value bytes) {
    value block =
        caml_alloc_custom_mem(&resource_operations, sizeof(void *), (size_t)Long_val(bytes));
    *(void **)Data_custom_val(block) = taken;
    return block;
}
