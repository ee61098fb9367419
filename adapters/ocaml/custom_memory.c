/* custom_memory.c: gives types to the blocks of malloc that a block of OCaml's heap owns.
 *
 * A Bigarray, or a channel of OCaml 4, is a small block in OCaml's heap that owns memory outside of
 * the heap. That memory is a block of malloc and is recorded as such, with its stack and its death.
 * (Memprof, the runtime's sampler, reports it a second time, with the source Custom. memprof.c
 * ignores that report, so that nothing counts twice.) malloc does not know the owner. The runtime
 * makes the owning block a moment later, with the identifier of its operations ("_bigarr02",
 * "_chan") and the number of bytes that it owns. That identifier becomes the type of malloc's
 * block.
 *
 * Three conditions identify the block of malloc. Its allocation is the last event that this thread
 * recorded. It has exactly that number of bytes. And the call from OCaml code into C that made the
 * owning block also allocated it: the stacks of both blocks have the node of this call in common (a
 * node is a frame with all its callers). In bytecode this node is the interpreter's. That node is
 * the same for all C functions with the same number of arguments, so this condition is weaker
 * there. If a condition does not hold (the memory is from mmap, or was allocated long before), the
 * block of malloc has no type. */
#include "custom_memory.h"

#include "allogram/allogram.h"
#include "bytecode.h"
#include "collector_hooks.h"
#include "embed/host_events.h"
#include "embed/host_heaps.h"

struct operations { /* struct custom_operations: its first field, in all releases */
    const char *identifier;
};
static ag_ocaml_value (*alloc_custom_mem)(const struct operations *operations, uintptr_t bytes,
                                          uintptr_t memory_bytes);

enum { FRAMES_MOST = 64 }; /* C frames between OCaml code and an allocation */

/* The node of the innermost frame of OCaml code (or of a runtime stub) on STACK; 0: none. */
static uint32_t call_from_ocaml(uint32_t stack) {
    uintptr_t pc = 0;
    uint32_t node = stack, caller = 0;
    for (int i = 0; i < FRAMES_MOST && ag_stack_top(node, &pc, &caller); i++) {
        if (ag_ocaml.is_bytecode ? ag_ocaml_is_interpreter(pc)
                                 : ag_ocaml_is_stub(pc) || ag_ocaml_is_code(pc)) {
            return node;
        }
        node = caller;
    }
    return 0;
}

static bool is_inside(uint32_t stack, uint32_t call) {
    uintptr_t pc = 0;
    uint32_t node = stack, caller = 0;
    for (int i = 0; i < FRAMES_MOST && node != call && ag_stack_top(node, &pc, &caller); i++) {
        node = caller;
    }
    return call != 0 && node == call;
}

static void name_memory(const char *identifier, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    struct ag_newest_alloc newest;
    ag_host_get_ready();
    if (!ag_record_newest_alloc(bytes, &newest) || newest.via >= AG_VIA_HOST ||
        !is_inside(newest.recorded.stack, call_from_ocaml(ag_record_stack(sp, rbp)))) {
        return;
    }
    const allogram_type type = allogram_register_type(identifier, "ocaml");
    const uint32_t site = ag_defined_names_site(&ag_host.types, type);
    if (site != 0) {
        ag_record_block_type(newest.address, newest.via, &newest.recorded, bytes, site);
    }
}

static ag_ocaml_value hooked_alloc_custom_mem(const struct operations *operations, uintptr_t bytes,
                                              uintptr_t memory_bytes) {
    if (allogram_mode_ & ALLOGRAM_TELLS_ && memory_bytes > 0 && operations->identifier) {
        name_memory(operations->identifier, memory_bytes, AG_KEPT_CALLER_SP(),
                    AG_KEPT_CALLER_RBP());
    }
    return alloc_custom_mem(operations, bytes, memory_bytes);
}

void ag_ocaml_custom_memory_follow(void) {
    (void)ag_ocaml_detour("caml_alloc_custom_mem", ag_kept_call, (void *)hooked_alloc_custom_mem,
                          (void **)&alloc_custom_mem);
}
