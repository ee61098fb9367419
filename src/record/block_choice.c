/* block_choice.c: applies the filter of the recording (`run --filter`) to heaps and blocks, for the
 * recorder (see block_choice.h). The variables, except has_reported_undecided, are written only
 * before the recording begins (also that of a forked child), and when an adapter (the code for one
 * runtime or allocator) announces its heaps. So readers need no memory order. */
#include "block_choice.h"

#include <errno.h>
#include <string.h>

#include "base/block_filter.h"
#include "sampled_blocks.h"
#include "sampler.h"
#include "thread_state.h"

struct ag_block_choice ag_block_choice;

static struct ag_block_filter filter;
/* only its address is used: it identifies the thread */
static __thread char own_mark;
/* the own_mark of the one thread to record; NULL: all threads */
static char *_Atomic only_thread;
/* is_shut[via]: whether the filter leaves out the heap of the allocation function with the number
 * via */
static bool is_shut[AG_VIA_HOST];
/* number of vias whose heap is left out (n_shut) and of those whose heap is recorded (n_open);
 * backing heaps, which contain the blocks of other heaps, are not counted */
static uint32_t n_shut, n_open;
/* has_reported_undecided[via]: whether report_undecided has written a record about this function */
static _Atomic uint8_t has_reported_undecided[AG_VIAS_MOST];

static void block_choice_settle(void) {
    const bool is_by_block = filter.has_sizes || filter.has_types ||
                             atomic_load_explicit(&only_thread, memory_order_relaxed) != NULL;
    ag_block_choice.remembers = is_by_block;
    ag_block_choice.remembers_adapters = is_by_block || (n_shut > 0 && n_open > 0);
    ag_block_choice.asks = is_by_block || n_shut > 0;
}

/* A forked child, and each new recording, counts vias and reports unknown types again. */
void ag_block_choice_forked(void) {
    n_shut = n_open = 0;
    for (uint32_t via = 0; via < AG_VIAS_MOST; via++) {
        atomic_store_explicit(&has_reported_undecided[via], 0, memory_order_relaxed);
    }
}

int ag_block_choice_start(const struct ag_segment_header *header) {
    char text[AG_BLOCK_FILTER_TEXT_BYTES], message[512];
    /* copied, because other processes can write to the header */
    memcpy(text, header->filter, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    const int r = ag_block_filter_parse(text, &filter, message);
    if (r < 0) {
        return r;
    }
    memset(is_shut, 0, sizeof(is_shut));
    ag_block_choice_forked();
    block_choice_settle();
    const bool may_remember = filter.n_terms > 0 || ag_block_choice.remembers;
    /* in a sampled recording, start_sampling (process.c) has already made the table */
    const bool is_sampled = header->mode == AG_MODE_SAMPLE;
    return is_sampled || !may_remember || ag_sampled_blocks_prepare() ? 0 : -ENOMEM;
}

static const struct ag_heap_definition *heap_of(const struct ag_announcement *announcement,
                                                uint32_t number) {
    for (size_t i = 0; i < announcement->n_heaps; i++) {
        if (announcement->heaps[i].heap == number) {
            return &announcement->heaps[i];
        }
    }
    return NULL;
}

void ag_block_choice_announce(const struct ag_announcement *announcement) {
    for (size_t i = 0; i < announcement->n_vias; i++) {
        const struct ag_via_definition *via = &announcement->vias[i];
        const struct ag_heap_definition *heap = heap_of(announcement, via->heap);
        if (!heap || via->via >= AG_VIA_HOST) {
            continue;
        }
        is_shut[via->via] = !ag_block_choice_takes_heap(heap->domain, heap->allocator, heap->name);
        n_shut += !heap->is_backing && is_shut[via->via];
        n_open += !heap->is_backing && !is_shut[via->via];
    }
    const bool asked = ag_block_choice.asks;
    block_choice_settle();
    if (asked != ag_block_choice.asks) {
        ag_thread_reopen();
    }
}

void ag_block_choice_follow_thread(bool is_this_alone) {
    atomic_store_explicit(&only_thread, is_this_alone ? &own_mark : NULL, memory_order_relaxed);
}

bool ag_block_choice_takes_heap(uint32_t domain, const char *allocator, const char *name) {
    return ag_block_filter_takes_heap(&filter, domain, allocator, name);
}

bool ag_block_choice_takes_type(const char *name) {
    return ag_block_filter_takes_type(&filter, name);
}

static void report_undecided(uint32_t via) {
    const struct ag_record record = {.kind = AG_RECORD_UNDECIDED, .u.undecided.via = via};
    if (atomic_exchange_explicit(&has_reported_undecided[via], 1, memory_order_relaxed) == 0) {
        ag_recorder_append(&record);
    }
}

bool ag_block_choice_takes_slow(uint32_t via, uint64_t bytes, enum ag_block_type type) {
    const char *only = atomic_load_explicit(&only_thread, memory_order_relaxed);
    if ((via < AG_VIA_HOST && is_shut[via]) || (only && only != &own_mark) ||
        !ag_block_filter_takes_size(&filter, bytes)) {
        return false;
    }
    if (!filter.has_types || type == AG_BLOCK_TYPE_TAKEN) {
        return true;
    }
    report_undecided(via);
    return ag_block_filter_takes_type(&filter, NULL);
}

/* For most frees, the counters that ag_sampled_may_hold_fast reads (sampled_blocks.c, section 2)
 * make a search of the table unnecessary. */
bool ag_block_choice_takes_free(enum ag_word_kind kind, uint32_t via, uintptr_t address) {
    if (!ag_block_choice_remembers(via)) {
        return via >= AG_VIA_HOST || n_shut == 0;
    }
    const uintptr_t key = ag_sampled_key(address, via);
    const bool is_plain = kind == AG_WORD_FREE || kind == AG_WORD_COLLECT;
    return (!is_plain || ag_sampled_may_hold_fast(key)) && ag_sampler_takes_free(kind, key);
}

bool ag_block_choice_takes_mapping(uint32_t via) {
    return via >= AG_VIA_HOST || !is_shut[via];
}
