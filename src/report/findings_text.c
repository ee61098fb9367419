/* findings_text.c: writes the end of the summary: the findings of model/answers/findings.h. For
 * each finding it writes a sentence with the number that is the reason for the finding, and a
 * command that shows more. `explain` and the page use its functions ag_finding_... (view.h). */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "model/answers/findings.h"
#include "report/quantity.h"
#include "report/view.h"
#include "text/shell_word.h"

enum { WORDS_BYTES = AG_FINDING_WORDS_BYTES, INDENT = 12, WHERE_COLUMNS = 40, NAME_COLUMNS = 48 };

static const struct {
    const char *name, *view;
    bool has_focus; /* the command gets --focus with the name of the function */
} kinds[] = {
    [AG_FINDING_UNSEEN] = {"unseen_allocations", "blocks --state=ghost", false},
    [AG_FINDING_UNSEEN_FREES] = {"unseen_frees", "blocks", false},
    [AG_FINDING_MAPPED] = {"mapped_memory", "mappings", true},
    [AG_FINDING_LEAK] = {"growing_leak", "leaks", true},
    [AG_FINDING_RESIDENT] = {"resident_free", "rss", false},
    [AG_FINDING_STEPS] = {"constant_steps", "blocks", true},
    [AG_FINDING_OUTSIZED] = {"outsized_blocks", "blocks", true},
    [AG_FINDING_TEMPORARY] = {"temporary_storm", "temporary", true},
    [AG_FINDING_FOREIGN_FREES] = {"foreign_frees", "threads", false},
    [AG_FINDING_PEAK] = {"peak_holder", "peak", true},
    [AG_FINDING_GROWTH] = {"growth_until_exit", "peak", true},
};

/* ---- sentences ---- */

static const char *thread_name(char name[64], const struct ag_thread_row *thread) {
    if (thread == NULL) {
        return "?";
    }
    snprintf(name, 64, "%" PRIu32 "%s%.40s", thread->thread_id, thread->name != NULL ? " " : "",
             thread->name != NULL ? thread->name : "");
    return name;
}

/* Adds the sums of the other lines that are merged with the line of the finding. */
static void add_merged_words(const struct ag_finding *finding, char words[WORDS_BYTES]) {
    const size_t used = strlen(words);
    const bool is_leak = finding->kind == AG_FINDING_LEAK, is_one = finding->merged_lines == 1;
    struct ag_quantity lines, blocks, bytes;
    if (finding->merged_lines == 0) {
        return;
    }
    snprintf(words + used, WORDS_BYTES - used, "; %s more line%s of this function%s %s%s %s %s%s%s",
             ag_quantity_count(&lines, finding->merged_lines), is_one ? "" : "s",
             is_leak ? " or of functions that it calls" : "", is_leak ? "leave" : "make",
             is_one ? "s" : "", ag_quantity_short(&blocks, finding->merged_blocks),
             ag_blocks_word(finding->merged_blocks), is_leak ? ", " : " like this",
             is_leak ? ag_quantity_bytes(&bytes, finding->merged_bytes) : "");
}

/* Adds the process of a merged profile that has most of what the finding counts. */
static void add_process_words(struct ag_profile *profile, const struct ag_finding *finding,
                              char words[WORDS_BYTES]) {
    const size_t used = strlen(words);
    struct ag_quantity share;
    if (finding->n_processes == 1) {
        snprintf(words + used, WORDS_BYTES - used, "; process %s",
                 ag_profile_process_name(profile, finding->process));
    } else if (finding->n_processes > 1) {
        snprintf(words + used, WORDS_BYTES - used, "; %s of it in process %s",
                 ag_quantity_share(&share, finding->process_part, finding->part),
                 ag_profile_process_name(profile, finding->process));
    }
}

/* The trace to examine for a finding: in a merged profile that of the process with most of it. */
static const char *trace_of(const struct ag_profile *profile, const struct ag_finding *finding) {
    return finding->n_processes > 0 ? ag_profile_process(profile, finding->process)->file
                                    : ag_profile_identity(profile)->file;
}

static void leak_words(const struct ag_finding *finding, char words[WORDS_BYTES]) {
    const bool is_growth = finding->kind == AG_FINDING_GROWTH;
    struct ag_quantity blocks, bytes, earlier;
    const int used =
        snprintf(words, WORDS_BYTES, "%s %s %s, %s%s, %s until %s", is_growth ? "has" : "leaves",
                 ag_quantity_short(&blocks, finding->blocks), ag_blocks_word(finding->blocks),
                 ag_quantity_bytes(&bytes, finding->bytes),
                 finding->is_collected ? ", that survived the last collection"
                 : is_growth           ? ""
                                       : ", in use at the end",
                 is_growth ? "which grew" : "and grew",
                 is_growth ? "the program freed them at exit" : "then");
    if (finding->knows_half_way) {
        snprintf(
            words + used, WORDS_BYTES - (size_t)used,
            " (%s of these bytes were there when the program had made half of its allocations)",
            ag_quantity_bytes(&earlier, finding->half_way_bytes));
    }
}

static void outsized_words(const struct ag_finding *finding, const char *share,
                           char words[WORDS_BYTES]) {
    struct ag_quantity count, size, others, mean;
    const bool is_one = finding->blocks == 1;
    snprintf(words, WORDS_BYTES,
             "makes %s block%s of %s%s (%s of the peak); its other %s %s have %s on average",
             is_one ? "a" : ag_quantity_short(&count, finding->blocks), is_one ? "" : "s",
             is_one ? "" : "up to ", ag_quantity_bytes(&size, finding->largest_bytes), share,
             ag_quantity_short(&others, finding->other_blocks),
             ag_blocks_word(finding->other_blocks),
             ag_quantity_bytes(&mean, finding->other_bytes / finding->other_blocks));
}

static void temporary_words(const struct ag_finding *finding, const char *share,
                            char words[WORDS_BYTES]) {
    struct ag_quantity blocks;
    char when[64] = "before the next allocation";
    if (finding->within > 0) {
        snprintf(when, sizeof when, "after at most %" PRIu32 " other allocations", finding->within);
    }
    snprintf(words, WORDS_BYTES, "makes %s blocks that are freed %s (%s of all)",
             ag_quantity_short(&blocks, finding->blocks), when, share);
}

/* Writes "has 8 KiB in 200 blocks that keep 113 MiB of free memory resident: ...". */
static void resident_words(const struct ag_finding *finding, const char *share,
                           char words[WORDS_BYTES]) {
    struct ag_quantity bytes, blocks, pinned, resident, live, trimmed, pages;
    int used;
    if (finding->frame != UINT32_MAX) {
        used = snprintf(
            words, WORDS_BYTES,
            "has %s in %s blocks that keep %s of free memory resident: this memory is on the "
            "same pages",
            ag_quantity_bytes(&bytes, finding->bytes), ag_quantity_short(&blocks, finding->blocks),
            ag_quantity_bytes(&pinned, finding->line_pinned_bytes));
    } else {
        used = snprintf(words, WORDS_BYTES, "malloc holds %s of free pages",
                        ag_quantity_bytes(&pages, finding->free_page_bytes));
    }
    snprintf(words + used, WORDS_BYTES - (size_t)used,
             "; of %s resident, %s are blocks in use and %s is free memory of malloc; "
             "malloc_trim(0) would give %s back",
             ag_quantity_bytes(&resident, finding->resident_bytes),
             ag_quantity_bytes(&live, finding->live_bytes), share,
             finding->trim_bytes > 0 ? ag_quantity_bytes(&trimmed, finding->trim_bytes)
                                     : "nothing");
}

static void foreign_words(const struct ag_finding *finding, const char *share,
                          char words[WORDS_BYTES]) {
    struct ag_quantity blocks;
    char from[64], to[64];
    snprintf(words, WORDS_BYTES,
             "%s blocks are freed by another thread than the one that allocated them (%s of all "
             "frees), most of thread %s by thread %s",
             ag_quantity_short(&blocks, finding->blocks), share,
             thread_name(from, finding->allocated_by), thread_name(to, finding->freed_by));
}

static void write_words(const struct ag_finding *finding, char words[WORDS_BYTES]) {
    struct ag_quantity first, second, third, largest, of;
    const char *share = ag_quantity_share(&of, finding->part, finding->whole);
    switch (finding->kind) {
    case AG_FINDING_UNSEEN:
        snprintf(
            words, WORDS_BYTES,
            "frees %s blocks (%s of all) whose allocations were not recorded, repeatedly at the same "
            "addresses: a function of the allocator is not recorded (or recording was "
            "paused)",
            ag_quantity_short(&first, finding->blocks), share);
        break;
    case AG_FINDING_UNSEEN_FREES:
        snprintf(
            words, WORDS_BYTES,
            "allocates %s blocks at addresses of blocks that are still in use (%s of all freed "
            "blocks): their frees are not recorded; the compiler may have put copies of the program's own free "
            "into its callers (or recording was paused)",
            ag_quantity_short(&first, finding->blocks), share);
        break;
    case AG_FINDING_MAPPED:
        snprintf(words, WORDS_BYTES,
                 "maps %s itself (%s of %s that the program mapped, at the peak of its mappings); "
                 "all blocks had %s at their peak, and at most %s of the process was resident",
                 ag_quantity_bytes(&first, finding->bytes), share,
                 ag_quantity_bytes(&second, finding->whole),
                 ag_quantity_bytes(&third, finding->blocks_peak_bytes),
                 ag_quantity_bytes(&largest, finding->rss_peak_bytes));
        break;
    case AG_FINDING_LEAK:
        leak_words(finding, words);
        break;
    case AG_FINDING_RESIDENT:
        resident_words(finding, share, words);
        break;
    case AG_FINDING_STEPS:
        snprintf(words, WORDS_BYTES,
                 "reallocates %s times, %s more each time: %s allocated for at most %s",
                 ag_quantity_short(&first, finding->blocks),
                 ag_quantity_bytes(&second, finding->step_bytes),
                 ag_quantity_bytes(&third, finding->bytes),
                 ag_quantity_bytes(&largest, finding->largest_bytes));
        break;
    case AG_FINDING_OUTSIZED:
        outsized_words(finding, share, words);
        break;
    case AG_FINDING_TEMPORARY:
        temporary_words(finding, share, words);
        break;
    case AG_FINDING_FOREIGN_FREES:
        foreign_words(finding, share, words);
        break;
    case AG_FINDING_PEAK:
        snprintf(words, WORDS_BYTES, "has %s in use at the peak (%s of all bytes)",
                 ag_quantity_bytes(&first, finding->bytes), share);
        break;
    case AG_FINDING_GROWTH:
        leak_words(finding, words);
        break;
    }
}

/* ---- the command that shows more ---- */

/* Writes the options of the command. Users paste it into a shell, so characters of the function's
 * name that a shell or a regular expression could interpret become ".", which matches any
 * character. A long name is cut after NAME_MOST bytes. */
static void write_options(const struct ag_finding *finding, const struct ag_frame *frame,
                          char options[WORDS_BYTES]) {
    enum { NAME_MOST = 60 };
    size_t used = (size_t)snprintf(options, WORDS_BYTES, "--view=%s", kinds[finding->kind].view);
    if (!kinds[finding->kind].has_focus || frame == NULL || frame->function == NULL ||
        frame->function[0] == '\0') {
        return;
    }
    used += (size_t)snprintf(options + used, WORDS_BYTES - used, " --focus='^");
    const size_t length = strlen(frame->function);
    for (size_t i = 0; i < length && i < NAME_MOST; i++) {
        const char letter = frame->function[i];
        const bool is_plain = isalnum((unsigned char)letter) || letter == '_' || letter == ':';
        options[used++] = is_plain ? letter : '.';
    }
    snprintf(options + used, WORDS_BYTES - used, "%s'", length <= NAME_MOST ? "$" : "");
}

/* ---- text ---- */

void ag_finding_describe(struct ag_profile *profile, const struct ag_finding *finding,
                         struct ag_finding_words *ret_words) {
    ret_words->kind = kinds[finding->kind].name;
    ret_words->frame =
        finding->frame != UINT32_MAX
            ? ag_profile_frame(finding->mappings != NULL ? finding->mappings : profile,
                               finding->frame)
            : NULL;
    write_words(finding, ret_words->words);
    add_merged_words(finding, ret_words->words);
    add_process_words(profile, finding, ret_words->words);
    write_options(finding, ret_words->frame, ret_words->options);
}

static int find(struct ag_view *view, struct ag_findings *findings) {
    return ag_profile_findings(
        view->profile, view->options->has_all_findings ? AG_FINDINGS_ALL : AG_FINDINGS_USUAL,
        findings);
}

static void write_finding(struct ag_page *page, const struct ag_finding *finding,
                          const struct ag_finding_words *described) {
    struct ag_frame_text name;
    struct ag_fitted where = {.text = ""}, function = {.text = ""};
    char line[sizeof where.text + sizeof function.text + WORDS_BYTES + 32];
    const bool is_of_threads = finding->kind == AG_FINDING_FOREIGN_FREES;
    if (described->frame != NULL) {
        (void)ag_page_fit(&where, ag_frame_where(&name, described->frame), WHERE_COLUMNS);
        (void)ag_page_fit(&function, ag_frame_function(&name, described->frame), NAME_COLUMNS);
    }
    snprintf(line, sizeof line, "%s%s%s%s%s", where.text, where.text[0] != '\0' ? " " : "",
             function.text,
             described->frame == NULL ? ""
             : is_of_threads          ? " and others: "
                                      : " ",
             described->words);
    ag_page_end_line(page);
    ag_page_text(page, AG_STYLE_BRIGHT, "  look at   ");
    ag_page_wrap(page, AG_STYLE_PLAIN, INDENT, line);
    ag_page_end_line(page);
}

int ag_findings_text(struct ag_view *view) {
    struct ag_findings findings = {.count = 0};
    struct ag_page *page = view->page;
    const int r = find(view, &findings);
    for (size_t i = 0; i < findings.count && r == 0; i++) {
        struct ag_finding_words described;
        char file[1024];
        ag_finding_describe(view->profile, &findings.rows[i], &described);
        write_finding(page, &findings.rows[i], &described);
        ag_page_print(page, AG_STYLE_DIM, "            -> allogram report %s %s\n",
                      ag_shell_word(trace_of(view->profile, &findings.rows[i]), file, sizeof file),
                      described.options);
    }
    if (r == 0 && findings.is_partial && ag_profile_identity(view->profile)->n_processes <= 1) {
        ag_page_end_line(page);
        ag_page_prose(
            page, AG_STYLE_DIM,
            "  the trace is large: only its sums were examined; --findings examines every "
            "event");
    }
    return r;
}

/* ---- JSON ---- */

void ag_finding_numbers_json(struct ag_json *json, const struct ag_finding *finding) {
    const double share =
        finding->whole > 0 ? 100.0 * (double)finding->part / (double)finding->whole : 0;
    ag_json_percent(json, "share_percent", share);
    if (finding->kind == AG_FINDING_MAPPED) {
        ag_json_integer(json, "mapped_peak_bytes", finding->whole);
        ag_json_integer(json, "blocks_peak_bytes", finding->blocks_peak_bytes);
        ag_json_integer(json, "rss_peak_bytes", finding->rss_peak_bytes);
    } else {
        ag_json_integer(json, "blocks", finding->blocks);
    }
    if (finding->kind != AG_FINDING_TEMPORARY && finding->kind != AG_FINDING_UNSEEN &&
        finding->kind != AG_FINDING_UNSEEN_FREES) {
        ag_json_integer(json, "bytes", finding->bytes);
    }
    if (finding->kind == AG_FINDING_LEAK || finding->kind == AG_FINDING_GROWTH) {
        ag_json_integer_if(json, "half_way_bytes", finding->half_way_bytes,
                           finding->knows_half_way);
    }
    if (finding->kind == AG_FINDING_LEAK || finding->kind == AG_FINDING_TEMPORARY) {
        ag_json_integer(json, "merged_lines", finding->merged_lines);
        ag_json_integer(json, "merged_blocks", finding->merged_blocks);
    }
    if (finding->kind == AG_FINDING_LEAK) {
        ag_json_integer(json, "merged_bytes", finding->merged_bytes);
    }
    if (finding->kind == AG_FINDING_RESIDENT) {
        ag_json_integer(json, "resident_bytes", finding->resident_bytes);
        ag_json_integer(json, "live_bytes", finding->live_bytes);
        ag_json_integer(json, "pinned_free_bytes", finding->pinned_bytes);
        ag_json_integer(json, "line_pinned_bytes", finding->line_pinned_bytes);
        ag_json_integer(json, "returnable_bytes", finding->free_page_bytes);
        ag_json_integer(json, "trim_bytes", finding->trim_bytes);
    }
    if (finding->kind == AG_FINDING_STEPS) {
        ag_json_integer(json, "step_bytes", finding->step_bytes);
    }
    if (finding->kind == AG_FINDING_STEPS || finding->kind == AG_FINDING_OUTSIZED) {
        ag_json_integer(json, "largest_bytes", finding->largest_bytes);
    }
    if (finding->kind == AG_FINDING_OUTSIZED) {
        ag_json_integer(json, "other_blocks", finding->other_blocks);
        ag_json_integer(json, "other_bytes", finding->other_bytes);
    }
    if (finding->allocated_by != NULL && finding->freed_by != NULL) {
        ag_json_integer(json, "allocated_by", finding->allocated_by->thread_id);
        ag_json_integer(json, "freed_by", finding->freed_by->thread_id);
    }
}

void ag_finding_json(struct ag_json *json, struct ag_profile *profile,
                     const struct ag_finding *finding) {
    struct ag_finding_words described;
    ag_finding_describe(profile, finding, &described);
    ag_json_string(json, "kind", described.kind);
    if (described.frame != NULL) {
        ag_json_frame(json, described.frame);
    }
    ag_finding_numbers_json(json, finding);
    if (finding->n_processes > 0) {
        ag_process_key_json(json, profile, finding->process);
        ag_json_integer(json, "processes", finding->n_processes);
        ag_json_percent(json, "process_percent",
                        100.0 * (double)finding->process_part / (double)finding->part);
    }
    ag_json_string(json, "text", described.words);
    ag_json_string(json, "options", described.options);
}

int ag_findings_json(struct ag_view *view) {
    struct ag_findings findings;
    struct ag_json *json = view->json;
    const int r = find(view, &findings);
    if (r < 0) {
        return r;
    }
    ag_json_open(json, "findings", '[');
    for (size_t i = 0; i < findings.count; i++) {
        ag_json_open(json, NULL, '{');
        ag_finding_json(json, view->profile, &findings.rows[i]);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_bool(json, "findings_complete", !findings.is_partial);
    return 0;
}
