/* adapter_start.c: asks the adapters of runtimes, at the start of a program, who of them is at
 * home; for the agent, which does not know them by name. */
#include "adapter.h"

#include <string.h>

enum { RUNTIMES_MOST = AG_MAX_ANNOUNCEMENTS - 2 }; /* the agent's own, and the program's heaps */

static struct {
    const struct ag_adapter *adapter;
    struct ag_runtime_definition runtime;
    struct ag_announcement announcement; /* of the runtime; again in each forked child */
} found[RUNTIMES_MOST];
static size_t n_found;

/* name stands in the list, whole. */
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

static bool is_wanted(const char *wanted, const char *name) {
    return !wanted || !wanted[0] || strcmp(wanted, "auto") == 0 || is_listed(wanted, name);
}

void ag_adapters_attach(const char *wanted) {
    for (size_t i = 0; i < ag_n_adapter_rows && n_found < RUNTIMES_MOST; i++) {
        const struct ag_adapter_row *row = &ag_adapter_rows[i];
        struct ag_runtime_definition runtime = {.name = row->name, .version = "", .note = ""};
        if (!is_wanted(wanted, row->name)) {
            continue;
        }
        const enum ag_adapter_answer answer = row->adapter->attach(&runtime);
        if (answer == AG_ADAPTER_ABSENT) {
            continue;
        }
        runtime.is_hooked = answer == AG_ADAPTER_ACTS;
        found[n_found].adapter = row->adapter;
        found[n_found].runtime = runtime;
        found[n_found].announcement.runtime = &found[n_found].runtime;
        ag_recorder_announce(&found[n_found].announcement);
        n_found++;
    }
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
