/* node_names.c: converts process identifiers and atoms in an Erlang node's memory to the texts that
 * Erlang prints.
 *
 * The table of atoms (erts_atom_table, an IndexTable) has segments of 1024 pointers; the term of an
 * atom is an index in this table, tagged:
 *
 *     table + 120 -> segments[i >> 10] -> atoms[i & 1023] -> + 24: u16 length in bytes
 *                                                            + 32: pointer to the UTF-8 text
 *
 * This is the same in OTP 25 and 27 (erts/emulator/beam/index.h, atom.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/little_endian.h"
#include "node.h"

enum {
    ATOM_TAG = 0x0b, /* in the low six bits */
    ATOM_TAG_BITS = 6,
    ATOM_SEGMENTS = 120,
    ATOM_SEGMENT_BITS = 10,
    ATOM_LEN = 24,
    ATOM_NAME = 32,
    ATOM_BYTES = 40,
    ATOM_MOST_BYTES = 255 * 4,
    ATOM_INDEX_LIMIT = 1 << 28, /* more than the emulator allows (+t) */
};

int node_read_word(struct node *node, uint64_t address, uint64_t *ret_word) {
    uint8_t bytes[8];
    const int r = allogram_target_read(node->target, address, bytes, sizeof bytes);
    if (r == 0) {
        *ret_word = ag_get_64(bytes);
    }
    return r;
}

int node_atom_text(struct node *node, uint64_t term, char ret_text[NODE_ATOM_BYTES]) {
    const uint64_t index = term >> ATOM_TAG_BITS;
    if ((term & ((1 << ATOM_TAG_BITS) - 1)) != ATOM_TAG || index >= ATOM_INDEX_LIMIT) {
        return -EBADMSG;
    }
    uint64_t at;
    int r = node_read_word(node, node->atom_table + ATOM_SEGMENTS, &at);
    if (r == 0) {
        r = node_read_word(node, at + (index >> ATOM_SEGMENT_BITS) * 8, &at);
    }
    if (r == 0) {
        r = node_read_word(node, at + (index & ((1 << ATOM_SEGMENT_BITS) - 1)) * 8, &at);
    }
    uint8_t atom[ATOM_BYTES];
    if (r == 0) {
        r = allogram_target_read(node->target, at, atom, sizeof atom);
    }
    if (r < 0) {
        return r;
    }
    const uint16_t len = ag_get_16(atom + ATOM_LEN);
    char text[NODE_ATOM_BYTES];
    if (len > ATOM_MOST_BYTES) {
        return -EBADMSG;
    }
    r = len == 0 ? 0 : allogram_target_read(node->target, ag_get_64(atom + ATOM_NAME), text, len);
    if (r < 0 || memchr(text, '\0', len) != NULL) {
        return r < 0 ? r : -EBADMSG;
    }
    memcpy(ret_text, text, len);
    ret_text[len] = '\0';
    return 0;
}

int node_function_text(struct node *node, uint64_t address, char ret_text[NODE_FUNCTION_BYTES]) {
    uint8_t words[3 * 8];
    char module[NODE_ATOM_BYTES], function[NODE_ATOM_BYTES];
    int r = allogram_target_read(node->target, address, words, sizeof words);
    if (r == 0) {
        r = node_atom_text(node, ag_get_64(words), module);
    }
    if (r == 0) {
        r = node_atom_text(node, ag_get_64(words + 8), function);
    }
    const uint64_t arity = ag_get_64(words + 16);
    if (r < 0 || arity > 255) {
        return r < 0 ? r : -EBADMSG;
    }
    snprintf(ret_text, NODE_FUNCTION_BYTES, "%s:%s/%u", module, function, (unsigned)arity);
    return 0;
}

/* The number of the process in a slot of ErtsPTable. The table puts processes with neighboring
 * numbers into different cache lines; this function undoes the permutation. */
static int number_of_slot(struct node *node, uint64_t slot, uint64_t *ret_number) {
    enum { MASK = 216, LINE_MASK = 224, PLACE_MASK = 232, LINE_SHIFT = 240, BYTES = 248 };
    uint8_t table[BYTES];
    const int r = allogram_target_read(node->target, node->process_table, table, sizeof table);
    if (r < 0) {
        return r;
    }
    const uint32_t line_shift = ag_get_32(table + LINE_SHIFT),
                   place_shift = ag_get_32(table + LINE_SHIFT + 4);
    if (line_shift >= 64 || place_shift >= 64) {
        return -EBADMSG;
    }
    *ret_number = (slot & ~ag_get_64(table + MASK)) |
                  (slot >> line_shift & ag_get_64(table + LINE_MASK)) |
                  (slot & ag_get_64(table + PLACE_MASK)) << place_shift;
    return 0;
}

int node_identifier_text(struct node *node, uint64_t id, char ret_text[NODE_IDENTIFIER_BYTES]) {
    enum { TAG = 3, TAG_BITS = 4, DATA_BITS = 28, NUMBER_BITS = 15 };
    if ((id & ((1 << TAG_BITS) - 1)) != TAG) {
        return -EBADMSG;
    }
    uint64_t number = id >> TAG_BITS, serial;
    if (node->layout->identifier == NODE_IDENTIFIER_DATA) {
        number &= (UINT64_C(1) << DATA_BITS) - 1;
        serial = number >> NUMBER_BITS;
        number &= (1 << NUMBER_BITS) - 1;
    } else {
        const int r = number_of_slot(node, number, &number);
        if (r < 0) {
            return r;
        }
        serial = number >> DATA_BITS;
        number &= (UINT64_C(1) << DATA_BITS) - 1;
    }
    snprintf(ret_text, NODE_IDENTIFIER_BYTES, "<0.%" PRIu64 ".%" PRIu64 ">", number, serial);
    return 0;
}
