/* chunk_words.h: reads the raw words of a recorder's chunk as untrusted data. */
#ifndef AG_CHUNK_WORDS_H
#define AG_CHUNK_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/decode.h"
#include "format/segment.h"

enum { AG_WIDE_MAX_BYTES = 16 * 1024 };

struct ag_chunk_words {    /* a reader of one chunk */
    const uint64_t *words; /* shared with the program: each word is read once */
    uint32_t at, end;      /* word indexes; [at, end) is unread, end <= AG_CHUNK_WORDS */
    uint64_t ns_per_2_32;  /* factor of the session's clock */
    uint64_t now_ns;       /* session time; a stamp that claims to be later is reduced to it */
    uint64_t last_ns;      /* last stamp of the stream: times in a stream never decrease */
    uint64_t reset_ns;     /* stamp before the last RESET, 0: none */
    bool is_damaged;       /* an invalid word was found; then at == end */
};
struct ag_wide {          /* a copy of a wide record: one with fields or strings */
    uint32_t kind, bytes; /* kind 0: none */
    union {
        uint64_t align;
        uint8_t data[AG_WIDE_MAX_BYTES];
    } u;
};

AG_FAST uint64_t ag_chunk_word(const struct ag_chunk_words *reader, uint32_t at) {
    return __atomic_load_n(&reader->words[at],
                           /* exactly one load: the program may write meanwhile */
                           __ATOMIC_RELAXED);
}
/* Returns the time of a STAMP word, which becomes the stream's last stamp. */
uint64_t ag_chunk_words_stamp_ns(struct ag_chunk_words *reader, uint64_t word);

/* Decodes up to `capacity` events. Stops before a wide record, which is then in ret_wide; the next
 * call continues after it. 0 events and no wide record: the end of the chunk. */
size_t ag_chunk_words_next(struct ag_chunk_words *reader, struct ag_event *ret_events,
                           size_t capacity, struct ag_wide *ret_wide);

/* Builds the record of a wide record; its strings point into it. false: it is inconsistent. */
bool ag_wide_record(const struct ag_wide *wide, uint32_t stream, struct ag_record *ret_record);
/* Returns the number of rows of an AG_WIDE_CALLS record; their times stay raw. 0: it is
 * inconsistent or empty. */
enum { AG_WIDE_CALLS_MOST = AG_WIDE_MAX_BYTES / sizeof(struct ag_wide_call) };
size_t ag_wide_calls(const struct ag_wide *wide, struct ag_call_path ret_paths[AG_WIDE_CALLS_MOST],
                     bool *ret_time_is_raw);

#endif
