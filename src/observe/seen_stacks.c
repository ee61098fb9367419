/* seen_stacks.c: four interning tables of one kind: an array of items, and a hash index of them.
 * See seen_stacks.h. */
#include "seen_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"

enum { FIRST_CAPACITY = 1024, MOST = 1 << 28 };

static uint64_t mix(uint64_t hash, uint64_t value) {
    return ag_keyed_hash_pair(hash, value);
}

/* ---- the index ------------------------------------------------------------------ */
typedef uint64_t hash_fn(const struct ag_seen_stacks *stacks, uint32_t number);

static int index_grow(struct ag_seen_index *index, const struct ag_seen_stacks *stacks,
                      hash_fn *hash_of) {
    const size_t capacity = index->capacity != 0 ? 2 * index->capacity : FIRST_CAPACITY;
    uint32_t *slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < index->capacity; i++) {
        if (index->slots[i] != 0) {
            size_t at = hash_of(stacks, index->slots[i] - 1) & (capacity - 1);
            while (slots[at] != 0) {
                at = (at + 1) & (capacity - 1);
            }
            slots[at] = index->slots[i];
        }
    }
    free(index->slots);
    index->slots = slots;
    index->capacity = capacity;
    return 0;
}

/* The slot of an item with this hash: one that `is` accepts, or the empty one where it would be. */
typedef bool is_fn(const struct ag_seen_stacks *stacks, uint32_t number, const void *key);

static uint32_t *index_find(struct ag_seen_index *index, const struct ag_seen_stacks *stacks,
                            hash_fn *hash_of, uint64_t hash, is_fn *is, const void *key) {
    if (index->n * 2 >= index->capacity && index_grow(index, stacks, hash_of) < 0) {
        return NULL;
    }
    size_t at = hash & (index->capacity - 1);
    while (index->slots[at] != 0 && !is(stacks, index->slots[at] - 1, key)) {
        at = (at + 1) & (index->capacity - 1);
    }
    return &index->slots[at];
}

static bool stacks_make_room(void **items, size_t *capacity, size_t n, size_t size) {
    if (n < *capacity) {
        return true;
    }
    const size_t more = *capacity != 0 ? 2 * *capacity : FIRST_CAPACITY;
    void *larger = more <= MOST ? reallocarray(*items, more, size) : NULL;
    if (larger == NULL) {
        return false;
    }
    *items = larger;
    *capacity = more;
    return true;
}

/* ---- texts ------------------------------------------------------------------------ */

static uint64_t hash_text(const char *text) {
    return ag_keyed_hash_bytes(text, strlen(text));
}
static uint64_t hash_of_text(const struct ag_seen_stacks *stacks, uint32_t number) {
    return hash_text(stacks->texts[number]);
}
static bool is_text(const struct ag_seen_stacks *stacks, uint32_t number, const void *key) {
    return strcmp(stacks->texts[number], key) == 0;
}

uint32_t ag_seen_text(struct ag_seen_stacks *stacks, const char *text) {
    if (text == NULL) {
        return 0;
    }
    uint32_t *slot =
        index_find(&stacks->text_index, stacks, hash_of_text, hash_text(text), is_text, text);
    if (slot == NULL) {
        return UINT32_MAX;
    }
    if (*slot == 0) {
        const size_t n = stacks->n_texts != 0 ? stacks->n_texts : 1; /* 0 is none */
        if (!stacks_make_room((void **)&stacks->texts, &stacks->text_capacity, n, sizeof(char *))) {
            return UINT32_MAX;
        }
        stacks->texts[0] = NULL;
        stacks->texts[n] = strdup(text);
        if (stacks->texts[n] == NULL) {
            return UINT32_MAX;
        }
        stacks->n_texts = n + 1;
        stacks->text_index.n++;
        *slot = (uint32_t)n + 1;
    }
    return *slot - 1;
}

/* ---- frames ------------------------------------------------------------------------ */

static uint64_t hash_frame(const struct ag_seen_frame *frame) {
    uint64_t hash = mix(frame->pc, frame->image);
    hash = mix(hash,
               (uint64_t)frame->runtime << 33 | (uint64_t)frame->function << 1 | frame->is_exact);
    return mix(hash, (uint64_t)frame->file << 32 | frame->line);
}
static uint64_t hash_of_frame(const struct ag_seen_stacks *stacks, uint32_t number) {
    return hash_frame(&stacks->frames[number]);
}
static bool is_frame(const struct ag_seen_stacks *stacks, uint32_t number, const void *key) {
    const struct ag_seen_frame *a = &stacks->frames[number], *b = key;
    return a->pc == b->pc && a->image == b->image && a->is_exact == b->is_exact &&
           a->runtime == b->runtime && a->function == b->function && a->file == b->file &&
           a->line == b->line;
}

uint32_t ag_seen_frame_id(struct ag_seen_stacks *stacks, const struct ag_seen_frame *frame) {
    uint32_t *slot =
        index_find(&stacks->frame_index, stacks, hash_of_frame, hash_frame(frame), is_frame, frame);
    if (slot == NULL ||
        (*slot == 0 && !stacks_make_room((void **)&stacks->frames, &stacks->frame_capacity,
                                         stacks->n_frames, sizeof *stacks->frames))) {
        return UINT32_MAX;
    }
    if (*slot == 0) {
        stacks->frames[stacks->n_frames++] = *frame;
        stacks->frame_index.n++;
        *slot = (uint32_t)stacks->n_frames;
    }
    return *slot - 1;
}

/* ---- nodes ------------------------------------------------------------------------- */

static uint64_t hash_of_node(const struct ag_seen_stacks *stacks, uint32_t number) {
    return mix(stacks->nodes[number].parent, stacks->nodes[number].frame);
}
static bool is_node(const struct ag_seen_stacks *stacks, uint32_t number, const void *key) {
    const struct ag_seen_node *a = &stacks->nodes[number], *b = key;
    return a->parent == b->parent && a->frame == b->frame;
}

uint32_t ag_seen_node_id(struct ag_seen_stacks *stacks, uint32_t parent, uint32_t frame) {
    const struct ag_seen_node node = {parent, frame};
    uint32_t *slot =
        index_find(&stacks->node_index, stacks, hash_of_node, mix(parent, frame), is_node, &node);
    if (slot == NULL ||
        (*slot == 0 && !stacks_make_room((void **)&stacks->nodes, &stacks->node_capacity,
                                         stacks->n_nodes, sizeof node))) {
        return UINT32_MAX;
    }
    if (*slot == 0) {
        stacks->nodes[stacks->n_nodes++] = node;
        stacks->node_index.n++;
        *slot = (uint32_t)stacks->n_nodes;
    }
    return *slot - 1 + AG_SEEN_FIRST;
}

/* ---- counts ------------------------------------------------------------------------ */

static uint64_t hash_count(const struct ag_seen_count *count) {
    return mix(mix(count->node, count->thread), count->source);
}
static uint64_t hash_of_count(const struct ag_seen_stacks *stacks, uint32_t number) {
    return hash_count(&stacks->counts[number]);
}
static bool is_count(const struct ag_seen_stacks *stacks, uint32_t number, const void *key) {
    const struct ag_seen_count *a = &stacks->counts[number], *b = key;
    return a->node == b->node && a->thread == b->thread && a->source == b->source;
}

int ag_seen_count(struct ag_seen_stacks *stacks, uint32_t node, uint32_t thread, uint32_t source,
                  uint64_t weight) {
    const struct ag_seen_count count = {node, thread, source, 0, 0};
    uint32_t *slot = index_find(&stacks->count_index, stacks, hash_of_count, hash_count(&count),
                                is_count, &count);
    if (slot == NULL ||
        (*slot == 0 && !stacks_make_room((void **)&stacks->counts, &stacks->count_capacity,
                                         stacks->n_counts, sizeof count))) {
        return -ENOMEM;
    }
    if (*slot == 0) {
        stacks->counts[stacks->n_counts++] = count;
        stacks->count_index.n++;
        *slot = (uint32_t)stacks->n_counts;
    }
    stacks->counts[*slot - 1].samples++;
    stacks->counts[*slot - 1].weight += weight;
    return 0;
}

void ag_seen_stacks_done(struct ag_seen_stacks *stacks) {
    for (size_t i = 1; i < stacks->n_texts; i++) {
        free(stacks->texts[i]);
    }
    free(stacks->texts);
    free(stacks->frames);
    free(stacks->nodes);
    free(stacks->counts);
    free(stacks->frame_index.slots);
    free(stacks->node_index.slots);
    free(stacks->count_index.slots);
    free(stacks->text_index.slots);
    *stacks = (struct ag_seen_stacks){0};
}
