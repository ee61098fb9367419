/* difference.c: matches the sites (functions, lines, types ...) of two profiles by name, for
 * `allogram diff`.
 *
 * The key of a site is a text of its image, label and function. If sites are lines, it also
 * contains the line and the base name of the file (not the path, because two builds may be in two
 * folders). The image of the program itself is an empty text in all keys, because its file may have
 * different names in the two profiles, such as program-1 and program-2. */
#include "model/answers/difference.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/metric.h"
#include "table/array.h"
#include "table/text_store.h"

enum { KEY_BYTES = 8192 };

struct difference { /* `shown` must be the first member, because ag_difference_free converts a
                     * pointer to it */
    struct ag_difference shown;
    struct ag_difference_row *rows;
    struct ag_text_store texts;
    struct ag_index_map by_key;
};

static const char *difference_keep_text(struct difference *difference, const char *text) {
    return text ? ag_text_keep(&difference->texts, text, strlen(text)) : NULL;
}

/* Finds or adds the row of SITE. The names in the row become those of SITE. NULL: out of memory. */
static struct ag_difference_row *row_of(struct difference *difference, struct ag_profile *profile,
                                        enum ag_site_key by, const struct ag_site_row *site) {
    const bool is_labelled = ag_site_key_is_named(by);
    const struct ag_frame none = {.line = 0};
    const struct ag_frame *frame = is_labelled ? &none : ag_profile_frame(profile, site->frame);
    const char *exe = ag_profile_identity(profile)->exe;
    const bool is_own = frame->image && strcmp(frame->image, exe ? ag_base_name(exe) : "") == 0;
    char key[KEY_BYTES], where[1024] = "";
    if (by == AG_BY_LINE) {
        snprintf(where, sizeof(where), "%s:%u", frame->file ? ag_base_name(frame->file) : "",
                 frame->line);
    }
    snprintf(key, sizeof(key), "%s\n%s\n%s\n%s",
             is_own         ? ""
             : frame->image ? frame->image
                            : "?",
             is_labelled && site->label ? site->label : "", where,
             by == AG_BY_IMAGE || !frame->function ? "" : frame->function);
    const uint32_t text = ag_text_id(&difference->texts, key, strlen(key));
    uint32_t at;
    int r = ag_index_map_number(&difference->by_key, text, &at);
    r = r > 0 ? AG_ARRAY_ADD(difference->rows, difference->shown.n_rows,
                             (struct ag_difference_row){.label = NULL})
              : r;
    if (r < 0) {
        return NULL;
    }
    struct ag_difference_row *row = &difference->rows[at];
    row->frame.function =
        by == AG_BY_IMAGE ? NULL : difference_keep_text(difference, frame->function);
    row->frame.file = by == AG_BY_IMAGE ? NULL : difference_keep_text(difference, frame->file);
    row->frame.image = difference_keep_text(difference, frame->image);
    row->frame.runtime = difference_keep_text(difference, frame->runtime ? frame->runtime : "c");
    row->frame.line = by == AG_BY_IMAGE ? 0 : frame->line;
    row->label = difference_keep_text(difference, site->label);
    return row;
}

static int difference_take(struct difference *difference, struct ag_profile *profile,
                           enum ag_site_key by, bool is_after) {
    const struct ag_site_row *sites;
    size_t n;
    const int r = ag_profile_sites(profile, by, &sites, &n);
    for (size_t i = 0; i < n && r == 0; i++) {
        if (ag_metrics_are_empty(&sites[i].own)) {
            continue; /* the site allocates nothing itself: it only calls functions that allocate */
        }
        struct ag_difference_row *row = row_of(difference, profile, by, &sites[i]);
        if (!row) {
            return -ENOMEM;
        }
        row->is_after |= is_after;
        row->is_before |= !is_after;
        ag_metrics_add(is_after ? &row->after : &row->before, &sites[i].own);
        ag_metrics_add(is_after ? &difference->shown.after : &difference->shown.before,
                       &sites[i].own);
    }
    return r;
}

/* If SIDE (one of the two profiles) has no sample of a site, the site may have had blocks that were
 * not sampled. The upper bound of their number is computed with the largest weight of a sample (the
 * number of blocks that it represents) in OTHER, because both profiles are of the same code. */
static void add_doubt(struct ag_metrics *side, const struct ag_metrics *other,
                      const struct ag_metrics *nothing) {
    if (nothing->portion_bytes > 0 && ag_metrics_are_nothing(side)) {
        *side = *nothing;
        side->heaviest = other->heaviest;
    }
}

static void add_doubts(struct difference *difference, const struct ag_profile *before,
                       const struct ag_profile *after) {
    const struct ag_metrics was = ag_profile_nothing(before), is = ag_profile_nothing(after);
    for (size_t i = 0; i < difference->shown.n_rows; i++) {
        struct ag_difference_row *row = &difference->rows[i];
        add_doubt(&row->before, &row->after, &was);
        add_doubt(&row->after, &row->before, &is);
    }
    add_doubt(&difference->shown.before, &difference->shown.after, &was);
    add_doubt(&difference->shown.after, &difference->shown.before, &is);
}

int ag_difference_new(struct ag_profile *before, struct ag_profile *after, enum ag_site_key by,
                      struct ag_difference **ret_difference) {
    /* stacks, threads and processes have different names in each run */
    if (by == AG_BY_STACK || by == AG_BY_THREAD || by >= AG_BY_OS_PROCESS) {
        return -EINVAL;
    }
    struct difference *difference = calloc(1, sizeof(*difference));
    int r = difference ? 0 : -ENOMEM;
    if (difference) {
        difference->shown.is_sampled =
            ag_profile_identity(before)->is_sampled || ag_profile_identity(after)->is_sampled;
    }
    r = r < 0 ? r : difference_take(difference, before, by, /* is_after= */ false);
    r = r < 0 ? r : difference_take(difference, after, by, /* is_after= */ true);
    if (r < 0) {
        (void)ag_difference_free(difference ? &difference->shown : NULL);
        return r;
    }
    difference->shown.rows = difference->rows;
    add_doubts(difference, before, after);
    *ret_difference = &difference->shown;
    return 0;
}

struct ag_difference *ag_difference_free(struct ag_difference *shown) {
    struct difference *difference = (struct difference *)(void *)shown;
    if (difference) {
        ag_text_store_done(&difference->texts);
        ag_index_map_done(&difference->by_key);
        free(difference->rows);
        free(difference);
    }
    return NULL;
}
