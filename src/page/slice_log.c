/* slice_log.c: stores the history of groups compactly, and folds small groups until the history is
 * small enough for the page. See slice_log.h.
 *
 * 12,000 groups in 256 slices can give three million entries of 64 bytes; encoded as varints an
 * entry takes about 14 bytes. Folding limits the size of the page: the entries of a small group
 * move to a node "other" below the group's caller. If the page is still too large, the entries move
 * to a node "other" below the caller's caller, and so on. A folded group keeps its own function,
 * process, type, allocation function (via), blamed line and label, and loses only its callers. The
 * sums do not change. */
#include "page/slice_log.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/varint.h"
#include "model/metric.h"
#include "table/array.h"

enum { FIELDS = 7 };
#define NOT_SEEN UINT32_MAX

struct sum { /* the fields of an entry, in the order of the log */
    int64_t fields[FIELDS];
};

int ag_slice_log_init(struct ag_slice_log *log, size_t n_slices, size_t n_groups) {
    log->n_slices = n_slices;
    log->n_groups = n_groups;
    log->slices = calloc(n_slices + 1, sizeof(*log->slices));
    log->entries_of = calloc(n_groups + 1, sizeof(*log->entries_of));
    return log->slices && log->entries_of ? 0 : -ENOMEM;
}

void ag_slice_log_done(struct ag_slice_log *log) {
    for (size_t i = 0; log->slices && i < log->n_slices; i++) {
        ag_byte_list_done(&log->slices[i]);
    }
    free(log->slices);
    free(log->entries_of);
    *log = (struct ag_slice_log){0};
}

int ag_slice_log_add(void *context, size_t slice, const struct ag_history_entry *entries,
                     size_t count) {
    struct ag_slice_log *log = context;
    struct ag_byte_list *list = &log->slices[slice];
    for (size_t i = 0; i < count; i++) {
        const struct ag_history_entry *entry = &entries[i];
        ag_byte_list_number(list, entry->group);
        ag_byte_list_signed(list, entry->allocated_blocks);
        ag_byte_list_signed(list, entry->allocated_bytes);
        ag_byte_list_signed(list, entry->freed_blocks);
        ag_byte_list_signed(list, entry->freed_bytes);
        ag_byte_list_signed(list, entry->temporary_blocks);
        ag_byte_list_signed(list, entry->rise_blocks);
        ag_byte_list_signed(list, entry->rise_bytes);
        log->entries_of[entry->group]++;
    }
    log->n_entries += count;
    return list->is_short ? -ENOMEM : 0;
}

/* Decodes the next entry of a slice's log. NULL: there is none. */
static const uint8_t *next_entry(const uint8_t *at, const uint8_t *end, uint32_t *ret_group,
                                 struct sum *ret_sum) {
    uint64_t number;
    at = ag_varint_get(at, end, &number);
    *ret_group = at ? (uint32_t)number : 0;
    for (size_t i = 0; i < FIELDS && at; i++) {
        at = ag_varint_get(at, end, &number);
        ret_sum->fields[i] = at ? (int64_t)ag_unzigzag(number) : 0;
    }
    return at;
}

/* ---- folding ---- */

struct folding {
    const struct ag_slice_log *log;
    struct ag_outline *outline;
    uint32_t *target;
    uint32_t *place_of;  /* by node: the node "other" below it, or NOT_SEEN */
    uint32_t *other_of;  /* by node: the first group below its "other", or NOT_SEEN */
    uint32_t *next_of;   /* by group: the next group below the same "other", or NOT_SEEN */
    uint32_t *last_seen; /* by group: the slice in which the group was last counted */
    size_t n_next_of, n_last_seen;
    size_t n_groups; /* number of groups in the outline before folding */
};

static int by_weight(const void *a, const void *b, void *context) {
    const struct ag_outline_group *groups = context;
    const double left = groups[*(const uint32_t *)a].weight,
                 right = groups[*(const uint32_t *)b].weight;
    return (left < right) - (left > right);
}

/* Returns the number of entries that the history would have with the targets chosen so far. */
static size_t count_entries(const struct folding *folding) {
    const struct ag_slice_log *log = folding->log;
    size_t count = 0;
    memset(folding->last_seen, 0xff,
           folding->outline->n_groups * sizeof(*folding->last_seen)); /* NOT_SEEN */
    for (uint32_t slice = 0; slice < log->n_slices; slice++) {
        const struct ag_byte_list *list = &log->slices[slice];
        const uint8_t *at = list->bytes, *end = at + list->count;
        uint32_t group;
        struct sum sum;
        while (at < end && (at = next_entry(at, end, &group, &sum))) {
            const uint32_t target = folding->target[group];
            count += folding->last_seen[target] != slice;
            folding->last_seen[target] = slice;
        }
    }
    return count;
}

static int add_node(struct ag_outline *outline, uint32_t parent, uint32_t frame,
                    uint32_t *ret_node) {
    *ret_node = (uint32_t)outline->n_nodes;
    return AG_ARRAY_ADD(outline->nodes, outline->n_nodes,
                        (struct ag_outline_node){.parent = parent, .frame = frame});
}

/* Adds a group with the function, type, via, blamed line and label of LIKE below the node "other"
 * of NODE. */
static int add_other(struct folding *folding, uint32_t node, const struct ag_outline_group *like) {
    struct ag_outline *outline = folding->outline;
    struct ag_outline_group folded = {.line = like->line,
                                      .process = like->process,
                                      .is_known = like->is_known,
                                      .is_collected = like->is_collected,
                                      .via_name = like->via_name,
                                      .type = like->type,
                                      .label = like->label};
    /* Read before the arrays grow, which may move LIKE. */
    const uint32_t frame = outline->nodes[like->node].frame;
    const size_t n_groups = outline->n_groups + 1;
    int r = AG_ARRAY_EXTEND(folding->last_seen, folding->n_last_seen, n_groups);
    r = r < 0 ? r : AG_ARRAY_EXTEND(folding->next_of, folding->n_next_of, n_groups);
    if (r == 0 && folding->place_of[node] == NOT_SEEN) {
        r = add_node(outline, node, AG_OUTLINE_OTHER, &folding->place_of[node]);
    }
    uint32_t twin = folding->other_of[node];
    while (twin != NOT_SEEN && outline->nodes[outline->groups[twin].node].frame != frame) {
        twin = folding->next_of[twin];
    }
    if (twin != NOT_SEEN) {
        folded.node = outline->groups[twin].node;
    } else if (r == 0) {
        r = add_node(outline, folding->place_of[node], frame, &folded.node);
    }
    if (r < 0) {
        return r;
    }
    folding->next_of[outline->n_groups] = folding->other_of[node];
    folding->other_of[node] = (uint32_t)outline->n_groups;
    return AG_ARRAY_ADD(outline->groups, outline->n_groups, folded);
}

static bool is_alike(const struct ag_outline *outline, const struct ag_outline_group *a,
                     const struct ag_outline_group *b) {
    /* Equal texts have equal addresses. */
    return a->line == b->line && a->type == b->type && a->via_name == b->via_name &&
           a->label == b->label && a->is_known == b->is_known && a->process == b->process &&
           outline->nodes[a->node].frame == outline->nodes[b->node].frame;
}

/* Finds or adds the group into which GROUP folds, below the node "other" of NODE. */
static int other_group(struct folding *folding, uint32_t node, uint32_t group,
                       uint32_t *ret_group) {
    const struct ag_outline *outline = folding->outline;
    uint32_t other = folding->other_of[node];
    while (other != NOT_SEEN &&
           !is_alike(outline, &outline->groups[other], &outline->groups[group])) {
        other = folding->next_of[other];
    }
    if (other == NOT_SEEN) {
        const int r = add_other(folding, node, &outline->groups[group]);
        if (r < 0) {
            return r;
        }
        other = folding->other_of[node];
    }
    *ret_group = other;
    return 0;
}

/* Returns the node of a group's caller. If the outline has folded the group already, the group is
 * below a node "other", and the caller is the parent of that node. */
static uint32_t caller_of(const struct ag_outline *outline, uint32_t group) {
    const uint32_t parent = outline->nodes[outline->groups[group].node].parent;
    return outline->nodes[parent].frame == AG_OUTLINE_OTHER ? outline->nodes[parent].parent
                                                            : parent;
}

/* Folds all groups of RANKED from index KEPT on: the target of each is a group below the node
 * "other" of the ancestor that is LEVEL steps above the group's node. */
static int fold_up(struct folding *folding, const uint32_t *ranked, size_t kept, unsigned level) {
    const struct ag_outline *outline = folding->outline;
    for (size_t i = kept; i < folding->n_groups; i++) {
        uint32_t node = caller_of(outline, ranked[i]);
        for (unsigned step = 1; step < level && node != 0; step++) {
            node = outline->nodes[node].parent;
        }
        const int r = other_group(folding, node, ranked[i], &folding->target[ranked[i]]);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* Enters into FOLDING the nodes "other" that the outline already has, with their groups. */
static void note_others(struct folding *folding) {
    const struct ag_outline *outline = folding->outline;
    for (uint32_t i = 0; i < folding->n_groups; i++) {
        const uint32_t parent = outline->nodes[outline->groups[i].node].parent;
        if (outline->nodes[parent].frame == AG_OUTLINE_OTHER) {
            const uint32_t node = outline->nodes[parent].parent;
            folding->place_of[node] = parent;
            folding->next_of[i] = folding->other_of[node];
            folding->other_of[node] = i;
        }
    }
}

/* Folds groups until the history has at most MOST_ENTRIES entries. The KEPT heaviest groups are not
 * folded: at first those whose entries fill three quarters of MOST_ENTRIES. If it is not enough to
 * fold all other groups, up to the root, KEPT is halved. */
static int fold(struct folding *folding, size_t most_entries) {
    static const unsigned levels[] = {1, 2, 4, 8, 16, 64, UINT_MAX}; /* UINT_MAX: to the root */
    struct ag_outline *outline = folding->outline;
    uint32_t *ranked = malloc((folding->n_groups + 1) * sizeof(*ranked));
    if (!ranked) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < folding->n_groups; i++) {
        ranked[i] = i;
    }
    note_others(folding);
    qsort_r(ranked, folding->n_groups, sizeof(*ranked), by_weight, outline->groups);
    size_t kept = 0, n_entries = 0;
    while (kept < folding->n_groups &&
           n_entries + folding->log->entries_of[ranked[kept]] <= most_entries / 4 * 3) {
        n_entries += folding->log->entries_of[ranked[kept++]];
    }
    int r = 0;
    for (bool is_done = false; r == 0 && !is_done; kept /= 2) {
        for (size_t i = 0; i < AG_ARRAY_SIZE(levels) && r == 0 && !is_done; i++) {
            r = fold_up(folding, ranked, kept, levels[i]);
            is_done = count_entries(folding) <= most_entries;
        }
        is_done |= kept == 0; /* every group was folded, up to the root if needed */
    }
    free(ranked);
    return r;
}

/* Adds the metrics of folded groups to their targets. */
static int move_metrics(const struct folding *folding) {
    struct ag_outline *outline = folding->outline;
    struct ag_metrics *sums = calloc(outline->n_groups + 1, sizeof(*sums));
    if (!sums) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < folding->n_groups; i++) {
        ag_metrics_add(&sums[folding->target[i]], &outline->groups[i].metrics);
    }
    for (size_t i = 0; i < outline->n_groups; i++) {
        outline->groups[i].metrics = sums[i];
    }
    free(sums);
    return 0;
}

int ag_slice_log_fold(const struct ag_slice_log *log, struct ag_outline *outline,
                      size_t most_entries, uint32_t *ret_target) {
    for (uint32_t i = 0; i < outline->n_groups; i++) {
        ret_target[i] = i;
    }
    if (log->n_entries <= most_entries) {
        return 0;
    }
    struct folding folding = {
        .log = log, .outline = outline, .target = ret_target, .n_groups = outline->n_groups};
    const size_t nodes_bytes = (outline->n_nodes + 1) * sizeof(*folding.other_of);
    folding.place_of = malloc(nodes_bytes);
    folding.other_of = malloc(nodes_bytes);
    int r = AG_ARRAY_EXTEND(folding.last_seen, folding.n_last_seen, outline->n_groups);
    r = r < 0 ? r : AG_ARRAY_EXTEND(folding.next_of, folding.n_next_of, outline->n_groups);
    r = folding.place_of && folding.other_of ? r : -ENOMEM;
    if (r == 0) {
        memset(folding.place_of, 0xff, nodes_bytes); /* NOT_SEEN */
        memset(folding.other_of, 0xff, nodes_bytes);
        r = fold(&folding, most_entries);
    }
    r = r < 0 ? r : move_metrics(&folding);
    free(folding.place_of);
    free(folding.other_of);
    free(folding.last_seen);
    free(folding.next_of);
    return r;
}

/* ---- writing the block ---- */

static int by_number(const void *a, const void *b) {
    const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Adds up the entries of one slice by number on the page. TOUCHED gets the numbers that have a sum,
 * in ascending order. */
static size_t add_up(const struct ag_byte_list *list, const uint32_t *number_of, struct sum *sums,
                     uint32_t *touched) {
    static const struct sum nothing;
    const uint8_t *at = list->bytes, *end = at + list->count;
    size_t count = 0;
    uint32_t group;
    struct sum sum;
    while (at < end && (at = next_entry(at, end, &group, &sum))) {
        const uint32_t number = number_of[group];
        struct sum *into = &sums[number];
        if (memcmp(into, &nothing, sizeof(nothing)) == 0) {
            touched[count++] = number; /* If the sum becomes 0 again in the middle of the loop, the
                                        * number is added twice. Its second entry is written
                                        * as 0. */
        }
        for (size_t i = 0; i < FIELDS; i++) {
            into->fields[i] += sum.fields[i];
        }
    }
    if (count > 0) {
        qsort(touched, count, sizeof(*touched), by_number);
    }
    return count;
}

int ag_slice_log_write(const struct ag_slice_log *log, const uint32_t *number_of, size_t n_numbers,
                       unsigned trace, FILE *out) {
    struct ag_byte_list counts = {0}, numbers = {0}, columns[FIELDS] = {{0}};
    struct sum *sums = calloc(n_numbers + 1, sizeof(*sums));
    uint32_t *touched = malloc((log->n_groups + 1) * sizeof(*touched));
    int r = sums && touched ? 0 : -ENOMEM;
    for (size_t slice = 0; slice < log->n_slices && r == 0; slice++) {
        const size_t count = add_up(&log->slices[slice], number_of, sums, touched);
        ag_byte_list_number(&counts, count);
        uint32_t before = 0;
        for (size_t i = 0; i < count; i++) {
            struct sum *sum = &sums[touched[i]];
            ag_byte_list_number(&numbers, touched[i] - before);
            before = touched[i];
            for (size_t k = 0; k < FIELDS; k++) {
                ag_byte_list_signed(&columns[k], sum->fields[k]);
            }
            *sum = (struct sum){0};
        }
    }
    ag_byte_list_join(&counts, &numbers, 1);
    ag_byte_list_join(&counts, columns, FIELDS);
    r = r < 0 ? r : ag_data_block_write(out, trace, "history", &counts);
    ag_byte_list_done(&counts);
    free(sums);
    free(touched);
    return r;
}
