/* observe_memory.c: `allogram observe NODE` and `allogram observe PID --memory`: asks a virtual
 * machine twice what its memory consists of, and prints the parts with their owners and their
 * growth between the two looks. The keys of the JSON object are in
 * docs/reference/report-schema.md. */
#include "cli/observe_memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "cli/attach_link.h"
#include "cli/command.h"
#include "cli/end_guard.h"
#include "cli/message.h"
#include "cli/terminal.h"
#include "remote/machine_link.h"
#include "report/page.h"
#include "report/quantity.h"
#include "report/table.h"
#include "text/json_writer.h"

enum {
    POLL_US = 50 * 1000,
    LISTEN_NS = 1000 * 1000 * 1000, /* time between two calls of kind->next (machine_link.h) */
};

struct looks {
    const struct ag_memory_request *request;
    uint32_t pid;
    uint64_t duration_ns;
    bool has_before;
    struct ag_link_memory before, now;
};

/* ---- growth ---- */

static int by_name(const void *left, const void *right) {
    const struct ag_link_memory_entry *a = left, *b = right;
    return strcmp(a->name, b->name);
}

/* Returns the number by which entries are sorted and compared: the bytes, or, in a list that is no
 * part of the memory (such as message queues), the count. */
static int64_t size_of(const struct ag_link_memory_part *part,
                       const struct ag_link_memory_entry *entry) {
    return part->bytes < 0 ? entry->count : entry->bytes;
}

static int by_count(const void *left, const void *right) {
    const struct ag_link_memory_entry *a = left, *b = right;
    return a->count != b->count ? (a->count < b->count) - (a->count > b->count) : by_name(a, b);
}

static int by_bytes(const void *left, const void *right) {
    const struct ag_link_memory_entry *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : by_name(a, b);
}

/* Sorts the entries of the first look by name, because they are searched by name, and those of the
 * second look by size. */
static void sort_looks(struct looks *looks) {
    for (size_t i = 0; i < looks->before.n_parts; i++) {
        struct ag_link_memory_part *part = &looks->before.parts[i];
        qsort(part->entries, part->n_entries, sizeof *part->entries, by_name);
    }
    for (size_t i = 0; i < looks->now.n_parts; i++) {
        struct ag_link_memory_part *part = &looks->now.parts[i];
        qsort(part->entries, part->n_entries, sizeof *part->entries,
              part->bytes < 0 ? by_count : by_bytes);
    }
}

static const struct ag_link_memory_part *part_before(const struct looks *looks,
                                                     const struct ag_link_memory_part *part) {
    for (size_t i = 0; looks->has_before && i < looks->before.n_parts; i++) {
        if (strcmp(looks->before.parts[i].name, part->name) == 0) {
            return &looks->before.parts[i];
        }
    }
    return NULL;
}

/* Returns false if the growth of the entry is not known. */
static bool growth_of(const struct ag_link_memory_part *before,
                      const struct ag_link_memory_part *part,
                      const struct ag_link_memory_entry *entry, int64_t *ret_growth) {
    const struct ag_link_memory_entry *then =
        before == NULL ? NULL
                       : bsearch(entry, before->entries, before->n_entries, sizeof *entry, by_name);
    *ret_growth = size_of(part, entry) - (then != NULL ? size_of(part, then) : 0);
    return then != NULL || (before != NULL && before->is_whole);
}

static int64_t total_of(const struct ag_link_memory *memory) {
    int64_t total = 0;
    for (size_t i = 0; i < memory->n_parts; i++) {
        total += memory->parts[i].bytes > 0 ? memory->parts[i].bytes : 0;
    }
    return total;
}

static int64_t unattributed_of(const struct ag_link_memory_part *part) {
    int64_t rest = part->bytes;
    for (size_t i = 0; i < part->n_entries; i++) {
        rest -= part->entries[i].bytes;
    }
    return rest;
}

/* ---- text ---- */

static const char *signed_text(struct ag_quantity *buffer, int64_t number, bool is_bytes) {
    struct ag_quantity unsigned_text;
    const uint64_t size = (uint64_t)(number < 0 ? -number : number);
    (void)snprintf(buffer->text, sizeof buffer->text, "%s%.38s",
                   number < 0   ? "-"
                   : number > 0 ? "+"
                                : "",
                   is_bytes ? ag_quantity_bytes(&unsigned_text, size)
                            : ag_quantity_count(&unsigned_text, size));
    return buffer->text;
}

static const char *known_count(struct ag_quantity *buffer, int64_t count) {
    return count < 0 ? "" : ag_quantity_count(buffer, (uint64_t)count);
}

/* BYTES may be the difference of two numbers that the machine measured one after the other. It is
 * less than 0 if memory was allocated between the two measurements. */
static void size_cells(struct ag_table *table, int64_t bytes, int64_t whole) {
    struct ag_quantity quantity;
    ag_table_cell(table, bytes < 0 ? signed_text(&quantity, bytes, /* is_bytes= */ true)
                                   : ag_quantity_bytes(&quantity, (uint64_t)bytes));
    ag_table_cell(table, bytes < 0 || whole <= 0
                             ? ""
                             : ag_quantity_share(&quantity, (uint64_t)bytes, (uint64_t)whole));
}

static void write_table(struct ag_page *page, struct ag_table *table) {
    if (table != NULL) {
        (void)ag_table_write(table, page); /* if memory is exhausted, the table is not printed */
        (void)ag_table_free(table);
    }
}

static void text_parts(struct ag_page *page, const struct looks *looks) {
    static const struct ag_column columns[] = {
        {.head = "bytes"},
        {.head = "share", .style = AG_STYLE_DIM},
        {.head = "growth"},
        {.head = "count"},
        {.head = "limit", .style = AG_STYLE_DIM},
        {.head = "memory", .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 12},
    };
    const int64_t total = total_of(&looks->now);
    struct ag_table *table = ag_table_new(columns, AG_ARRAY_SIZE(columns));
    struct ag_quantity quantity;
    for (size_t i = 0; i < looks->now.n_parts && table != NULL; i++) {
        const struct ag_link_memory_part *part = &looks->now.parts[i],
                                         *before = part_before(looks, part);
        if (part->bytes >= 0) {
            size_cells(table, part->bytes, total);
            ag_table_cell(table, before == NULL
                                     ? ""
                                     : signed_text(&quantity, part->bytes - before->bytes,
                                                   /* is_bytes= */ true));
            ag_table_cell(table, known_count(&quantity, part->count));
            ag_table_cell(table, known_count(&quantity, part->limit));
            ag_table_cell(table, part->name);
        }
    }
    ag_table_rule(table);
    size_cells(table, total, total);
    ag_table_cell(table, looks->has_before
                             ? signed_text(&quantity, total - total_of(&looks->before),
                                           /* is_bytes= */ true)
                             : "");
    ag_table_cell(table, "");
    ag_table_cell(table, "");
    ag_table_cell(table, "total");
    write_table(page, table);
    ag_page_end_line(page);
}

static void row_of_entry(struct ag_table *table, const struct ag_link_memory_part *before,
                         const struct ag_link_memory_part *part,
                         const struct ag_link_memory_entry *entry) {
    struct ag_quantity quantity;
    int64_t growth;
    size_cells(table, entry->bytes, part->bytes);
    ag_table_cell(table, growth_of(before, part, entry, &growth)
                             ? signed_text(&quantity, growth, /* is_bytes= */ part->bytes >= 0)
                             : "");
    ag_table_cell(table, known_count(&quantity, entry->count));
    ag_table_cell(table, entry->name);
    ag_table_cell(table, entry->owner);
}

static void text_entries(struct ag_page *page, const struct looks *looks,
                         const struct ag_link_memory_part *part) {
    const struct ag_column columns[] = {
        {.head = "bytes"},
        {.head = "share", .style = AG_STYLE_DIM},
        {.head = "growth"},
        {.head = part->count_name},
        {.head = part->name, .align = AG_ALIGN_LEFT, .style = AG_STYLE_BRIGHT, .least_columns = 20},
        {.head = "owner", .align = AG_ALIGN_LEFT, .style = AG_STYLE_DIM, .least_columns = 8},
    };
    const struct ag_link_memory_part *before = part_before(looks, part);
    const size_t limit = looks->request->limit;
    struct ag_table *table =
        part->n_entries > 0 ? ag_table_new(columns, AG_ARRAY_SIZE(columns)) : NULL;
    size_t n = 0;
    /* entries without bytes, which come last, are not shown */
    size_t n_entries = part->n_entries;
    while (n_entries > 0 && part->entries[n_entries - 1].bytes == 0) {
        n_entries--;
    }
    for (; n < n_entries && table != NULL && (limit == 0 || n < limit); n++) {
        row_of_entry(table, before, part, &part->entries[n]);
    }
    if (part->bytes >= 0 && table != NULL) {
        ag_table_rule(table);
        size_cells(table, unattributed_of(part), part->bytes);
        ag_table_cell(table, "");
        ag_table_cell(table, "");
        ag_table_cell(table, "no owner found");
        ag_table_cell(table, "");
    }
    write_table(page, table);
    if (n < n_entries) {
        ag_page_print(page, AG_STYLE_DIM, "... %zu more; --limit=0 shows all\n", n_entries - n);
    }
    if (part->n_entries > 0) {
        ag_page_end_line(page);
    }
}

static void print_text(const struct looks *looks) {
    struct ag_page page = ag_terminal_page(stdout);
    struct ag_quantity time;
    ag_page_print(&page, AG_STYLE_BRIGHT, "%s", looks->request->name);
    ag_page_print(&page, AG_STYLE_DIM, "   pid %u, %s, %s\n", looks->pid, looks->now.version,
                  ag_quantity_time(&time, looks->duration_ns));
    ag_page_end_line(&page);
    text_parts(&page, looks);
    for (size_t i = 0; i < looks->now.n_parts; i++) {
        text_entries(&page, looks, &looks->now.parts[i]);
    }
}

/* ---- JSON ---- */

static void json_signed_if(struct ag_json *json, const char *key, int64_t number, bool is_known) {
    if (is_known) {
        ag_json_signed(json, key, number);
    } else {
        ag_json_null(json, key);
    }
}

static void json_part(struct ag_json *json, const struct looks *looks,
                      const struct ag_link_memory_part *part) {
    const struct ag_link_memory_part *before = part_before(looks, part);
    const bool is_part = part->bytes >= 0;
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "part", part->name);
    json_signed_if(json, "bytes", part->bytes, is_part);
    json_signed_if(json, "growth_bytes", before != NULL ? part->bytes - before->bytes : 0,
                   is_part && before != NULL);
    json_signed_if(json, "count", part->count, part->count >= 0);
    json_signed_if(json, "limit", part->limit, part->limit >= 0);
    json_signed_if(json, "unattributed_bytes", is_part ? unattributed_of(part) : 0, is_part);
    ag_json_open(json, "entries", '[');
    for (size_t i = 0; i < part->n_entries; i++) {
        const struct ag_link_memory_entry *entry = &part->entries[i];
        int64_t growth;
        const bool is_known = growth_of(before, part, entry, &growth);
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "name", entry->name);
        ag_json_string(json, "owner", entry->owner[0] != '\0' ? entry->owner : NULL);
        ag_json_signed(json, "bytes", entry->bytes);
        json_signed_if(json, is_part ? "growth_bytes" : "growth", growth, is_known);
        json_signed_if(json, "count", entry->count, entry->count >= 0);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

static void print_json(const struct looks *looks) {
    struct ag_json json = {.out = stdout, .line_depth = 4};
    const int64_t total = total_of(&looks->now);
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "schema", "allogram-observe/1");
    ag_json_integer(&json, "pid", looks->pid);
    ag_json_string(&json, "name", looks->request->name);
    ag_json_string(&json, "version", looks->now.version);
    ag_json_integer(&json, "duration_ns", looks->duration_ns);
    ag_json_signed(&json, "total_bytes", total);
    json_signed_if(&json, "growth_bytes", total - total_of(&looks->before), looks->has_before);
    ag_json_open(&json, "memory", '[');
    for (size_t i = 0; i < looks->now.n_parts; i++) {
        json_part(&json, looks, &looks->now.parts[i]);
    }
    ag_json_close(&json, ']');
    ag_json_close(&json, '}');
    fputc('\n', stdout);
}

/* ---- the two looks ---- */

/* Waits until the duration is over, or a signal arrives. Returns false if the machine is gone. */
static bool wait_for_end(const struct looks *looks, struct ag_link *link) {
    const uint64_t start_ns = ag_monotonic_ns();
    uint64_t listened_ns = start_ns;
    for (;;) {
        const uint64_t now_ns = ag_monotonic_ns();
        const bool is_over =
            looks->request->duration_ns != 0 && now_ns - start_ns >= looks->request->duration_ns;
        if (is_over || ag_end_guard_asked_ns(NULL) != 0) {
            return true;
        }
        if (now_ns - listened_ns >= LISTEN_NS) {
            listened_ns = now_ns;
            if (looks->request->kind->next(link) == AG_LINK_GONE) {
                return false;
            }
        }
        (void)usleep(POLL_US); /* no signal interrupts usleep, because the end guard has blocked the
                                * signals */
    }
}

static void free_memory(struct ag_link_memory *memory) {
    for (size_t i = 0; i < memory->n_parts; i++) {
        free(memory->parts[i].entries);
    }
}

static int look_twice(struct looks *looks, struct ag_link *link) {
    const struct ag_link_kind *kind = looks->request->kind;
    char text[AG_LINK_TEXT_BYTES];
    const uint64_t start_ns = ag_monotonic_ns();
    looks->pid = kind->pid(link);
    if (kind->memory(link, &looks->before, text) < 0) {
        return ag_fail(AG_EXIT_FAILURE, "observe: %s", text);
    }
    if (wait_for_end(looks, link) && kind->memory(link, &looks->now, text) == 0) {
        looks->has_before = true;
    } else {
        ag_say(
            "observe: %s has ended or does not answer; the table shows the first of the two measurements",
            looks->request->name);
        looks->now = looks->before;
        looks->before = (struct ag_link_memory){0};
    }
    looks->duration_ns = ag_monotonic_ns() - start_ns;
    sort_looks(looks);
    if (looks->request->json) {
        print_json(looks);
    } else {
        print_text(looks);
    }
    return AG_EXIT_OK;
}

int ag_observe_memory(const struct ag_memory_request *request) {
    struct looks looks = {.request = request};
    struct ag_link *link = NULL;
    if (request->kind->memory == NULL) {
        /* this build cannot connect to the machine: ag_link_connect prints why */
        return ag_link_connect(request->name, request->kind, request->kind_option, &link) ==
                       AG_EXIT_OK
                   ? AG_EXIT_OK
                   : AG_EXIT_FAILURE;
    }
    const int r = ag_end_guard_begin("observe", NULL, NULL);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "observe: cannot receive signals: %s%s", strerror(-r),
                       ag_open_files_hint(-r));
    }
    /* a write to a connection that the machine has closed must not end this process; signal cannot
     * fail for SIGPIPE */
    (void)signal(SIGPIPE, SIG_IGN);
    if (ag_link_connect(request->name, request->kind, request->kind_option, &link) != AG_EXIT_OK) {
        return AG_EXIT_FAILURE;
    }
    const int status = look_twice(&looks, link);
    (void)fflush(stdout); /* ag_stdout_finish reports errors */
    ag_end_guard_end();   /* closing takes less than a second, and the results are complete */
    free_memory(&looks.before);
    free_memory(&looks.now);
    (void)request->kind->close(link); /* returns NULL */
    return status;
}
