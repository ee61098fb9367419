/* blocks_view.c: `report --view=blocks`, which lists single blocks: open ones (never freed), closed
 * ones (freed), and unseen ones, whose free is in the trace, but whose allocation is not: ghosts,
 * and blocks that a forked process inherited from its parent.
 *
 * JSON without a limit writes each block as soon as it is read, so a trace of any size needs little
 * memory. Text, and JSON with a limit, keep only the largest blocks in a binary heap with the
 * smallest of these blocks on top. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "model/answers/blocks.h"
#include "model/answers/collections.h"
#include "model/answers/types.h"
#include "report/quantity.h"
#include "report/view.h"

struct blocks {
    struct ag_view *view;
    struct ag_block_row *kept; /* the largest blocks, as a binary heap; NULL: blocks are not kept */
    size_t n_kept, most;
    uint64_t n_open, n_closed, n_ghosts, n_inherited, open_bytes, closed_bytes;
    bool has_free_stacks; /* at least one block has the stack of its free */
};

static const char *state_name(enum ag_block_state state) {
    switch (state) {
    case AG_BLOCK_OPEN:
        return "open";
    case AG_BLOCK_CLOSED:
        return "closed";
    case AG_BLOCK_GHOST:
        return "ghost";
    case AG_BLOCK_INHERITED:
        return "inherited";
    }
    return "";
}

/* ---- the largest blocks ---- */

/* Positive if A is shown after B. Larger blocks come first, then older blocks. */
static int compare(const void *a, const void *b) {
    const struct ag_block_row *left = a, *right = b;
    if (left->size != right->size) {
        return left->size > right->size ? -1 : 1;
    }
    if (left->allocated_ns != right->allocated_ns) {
        return left->allocated_ns < right->allocated_ns ? -1 : 1;
    }
    if (left->freed_ns != right->freed_ns) {
        return left->freed_ns < right->freed_ns ? -1 : 1;
    }
    return (left->address > right->address) - (left->address < right->address);
}

/* Replaces the top of the binary heap, the smallest kept block, by ROW. */
static void sink(struct blocks *blocks, const struct ag_block_row *row) {
    size_t at = 0;
    for (size_t child = 1; child < blocks->n_kept; child = 2 * at + 1) {
        if (child + 1 < blocks->n_kept &&
            compare(&blocks->kept[child + 1], &blocks->kept[child]) > 0) {
            child++;
        }
        if (compare(&blocks->kept[child], row) <= 0) {
            break;
        }
        blocks->kept[at] = blocks->kept[child];
        at = child;
    }
    blocks->kept[at] = *row;
}

/* Keeps ROW if fewer than `most` blocks are kept, or if ROW is larger than the smallest of them,
 * which it then replaces. */
static void keep(struct blocks *blocks, const struct ag_block_row *row) {
    if (blocks->n_kept == blocks->most) {
        if (blocks->most > 0 && compare(row, &blocks->kept[0]) < 0) {
            sink(blocks, row);
        }
        return;
    }
    size_t at = blocks->n_kept++;
    for (; at > 0 && compare(row, &blocks->kept[(at - 1) / 2]) > 0; at = (at - 1) / 2) {
        blocks->kept[at] = blocks->kept[(at - 1) / 2];
    }
    blocks->kept[at] = *row;
}

/* ---- JSON ---- */

static void write_stack_json(struct ag_view *view, const char *key, struct ag_profile *profile,
                             uint32_t stack, bool is_known) {
    if (!is_known) {
        ag_json_null(view->json, key);
        return;
    }
    const uint32_t *frames;
    size_t n = ag_profile_stack_frames(profile, stack, &frames);
    const uint64_t most = view->options->frames;
    n = most != 0 && most < n ? (size_t)most : n;
    ag_json_frames(view->json, key, profile, frames, n);
}

static void write_block_json(struct ag_view *view, const struct ag_block_row *row) {
    struct ag_json *json = view->json;
    const bool is_seen = !(row->state & AG_BLOCK_UNSEEN);
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "state", state_name(row->state));
    ag_json_integer(json, "address", row->address);
    ag_json_integer_if(json, "size", row->size, is_seen);
    if (ag_profile_identity(view->profile)->is_sampled) {
        ag_json_percent(json, "stands_for_blocks", row->stands_for);
    }
    ag_json_string(json, "type", is_seen ? ag_profile_stack_type(view->profile, row->stack) : NULL);
    ag_json_string(json, "label",
                   is_seen ? ag_profile_stack_label(view->profile, row->stack) : NULL);
    ag_json_open(json, "tag", '{');
    const bool has_tag = is_seen || row->domain[0] != '\0';
    ag_json_string(json, "domain", has_tag ? row->domain : NULL);
    ag_json_string(json, "allocator", has_tag ? row->allocator : NULL);
    ag_json_close(json, '}');
    ag_json_integer_if(json, "allocated_ns", row->allocated_ns, is_seen);
    ag_json_integer_if(json, "freed_ns", row->freed_ns, row->state != AG_BLOCK_OPEN);
    write_stack_json(view, "stack", view->profile, row->stack, is_seen);
    write_stack_json(view, "free_stack", row->free_profile, row->free_stack, row->free_stack != 0);
    ag_json_close(json, '}');
}

/* ---- reading the blocks ---- */

static void visit(void *context, const struct ag_block_row *row) {
    struct blocks *blocks = context;
    if (blocks->view->type != NULL &&
        ((row->state & AG_BLOCK_UNSEEN) || !ag_types_is_named(blocks->view, row->stack))) {
        return;
    }
    blocks->has_free_stacks |= row->free_stack != 0;
    switch (row->state) {
    case AG_BLOCK_OPEN:
        blocks->n_open++;
        blocks->open_bytes += row->size;
        break;
    case AG_BLOCK_CLOSED:
        blocks->n_closed++;
        blocks->closed_bytes += row->size;
        break;
    case AG_BLOCK_GHOST:
        blocks->n_ghosts++;
        break;
    case AG_BLOCK_INHERITED:
        blocks->n_inherited++;
        break;
    }
    if (blocks->kept != NULL) {
        keep(blocks, row);
    } else {
        write_block_json(blocks->view, row);
    }
}

static int collect(struct ag_view *view, struct blocks *blocks) {
    const struct ag_summary *summary = ag_profile_summary(view->profile);
    const uint64_t all =
        summary->allocated_blocks + summary->ghost_frees + summary->inherited_frees;
    const uint64_t most = view->limit < all ? view->limit : all;
    const unsigned states = view->options->states != 0 ? view->options->states : AG_BLOCK_STATES;
    *blocks = (struct blocks){.view = view, .most = (size_t)most};
    const bool is_streamed = view->options->is_json && view->limit == UINT64_MAX;
    if (!is_streamed) {
        blocks->kept = calloc((size_t)most + 1, sizeof *blocks->kept);
        if (blocks->kept == NULL) {
            return -ENOMEM;
        }
    }
    const int r = ag_profile_blocks(view->profile, states, visit, blocks);
    if (r == 0 && blocks->n_kept > 0) {
        qsort(blocks->kept, blocks->n_kept, sizeof *blocks->kept, compare);
    }
    return r;
}

int ag_blocks_view_json(struct ag_view *view) {
    struct blocks blocks;
    ag_json_open(view->json, "blocks", '[');
    const int r = collect(view, &blocks);
    for (size_t i = 0; r == 0 && i < blocks.n_kept; i++) {
        write_block_json(view, &blocks.kept[i]);
    }
    ag_json_close(view->json, ']');
    ag_json_bool(view->json, "free_stacks_recorded", blocks.has_free_stacks);
    free(blocks.kept);
    return r;
}

/* ---- text ---- */

enum { BLOCK_INDENT = 4 }; /* columns before each line of a block except the first */

static void write_stack(struct ag_view *view, struct ag_profile *profile, uint32_t stack) {
    enum { USUAL_FRAMES = 3 };
    const uint32_t *frames;
    const size_t n = ag_profile_stack_frames(profile, stack, &frames);
    const uint64_t most = view->options->frames != 0 ? view->options->frames : USUAL_FRAMES;
    for (size_t i = 0; i < n && i < most; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, frames[i]);
        struct ag_frame_text function, where;
        struct ag_fitted fitted;
        const size_t room = view->page->columns > 40 ? view->page->columns - 36 : 10;
        (void)ag_page_fit(&fitted, ag_frame_function(&function, frame), room);
        ag_page_print(view->page, AG_STYLE_DIM, "      %s", fitted.text);
        (void)ag_page_fit(&fitted, ag_frame_where(&where, frame), 26);
        ag_page_print(view->page, AG_STYLE_DIM, "%s%s\n", fitted.text[0] != '\0' ? "  " : "",
                      fitted.text);
    }
}

static void write_free_stack(struct ag_view *view, const struct ag_block_row *row) {
    if (row->free_stack != 0) {
        ag_page_text(view->page, AG_STYLE_DIM, "    freed by\n");
        write_stack(view, row->free_profile, row->free_stack);
    }
}

/* Writes the NAME of a type or a label, shortened to fit a line. Writes nothing if NAME is NULL. */
static void write_name(struct ag_page *page, const char *before, const char *name) {
    struct ag_fitted fitted;
    char words[AG_FITTED_BYTES + 8];
    if (name != NULL) {
        (void)ag_page_fit(&fitted, name, page->columns - BLOCK_INDENT - 4);
        snprintf(words, sizeof words, "  %s%s", before, fitted.text);
        ag_page_wrap(page, AG_STYLE_PLAIN, BLOCK_INDENT, words);
    }
}

static void write_block_text(struct ag_view *view, const struct ag_block_row *row) {
    struct ag_page *page = view->page;
    struct ag_quantity size, time, other;
    if (row->state & AG_BLOCK_UNSEEN) {
        ag_page_print(page, AG_STYLE_PLAIN, "  %-6s  0x%" PRIx64 "  freed at %s",
                      state_name(row->state), row->address, ag_quantity_time(&time, row->freed_ns));
        if (row->domain[0] != '\0') {
            ag_page_print(page, AG_STYLE_DIM, "  %s/%s", row->domain, row->allocator);
        }
        ag_page_end_line(page);
        write_free_stack(view, row);
        return;
    }
    ag_page_print(page, AG_STYLE_PLAIN, "  %-6s  0x%" PRIx64 "  ", state_name(row->state),
                  row->address);
    ag_page_print(page, AG_STYLE_BRIGHT, "%s", ag_quantity_bytes(&size, row->size));
    ag_page_print(page, AG_STYLE_PLAIN, "  allocated at %s",
                  ag_quantity_time(&time, row->allocated_ns));
    char words[2 * AG_FITTED_BYTES];
    if (row->state == AG_BLOCK_CLOSED) {
        const uint64_t lived_ns =
            row->freed_ns > row->allocated_ns ? row->freed_ns - row->allocated_ns : 0;
        const uint64_t resolution_ns = ag_profile_summary(view->profile)->time_resolution_ns;
        const bool is_short = lived_ns < resolution_ns;
        ag_page_print(page, AG_STYLE_PLAIN, ", freed at %s",
                      ag_quantity_time(&time, row->freed_ns));
        snprintf(words, sizeof words, " after %s%s", is_short ? "<" : "",
                 ag_quantity_time(&other, is_short ? resolution_ns : lived_ns));
        ag_page_wrap(page, AG_STYLE_PLAIN, BLOCK_INDENT, words);
    }
    snprintf(words, sizeof words, "  %.100s/%.100s", row->domain, row->allocator);
    ag_page_wrap(page, AG_STYLE_DIM, BLOCK_INDENT, words);
    write_name(page, "", ag_profile_stack_type(view->profile, row->stack));
    write_name(page, "in ", ag_profile_stack_label(view->profile, row->stack));
    ag_page_end_line(page);
    write_stack(view, view->profile, row->stack);
    write_free_stack(view, row);
}

/* Whether a garbage collector frees any blocks of the trace. */
static bool has_collected(struct ag_profile *profile) {
    const struct ag_stack_row *rows;
    const size_t n = ag_profile_stacks(profile, &rows);
    size_t i = 0;
    while (i < n && !ag_profile_row_is_collected(profile, i)) {
        i++;
    }
    return i < n;
}

static void write_counts(struct ag_view *view, const struct blocks *blocks) {
    struct ag_page *page = view->page;
    struct ag_quantity count, bytes;
    const unsigned states = view->options->states != 0 ? view->options->states : AG_BLOCK_STATES;
    if (states & AG_BLOCK_OPEN) {
        ag_page_print(page, AG_STYLE_PLAIN, "open: %s %s, %s; allocated and %s\n",
                      ag_quantity_count(&count, blocks->n_open), ag_blocks_word(blocks->n_open),
                      ag_quantity_bytes(&bytes, blocks->open_bytes),
                      has_collected(view->profile) ? "never freed, or not collected at exit"
                                                   : "never freed");
    }
    if (states & AG_BLOCK_CLOSED) {
        ag_page_print(page, AG_STYLE_PLAIN, "closed: %s %s, %s; allocated and freed\n",
                      ag_quantity_count(&count, blocks->n_closed), ag_blocks_word(blocks->n_closed),
                      ag_quantity_bytes(&bytes, blocks->closed_bytes));
    }
    if (states & AG_BLOCK_GHOST) {
        ag_page_print(page, AG_STYLE_PLAIN, "ghosts: %s %s of blocks with no recorded allocation\n",
                      ag_quantity_count(&count, blocks->n_ghosts),
                      blocks->n_ghosts == 1 ? "free" : "frees");
    }
    if ((states & AG_BLOCK_INHERITED) && blocks->n_inherited > 0) {
        ag_page_print(page, AG_STYLE_PLAIN,
                      "inherited: %s %s of blocks that the parent process had allocated\n",
                      ag_quantity_count(&count, blocks->n_inherited),
                      blocks->n_inherited == 1 ? "free" : "frees");
    }
    if (!blocks->has_free_stacks && blocks->n_closed + blocks->n_ghosts + blocks->n_inherited > 0) {
        ag_page_text(
            page, AG_STYLE_DIM,
            "the trace does not show where blocks were freed; run --free-stacks records it\n");
    }
    ag_page_end_line(page);
}

int ag_blocks_view_text(struct ag_view *view) {
    struct blocks blocks = {.kept = NULL};
    const int r = collect(view, &blocks);
    if (r == 0) {
        write_counts(view, &blocks);
        for (size_t i = 0; i < blocks.n_kept; i++) {
            write_block_text(view, &blocks.kept[i]);
        }
        const uint64_t all = blocks.n_open + blocks.n_closed + blocks.n_ghosts + blocks.n_inherited;
        if (all > blocks.n_kept) {
            struct ag_quantity count;
            ag_page_print(view->page, AG_STYLE_DIM,
                          "  %s more %s, none larger; --limit=0 shows all\n",
                          ag_quantity_count(&count, all - blocks.n_kept),
                          ag_blocks_word(all - blocks.n_kept));
        }
    }
    free(blocks.kept);
    return r;
}
