/* fuzz_trace.c: any bytes as a trace file; what libFuzzer makes gets its checksums right, so that
 * it comes further than to the first of them. */
#include <string.h>

#include "trace_mutation.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n_bytes, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t capacity, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    (void)ag_trace_read_everything(bytes, n_bytes); /* that it comes back is the test */
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t capacity, unsigned seed) {
    n_bytes = LLVMFuzzerMutate(bytes, n_bytes, capacity);
    if (seed % 8 != 0) {
        ag_trace_fix_hashes(bytes, n_bytes);
    }
    return n_bytes;
}
