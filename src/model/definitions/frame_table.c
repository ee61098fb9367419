/* frame_table.c: converts the code addresses of stacks (sites) to frames as users see them, for all
 * queries of the model. The table looks up each site once, and stores equal frames once.
 *
 * Each pc is a return address, or one more than the address of an instruction that a signal
 * interrupted. So pc - 1 is looked up. One frame is different: a signal handler "returns" to the
 * first instruction of the signal trampoline, __restore_rt in libc, and pc - 1 is before this
 * function. So if the lookup of pc - 1 finds no function, the pc itself is looked up, and the
 * result is used if it is the trampoline. */
#include "model/definitions/frame_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "symbol/symbol.h"
#include "table/array.h"

static const char trampoline_name[] = "__restore_rt";

static uint32_t text_of(struct ag_frame_table *table, const char *text) {
    return text ? ag_text_id(&table->definitions->texts, text, strlen(text)) : 0;
}

static bool is_same(const struct ag_model_frame *a, const struct ag_model_frame *b) {
    return a->function == b->function && a->file == b->file && a->image == b->image &&
           a->runtime == b->runtime && a->frame.line == b->frame.line &&
           a->frame.column == b->frame.column && a->frame.end_column == b->frame.end_column &&
           a->frame.is_inlined == b->frame.is_inlined;
}

static uint64_t hash_of(const struct ag_model_frame *frame) {
    const uint64_t names = ag_keyed_hash_pair(frame->function | (uint64_t)frame->file << 32,
                                              frame->runtime | (uint64_t)frame->image << 32);
    const uint64_t place =
        ag_keyed_hash_pair(names, frame->frame.column | (uint64_t)frame->frame.end_column << 32);
    return ag_keyed_hash_pair(place, frame->frame.line * UINT64_C(2) + frame->frame.is_inlined);
}

/* Returns the name of the function after the name of its runtime in brackets, "[vm] f"; for a
 * native function only the name. */
static const char *label_of(struct ag_frame_table *table, const struct ag_model_frame *frame) {
    struct ag_text_store *texts = &table->definitions->texts;
    const char *runtime = ag_text(texts, frame->runtime),
               *function = ag_text(texts, frame->function);
    char *label = NULL;
    if (frame->runtime == table->native || asprintf(&label, "[%s] %s", runtime, function) < 0) {
        return function;
    }
    const char *kept = ag_text_keep(texts, label, strlen(label));
    free(label);
    return kept;
}

/* Returns the number of the frame in the table that equals FRAME. If there is none, adds FRAME.
 * AG_INDEX_NONE: out of memory. */
static uint32_t intern(struct ag_frame_table *table, struct ag_model_frame *frame) {
    const uint64_t hash = hash_of(frame);
    size_t cursor = 0;
    for (uint32_t at; (at = ag_index_map_next(&table->by_hash, hash, &cursor)) != AG_INDEX_NONE;) {
        if (is_same(ag_frame_table_get(table, at), frame)) {
            return at;
        }
    }
    size_t n_pages = table->n_frames / AG_FRAME_PAGE;
    if (table->n_frames % AG_FRAME_PAGE == 0) {
        struct ag_model_frame *page = malloc(AG_FRAME_PAGE * sizeof(*page));
        if (!page || AG_ARRAY_ADD(table->pages, n_pages, page) < 0) {
            free(page);
            return AG_INDEX_NONE;
        }
    }
    const uint32_t made = (uint32_t)table->n_frames;
    if (ag_index_map_insert(&table->by_hash, hash, made) < 0) {
        if (made % AG_FRAME_PAGE == 0) {
            free(table->pages[n_pages - 1]); /* the page added above, which has no frame */
        }
        return AG_INDEX_NONE;
    }
    const struct ag_text_store *texts = &table->definitions->texts;
    frame->frame.function = ag_text(texts, frame->function);
    frame->frame.file = frame->file ? ag_text(texts, frame->file) : NULL;
    frame->frame.image = ag_text(texts, frame->image);
    frame->frame.runtime = ag_text(texts, frame->runtime);
    frame->frame.label = label_of(table, frame);
    table->n_frames++;
    *ag_frame_table_get(table, made) = *frame;
    return made;
}

int ag_frame_table_init(struct ag_frame_table *table, struct ag_definitions *definitions,
                        const struct ag_symbol_options *options) {
    *table = (struct ag_frame_table){.definitions = definitions};
    table->symbolizer = ag_symbolizer_new(options);
    if (!table->symbolizer) {
        return -ENOMEM;
    }
    if (definitions->outside_pid != 0) {
        char root[32];
        (void)snprintf(root, sizeof(root), "/proc/%u/root", definitions->outside_pid);
        if (ag_symbolizer_set_root(table->symbolizer, root) < 0) {
            return -ENOMEM;
        }
    }
    for (size_t i = 0; i < definitions->n_images; i++) {
        const struct ag_model_image *image = &definitions->images[i];
        const int r = ag_symbolizer_image(
            table->symbolizer, image->image, ag_text(&definitions->texts, image->path),
            image->build_id, image->build_id_bytes, image->bias, image->low, image->high);
        if (r < 0) {
            return r;
        }
    }
    table->native = text_of(table, "c");
    struct ag_model_frame none = {.function = text_of(table, "[no stack]"),
                                  .runtime = table->native};
    table->no_stack = intern(table, &none);
    return table->no_stack != AG_INDEX_NONE ? 0 : -ENOMEM;
}

int ag_frame_table_make_answers(struct ag_frame_table *table) {
    table->answers = calloc(table->definitions->nodes.n_sites + 1, sizeof(*table->answers));
    return table->answers ? 0 : -ENOMEM;
}

void ag_frame_table_done(struct ag_frame_table *table) {
    (void)ag_symbolizer_free(table->symbolizer);
    ag_index_map_done(&table->by_hash);
    for (size_t i = 0; i * AG_FRAME_PAGE < table->n_frames; i++) {
        free(table->pages[i]);
    }
    free(table->pages);
    free(table->list);
    free(table->answers);
}

static bool is_trampoline(const struct ag_symbol_frame *frame) {
    return (frame->linkage && strcmp(frame->linkage, trampoline_name) == 0) ||
           strcmp(frame->function, trampoline_name) == 0;
}

static uint32_t image_name(const struct ag_frame_table *table, uint32_t image) {
    const uint32_t at = ag_index_map_find(&table->definitions->image_index, image);
    return at != AG_INDEX_NONE ? table->definitions->images[at].base_name : 0;
}

/* Returns the text that is shown as the image of a managed frame: the runtime in brackets,
 * "[vm]". */
static uint32_t managed_image(struct ag_frame_table *table, uint32_t runtime) {
    char name[64];
    snprintf(name, sizeof(name), "[%.60s]", ag_text(&table->definitions->texts, runtime));
    return text_of(table, name);
}

uint32_t ag_frame_table_managed(struct ag_frame_table *table, uint32_t id, uint32_t line) {
    const struct ag_definitions *definitions = table->definitions;
    if (id == AG_FRAME_NOT_KEPT) {
        struct ag_model_frame not_kept = {.function = text_of(table, "[stack not kept]"),
                                          .runtime = table->native};
        return intern(table, &not_kept);
    }
    const uint32_t at = ag_index_map_find(&definitions->function_index, id);
    struct ag_model_frame frame = {.frame = {.line = line, .is_known = at != AG_INDEX_NONE}};
    if (at != AG_INDEX_NONE) {
        const struct ag_model_function *function = &definitions->functions[at];
        frame.runtime = function->runtime;
        frame.function = function->function;
        frame.file = function->file;
        frame.frame.line = line != 0 ? line : function->line;
        frame.frame.column = line != 0 ? 0 : function->column;
        frame.frame.end_column = line != 0 ? 0 : function->end_column;
    } else {
        char name[32];
        snprintf(name, sizeof(name), "frame %u", id);
        frame.function = text_of(table, name);
    }
    if (*ag_text(&definitions->texts, frame.runtime) == '\0') {
        frame.runtime = text_of(table, "managed");
    }
    frame.image = frame.runtime == table->native ? 0 : managed_image(table, frame.runtime);
    return intern(table, &frame);
}

static const struct ag_frame_answer *answer_managed(struct ag_frame_table *table, uint64_t pc,
                                                    struct ag_frame_answer *answer) {
    const uint32_t frame = ag_frame_table_managed(table, ag_managed_frame(pc), ag_managed_line(pc));
    if (frame == AG_INDEX_NONE || AG_ARRAY_ADD(table->list, table->n_list, frame) < 0) {
        return NULL;
    }
    *answer = (struct ag_frame_answer){.first = (uint32_t)table->n_list - 1, .count = 1};
    return answer;
}

/* Makes the answer (the frames) for a pc in generated (JIT) code, whose function names are in the
 * trace. */
static const struct ag_frame_answer *answer_generated(struct ag_frame_table *table,
                                                      const struct ag_code_place *place,
                                                      struct ag_frame_answer *answer) {
    const uint32_t first = (uint32_t)table->n_list;
    for (; place; place = place->next ? &table->definitions->code.list[place->next - 1] : NULL) {
        const uint32_t found = ag_frame_table_managed(table, place->frame, place->line);
        if (found == AG_INDEX_NONE) {
            return NULL;
        }
        struct ag_model_frame frame = *ag_frame_table_get(table, found);
        frame.frame.is_inlined = place->next != 0;
        const uint32_t number = intern(table, &frame);
        if (number == AG_INDEX_NONE || AG_ARRAY_ADD(table->list, table->n_list, number) < 0) {
            return NULL;
        }
    }
    *answer = (struct ag_frame_answer){.first = first, .count = (uint32_t)table->n_list - first};
    return answer;
}

/* Returns how many of the innermost frames are shims: functions that only forward a call to the
 * allocator. */
static size_t count_shims(const struct ag_symbol_frame *frames, size_t n) {
    size_t count = 0;
    while (count < n && frames[count].is_shim) {
        count++;
    }
    return count;
}

const struct ag_frame_answer *ag_frame_table_site(struct ag_frame_table *table, uint32_t site) {
    struct ag_frame_answer *answer = &table->answers[site];
    if (answer->count > 0 || answer->is_folded) {
        return answer;
    }
    const struct ag_stack_site *where = &table->definitions->nodes.sites[site];
    if (where->image == AG_IMAGE_MANAGED) {
        return answer_managed(table, where->pc, answer);
    }
    const struct ag_code_place *generated =
        where->image == 0 ? ag_code_places_find(&table->definitions->code, where->pc) : NULL;
    if (generated) {
        return answer_generated(table, generated, answer);
    }
    const struct ag_symbol_frame *found;
    size_t n = ag_symbolizer_frames(table->symbolizer, where->image, where->pc,
                                    /* return_address= */ true, &found);
    if (!found[0].is_known) {
        const struct ag_symbol_frame *here;
        const size_t n_here = ag_symbolizer_frames(table->symbolizer, where->image, where->pc,
                                                   /* return_address= */ false, &here);
        if (is_trampoline(&here[0])) {
            found = here;
            n = n_here;
        }
    }
    const uint32_t first = (uint32_t)table->n_list;
    const size_t n_shims = count_shims(found, n);
    for (size_t i = n_shims < n ? n_shims : 0; i < n; i++) {
        struct ag_model_frame frame = {
            .function = text_of(table, found[i].function),
            .file = text_of(table, found[i].file),
            .image = image_name(table, where->image),
            .runtime = found[i].runtime ? text_of(table, found[i].runtime) : table->native,
            .frame = {.line = found[i].line,
                      .column = found[i].column,
                      .end_column = found[i].end_column,
                      .is_inlined = found[i].is_inlined,
                      .is_known = found[i].is_known}};
        const uint32_t number = intern(table, &frame);
        if (number == AG_INDEX_NONE || AG_ARRAY_ADD(table->list, table->n_list, number) < 0) {
            return NULL;
        }
    }
    answer->first = first;
    answer->count = (uint32_t)table->n_list - first;
    answer->is_shim = n_shims == n;
    return answer;
}

uint32_t ag_frame_table_copy(struct ag_frame_table *table, const struct ag_frame *frame) {
    struct ag_model_frame copy = {.function = text_of(table, frame->function),
                                  .file = text_of(table, frame->file),
                                  .image = text_of(table, frame->image),
                                  .runtime = text_of(table, frame->runtime),
                                  .frame = {.line = frame->line,
                                            .column = frame->column,
                                            .end_column = frame->end_column,
                                            .is_inlined = frame->is_inlined,
                                            .is_known = frame->is_known}};
    return intern(table, &copy);
}

int ag_frame_table_add_frame(struct ag_frame_table *table, uint32_t site,
                             const struct ag_frame *frame) {
    struct ag_frame_answer *answer = &table->answers[site];
    const uint32_t number = ag_frame_table_copy(table, frame);
    if (number == AG_INDEX_NONE || AG_ARRAY_ADD(table->list, table->n_list, number) < 0) {
        return -ENOMEM;
    }
    if (answer->count++ == 0) {
        answer->first = (uint32_t)table->n_list - 1;
    }
    return 0;
}
