/* fuzz_trace.c: reads any bytes as a trace file. The mutator corrects the checksums of most inputs,
 * so that readers do not stop at a wrong checksum. */
#include <string.h>

#include "trace_mutation.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n_bytes, size_t capacity);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t capacity, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    (void)ag_trace_read_everything(bytes, n_bytes); /* the test is that the call returns */
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t capacity, unsigned seed) {
    n_bytes = LLVMFuzzerMutate(bytes, n_bytes, capacity);
    if (seed % 8 != 0) {
        ag_trace_fix_hashes(bytes, n_bytes);
    }
    return n_bytes;
}
