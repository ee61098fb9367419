/* program_mappings.c: the profile of the program's own mappings, and the rule that decides whether
 * the summary mentions them.
 *
 * The rule: the summary mentions mappings if they explain most of the resident memory. Let
 *
 *     rest = resident memory at its peak - bytes of blocks at their peak
 *            - files that the program mapped - images (the program and its libraries)
 *
 * The rule holds if REST is more than REST_BYTES and more than half of the resident memory, and if
 * mappings without files had at least half as many bytes as REST at their peak.
 *
 * Why: the overhead of malloc (headers, rounding, free memory) can double the memory of a program
 * with small blocks, so REST must be more than half. Stacks of threads, and the memory of allogram
 * itself and of runtimes, add some megabytes to each process, so REST must also be large in
 * absolute numbers. Not every trace says which part of the files and images was resident, so their
 * whole size is subtracted; they never count as memory of the program. Memory that was mapped and
 * never touched is not resident, so it does not increase REST. A program that uses malloc alone has
 * no mappings of its own, and the rule never holds.
 *
 * Virtual machines map memory without access (PROT_NONE), and make parts of it accessible with
 * mprotect, which is not recorded. Such mappings count only if the other mappings do not suffice.
 * Mappings without access are summed by call stack. A sum that is larger than the resident memory
 * does not count: it is a reservation of addresses, which cannot be resident as a whole. */
#include "model/answers/program_mappings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/pass/mapping_pass.h"
#include "model/process_merge.h"
#include "model/profile_state.h"

#define REST_BYTES UINT64_C(33554432) /* 32 MiB */
/* Reading so many events takes a second on the machine that docs/explanation/overhead.md
 * describes. */
#define EVENTS_MOST UINT64_C(16000000)

/* ---- the profile of the mappings ---- */

static int open_mappings(const struct ag_profile *profile, struct ag_profile **ret_mappings,
                         char message[512]) {
    /* The trace is opened again through the descriptor of PROFILE, because its path may name
     * another file by now. */
    char contents[64];
    struct ag_profile_options options = profile->options;
    (void)snprintf(contents, sizeof(contents), "/proc/self/fd/%d",
                   ag_trace_file_descriptor(profile->file));
    options.size = sizeof(options);
    options.contents = contents;
    options.of_mappings = true;
    return ag_profile_open(profile->path, &options, ret_mappings, message);
}

static int open_mappings_of_parts(const struct ag_profile *merged, struct ag_profile **ret_mappings,
                                  char message[512]) {
    struct ag_profile **parts = calloc(merged->n_parts, sizeof(*parts));
    int r = parts ? 0 : -ENOMEM;
    size_t n = 0;
    while (r == 0 && n < merged->n_parts) {
        r = open_mappings(merged->parts[n].profile, &parts[n], message);
        n += r == 0;
    }
    if (r == 0) {
        r = ag_profile_merge(parts, n, ret_mappings); /* closes the parts if it fails */
    } else {
        while (n > 0) {
            (void)ag_profile_close(parts[--n]);
        }
    }
    free(parts);
    return r;
}

int ag_profile_mappings(struct ag_profile *profile, struct ag_profile **ret_mappings,
                        char ret_message[512]) {
    ret_message[0] = '\0';
    int r = 0;
    if (!profile->mappings) {
        r = profile->n_parts > 0 ? open_mappings_of_parts(profile, &profile->mappings, ret_message)
                                 : open_mappings(profile, &profile->mappings, ret_message);
    }
    if (r < 0 && ret_message[0] == '\0') {
        (void)snprintf(ret_message, 512, "%s", strerror(-r));
    }
    *ret_mappings = profile->mappings;
    return r;
}

struct ag_mapping_facts ag_profile_mapping_facts(const struct ag_profile *mappings) {
    const struct ag_definitions *definitions = &mappings->definitions;
    const uint64_t start_ns = definitions->start_ns, look_ns = definitions->peak_look.time_ns;
    struct ag_mapping_facts facts = {.knows_growth = mappings->sums.has_half_way,
                                     .knows_resident = mappings->sums.has_residency,
                                     .moment_ns = look_ns > start_ns ? look_ns - start_ns : 0};
    for (size_t i = 0; i < mappings->n_parts; i++) {
        const struct ag_mapping_facts part = ag_profile_mapping_facts(mappings->parts[i].profile);
        facts.knows_growth = part.knows_growth && (i == 0 || facts.knows_growth);
        facts.knows_resident = part.knows_resident && (i == 0 || facts.knows_resident);
    }
    if (!facts.knows_resident || mappings->n_parts > 0) {
        facts.moment_ns = UINT64_MAX;
    }
    return facts;
}

/* ---- the rule ---- */

bool ag_mappings_may_explain(uint64_t resident_peak_bytes, uint64_t blocks_peak_bytes) {
    const uint64_t rest =
        resident_peak_bytes > blocks_peak_bytes ? resident_peak_bytes - blocks_peak_bytes : 0;
    return rest > REST_BYTES && rest > resident_peak_bytes / 2;
}

static uint64_t image_bytes(const struct ag_definitions *definitions) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < definitions->n_images; i++) {
        const struct ag_model_image *image = &definitions->images[i];
        bytes += image->high > image->low ? image->high - image->low : 0;
    }
    return bytes;
}

enum kind { KIND_ACCESSIBLE, KIND_WITHOUT_ACCESS, KIND_FILE, KINDS };

static enum kind kind_of(const struct ag_stack_row *row) {
    const char *via = row->via_name ? row->via_name : "";
    return strcmp(via, AG_VIA_OF_FILE) == 0          ? KIND_FILE
           : strcmp(via, AG_VIA_WITHOUT_ACCESS) == 0 ? KIND_WITHOUT_ACCESS
                                                     : KIND_ACCESSIBLE;
}

struct ag_mapping_kinds ag_mapping_kinds_at_peak(const struct ag_stack_row *rows, size_t n_rows) {
    uint64_t bytes[KINDS] = {0};
    for (size_t i = 0; i < n_rows; i++) {
        bytes[kind_of(&rows[i])] += rows[i].metrics.peak_bytes;
    }
    return (struct ag_mapping_kinds){.accessible_bytes = bytes[KIND_ACCESSIBLE],
                                     .without_access_bytes = bytes[KIND_WITHOUT_ACCESS],
                                     .file_bytes = bytes[KIND_FILE]};
}

/* Whether the mappings of ROW count, by the rule at the top of this file. RESIDENT: the resident
 * memory of the process at its peak. */
static bool counts(const struct ag_stack_row *row, bool with_reserved, uint64_t resident) {
    const enum kind kind = kind_of(row);
    return kind == KIND_ACCESSIBLE ||
           (kind == KIND_WITHOUT_ACCESS && with_reserved && row->metrics.peak_bytes <= resident);
}

/* Sets NOTE's frame and line_bytes to the line with the most bytes at the peak, among the mappings
 * that count. */
static int find_line(struct ag_profile *mappings, uint64_t resident,
                     struct ag_mapped_memory_note *note) {
    const struct ag_blamed_line *lines;
    size_t n_lines;
    const int r = ag_profile_blamed_lines(mappings, &lines, &n_lines);
    uint64_t *bytes = r == 0 ? calloc(n_lines + 1, sizeof(*bytes)) : NULL;
    if (!bytes) {
        return r < 0 ? r : -ENOMEM;
    }
    for (size_t i = 0; i < mappings->n_rows; i++) {
        if (counts(&mappings->rows[i], note->with_reserved, resident)) {
            bytes[mappings->line_of_row[i]] += mappings->rows[i].metrics.peak_bytes;
        }
    }
    for (size_t line = 0; line < n_lines; line++) {
        if (bytes[line] > note->line_bytes) {
            note->line_bytes = bytes[line];
            note->frame = lines[line].frame;
        }
    }
    free(bytes);
    return 0;
}

static int apply_rule(struct ag_profile *profile, struct ag_mapped_memory_note *note) {
    struct ag_profile *mappings;
    char message[512];
    int r = ag_profile_mappings(profile, &mappings, message);
    if (r < 0) {
        return r;
    }
    const struct ag_mapping_kinds kinds =
        ag_mapping_kinds_at_peak(mappings->rows, mappings->n_rows);
    const struct ag_summary *summary = ag_profile_summary(profile);
    const uint64_t explained =
        summary->peak_bytes + kinds.file_bytes + image_bytes(&profile->definitions);
    const uint64_t rest =
        summary->rss_peak_bytes > explained ? summary->rss_peak_bytes - explained : 0;
    if (!ag_mappings_may_explain(summary->rss_peak_bytes, explained)) {
        return 0;
    }
    note->with_reserved = kinds.accessible_bytes < rest / 2;
    for (size_t i = 0; i < mappings->n_rows; i++) {
        const struct ag_stack_row *row = &mappings->rows[i];
        note->peak_bytes +=
            counts(row, note->with_reserved, summary->rss_peak_bytes) ? row->metrics.peak_bytes : 0;
    }
    r = note->peak_bytes < rest / 2 ? 0 : find_line(mappings, summary->rss_peak_bytes, note);
    note->is_there = note->line_bytes > 0;
    note->mappings = mappings;
    return r;
}

int ag_profile_mapped_memory_note(struct ag_profile *profile, enum ag_mappings_reach reach,
                                  struct ag_mapped_memory_note *ret_note) {
    const struct ag_summary *summary = ag_profile_summary(profile);
    struct ag_mapped_memory_note note = {.is_there = false};
    int r = 0;
    /* The resident size is that of the whole process, and not of a part that a filter selects. */
    const bool is_whole = !profile->is_filtered && profile->n_parts == 0 &&
                          profile->identity.filter == NULL && !profile->options.of_mappings;
    const uint64_t n_events = summary->allocated_blocks + summary->freed_blocks;
    if (is_whole && (reach == AG_MAPPINGS_ALL || n_events <= EVENTS_MOST) &&
        ag_mappings_may_explain(summary->rss_peak_bytes, summary->peak_bytes)) {
        r = apply_rule(profile, &note);
    }
    *ret_note = r == 0 && note.is_there ? note : (struct ag_mapped_memory_note){.is_there = false};
    return r;
}
