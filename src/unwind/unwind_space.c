/* unwind_space.c: resolves each pc once, for the stack walkers of all threads. To resolve a pc
 * means to find its image (loaded file), its CFI row (a row of the DWARF call frame table), its
 * packed rule (frame_step_fast.h), and its site, the number of the pc in the stack tree. The
 * results are cached until ag_unwind_space_forget is called for the range of the image. If a walk
 * goes wrong and reads a word that is not a pc, this word is not cached and gets no site, because
 * such words would fill the tables.
 *
 * ag_unwind_space_forget changes the generation, clears the values of a range of pcs, and changes
 * the generation again. Another thread may resolve a pc of the range meanwhile. If the generation
 * has changed between the begin and the end of a resolution, the resolving thread removes the value
 * that it stored. So there are three cases: ag_unwind_space_forget clears the value, or the
 * resolving thread clears it, or the resolving thread called `find` after the image was removed, so
 * that the value is right. If no slot has a pc of the range, every pc got a slot, and no thread is
 * resolving a pc, then there is nothing to remove, and the caches of other threads stay valid. */
#include "unwind/unwind_space.h"

#include <errno.h>
#include <string.h>

#include "unwind/eh_frame.h"

size_t ag_unwind_space_bytes(void) {
    return sizeof(struct ag_unwind_space);
}

struct ag_unwind_space *ag_unwind_space_init(void *private_memory, void *tree, int tree_size,
                                             const struct ag_piece_mapper *mapper, uint32_t depth,
                                             ag_populate_fn *populate, ag_image_find_fn *find,
                                             void *context) {
    struct ag_unwind_space *space = private_memory;
    if (ag_stack_tree_init(&space->tree, tree, tree_size, populate, mapper) < 0) {
        return NULL;
    }
    space->depth = depth < 1 ? 1 : depth > AG_DEPTH_MAX ? AG_DEPTH_MAX : depth;
    space->find = find;
    space->find_context = context;
    atomic_store_explicit(&space->generation, 1, memory_order_release);
    return space;
}

static struct ag_cfi_tables tables_of(const struct ag_unwind_image *image) {
    const bool has_bounds = image->tables_high > image->tables_low;
    return (struct ag_cfi_tables){
        .eh_frame_hdr = image->eh_frame_hdr,
        .low = has_bounds ? image->tables_low : image->low,
        .high = has_bounds ? image->tables_high : image->high,
        .places = image->places,
        .n_places = image->n_places,
        .places_pc = image->low,
    };
}

struct row_search {
    uintptr_t pc;
    uint32_t wanted;
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    /* where to copy the expressions; NULL: they are not copied */
    struct ag_row_expressions *expressions;
    int result;
};

/* Copies the expression of a rule to `bytes`, because the image that contains it may be unmapped
 * later. If bytes is NULL, the expression becomes empty. Returns false if the expression is too
 * long. */
static bool keep_expression(struct ag_cfi_rule *rule, uint8_t *bytes) {
    if (rule->kind != AG_CFI_AT_EXPRESSION && rule->kind != AG_CFI_IS_EXPRESSION) {
        return true;
    }
    if (rule->expression_bytes > AG_ROW_EXPRESSION_BYTES) {
        return false;
    }
    if (bytes != NULL) {
        memcpy(bytes, rule->expression, rule->expression_bytes);
    } else {
        rule->expression_bytes = 0;
    }
    rule->expression = bytes;
    return true;
}

static void use_for_row(void *context, const struct ag_unwind_image *image) {
    struct row_search *search = context;
    const struct ag_cfi_tables tables = tables_of(image);
    struct ag_row_expressions *kept = search->expressions;
    search->result =
        ag_eh_frame_find(&tables, search->pc - 1, search->wanted, &search->row, &search->entry);
    if (search->result == 0 &&
        !(keep_expression(&search->row.cfa, kept != NULL ? kept->bytes[0] : NULL) &&
          keep_expression(&search->row.return_address, kept != NULL ? kept->bytes[1] : NULL) &&
          keep_expression(&search->row.wanted, kept != NULL ? kept->bytes[2] : NULL))) {
        search->result = -EBADMSG;
    }
}

int ag_unwind_space_find_row(struct ag_unwind_space *space, uintptr_t pc, uint32_t wanted,
                             struct ag_cfi_row *ret_row, struct ag_cfi_entry *ret_entry,
                             struct ag_row_expressions *ret_expressions) {
    struct row_search search = {.pc = pc, .wanted = wanted, .expressions = ret_expressions};
    const int r = space->find(space->find_context, pc - 1, use_for_row, &search);
    if (r < 0 || search.result < 0) {
        return r < 0 ? r : search.result;
    }
    *ret_row = search.row;
    *ret_entry = search.entry;
    return 0;
}

struct rule_search {
    uintptr_t pc;
    uint32_t rule, image;
};

static void use_for_rule(void *context, const struct ag_unwind_image *image) {
    struct rule_search *search = context;
    const uintptr_t pc = search->pc;
    const struct ag_cfi_tables tables = tables_of(image);
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    search->image = image->id;
    const int r = ag_eh_frame_find(&tables, pc - 1, AG_DWARF_FRAME_POINTER, &row, &entry);
    if (r == 0) {
        search->rule = ag_frame_rule_pack(&row, entry.is_signal_frame);
        if (entry.end != pc || ag_frame_follows_call(pc, image->low, image->high)) {
            return;
        }
    }
    /* No call pushed pc: no row covers pc - 1, or a function ends at pc, but not with a call. There
     * are three cases. The first function of a coroutine returns to the first byte of a function,
     * whose address makecontext stored: the stack ends there. A signal handler returns to a
     * trampoline, whose address the kernel stored. A signal interrupted the last instruction of a
     * function, which has one byte, at pc - 1 (a frame's pc is one more than the address of an
     * interrupted instruction). */
    if ((r == 0 || r == -ENOENT) &&
        ag_eh_frame_find(&tables, pc, AG_DWARF_FRAME_POINTER, &row, &entry) == 0) {
        const uint32_t rule = ag_frame_rule_pack(&row, entry.is_signal_frame);
        if (AG_RULE_KIND(rule) == AG_RULE_SIGNAL) {
            search->rule = rule;
            return;
        }
        if (AG_RULE_KIND(rule) == AG_RULE_END || entry.function == pc) {
            search->rule = r == 0 ? AG_RULE_START : AG_RULE(AG_RULE_END, 0, 0);
            return;
        }
    }
    if (r < 0) {
        search->rule = ag_frame_rule_guess(pc);
    }
}

/* Finds the rule of pc - 1, and the id of its image (0: none). */
static uint32_t resolve_rule(struct ag_unwind_space *space, uintptr_t pc, uint32_t *ret_image) {
    struct rule_search search = {.pc = pc};
    const int r = space->find(space->find_context, pc - 1, use_for_rule, &search);
    *ret_image = search.image;
    return r == 0 ? search.rule : r == -EAGAIN ? AG_RULE_NOTHING : ag_frame_rule_guess(pc);
}

/* Returns the slot of pc, and claims one if pc has none. NULL: the buckets of pc are full in all
 * levels. */
static struct ag_pc_entry *claim_entry(struct ag_unwind_space *space, uintptr_t pc) {
    const uint64_t hash = ag_stack_tree_hash(pc);
    uint32_t level_start = 0;
    for (uint32_t level = 0; level < AG_PC_LEVELS; level++) {
        const uint32_t bits = AG_PC_FIRST_BITS + 2 * level;
        struct ag_pc_entry *bucket =
            &space->pcs[level_start + ag_stack_tree_bucket(hash, bits, AG_PC_BUCKET)];
        if (!atomic_load_explicit(&space->uses_level[level], memory_order_relaxed)) {
            atomic_store_explicit(&space->uses_level[level], true, memory_order_seq_cst);
        }
        for (int i = 0; i < AG_PC_BUCKET; i++) {
            uint64_t found = 0;
            if (atomic_compare_exchange_strong_explicit(
                    &bucket[i].pc, &found, pc, memory_order_relaxed, memory_order_relaxed) ||
                found == pc) {
                return &bucket[i];
            }
        }
        level_start += 1u << bits;
    }
    return NULL;
}

static uint64_t find_known(struct ag_unwind_space *space, uintptr_t pc) {
    const uint64_t hash = ag_stack_tree_hash(pc);
    uint32_t level_start = 0;
    for (uint32_t level = 0; level < AG_PC_LEVELS; level++) {
        const uint32_t bits = AG_PC_FIRST_BITS + 2 * level;
        const struct ag_pc_entry *bucket =
            &space->pcs[level_start + ag_stack_tree_bucket(hash, bits, AG_PC_BUCKET)];
        for (int i = 0; i < AG_PC_BUCKET; i++) {
            const uint64_t found = atomic_load_explicit(&bucket[i].pc, memory_order_relaxed);
            if (found == pc) {
                return atomic_load_explicit(&bucket[i].value, memory_order_acquire);
            }
            if (found == 0) {
                return 0;
            }
        }
        level_start += 1u << bits;
    }
    return 0;
}

/* Resolves the pc. Caches the result, unless images are unloaded meanwhile, which changes the
 * generation. */
static uint64_t pc_resolve(struct ag_unwind_space *space, uintptr_t pc) {
    const uint32_t generation = atomic_load_explicit(&space->generation, memory_order_acquire);
    uint32_t image = 0;
    const uint32_t rule = resolve_rule(space, pc, &image);
    if (rule == AG_RULE_NOTHING) {
        return AG_PC_VALUE(0, AG_RULE_NOTHING);
    }
    if (image == 0) {
        atomic_store_explicit(&space->has_imageless, true, memory_order_seq_cst);
    }
    const uint32_t site = ag_site_intern(&space->tree, pc, image);
    if (site == 0) {
        return 0;
    }
    const uint64_t value = AG_PC_VALUE(site, rule);
    struct ag_pc_entry *entry = claim_entry(space, pc);
    if (entry == NULL) {
        atomic_store_explicit(&space->has_unkept, true, memory_order_seq_cst);
        return value;
    }
    /* release: pairs with the acquire in ag_pc_peek_fast and find_known */
    atomic_store_explicit(&entry->value, value, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&space->generation, memory_order_relaxed) != generation) {
        atomic_store_explicit(&entry->value, 0, memory_order_relaxed);
        /* has an effect only if the site has no image */
        ag_stack_tree_kill_site(&space->tree, site);
    }
    return value;
}

AG_NOINLINE uint64_t ag_pc_find_slow(struct ag_unwind_space *space, uintptr_t pc) {
    uint64_t value = find_known(space, pc);
    if (value != 0) {
        return value;
    }
    if (pc > AG_SITE_PC_MASK) {
        return AG_PC_VALUE(0, AG_RULE_NOTHING);
    }
    atomic_fetch_add_explicit(&space->n_resolving, 1, memory_order_seq_cst);
    value = pc_resolve(space, pc);
    atomic_fetch_sub_explicit(&space->n_resolving, 1, memory_order_seq_cst);
    return value;
}

/* Whether a cached result may be of a pc in [low, high). */
static bool is_anything_kept(struct ag_unwind_space *space, uintptr_t low, uintptr_t high) {
    if (atomic_load_explicit(&space->n_resolving, memory_order_seq_cst) != 0 ||
        atomic_load_explicit(&space->has_unkept, memory_order_seq_cst)) {
        return true;
    }
    uint32_t slot = 0;
    for (uint32_t level = 0; level < AG_PC_LEVELS; level++) {
        const uint32_t end = slot + (1u << (AG_PC_FIRST_BITS + 2 * level));
        const bool is_used = atomic_load_explicit(&space->uses_level[level], memory_order_seq_cst);
        for (; is_used && slot < end; slot++) {
            const uint64_t pc = atomic_load_explicit(&space->pcs[slot].pc, memory_order_relaxed);
            if (pc - 1 - low < high - low) { // a free slot's pc, 0, is in no image
                return true;
            }
        }
        slot = end;
    }
    return false;
}

void ag_unwind_space_forget_made(struct ag_unwind_space *space, uintptr_t low, uintptr_t high) {
    if (atomic_load_explicit(&space->has_imageless, memory_order_seq_cst)) {
        ag_unwind_space_forget(space, low, high);
    }
}

void ag_unwind_space_forget(struct ag_unwind_space *space, uintptr_t low, uintptr_t high) {
    if (!is_anything_kept(space, low, high)) {
        return; // the caches stay valid; this is the usual case for the modules that iconv loads
    }
    atomic_fetch_add_explicit(&space->generation, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&space->has_unkept, memory_order_seq_cst) &&
        atomic_load_explicit(&space->has_imageless, memory_order_seq_cst)) {
        ag_stack_tree_kill_sites(&space->tree, low, high);
    }
    uint32_t slot = 0;
    for (uint32_t level = 0; level < AG_PC_LEVELS; level++) {
        const uint32_t end = slot + (1u << (AG_PC_FIRST_BITS + 2 * level));
        const bool is_used = atomic_load_explicit(&space->uses_level[level], memory_order_seq_cst);
        for (; is_used && slot < end; slot++) {
            struct ag_pc_entry *entry = &space->pcs[slot];
            const uint64_t pc = atomic_load_explicit(&entry->pc, memory_order_relaxed);
            if (pc - 1 - low < high - low) {
                const uint64_t value =
                    atomic_exchange_explicit(&entry->value, 0, memory_order_relaxed);
                if (AG_PC_SITE(value) != 0) {
                    /* has an effect only if the site has no image */
                    ag_stack_tree_kill_site(&space->tree, AG_PC_SITE(value));
                }
            }
        }
        slot = end;
    }
    atomic_fetch_add_explicit(&space->generation, 1, memory_order_seq_cst);
}
