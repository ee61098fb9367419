/* rss_view.c: `report --view=rss`: what the resident memory of the process consisted of when it was
 * largest, and at the end (model/answers/resident_parts.h). The sum of the classes is the resident
 * memory. */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "model/answers/resident_parts.h"
#include "report/quantity.h"
#include "report/table.h"
#include "report/view.h"

/* ---- text ---- */

static int write_table(struct ag_view *view, struct ag_table *table) {
    const int r = table ? ag_table_write(table, view->page) : -ENOMEM;
    (void)ag_table_free(table);
    ag_page_end_line(view->page);
    return r;
}

static int text_classes(struct ag_view *view, const struct ag_resident_parts *parts) {
    const struct ag_unit unit = ag_unit_of_bytes(parts->rss_bytes);
    const struct ag_column columns[] = {
        {.head = "share", .style = AG_STYLE_DIM},
        {.head = unit.name, .style = AG_STYLE_BRIGHT},
        {.head = "class", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 12},
    };
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    struct ag_quantity number;
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        if (parts->bytes[k] > 0) {
            ag_table_cell(table, ag_quantity_share(&number, parts->bytes[k], parts->rss_bytes));
            ag_table_cell(table, ag_quantity_in(&number, parts->bytes[k], unit));
            ag_table_cell(table, ag_resident_class_name((enum ag_resident_class)k));
            ag_table_cell(table, ag_resident_class_words((enum ag_resident_class)k));
        }
    }
    ag_table_rule(table);
    ag_table_cell(table, "");
    ag_table_cell(table, ag_quantity_in(&number, parts->rss_bytes, unit));
    ag_table_cell(table, "resident");
    ag_table_cell(table, "");
    return write_table(view, table);
}

/* Writes the table of the functions to which the bytes of one class belong. WORDS: a description of
 * the table, written above it. */
static int text_sites(struct ag_view *view, const struct ag_resident_parts *parts,
                      enum ag_resident_class resident_class, const char *words) {
    const struct ag_resident_site *sites = parts->sites[resident_class];
    const size_t n = parts->n_sites[resident_class];
    if (n == 0) {
        return 0;
    }
    const struct ag_unit unit = ag_unit_of_bytes(sites[0].bytes);
    const bool is_pinned = resident_class == AG_CLASS_PINNED_FREE;
    const bool has_blocks = resident_class != AG_CLASS_PROGRAM_MAPPINGS;
    const struct ag_column columns[] = {
        {.head = unit.name, .style = AG_STYLE_BRIGHT},
        {.head = has_blocks ? "blocks" : "", .spare = 1},
        {.head = is_pinned ? "of" : ""},
        {.head = "function", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 16},
        {.head = "where", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 12},
    };
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    size_t i = 0;
    ag_page_prose(view->page, AG_STYLE_PLAIN, "%s", words);
    for (; i < n && i < view->limit; i++) {
        struct ag_quantity number;
        struct ag_frame_text text;
        ag_table_cell(table, ag_quantity_in(&number, sites[i].bytes, unit));
        ag_table_cell(table, has_blocks ? ag_quantity_count(&number, sites[i].blocks) : "");
        ag_table_cell(table, is_pinned ? ag_quantity_bytes(&number, sites[i].block_bytes) : "");
        ag_table_cell(table, ag_frame_function(&text, sites[i].frame));
        ag_table_cell(table, ag_frame_where(&text, sites[i].frame));
    }
    const int r = table ? ag_table_write(table, view->page) : -ENOMEM;
    (void)ag_table_free(table);
    if (i < n) {
        ag_page_print(view->page, AG_STYLE_DIM, "... %zu more; --limit=0 shows all\n", n - i);
    }
    ag_page_end_line(view->page);
    return r;
}

/* Writes the classes of the resident memory at one time. WHEN: text that follows this time in the
 * first line. */
static int text_moment(struct ag_view *view, const struct ag_resident_parts *parts,
                       const char *when) {
    struct ag_quantity resident, time, page_tables, huge, swap, trimmed;
    ag_page_prose(view->page, AG_STYLE_BRIGHT, "%s resident at %s%s",
                  ag_quantity_bytes(&resident, parts->rss_bytes),
                  ag_quantity_time(&time, parts->moment_ns), when);
    int r = text_classes(view, parts);
    if (parts->trim_bytes > 0) {
        ag_page_prose(view->page, AG_STYLE_PLAIN, "malloc_trim(0) would give %s back to the kernel",
                      ag_quantity_bytes(&trimmed, parts->trim_bytes));
    }
    ag_page_prose(view->page, AG_STYLE_DIM,
                  "in addition: page tables %s, hugetlbfs %s, swapped out %s",
                  ag_quantity_bytes(&page_tables, parts->page_table_bytes),
                  ag_quantity_bytes(&huge, parts->hugetlb_bytes),
                  ag_quantity_bytes(&swap, parts->swap_bytes));
    ag_page_end_line(view->page);
    r = r < 0 ? r
              : text_sites(view, parts, AG_CLASS_PINNED_FREE,
                           "free bytes on pages that these blocks keep resident (of: the size of "
                           "the blocks there)");
    r = r < 0 ? r
              : text_sites(view, parts, AG_CLASS_PROGRAM_MAPPINGS, "mapped by the program itself");
    return r < 0 ? r : text_sites(view, parts, AG_CLASS_LIVE, "resident bytes of blocks in use");
}

int ag_rss_view_text(struct ag_view *view) {
    const bool has_end = ag_profile_has_resident_end(view->profile);
    struct ag_resident_parts parts;
    int r = ag_profile_resident_parts(view->profile, AG_RESIDENT_AT_PEAK, &parts, view->message);
    if (r < 0) {
        return r;
    }
    r = text_moment(view, &parts, has_end ? ", when it was largest" : "");
    ag_resident_parts_done(&parts);
    if (r < 0 || !has_end) {
        return r;
    }
    r = ag_profile_resident_parts(view->profile, AG_RESIDENT_AT_END, &parts, view->message);
    if (r < 0) {
        return r;
    }
    r = text_moment(view, &parts, ", the last look before the end");
    ag_resident_parts_done(&parts);
    return r;
}

/* ---- JSON ---- */

void ag_resident_numbers_json(struct ag_json *json, const struct ag_resident_parts *parts) {
    ag_json_integer(json, "moment_ns", parts->moment_ns);
    ag_json_integer(json, "rss_bytes", parts->rss_bytes);
    ag_json_integer(json, "page_table_bytes", parts->page_table_bytes);
    ag_json_integer(json, "hugetlb_bytes", parts->hugetlb_bytes);
    ag_json_integer(json, "swap_bytes", parts->swap_bytes);
    ag_json_integer(json, "trim_bytes", parts->trim_bytes);
}

static void json_moment(struct ag_view *view, const struct ag_resident_parts *parts) {
    ag_resident_numbers_json(view->json, parts);
    ag_json_open(view->json, "classes", '[');
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        if (!ag_resident_class_is_in((enum ag_resident_class)k, AG_LEDGER_OF_BLOCKS)) {
            continue;
        }
        ag_json_open(view->json, NULL, '{');
        ag_json_string(view->json, "class", ag_resident_class_name((enum ag_resident_class)k));
        ag_json_integer(view->json, "bytes", parts->bytes[k]);
        ag_json_open(view->json, "sites", '[');
        for (size_t i = 0; i < parts->n_sites[k] && i < view->limit; i++) {
            const struct ag_resident_site *site = &parts->sites[k][i];
            ag_json_open(view->json, NULL, '{');
            ag_json_function(view->json, site->frame);
            ag_json_integer(view->json, "bytes", site->bytes);
            ag_json_integer(view->json, "blocks", site->blocks);
            ag_json_integer(view->json, "block_bytes", site->block_bytes);
            ag_json_close(view->json, '}');
        }
        ag_json_close(view->json, ']');
        ag_json_close(view->json, '}');
    }
    ag_json_close(view->json, ']');
}

int ag_rss_view_json(struct ag_view *view) {
    struct ag_resident_parts parts;
    int r = ag_profile_resident_parts(view->profile, AG_RESIDENT_AT_PEAK, &parts, view->message);
    if (r < 0) {
        return r;
    }
    json_moment(view, &parts);
    ag_resident_parts_done(&parts);
    if (!ag_profile_has_resident_end(view->profile)) {
        ag_json_null(view->json, "end");
        return 0;
    }
    r = ag_profile_resident_parts(view->profile, AG_RESIDENT_AT_END, &parts, view->message);
    if (r < 0) {
        return r;
    }
    ag_json_open(view->json, "end", '{');
    json_moment(view, &parts);
    ag_json_close(view->json, '}');
    ag_resident_parts_done(&parts);
    return 0;
}
