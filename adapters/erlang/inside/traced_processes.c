/* traced_processes.c: keeps the state of each traced Erlang process for the tracer (tracer.c), in a
 * hash table by process identifier, which is one word.
 *
 * Only the thread that runs a process uses its entry, and each thread remembers the entry that it
 * used last. So the locks of the table, one for each of its rows, are taken only when another
 * process is scheduled. Entries are reused; their memory is freed when the module is unloaded. A
 * remembered entry may have been reused for another process. The identifier in the entry is
 * compared for this reason. */
#include "traced_processes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/own_memory.h"
#include "function_handles.h"

enum {
    ROWS = 4096,
    ENTRIES_AT_ONCE = 512,
    MORE_LEVELS = 512, /* 8 bytes each, together a page, which is mapped once and stays with the
                        * entry */
};

struct row {
    pthread_mutex_t lock;
    struct ag_traced_process *first;
};
static struct row rows[ROWS];
static struct {
    pthread_mutex_t lock;
    struct ag_traced_process *free;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local struct ag_traced_process *last_used;

static struct row *row_of(ERL_NIF_TERM pid) {
    return &rows[(pid * UINT64_C(0x9E3779B97F4A7C15)) >> 52];
}

static struct ag_traced_process *find_locked(const struct row *row, ERL_NIF_TERM pid) {
    struct ag_traced_process *process = row->first;
    while (process != NULL && process->pid != pid) {
        process = process->next;
    }
    return process;
}

struct ag_traced_process *ag_traced_process_find(ERL_NIF_TERM pid) {
    if (AG_LIKELY(last_used != NULL && last_used->pid == pid)) {
        return last_used;
    }
    struct row *row = row_of(pid);
    (void)pthread_mutex_lock(&row->lock); /* cannot fail: a mutex of this file, here and below */
    struct ag_traced_process *found = find_locked(row, pid);
    (void)pthread_mutex_unlock(&row->lock);
    last_used = found != NULL ? found : last_used;
    return found;
}

/* ---- entries ---- */

static struct ag_traced_process *new_entry(void) {
    (void)pthread_mutex_lock(&pool.lock);
    if (pool.free == NULL) {
        struct ag_traced_process *more = ag_own_memory_take(ENTRIES_AT_ONCE * sizeof(*more));
        for (uint32_t i = 0; more != NULL && i < ENTRIES_AT_ONCE; i++) {
            more[i].next = pool.free;
            pool.free = &more[i];
        }
    }
    struct ag_traced_process *entry = pool.free;
    pool.free = entry != NULL ? entry->next : NULL;
    (void)pthread_mutex_unlock(&pool.lock);
    return entry;
}

static allogram_counters *new_counters(ERL_NIF_TERM pid, const char *name,
                                       const char *initial_call) {
    char own_name[AG_PROCESS_NAME_BYTES];
    if (name == NULL) {
        (void)enif_snprintf(own_name, sizeof own_name, "%T", pid);
    }
    const struct allogram_counters_options options = {
        .size = sizeof options,
        .runtime = AG_BEAM_RUNTIME,
        .process = name != NULL ? name : own_name,
        .initial_call = initial_call,
        .word_bytes = sizeof(ERL_NIF_TERM),
        .clock = ALLOGRAM_NO_CLOCK,
        .recursion = ALLOGRAM_FOLD_RECURSION,
    };
    return allogram_counters_new(&options);
}

void ag_traced_process_begin(struct ag_traced_process *process, const char *initial_call) {
    if (!process->is_unnamed) {
        return;
    }
    process->is_unnamed = false;
    process->counters = new_counters(process->pid, NULL, initial_call);
    allogram_count_apart(process->counters, ALLOGRAM_ARGUMENTS, 1, process->early_argument_words);
    if (process->early_tuples > 0) {
        allogram_count_apart(process->counters, ALLOGRAM_PROFILER, process->early_tuples,
                             process->early_tuples * (uint64_t)AG_EVENT_TUPLE_WORDS);
    }
    if (process->early_function != 0) {
        allogram_step(process->counters, 0, process->early_function, process->early_words, 0);
    }
}

static void free_entry(struct ag_traced_process *entry) {
    ag_traced_process_begin(entry, AG_FUN_CALL);
    allogram_counters_free(entry->counters);
    *entry = (struct ag_traced_process){.levels = entry->levels, .level_room = entry->level_room};
    (void)pthread_mutex_lock(&pool.lock);
    entry->next = pool.free;
    pool.free = entry;
    (void)pthread_mutex_unlock(&pool.lock);
}

/* Adds the entry, which is complete, unless another thread has added one for the process
 * meanwhile: a process can be registered by another one, whose thread then adds its entry. Returns
 * the entry of the process. */
static struct ag_traced_process *add_entry(struct ag_traced_process *process) {
    struct row *row = row_of(process->pid);
    (void)pthread_mutex_lock(&row->lock);
    struct ag_traced_process *other = find_locked(row, process->pid);
    if (other == NULL) {
        process->next = row->first;
        row->first = process;
    }
    (void)pthread_mutex_unlock(&row->lock);
    if (other != NULL) {
        free_entry(process);
    }
    last_used = other != NULL ? other : process;
    return last_used;
}

struct ag_traced_process *ag_traced_process_get(ERL_NIF_TERM pid, const char *name,
                                                const char *initial_call) {
    struct ag_traced_process *process = ag_traced_process_find(pid);
    if (AG_LIKELY(process != NULL)) {
        return process;
    }
    process = new_entry();
    if (process == NULL) {
        return NULL;
    }
    process->pid = pid;
    process->counters = new_counters(pid, name, initial_call);
    return add_entry(process);
}

struct ag_traced_process *ag_traced_process_get_unnamed(ERL_NIF_TERM pid, uint64_t words) {
    struct ag_traced_process *process = ag_traced_process_find(pid);
    if (process != NULL) { /* there was an event before the birth was reported */
        allogram_count_apart(process->counters, ALLOGRAM_ARGUMENTS, 1, words);
        return process;
    }
    process = new_entry();
    if (process == NULL) {
        return NULL;
    }
    process->pid = pid;
    process->is_unnamed = true;
    process->early_argument_words = words;
    return add_entry(process);
}

static struct ag_traced_process *take_out(struct row *row, ERL_NIF_TERM pid) {
    (void)pthread_mutex_lock(&row->lock);
    struct ag_traced_process **link = &row->first;
    while (*link != NULL && (*link)->pid != pid) {
        link = &(*link)->next;
    }
    struct ag_traced_process *process = *link;
    if (process != NULL) {
        *link = process->next;
    }
    (void)pthread_mutex_unlock(&row->lock);
    return process;
}

void ag_traced_process_end(ERL_NIF_TERM pid) {
    struct ag_traced_process *process = take_out(row_of(pid), pid);
    if (process != NULL) {
        free_entry(process);
    }
}

void ag_traced_processes_end_all(void) {
    for (uint32_t i = 0; i < ROWS; i++) {
        while (rows[i].first != NULL) {
            ag_traced_process_end(rows[i].first->pid);
        }
    }
}

void ag_traced_processes_lose_track(void) {
    for (uint32_t i = 0; i < ROWS; i++) {
        for (struct ag_traced_process *process = rows[i].first; process != NULL;
             process = process->next) {
            allogram_step(process->counters, 0, 0, 0, 0);
            process->n_levels = 0;
            process->n_outer = 0;
            process->knows_outer = process->is_whole = false;
            process->returnable_words = 0;
            process->growth.has_begun = false;
            process->structure = NULL;
            process->is_running = false;
        }
    }
}

void ag_traced_processes_end_dead(ErlNifEnv *env) {
    for (uint32_t i = 0; i < ROWS; i++) {
        struct ag_traced_process *next;
        for (struct ag_traced_process *process = rows[i].first; process != NULL; process = next) {
            ErlNifPid pid = {.pid = process->pid};
            next = process->next;
            if (!enif_is_process_alive(env, &pid)) {
                ag_traced_process_end(pid.pid);
            }
        }
    }
}

bool ag_traced_process_has_level(struct ag_traced_process *process) {
    if (AG_LIKELY(process->n_levels < process->level_room)) {
        return true;
    }
    if (process->level_room == 0) {
        process->levels = process->first_levels;
        process->level_room = AG_PROCESS_FIRST_LEVELS;
        return true;
    }
    const uint32_t wanted =
        process->level_room < MORE_LEVELS ? MORE_LEVELS : process->level_room * 2;
    struct ag_level *more = wanted != 0 ? ag_own_memory_take(wanted * sizeof(*more)) : NULL;
    if (more == NULL) {
        return false;
    }
    memcpy(more, process->levels, process->n_levels * sizeof(*more));
    if (process->levels != process->first_levels) {
        ag_own_memory_give(process->levels);
    }
    process->levels = more;
    process->level_room = wanted;
    return true;
}
