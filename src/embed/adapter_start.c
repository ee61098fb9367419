/* adapter_start.c: starts the adapters, for the agent (the shared library that is loaded into
 * programs). Calls each adapter of the table of runtimes (base/runtimes.h) that the user selected,
 * and records which runtimes are in the process. */
#include "adapter.h"

#include <string.h>

#include "base/runtimes.h"

/* two announcements are not for runtimes: one is for the agent, one for the program's heaps */
enum { RUNTIMES_MOST = AG_MAX_ANNOUNCEMENTS - 2 };

static struct {
    const struct ag_adapter *adapter;
    struct ag_runtime_definition runtime;
    struct ag_announcement announcement; /* records the runtime, also in each forked child */
} found[RUNTIMES_MOST];
static size_t n_found;
/* the arguments is_leaving and n_left of ag_adapters_attach_late; NULL: the adapters started with
 * the program */
static _Atomic uint32_t *leaving_word, *left_word;

/* Whether `name` is one of the items of `list`. */
static bool is_listed(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool is_wanted(const char *wanted, const struct ag_runtime *row) {
    return row->inside &&
           (!wanted || !wanted[0] || strcmp(wanted, "auto") == 0 || is_listed(wanted, row->name));
}

static void adapter_record_answer(const struct ag_adapter *adapter, enum ag_adapter_answer answer,
                                  const struct ag_runtime_definition *runtime) {
    found[n_found].adapter = adapter;
    found[n_found].runtime = *runtime;
    found[n_found].runtime.is_hooked = answer == AG_ADAPTER_ACTS;
    found[n_found].announcement.runtime = &found[n_found].runtime;
    ag_recorder_announce(&found[n_found].announcement);
    n_found++;
}

void ag_adapters_attach(const char *wanted) {
    for (const struct ag_runtime *row = ag_runtimes; row->name && n_found < RUNTIMES_MOST; row++) {
        struct ag_runtime_definition runtime = {.name = row->name, .version = "", .note = ""};
        const enum ag_adapter_answer answer =
            is_wanted(wanted, row) ? row->inside->attach(&runtime) : AG_ADAPTER_ABSENT;
        if (answer != AG_ADAPTER_ABSENT) {
            adapter_record_answer(row->inside, answer, &runtime);
        }
    }
}

/* ---- in a running program ---- */

static void add_up(struct ag_late_sum *sum, const struct ag_late_start *start) {
    for (size_t i = 0; i < AG_LATE_RANGES_MOST && start->quiet[i].high != 0; i++) {
        sum->quiet[sum->n_quiet++] = start->quiet[i];
    }
    sum->n_acting++;
    sum->n_leaving += start->has_to_leave;
}

void ag_adapters_attach_late(const char *wanted, _Atomic uint32_t *is_leaving,
                             _Atomic uint32_t *n_left, struct ag_late_sum *ret_sum) {
    *ret_sum = (struct ag_late_sum){.n_quiet = 0};
    leaving_word = is_leaving;
    left_word = n_left;
    for (const struct ag_runtime *row = ag_runtimes; row->name && n_found < RUNTIMES_MOST; row++) {
        struct ag_runtime_definition runtime = {.name = row->name, .version = "", .note = ""};
        struct ag_late_start start = {.has_to_leave = false};
        const enum ag_adapter_answer answer = is_wanted(wanted, row)
                                                  ? row->inside->late->attach(&runtime, &start)
                                                  : AG_ADAPTER_ABSENT;
        if (answer == AG_ADAPTER_ACTS) {
            add_up(ret_sum, &start);
        }
        if (answer != AG_ADAPTER_ABSENT) {
            adapter_record_answer(row->inside, answer, &runtime);
        }
    }
}

bool ag_adapters_are_leaving(void) {
    return leaving_word && atomic_load_explicit(leaving_word, memory_order_relaxed) != 0;
}

void ag_adapter_has_left(void) {
    /* release: when the attaching process reads the new number, the adapter's work is complete */
    atomic_fetch_add_explicit(left_word, 1, memory_order_release);
}

int ag_adapters_stand(bool is_on) {
    int result = 0;
    for (size_t i = 0; i < n_found; i++) {
        const int r = found[i].runtime.is_hooked ? found[i].adapter->late->stand(is_on) : 0;
        result = result < 0 ? result : r;
    }
    return result;
}

bool ag_adapters_are_there(void) {
    return n_found > 0;
}

void ag_adapters_end(void) {
    for (size_t i = 0; i < n_found; i++) {
        struct ag_runtime_definition *runtime = &found[i].runtime;
        if (runtime->is_hooked && found[i].adapter->end) {
            found[i].adapter->end(runtime);
            ag_record_runtime(runtime);
        }
    }
}
