/* chunk_words.c: converts the raw 64-bit words of a chunk (segment.h) to events for the writer. A
 * damaged program may change the words while they are read, so a word is copied, and the copy is
 * checked.
 *
 * The recorder completes a word before it increases the chunk's number of used words. So a word
 * that is neither an event nor a record means that the program has overwritten the chunk. The rest
 * of the chunk is then ignored, because no word boundary in it can be trusted.
 *
 * Budget: 2 ns per event. This conversion is the first of the writer's passes over every event. */
#include "chunk_words.h"

#include <string.h>

#include "format/record_body.h"

uint64_t ag_chunk_words_stamp_ns(struct ag_chunk_words *reader, uint64_t word) {
    uint64_t ns = ag_clock_ns(reader->ns_per_2_32, AG_WORD_STAMP_RAW(word));
    ns = ns > reader->now_ns ? reader->now_ns : ns;
    reader->last_ns = ns > reader->last_ns ? ns : reader->last_ns;
    return reader->last_ns;
}

/* Copies the body of a record. false: the record exceeds its chunk or AG_WORD_RECORD_MOST_BYTES. */
static bool copy_record(struct ag_chunk_words *reader, uint64_t word,
                        struct ag_copied_record *ret_copy) {
    const uint32_t bytes = AG_WORD_RECORD_BYTES(word), words = (bytes + 7) / 8;
    if (bytes > AG_WORD_RECORD_MOST_BYTES || words > reader->end - reader->at - 1) {
        return false;
    }
    memcpy(ret_copy->body, &reader->words[reader->at + 1], bytes);
    ret_copy->kind = AG_WORD_RECORD_KIND(word);
    ret_copy->bytes = bytes;
    reader->at += 1 + words;
    return true;
}

static void give_up(struct ag_chunk_words *reader) {
    reader->is_damaged = true;
    reader->at = reader->end;
}

static const struct {
    uint8_t n_words; /* 0: the kind is not that of an event */
    uint8_t record;  /* enum ag_record_kind */
} word_kinds[16] = {
    [AG_WORD_ALLOC] = {2, AG_RECORD_ALLOC},
    [AG_WORD_ALLOC_BIG] = {3, AG_RECORD_ALLOC},
    [AG_WORD_FREE] = {1, AG_RECORD_FREE},
    [AG_WORD_REALLOC_FREE] = {1, AG_RECORD_REALLOC_FREE},
    [AG_WORD_UNDO_FREE] = {1, AG_RECORD_UNDO_FREE},
    [AG_WORD_STAMP] = {1, AG_RECORD_STAMP},
    [AG_WORD_FREE_FROM] = {2, AG_RECORD_FREE},
    [AG_WORD_REALLOC_FREE_FROM] = {2, AG_RECORD_REALLOC_FREE},
    [AG_WORD_COLLECT] = {1, AG_RECORD_COLLECT},
    [AG_WORD_PROMOTE] = {1, AG_RECORD_PROMOTE},
    [AG_WORD_MOVE] = {2, AG_RECORD_MOVE},
    [AG_WORD_TYPED] = {3, AG_RECORD_BLOCK_TYPE},
    [AG_WORD_RESET] = {1, AG_RECORD_RESET},
};

/* Decodes allocations and frees until another kind of word comes, or fewer than two words are left;
 * returns the number of decoded events. Whether an allocation or a free comes next is
 * unpredictable, so the loop does not branch on that: it reads two words, and uses the second word
 * only if the event has one. */
static size_t take_common(struct ag_chunk_words *reader, struct ag_event *ret_events,
                          size_t capacity) {
    enum { COMMON = 1 << AG_WORD_ALLOC | 1 << AG_WORD_FREE };
    size_t count = 0;
    uint32_t at = reader->at;
    while (count < capacity && at + 1 < reader->end) {
        const uint64_t word = ag_chunk_word(reader, at), second = ag_chunk_word(reader, at + 1);
        const uint32_t kind = AG_WORD_KIND(word);
        if (AG_UNLIKELY(!(COMMON >> kind & 1))) {
            break;
        }
        const uint32_t is_alloc = kind == AG_WORD_ALLOC;
        ag_chunk_word_event(word, second & -(uint64_t)is_alloc, word_kinds[kind].record,
                            &ret_events[count++]);
        at += 1 + is_alloc;
    }
    reader->at = at;
    return count;
}

/* Decodes the event at reader->at, which may have any kind. */
AG_FAST void rare_event(struct ag_chunk_words *reader, uint64_t word, uint32_t kind,
                        uint32_t n_words, struct ag_event *ret_event) {
    const uint8_t record = word_kinds[kind].record;
    const uint64_t second = n_words >= 2 ? ag_chunk_word(reader, reader->at + 1) : 0;
    if (kind == AG_WORD_STAMP) {
        *ret_event = (struct ag_event){.size = ag_chunk_words_stamp_ns(reader, word),
                                       .kind = AG_RECORD_STAMP};
        return;
    }
    ag_chunk_word_event(word, kind == AG_WORD_MOVE ? 0 : second, record, ret_event);
    if (n_words == 3) {
        ret_event->size = ag_chunk_word(reader, reader->at + 2);
    } else if (n_words == 2 &&
               kind != AG_WORD_ALLOC) { /* frees of two words have a stack, no size */
        ret_event->size = kind == AG_WORD_MOVE ? AG_WORD_ADDRESS(second) : 0;
    } else if (kind == AG_WORD_RESET) {
        reader->reset_ns = reader->last_ns;
    }
}

size_t ag_chunk_words_next(struct ag_chunk_words *reader, struct ag_event *ret_events,
                           size_t capacity, struct ag_copied_record *ret_copy) {
    size_t count = 0;
    ret_copy->kind = 0;
    for (;;) {
        count += take_common(reader, ret_events + count, capacity - count);
        if (reader->at == reader->end || count == capacity) {
            return count;
        }
        const uint64_t word = ag_chunk_word(reader, reader->at);
        const uint32_t kind = AG_WORD_KIND(word);
        if (AG_UNLIKELY(kind == AG_WORD_RECORD)) {
            if (count > 0) {
                /* deliver the events before the record; the next call starts at the record */
                return count;
            }
            if (copy_record(reader, word, ret_copy)) {
                return 0;
            }
            give_up(reader);
            return 0;
        }
        const uint32_t n_words = word_kinds[kind].n_words;
        if (AG_UNLIKELY(n_words == 0 || n_words > reader->end - reader->at)) {
            give_up(reader);
            return count;
        }
        rare_event(reader, word, kind, n_words, &ret_events[count++]);
        reader->at += n_words;
    }
}

/* ---- records ---- */

bool ag_copied_record_decode(struct ag_copied_record *copy, struct ag_record *ret_record) {
    const uint8_t *const end = copy->body + copy->bytes;
    struct ag_record_layout layout;
    if (!ag_record_layout(copy->kind, &layout) || layout.source != AG_SOURCE_RECORDER) {
        return false;
    }
    *ret_record = (struct ag_record){.kind = (enum ag_record_kind)copy->kind};
    if (layout.row_bytes != 0) {
        return ag_rows_body_get(copy->body, end, &layout, copy->rows, AG_WORD_RECORD_MOST_ROWS,
                                ret_record);
    }
    if (!ag_record_body_get(copy->body, end, &layout, ret_record)) {
        return false;
    }
    for (uint32_t i = 0; i < layout.n_fields; i++) {
        const struct ag_field *field = &layout.fields[i];
        if (field->type == AG_FIELD_STACK) {
            const uint32_t stack = (uint32_t)ag_field_number(field, &ret_record->u);
            (void)ag_field_set_number(field, &ret_record->u, ag_stack_checked(stack)); /* fits */
        }
    }
    const uint32_t via = ret_record->kind == AG_RECORD_VIA ? ret_record->u.via.via : 0;
    const uint32_t frame = ret_record->kind == AG_RECORD_FRAME ? ret_record->u.frame.frame : 1;
    return via < AG_VIAS_MOST && frame != 0 && frame <= AG_FRAME_MOST;
}
