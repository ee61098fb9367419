/* call_difference.c: matches the functions of two profiles with function counters, for
 * `allogram diff` and --fail-if.
 *
 * The key of a function is the number of a text in a text store, and an ordinal. The text contains
 * runtime, image, name and the base name of the file. The image of the program itself is left out,
 * because its file may have different names in the two profiles. The ordinal counts the functions
 * of a profile with the same text, in the order of their lines. */
#include "model/answers/call_difference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/metric.h"
#include "table/array.h"
#include "table/text_store.h"

enum { KEY_BYTES = 8192 };

struct named_row { /* text: as returned by text_of; row: an index in ag_functions.rows */
    uint32_t text, line, row;
};

struct matcher {
    struct ag_call_difference *difference;
    struct ag_text_store texts;
    struct ag_index_map by_key; /* text << 32 | ordinal -> row of the difference */
};

/* The number of the text of a function; 0: out of memory. */
static uint32_t text_of(struct matcher *matcher, const struct ag_profile *profile,
                        const struct ag_frame *frame) {
    const char *exe = ag_profile_identity(profile)->exe;
    const bool is_own = frame->image && strcmp(frame->image, exe ? ag_base_name(exe) : "") == 0;
    char key[KEY_BYTES];
    snprintf(key, sizeof(key), "%s\n%s\n%s\n%s", frame->runtime ? frame->runtime : "",
             is_own || !frame->image ? "" : frame->image,
             frame->file ? ag_base_name(frame->file) : "", frame->function ? frame->function : "");
    return ag_text_id(&matcher->texts, key, strlen(key));
}

static int by_text_and_line(const void *left, const void *right) {
    const struct named_row *a = left, *b = right;
    if (a->text != b->text) {
        return a->text < b->text ? -1 : 1;
    }
    if (a->line != b->line) {
        return a->line < b->line ? -1 : 1;
    }
    return (a->row > b->row) - (a->row < b->row);
}

/* Finds or adds the row of the difference with this key. NULL: out of memory. */
static struct ag_call_difference_row *row_of(struct matcher *matcher, uint32_t text,
                                             uint32_t ordinal) {
    struct ag_call_difference *difference = matcher->difference;
    uint32_t at;
    int r = ag_index_map_number(&matcher->by_key, (uint64_t)text << 32 | ordinal, &at);
    r = r > 0 ? AG_ARRAY_ADD(difference->rows, difference->n_rows,
                             (struct ag_call_difference_row){.frame = NULL})
              : r;
    return r < 0 ? NULL : &difference->rows[at];
}

/* The rows of all functions of a profile, sorted by text and line. NULL: out of memory. */
static struct named_row *sort_rows(struct matcher *matcher, const struct ag_profile *profile,
                                   const struct ag_functions *functions, size_t *ret_count) {
    struct named_row *list = calloc(functions->n_rows + 1, sizeof(*list));
    size_t count = 0;
    for (uint32_t i = 0; list && i < functions->n_rows; i++) {
        const struct ag_function_row *row = &functions->rows[i];
        if (row->is_group) {
            continue;
        }
        const struct ag_frame *frame = ag_profile_frame(profile, row->frame);
        list[count] = (struct named_row){
            .text = text_of(matcher, profile, frame), .line = frame->line, .row = i};
        if (list[count++].text == 0) {
            free(list);
            return NULL;
        }
    }
    if (count > 0) {
        qsort(list, count, sizeof(*list), by_text_and_line);
    }
    *ret_count = count;
    return list;
}

static int take(struct matcher *matcher, const struct ag_profile *profile,
                const struct ag_functions *functions, bool is_after) {
    size_t count = 0;
    struct named_row *list = sort_rows(matcher, profile, functions, &count);
    int r = list ? 0 : -ENOMEM;
    uint32_t ordinal = 0;
    for (size_t i = 0; i < count && r == 0; i++) {
        ordinal = i > 0 && list[i].text == list[i - 1].text ? ordinal + 1 : 0;
        struct ag_call_difference_row *row = row_of(matcher, list[i].text, ordinal);
        if (!row) {
            r = -ENOMEM;
            break;
        }
        const struct ag_function_row *function = &functions->rows[list[i].row];
        row->frame = ag_profile_frame(profile, function->frame);
        *(is_after ? &row->after : &row->before) = function->counts;
        *(is_after ? &row->is_after : &row->is_before) = function->counts.calls != 0 ||
                                                         function->counts.acc_words != 0 ||
                                                         function->counts.acc_ns != 0;
    }
    free(list);
    return r;
}

int ag_call_difference_new(struct ag_profile *before, struct ag_profile *after,
                           struct ag_call_difference **ret_difference) {
    struct matcher matcher = {.difference = calloc(1, sizeof(*matcher.difference))};
    struct ag_call_difference *difference = matcher.difference;
    int r = difference ? ag_profile_functions(before, &difference->before) : -ENOMEM;
    r = r < 0 ? r : ag_profile_functions(after, &difference->after);
    r = r < 0 ? r : take(&matcher, before, difference->before, /* is_after= */ false);
    r = r < 0 ? r : take(&matcher, after, difference->after, /* is_after= */ true);
    ag_text_store_done(&matcher.texts);
    ag_index_map_done(&matcher.by_key);
    if (r < 0) {
        (void)ag_call_difference_free(difference);
        return r;
    }
    *ret_difference = difference;
    return 0;
}

struct ag_call_difference *ag_call_difference_free(struct ag_call_difference *difference) {
    if (difference) {
        free(difference->rows);
        free(difference);
    }
    return NULL;
}
