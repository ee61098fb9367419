/* observe_rss.c: `allogram observe PID --rss`: one look at the resident memory of any process,
 * without a recording. It shows the bytes of each class, and the mappings with most resident
 * memory. The sum over the classes is the kernel's Rss.
 *
 * Only a recording knows which blocks are in the memory of an allocator, and which part of this
 * memory is free. So the whole memory of an allocator is in one class here. */
#include "cli/observe_rss.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/terminal.h"
#include "model/answers/resident_classes.h"
#include "remote/remote_process.h"
#include "report/quantity.h"
#include "report/table.h"
#include "table/array.h"
#include "text/json_writer.h"
#include "writer/resident_look.h"

/* The mappings of one class that have the same name (name_of). A mapping without a name is a group
 * of its own. */
struct group {
    enum ag_resident_class resident_class;
    const char *path; /* path of the file, or a description in brackets; "": no name */
    uint64_t address; /* of the first mapping */
    uint64_t bytes, mapped_bytes, n_mappings;
};
struct rss {
    const struct ag_rss_request *request;
    struct ag_remote_process process;
    struct ag_resident_look look;
    uint64_t duration_ns; /* of the look */
    uint64_t bytes[AG_RESIDENT_CLASSES], n_mappings[AG_RESIDENT_CLASSES];
    struct group *groups; /* largest first */
    size_t n_groups;
};

/* ---- groups ---- */

static const char *name_of(const struct ag_resident_mapping *mapping,
                           enum ag_resident_class resident_class) {
    return resident_class == AG_CLASS_THREAD_STORAGE  ? "[thread storage]"
           : mapping->flags & AG_RESIDENT_STATIC_DATA ? "[static data]"
           : mapping->path[0] != '\0'                 ? mapping->path
           : resident_class == AG_CLASS_STACKS        ? "[stacks of threads]"
           : resident_class == AG_CLASS_HEAP          ? "[thread arenas]"
                                                      : "";
}

static int by_name(const void *left, const void *right) {
    const struct group *a = left, *b = right;
    const int by_path = strcmp(a->path, b->path);
    if (a->resident_class != b->resident_class) {
        return a->resident_class < b->resident_class ? -1 : 1;
    }
    return by_path != 0 ? by_path : (a->address > b->address) - (a->address < b->address);
}

static int by_bytes(const void *left, const void *right) {
    const struct group *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : by_name(a, b);
}

static int make_groups(struct rss *rss) {
    for (size_t i = 0; i < rss->look.n_mappings; i++) {
        const struct ag_resident_mapping *mapping = &rss->look.mappings[i];
        uint64_t bytes[AG_RESIDENT_CLASSES];
        ag_resident_mapping_divide(&rss->look, mapping, bytes);
        for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
            const enum ag_resident_class resident_class = (enum ag_resident_class)k;
            const struct group group = {.resident_class = resident_class,
                                        .path = name_of(mapping, resident_class),
                                        .address = mapping->low,
                                        .bytes = bytes[k],
                                        .mapped_bytes = mapping->high - mapping->low,
                                        .n_mappings = 1};
            rss->bytes[k] += bytes[k];
            rss->n_mappings[k] += bytes[k] > 0;
            if (bytes[k] > 0 && AG_ARRAY_ADD(rss->groups, rss->n_groups, group) < 0) {
                return -ENOMEM;
            }
        }
    }
    qsort(rss->groups, rss->n_groups, sizeof *rss->groups, by_name);
    size_t n = 0;
    for (size_t i = 0; i < rss->n_groups; i++) {
        const struct group *group = &rss->groups[i];
        struct group *last = n > 0 ? &rss->groups[n - 1] : NULL;
        if (last != NULL && last->resident_class == group->resident_class &&
            group->path[0] != '\0' && strcmp(last->path, group->path) == 0) {
            last->bytes += group->bytes;
            last->mapped_bytes += group->mapped_bytes;
            last->n_mappings++;
        } else {
            rss->groups[n++] = *group;
        }
    }
    rss->n_groups = n;
    qsort(rss->groups, rss->n_groups, sizeof *rss->groups, by_bytes);
    return 0;
}

/* ---- text ---- */

/* Prints a table and frees it. */
static void write_table(struct ag_page *page, struct ag_table *table) {
    if (table != NULL) {
        (void)ag_table_write(table, page); /* if memory is exhausted, the table is not printed */
        (void)ag_table_free(table);
    }
}

static void text_classes(struct ag_page *page, const struct rss *rss) {
    const struct ag_unit unit = ag_unit_of_bytes(rss->look.rss_bytes);
    const struct ag_column columns[] = {
        {.head = "share", .style = AG_STYLE_DIM},
        {.head = unit.name, .style = AG_STYLE_BRIGHT},
        {.head = "mappings"},
        {.head = "class", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT},
        {.head = "", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 12},
    };
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    struct ag_quantity number;
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        if (rss->bytes[k] > 0) {
            const enum ag_resident_class resident_class = (enum ag_resident_class)k;
            ag_table_cell(table, ag_quantity_share(&number, rss->bytes[k], rss->look.rss_bytes));
            ag_table_cell(table, ag_quantity_in(&number, rss->bytes[k], unit));
            ag_table_cell(table, ag_quantity_count(&number, rss->n_mappings[k]));
            ag_table_cell(table, ag_resident_class_name(resident_class));
            ag_table_cell(table, ag_resident_class_words(resident_class));
        }
    }
    ag_table_rule(table);
    ag_table_cell(table, "");
    ag_table_cell(table, ag_quantity_in(&number, rss->look.rss_bytes, unit));
    ag_table_cell(table, ag_quantity_count(&number, rss->look.n_mappings));
    ag_table_cell(table, "resident");
    ag_table_cell(table, "");
    write_table(page, table);
    struct ag_quantity page_tables, huge, swap;
    ag_page_prose(page, AG_STYLE_DIM, "in addition: page tables %s, hugetlbfs %s, swapped out %s",
                  ag_quantity_bytes(&page_tables, rss->look.page_table_bytes),
                  ag_quantity_bytes(&huge, rss->look.hugetlb_bytes),
                  ag_quantity_bytes(&swap, rss->look.swap_bytes));
    ag_page_end_line(page);
}

static void text_groups(struct ag_page *page, const struct rss *rss) {
    const struct ag_unit unit = ag_unit_of_bytes(rss->n_groups > 0 ? rss->groups[0].bytes : 0);
    const struct ag_column columns[] = {
        {.head = unit.name, .style = AG_STYLE_BRIGHT},
        {.head = "mapped"},
        {.head = "mappings", .spare = 1},
        {.head = "class", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM},
        {.head = "mapping", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 16},
    };
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    const size_t limit = rss->request->limit;
    struct ag_quantity number;
    size_t n = 0;
    for (; n < rss->n_groups && (limit == 0 || n < limit); n++) {
        const struct group *group = &rss->groups[n];
        char address[40];
        (void)snprintf(address, sizeof address, "at 0x%llx", (unsigned long long)group->address);
        ag_table_cell(table, ag_quantity_in(&number, group->bytes, unit));
        ag_table_cell(table, ag_quantity_in(&number, group->mapped_bytes, unit));
        ag_table_cell(table, ag_quantity_count(&number, group->n_mappings));
        ag_table_cell(table, ag_resident_class_name(group->resident_class));
        ag_table_cell(table, group->path[0] != '\0' ? group->path : address);
    }
    write_table(page, table);
    if (n < rss->n_groups) {
        ag_page_print(page, AG_STYLE_DIM, "... %zu more; --limit=0 shows all\n", rss->n_groups - n);
    }
}

static void print_text(const struct rss *rss) {
    struct ag_page page = ag_terminal_page(stdout);
    struct ag_quantity resident;
    ag_page_print(&page, AG_STYLE_BRIGHT, "%s", rss->process.name);
    ag_page_print(&page, AG_STYLE_DIM, "   pid %d, resident %s\n", rss->process.pid,
                  ag_quantity_bytes(&resident, rss->look.rss_bytes));
    ag_page_end_line(&page);
    text_classes(&page, rss);
    text_groups(&page, rss);
    ag_page_end_line(&page);
    ag_page_prose(&page, AG_STYLE_DIM,
                  "the part of heap and anonymous memory that is in blocks, by stack: allogram "
                  "run, allogram attach");
}

/* ---- JSON ---- */

static void print_json(const struct rss *rss) {
    struct ag_json json = {.out = stdout, .line_depth = 5};
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "schema", "allogram-observe/1");
    ag_json_integer(&json, "pid", (uint64_t)rss->process.pid);
    ag_json_string(&json, "name", rss->process.name);
    ag_json_integer(&json, "duration_ns", rss->duration_ns);
    ag_json_integer(&json, "rss_bytes", rss->look.rss_bytes);
    ag_json_integer(&json, "page_table_bytes", rss->look.page_table_bytes);
    ag_json_integer(&json, "hugetlb_bytes", rss->look.hugetlb_bytes);
    ag_json_integer(&json, "swap_bytes", rss->look.swap_bytes);
    ag_json_open(&json, "classes", '[');
    for (int k = 0; k < AG_RESIDENT_CLASSES; k++) {
        if (!ag_resident_class_is_in((enum ag_resident_class)k, AG_LEDGER_OF_MAPPINGS)) {
            continue;
        }
        ag_json_open(&json, NULL, '{');
        ag_json_string(&json, "class", ag_resident_class_name((enum ag_resident_class)k));
        ag_json_integer(&json, "bytes", rss->bytes[k]);
        ag_json_open(&json, "mappings", '[');
        for (size_t i = 0; i < rss->n_groups; i++) {
            const struct group *group = &rss->groups[i];
            if (group->resident_class == (enum ag_resident_class)k) {
                ag_json_open(&json, NULL, '{');
                ag_json_string(&json, "path", group->path[0] != '\0' ? group->path : NULL);
                ag_json_integer(&json, "address", group->address);
                ag_json_integer(&json, "bytes", group->bytes);
                ag_json_integer(&json, "mapped_bytes", group->mapped_bytes);
                ag_json_integer(&json, "n_mappings", group->n_mappings);
                ag_json_close(&json, '}');
            }
        }
        ag_json_close(&json, ']');
        ag_json_close(&json, '}');
    }
    ag_json_close(&json, ']');
    ag_json_close(&json, '}');
    fputc('\n', stdout);
}

int ag_observe_rss(const struct ag_rss_request *request) {
    struct rss rss = {.request = request};
    char message[512] = "";
    if (ag_remote_process_open(request->pid, &rss.process, message) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "observe: %s", message);
    }
    const uint64_t start_ns = ag_monotonic_ns();
    int r = ag_resident_look_read((uint32_t)request->pid, &rss.look);
    if (r == 0) {
        /* on failure the memory of thread-local storage counts as stacks or anonymous memory */
        (void)ag_resident_look_read_pages((uint32_t)request->pid, &rss.look);
    }
    rss.duration_ns = ag_monotonic_ns() - start_ns;
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "observe: cannot read /proc/%d/smaps: %s", request->pid,
                       r == -ESRCH ? "the process has ended" : strerror(-r));
    }
    r = make_groups(&rss);
    if (r == 0 && request->json) {
        print_json(&rss);
    } else if (r == 0) {
        print_text(&rss);
    }
    ag_resident_look_done(&rss.look);
    free(rss.groups);
    return r == 0 ? AG_EXIT_OK : ag_fail(AG_EXIT_FAILURE, "observe: %s", strerror(-r));
}
