/* kill_text.c: describes, as text and as JSON, that the kernel killed the process for lack of
 * memory: the reason, and the last known sizes of the process and its cgroup (control group). */
#include "report/quantity.h"
#include "report/view.h"

enum { CGROUP_COLUMNS = 80 }; /* a longer name is shortened */

const char *ag_kill_reason_words(const struct ag_profile_kill *kill,
                                 char words[AG_KILL_WORDS_BYTES]) {
    struct ag_quantity limit;
    const char *killed = kill->certainty == AG_KILL_CERTAIN ? "killed by the kernel"
                                                            : "probably killed by the kernel";
    struct ag_fitted fitted;
    switch (kill->reason) {
    case AG_KILL_REASON_UNKNOWN:
        (void)snprintf(words, AG_KILL_WORDS_BYTES, "%s for lack of memory", killed);
        break;
    case AG_KILL_REASON_MACHINE:
        (void)snprintf(words, AG_KILL_WORDS_BYTES, "%s: the machine had no free memory", killed);
        break;
    case AG_KILL_REASON_CGROUP:
        (void)ag_page_fit(&fitted, kill->cgroup != NULL ? kill->cgroup : "", CGROUP_COLUMNS);
        (void)snprintf(words, AG_KILL_WORDS_BYTES, "%s: limit %s%s%.320s", killed,
                       kill->limit_bytes > 0 ? ag_quantity_bytes(&limit, kill->limit_bytes)
                                             : "not known",
                       kill->cgroup != NULL ? " of cgroup " : "", fitted.text);
        break;
    }
    return words;
}

/* "12.1 MiB (anonymous 10.0 MiB, files 2.00 MiB, shared 100 KiB)" */
static int write_sizes(char *to, size_t capacity, uint64_t anonymous_bytes, uint64_t file_bytes,
                       uint64_t shmem_bytes) {
    struct ag_quantity all, anonymous, file, shmem;
    return snprintf(to, capacity, "%s (anonymous %s, files %s, shared %s)",
                    ag_quantity_bytes(&all, anonymous_bytes + file_bytes + shmem_bytes),
                    ag_quantity_bytes(&anonymous, anonymous_bytes),
                    ag_quantity_bytes(&file, file_bytes), ag_quantity_bytes(&shmem, shmem_bytes));
}

const char *ag_kill_memory_words(const struct ag_profile_kill *kill, uint64_t recording_ns,
                                 char words[AG_KILL_WORDS_BYTES]) {
    const struct ag_memory_sample *last = &kill->last;
    struct ag_quantity time, size, limit;
    char *at = words, *end = words + AG_KILL_WORDS_BYTES;
    words[0] = '\0';
    if (last->known & AG_SAMPLE_PROCESS) {
        at += snprintf(at, (size_t)(end - at), "%s before the end: resident ",
                       ag_quantity_time(
                           &time, recording_ns > last->time_ns ? recording_ns - last->time_ns : 0));
        at += write_sizes(at, (size_t)(end - at), last->anonymous_bytes, last->file_bytes,
                          last->shmem_bytes);
    }
    if (kill->growth_ns > 0) {
        const bool grew = kill->growth_bytes >= 0;
        at += snprintf(at, (size_t)(end - at), ", %s by %s in %s", grew ? "grew" : "shrank",
                       ag_quantity_bytes(&size, grew ? (uint64_t)kill->growth_bytes
                                                     : 0 - (uint64_t)kill->growth_bytes),
                       ag_quantity_time(&time, kill->growth_ns));
    }
    if (last->known & AG_SAMPLE_CGROUP) {
        at += snprintf(at, (size_t)(end - at), "; cgroup %s",
                       ag_quantity_bytes(&size, last->cgroup_bytes));
    }
    if (last->known & AG_SAMPLE_LIMIT) {
        at += snprintf(at, (size_t)(end - at), " of %s",
                       ag_quantity_bytes(&limit, last->cgroup_limit_bytes));
    }
    if (last->known & AG_SAMPLE_PARTS) {
        at += snprintf(at, (size_t)(end - at), ", page cache %s",
                       ag_quantity_bytes(&size, last->cgroup_cache_bytes));
    }
    if (kill->has_sizes) {
        at += snprintf(at, (size_t)(end - at),
                       "%sat the kill, according to the kernel's log: resident ",
                       at > words ? "; " : "");
        (void)write_sizes(at, (size_t)(end - at), kill->anonymous_bytes, kill->file_bytes,
                          kill->shmem_bytes);
    }
    return words;
}

void ag_kill_text(struct ag_view *view) {
    const struct ag_profile_kill *kill = &ag_profile_identity(view->profile)->kernel_kill;
    char words[AG_KILL_WORDS_BYTES];
    if (kill->certainty == 0) {
        return;
    }
    ag_page_prose(view->page, AG_STYLE_WARNING, "%s", ag_kill_reason_words(kill, words));
    (void)ag_kill_memory_words(kill, ag_profile_recording_ns(view->profile), words);
    if (words[0] != '\0') {
        ag_page_prose(view->page, AG_STYLE_PLAIN, "%s", words);
    }
    ag_page_end_line(view->page);
}

/* ---- JSON ---- */

static const char *reason_name(enum ag_kill_reason reason) {
    switch (reason) {
    case AG_KILL_REASON_CGROUP:
        return "cgroup_limit";
    case AG_KILL_REASON_MACHINE:
        return "machine";
    case AG_KILL_REASON_UNKNOWN:
        return "unknown";
    }
    return "unknown";
}

static void write_sizes_json(struct ag_json *json, uint64_t anonymous_bytes, uint64_t file_bytes,
                             uint64_t shmem_bytes) {
    ag_json_integer(json, "anonymous_bytes", anonymous_bytes);
    ag_json_integer(json, "file_bytes", file_bytes);
    ag_json_integer(json, "shared_memory_bytes", shmem_bytes);
}

static void write_last_json(struct ag_json *json, const struct ag_memory_sample *last) {
    if (!(last->known & AG_SAMPLE_PROCESS)) {
        ag_json_null(json, "last_memory");
        return;
    }
    const bool has_parts = (last->known & AG_SAMPLE_PARTS) != 0;
    ag_json_open(json, "last_memory", '{');
    ag_json_integer(json, "time_ns", last->time_ns);
    write_sizes_json(json, last->anonymous_bytes, last->file_bytes, last->shmem_bytes);
    ag_json_integer(json, "swap_bytes", last->swap_bytes);
    ag_json_integer_if(json, "cgroup_bytes", last->cgroup_bytes,
                       (last->known & AG_SAMPLE_CGROUP) != 0);
    ag_json_integer_if(json, "cgroup_limit_bytes", last->cgroup_limit_bytes,
                       (last->known & AG_SAMPLE_LIMIT) != 0);
    ag_json_integer_if(json, "cgroup_anonymous_bytes", last->cgroup_anonymous_bytes, has_parts);
    ag_json_integer_if(json, "cgroup_page_cache_bytes", last->cgroup_cache_bytes, has_parts);
    ag_json_integer_if(json, "cgroup_shared_memory_bytes", last->cgroup_shmem_bytes, has_parts);
    ag_json_close(json, '}');
}

void ag_kill_json(struct ag_json *json, const char *key, const struct ag_profile_kill *kill) {
    if (kill->certainty == 0) {
        return;
    }
    ag_json_open(json, key, '{');
    ag_json_bool(json, "certain", kill->certainty == AG_KILL_CERTAIN);
    ag_json_string(json, "reason", reason_name(kill->reason));
    ag_json_nonzero(json, "limit_bytes", kill->limit_bytes);
    ag_json_string(json, "cgroup", kill->cgroup);
    if (kill->has_sizes) {
        ag_json_open(json, "kernel_log", '{');
        write_sizes_json(json, kill->anonymous_bytes, kill->file_bytes, kill->shmem_bytes);
        ag_json_close(json, '}');
    } else {
        ag_json_null(json, "kernel_log");
    }
    write_last_json(json, &kill->last);
    if (kill->growth_ns > 0) {
        ag_json_open(json, "growth", '{');
        ag_json_signed(json, "bytes", kill->growth_bytes);
        ag_json_integer(json, "time_ns", kill->growth_ns);
        ag_json_close(json, '}');
    } else {
        ag_json_null(json, "growth");
    }
    ag_json_close(json, '}');
}
