/* chunk_words.h: the raw words of a recorder's chunk, read as what they are: another party's bytes.
 */
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
    const uint64_t *words; /* shared: each is read once */
    uint32_t at, end;      /* words; [at, end) is to be read, end <= AG_CHUNK_WORDS */
    uint64_t ns_per_2_32;  /* of the clock */
    uint64_t now_ns;       /* no stamp is later than this: a stamp that claims so is cut to it */
    uint64_t last_ns;      /* of the stream's last stamp: times of a stream never go back */
    uint64_t reset_ns;     /* the stamp before the last RESET, 0: none */
    bool is_damaged;       /* something impossible stood there; at == end */
};
struct ag_wide {          /* a rare record, copied out */
    uint32_t kind, bytes; /* kind 0: none */
    union {
        uint64_t align;
        uint8_t data[AG_WIDE_MAX_BYTES];
    } u;
};

AG_FAST uint64_t ag_chunk_word(const struct ag_chunk_words *reader, uint32_t at) {
    return __atomic_load_n(&reader->words[at],
                           __ATOMIC_RELAXED); /* exactly one load: the other side may write */
}
/* The time of a STAMP word, which is the stream's last from now on. */
uint64_t ag_chunk_words_stamp_ns(struct ag_chunk_words *reader, uint64_t word);

/* Up to `capacity` events. Stops before a wide record: it is in ret_wide then and the next call
 * goes on behind it. 0 events without a wide: the end. */
size_t ag_chunk_words_next(struct ag_chunk_words *reader, struct ag_event *ret_events,
                           size_t capacity, struct ag_wide *ret_wide);

/* Builds the record that a wide stands for; its strings point into the wide. false: it contradicts
 * itself. */
bool ag_wide_record(const struct ag_wide *wide, uint32_t stream, struct ag_record *ret_record);
/* The rows of an AG_WIDE_CALLS, with their times as they came. 0: it contradicts itself, or is
 * empty. */
enum { AG_WIDE_CALLS_MOST = AG_WIDE_MAX_BYTES / sizeof(struct ag_wide_call) };
size_t ag_wide_calls(const struct ag_wide *wide, struct ag_call_path ret_paths[AG_WIDE_CALLS_MOST],
                     bool *ret_time_is_raw);

#endif
