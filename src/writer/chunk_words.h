/* chunk_words.h: reads the raw words of a chunk that a recorder (the code inside a profiled
 * program) has written, as untrusted data. A chunk contains a part of one stream (what one thread
 * reports): events, stamps (clock values), and records (rarer reports of variable length). */
#ifndef AG_CHUNK_WORDS_H
#define AG_CHUNK_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/record_layout.h"
#include "format/segment.h"
#include "stack_harvest.h"

struct ag_chunk_words {    /* a reader of one chunk */
    const uint64_t *words; /* shared with the program: copied, then checked */
    uint32_t at, end;      /* word indexes; [at, end) is unread, end <= AG_CHUNK_WORDS */
    uint64_t ns_per_2_32;  /* factor for raw clock values (session_clock.h) */
    uint64_t now_ns;       /* current time since the session (the recording) began; a later stamp is
                            * reduced to it */
    uint64_t last_ns;      /* last stamp of the stream; a stamp that is earlier is raised to it */
    uint64_t reset_ns;     /* time of the stamp before the last AG_WORD_RESET, by which the command
                            * `allogram control` or the program requests that reports begin anew; 0:
                            * there was no such word */
    bool is_damaged;       /* an invalid word was found; then at == end */
};
struct ag_copied_record { /* a record among the words, copied before it is checked */
    uint32_t kind, bytes; /* kind 0: none */
    uint8_t body[AG_WORD_RECORD_MOST_BYTES];
    /* the rows of a record that has rows, decoded */
    uint64_t rows[AG_WORD_RECORD_MOST_ROWS * AG_ROW_MAX_BYTES / 8];
};

AG_FAST uint64_t ag_chunk_word(const struct ag_chunk_words *reader, uint32_t at) {
    return __atomic_load_n(&reader->words[at],
                           /* exactly one load: the program may write meanwhile */
                           __ATOMIC_RELAXED);
}
/* Fills an event. WORD is its first word. SECOND is its second word if that word contains the stack
 * and (for an ALLOC) the size. Otherwise SECOND is 0: for an event of one word, and for a MOVE,
 * whose second word is an address. Used by chunk_words.c, whose loop selects SECOND without a
 * branch, and by the loop of one_pass.c, where KIND is a constant. (If this function returned the
 * event, the loop of chunk_words.c would copy it: 9 instructions per event.) */
AG_FAST void ag_chunk_word_event(uint64_t word, uint64_t second, uint8_t kind,
                                 struct ag_event *ret_event) {
    *ret_event = (struct ag_event){.address = AG_WORD_ADDRESS(word),
                                   .size = (uint32_t)second,
                                   .stack = ag_stack_checked((uint32_t)(second >> 32)),
                                   .kind = kind,
                                   .via = (uint8_t)AG_WORD_VIA(word)};
}
/* Returns the time of a STAMP word, which becomes the stream's last stamp. */
uint64_t ag_chunk_words_stamp_ns(struct ag_chunk_words *reader, uint64_t word);

/* Decodes up to `capacity` events and stops before a record. A call that begins at a record returns
 * 0 and copies the record to ret_copy. If the result and ret_copy->kind are 0, the chunk has
 * ended. */
size_t ag_chunk_words_next(struct ag_chunk_words *reader, struct ag_event *ret_events,
                           size_t capacity, struct ag_copied_record *ret_copy);

/* Decodes a copied record. The strings and rows of the result remain in COPY; its stacks are valid
 * ids. false: the record is damaged, or of a kind that the recorder does not write. */
bool ag_copied_record_decode(struct ag_copied_record *copy, struct ag_record *ret_record);

#endif
