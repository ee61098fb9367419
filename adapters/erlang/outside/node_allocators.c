/* node_allocators.c: reports the memory that each instance of the Erlang emulator's allocators has
 * from the kernel or from malloc (its carriers), and how much of it is in use (its blocks).
 *
 * erts_allctrs_info has a row per allocator. An allocator of the usual kind (alloc_util) has one
 * instance, or one per scheduler and another for all other threads. An instance counts its carriers
 * by kind: multi-block, single-block, and pooled. Pooled carriers are half-empty multi-block
 * carriers that any instance may take over; the instance that made them still counts them. The
 * counters are those that erlang:system_info({allocator_sizes, A}) prints; the two agree to the
 * byte while a node idles. The structures, by offsets in bytes (-> is a pointer):
 *
 *     erts_allctrs_info[A]   0 int alloc_util, 4 int enabled, 8 int per thread, 16 -> instance, or
 *                            -> {12: int n, 16: -> array of -> instance}
 *     instance               0x78 -> "eheap_", 0x84 int number, 0x150 list of multi-block carriers,
 *                            0x160 of single-block ones, 0x1c8 pooled bytes of blocks by
 *                            allocator, 0x288 pooled bytes of carriers, 0x440 single-block, 0x6d0
 *                            multi-block counters
 *     counters               0 {number, bytes} from mseg, 16 from malloc, 48 maximum,
 *                            80 {number, bytes} x {now, maximum, all-time maximum} by allocator
 *     carrier                0 bytes, flags in the low bits, 8 -> next, 16 -> previous
 *
 * The offsets are the same in OTP 25 and 27 (erl_alloc.h, erl_alloc_util.h). All values that
 * are read are checked: a name ends in "_", the current value never exceeds the maximum, and the
 * links of a list agree in both directions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/little_endian.h"
#include "node.h"

enum {
    ROW_BYTES = 24,
    ROWS_MOST = 32,
    INSTANCES_MOST = 2049, /* ERTS_AU_MAX_PREF_ALLOC_INSTANCES and the common one */
    INSTANCE_BYTES = 0x960,
    NAME = 0x78,
    CARRIER_LISTS = 0x150, /* two lists: of multi-block and of single-block carriers */
    POOLED_BLOCKS = 0x1c8,
    POOLED_CARRIERS = 0x288,
    SINGLE_BLOCK = 0x440,
    MULTI_BLOCK = 0x6d0,
    COUNTERS_BLOCKS = 80,
    COUNTERS_BLOCKS_EACH = 48,
    BLOCK_KINDS = 12, /* allocators whose blocks a carrier may hold */
    CARRIER_FLAGS = 7,
    CARRIERS_MOST = 1 << 16,
};

struct instance_sizes {
    uint64_t carriers_bytes, blocks_bytes;
};

/* Adds the current values, which must not exceed the maximum. (The emulator updates the all-time
 * maximum only when it is queried.) */
static int add_counters(const uint8_t *counters, struct instance_sizes *sizes) {
    const uint64_t now = ag_get_64(counters + 8) + ag_get_64(counters + 24);
    if (now > ag_get_64(counters + 56)) {
        return -EBADMSG;
    }
    sizes->carriers_bytes += now;
    for (int i = 0; i < BLOCK_KINDS; i++) {
        const uint8_t *blocks = counters + COUNTERS_BLOCKS + i * COUNTERS_BLOCKS_EACH;
        if (ag_get_64(blocks + 8) > ag_get_64(blocks + 24)) {
            return -EBADMSG;
        }
        sizes->blocks_bytes += ag_get_64(blocks + 8);
    }
    return 0;
}

static int add_sizes(const uint8_t *instance, struct instance_sizes *sizes) {
    int r = add_counters(instance + MULTI_BLOCK, sizes);
    if (r == 0) {
        r = add_counters(instance + SINGLE_BLOCK, sizes);
    }
    for (int i = 0; r == 0 && i < BLOCK_KINDS; i++) {
        sizes->blocks_bytes += ag_get_64(instance + POOLED_BLOCKS + i * 8);
    }
    sizes->carriers_bytes += ag_get_64(instance + POOLED_CARRIERS);
    return r == 0 && sizes->blocks_bytes > sizes->carriers_bytes ? -EBADMSG : r;
}

struct range_list {
    struct allogram_range *items;
    size_t n, capacity;
};

static int add_range(struct range_list *list, uint64_t low, uint64_t high) {
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct allogram_range *items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) {
            return -ENOMEM;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->n++] = (struct allogram_range){low, high};
    return 0;
}

/* Adds the carriers of a list. The list may change while it is read, so the walk ends at a carrier
 * whose backward link does not fit. */
static void add_carriers(struct node *node, uint64_t first, struct range_list *list) {
    uint64_t previous = 0;
    for (int i = 0; first != 0 && i < CARRIERS_MOST; i++) {
        uint8_t head[24];
        if (first % 8 != 0 || allogram_target_read(node->target, first, head, sizeof head) < 0 ||
            ag_get_64(head + 16) != previous) {
            return;
        }
        const uint64_t n_bytes = ag_get_64(head) & ~(uint64_t)CARRIER_FLAGS;
        if (n_bytes == 0 || first + n_bytes < first ||
            add_range(list, first, first + n_bytes) < 0) {
            return;
        }
        previous = first;
        first = ag_get_64(head + 8);
    }
}

/* Reads a name such as "eheap_" and makes "eheap_alloc" of it. */
static int name_of(struct node *node, uint64_t address, char *ret_name, size_t limit) {
    static const char suffix[] = "alloc";
    const int r = allogram_target_read_text(node->target, address, ret_name, limit - sizeof suffix);
    const size_t len = r == 0 ? strlen(ret_name) : 0;
    if (len < 2 || ret_name[len - 1] != '_') {
        return -EBADMSG;
    }
    memcpy(ret_name + len, suffix, sizeof suffix);
    return 0;
}

static int report_instance(struct node *node, uint64_t address, uint32_t number,
                           struct allogram_answers *answers) {
    uint8_t instance[INSTANCE_BYTES];
    char name[32];
    struct instance_sizes sizes = {0};
    int r = allogram_target_read(node->target, address, instance, sizeof instance);
    if (r == 0) {
        r = name_of(node, ag_get_64(instance + NAME), name, sizeof name);
    }
    if (r == 0) {
        r = add_sizes(instance, &sizes);
    }
    if (r < 0) {
        return r;
    }
    struct range_list carriers = {0};
    add_carriers(node, ag_get_64(instance + CARRIER_LISTS), &carriers);
    add_carriers(node, ag_get_64(instance + CARRIER_LISTS + 16), &carriers);
    const struct allogram_allocator reported = {
        .size = sizeof reported,
        .name = name,
        .instance = number,
        .carriers_bytes = sizes.carriers_bytes,
        .blocks_bytes = sizes.blocks_bytes,
        .carriers = carriers.items,
        .n_carriers = carriers.n,
    };
    allogram_answers_allocator(answers, &reported);
    free(carriers.items);
    return 0;
}

/* Reports the instances of one row. */
static int report_row(struct node *node, const uint8_t *row, struct allogram_answers *answers) {
    const uint64_t extra = ag_get_64(row + 16);
    if (ag_get_32(row) == 0 || ag_get_32(row + 4) == 0 || extra == 0) {
        return 0; /* not an allocator of the usual kind, or disabled */
    }
    if (ag_get_32(row + 8) == 0) {
        return report_instance(node, extra, 0, answers);
    }
    uint8_t threads[24];
    uint64_t addresses[INSTANCES_MOST];
    int r = allogram_target_read(node->target, extra, threads, sizeof threads);
    const uint32_t n = r == 0 ? ag_get_32(threads + 12) : 0;
    if (r < 0 || n > INSTANCES_MOST) {
        return r < 0 ? r : -EBADMSG;
    }
    r = allogram_target_read(node->target, ag_get_64(threads + 16), addresses, n * 8);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        r = addresses[i] == 0 ? 0 : report_instance(node, addresses[i], i, answers);
    }
    return r;
}

int node_report_allocators(void *state, struct allogram_answers *answers) {
    struct node *node = state;
    struct allogram_target_symbol table;
    uint8_t rows[ROWS_MOST * ROW_BYTES];
    int r = allogram_target_symbol(node->target, "erts_allctrs_info", &table);
    if (r == 0 && (table.n_bytes > sizeof rows || table.n_bytes % ROW_BYTES != 0)) {
        r = -EBADMSG;
    }
    if (r == 0) {
        r = allogram_target_read(node->target, table.address, rows, (size_t)table.n_bytes);
    }
    uint64_t n_lost = 0;
    for (size_t at = 0; r == 0 && at < table.n_bytes; at += ROW_BYTES) {
        n_lost += report_row(node, rows + at, answers) < 0;
    }
    if (n_lost > 0) {
        allogram_answers_lost(answers, n_lost, "allocators whose counters contradict each other");
    }
    return r;
}
