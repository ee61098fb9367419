/* fuzz_chunk.c: reads any bytes as the body of a chunk (the unit of a trace file). So the decoders
 * of events and records are tested without the rest of the file. The first byte selects the kind of
 * chunk, and is the time in ns at which the events begin. */
#include <stdlib.h>
#include <string.h>

#include "format/decode_chunk.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static struct ag_event events[4096];
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    if (n_bytes < 2 || decoder == NULL) {
        (void)ag_chunk_decoder_free(decoder); /* returns NULL */
        return 0;
    }
    const size_t body_bytes = n_bytes - 1;
    decoder->body = calloc(1, body_bytes + AG_BODY_PADDING);
    if (decoder->body == NULL) {
        abort();
    }
    memcpy(decoder->body, bytes + 1, body_bytes);
    decoder->at = decoder->body;
    decoder->end = decoder->body + body_bytes;
    decoder->entry.kind = bytes[0] % 2 == 0 ? AG_CHUNK_KIND_EVENTS : AG_CHUNK_KIND_RECORDS;
    ag_events_start(&decoder->events, bytes[0]);
    for (;;) {
        struct ag_record record;
        struct ag_decode_error error;
        const int n = ag_chunk_decoder_next(decoder, events, 4096, &record, &error);
        if (n < 0 || (n == 0 && record.kind == 0)) {
            break;
        }
    }
    (void)ag_chunk_decoder_free(decoder); /* returns NULL */
    return 0;
}
