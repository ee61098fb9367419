/* debug_info.c: decodes the debug information in the file of an OCaml program, for reports: the
 * function, file and line of a place in the code, and the functions it was inlined into.
 *
 * A place is a chain of pairs of 32-bit words (first, second), innermost function first. Bit 0 of
 * the first word says that the next pair is of the function into which this function was inlined.
 * Bits 2 to 25 of the first word are the distance from the pair to the name (asmcomp/emitaux.ml,
 * runtime/backtrace_nat.c):
 *
 *     4.11 to 5.1   line: second >> 12; column: second >> 4 & 0xff;
 *                   end: (second & 0xf) << 6 | first >> 26;
 *                   at the name: i32 distance to the file, text
 *     5.2 and later second bit 31 clear: line: second >> 19; column: second >> 10 & 0x3f;
 *                        end: second >> 3 & 0x7f in the last line, which begins
 *                        (second & 7) << 6 | first >> 26 characters after the first line;
 *                        at the name: as in 4.11 to 5.1
 *                   set: line: second >> 12 & 0x7ffff; at the name: i32 distance to the file,
 *                        u16 column, u16 column in the last line, i32 end, text
 *
 * The end is counted from the beginning of the first line of the place, also if the place has
 * several lines. In OCaml 4 the compiler stores the largest number of a field in place of a larger
 * one; then the columns are unknown. */
#include "debug_info.h"

#include <string.h>

#include "base/little_endian.h"
#include "ocaml_name.h"

enum { TEXT_BYTES_MOST = 1 << 16 }; /* a name of nested modules has a few hundred bytes */

/* A string that ends inside of its segment, or NULL. */
static const char *text_at(struct ag_decoder_file *file, uint64_t address) {
    size_t n_bytes = 0;
    const unsigned char *bytes = ag_decoder_bytes(file, address, &n_bytes);
    const size_t n_searched = n_bytes < TEXT_BYTES_MOST ? n_bytes : TEXT_BYTES_MOST;
    return bytes != NULL && memchr(bytes, '\0', n_searched) != NULL ? (const char *)bytes : NULL;
}

static const char *programmers_name(struct ag_ocaml_debug_texts *texts, const char *scoped) {
    char *text = texts->bytes + texts->used;
    if (scoped == NULL || !ag_ocaml_scoped_name(scoped, text, sizeof(texts->bytes) - texts->used)) {
        return scoped;
    }
    texts->used += strlen(text) + 1;
    return text;
}

/* Reads one pair. */
static bool read_frame(struct ag_decoder_file *file, enum ag_ocaml_debug_format format,
                       uint64_t address, struct ag_ocaml_debug_texts *texts,
                       struct ag_decoded_frame *ret_frame) {
    enum { LONG_BIT = 31, SHORT_TEXT = 4, LONG_TEXT = 12 };
    size_t n_bytes = 0;
    const unsigned char *pair = ag_decoder_bytes(file, address, &n_bytes);
    if (pair == NULL || n_bytes < 8) {
        return false;
    }
    const uint32_t first = ag_get_32(pair), second = ag_get_32(pair + 4);
    const uint64_t place = address + (first & 0x3fffffc);
    const bool is_long = format == AG_OCAML_DEBUG_5 && second >> LONG_BIT;
    const unsigned char *name = ag_decoder_bytes(file, place, &n_bytes);
    if (name == NULL || n_bytes < LONG_TEXT) {
        return false;
    }
    const uint64_t file_place = place + (uint64_t)(int64_t)(int32_t)ag_get_32(name);
    uint32_t line, column, end;
    if (format == AG_OCAML_DEBUG_4) {
        enum { COLUMN_MOST = 0xff, END_MOST = 0x3ff };
        line = second >> 12;
        column = second >> 4 & COLUMN_MOST;
        end = (second & 0xf) << 6 | first >> 26;
        end = column == COLUMN_MOST || end == END_MOST ? 0 : end;
    } else if (is_long) {
        line = second >> 12 & 0x7ffff;
        column = ag_get_16(name + 4);
        end = ag_get_32(name + 8);
    } else {
        line = second >> 19;
        column = second >> 10 & 0x3f;
        end = (second >> 3 & 0x7f) + ((second & 7) << 6 | first >> 26);
    }
    const bool has_columns = column < end;
    *ret_frame = (struct ag_decoded_frame){
        .function =
            programmers_name(texts, text_at(file, place + (is_long ? LONG_TEXT : SHORT_TEXT))),
        .file = text_at(file, file_place),
        .line = line,
        .column = has_columns ? column : 0,
        .end_column = has_columns ? end : 0,
        .is_inlined = first & 1,
    };
    return ret_frame->function != NULL && ret_frame->file != NULL;
}

size_t ag_ocaml_debug_frames(struct ag_decoder_file *file, enum ag_ocaml_debug_format format,
                             uint64_t address, struct ag_ocaml_debug_texts *texts,
                             struct ag_decoded_frame *ret_frames, size_t capacity) {
    size_t n = 0;
    texts->used = 0;
    while (n < capacity && read_frame(file, format, address, texts, &ret_frames[n])) {
        address += 8;
        if (!ret_frames[n++].is_inlined) {
            return n;
        }
    }
    return 0;
}
