/* fuzz_node.c: reads any bytes as the symbol file that a JIT compiler passes to debuggers, and
 * looks up the functions that the file describes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "node_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

/* node_code.c calls this function for the symbol files of a target process. Here there is no target
 * process; the fuzzer's bytes go to node_code_add instead. */
int allogram_target_code_entries(struct allogram_target *target, allogram_code_entry_fn *visit,
                                 void *context) {
    (void)target, (void)visit, (void)context;
    return -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    struct node_code code = {0};
    size_t n_text = 0;
    // if the file is refused, functions that were read before the error remain, and are looked up,
    // too
    (void)node_code_add(&code, bytes, n_bytes);
    node_code_sort(&code);
    for (size_t i = 0; i < code.n && i < 1000; i++) {
        const struct node_function *function = node_code_find(&code, code.items[i].low);
        const char *file;
        uint32_t line;
        if (function != NULL) {
            n_text += strlen(function->name);
            n_text +=
                node_function_line(function, code.items[i].high, &file, &line) ? strlen(file) : 0;
        }
    }
    node_code_clear(&code);
    return n_text == SIZE_MAX;
}
