/* executed_environment.c: removes the agent (allogram's library) from LD_PRELOAD if the program
 * that is executed cannot load the agent.
 *
 * A program such as bwrap, chroot or a container runtime changes its root or its mounts and then
 * executes another program. If the agent's file does not exist there, the loader of that program
 * prints "ERROR: ld.so: object ... cannot be preloaded" to the standard error of the program. This
 * file looks for the agent's file first, and reads the environment only if that file does not
 * exist. So usually only the kernel reads the environment: execve with an invalid pointer fails
 * with EFAULT, as it does without the agent. */
#include "executed_environment.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/raw_syscall.h"
#include "hook/loaded_objects.h"

static const char variable[] = "LD_PRELOAD=";

/* The path of the agent's file, a string of the loader. It stays valid, because the agent is not
 * unloaded. */
static const char *agent_path;

static int note_agent(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    (void)context;
    if (!ag_object_contains(info, (uintptr_t)note_agent)) {
        return 0;
    }
    agent_path = info->dlpi_name;
    return 1;
}

void ag_agent_file_find(void) {
    (void)ag_objects_visit(note_agent, NULL);
}

/* The length of the path at the beginning of TEXT. ld.so(8): spaces and colons separate the paths
 * in LD_PRELOAD. */
static size_t path_length(const char *text) {
    size_t length = 0;
    while (text[length] != '\0' && text[length] != ':' && text[length] != ' ') {
        length++;
    }
    return length;
}

/* Appends the paths of LD_PRELOAD other than the agent's to the text at RESULT, if RESULT is not
 * NULL. Returns whether the agent's path was found. */
static bool leave_agent_out(const char *preload, char *result) {
    const size_t agent_length = strlen(agent_path);
    bool has_agent = false;
    for (const char *path = preload + sizeof variable - 1; *path;) {
        const size_t length = path_length(path);
        const bool is_agent = length == agent_length && memcmp(path, agent_path, length) == 0;
        const size_t with_separator = length + (path[length] != '\0');
        has_agent |= is_agent;
        if (result && !is_agent) {
            memcpy(result, path, with_separator);
            result += with_separator;
            *result = '\0';
        }
        path += with_separator;
    }
    return has_agent;
}

struct ag_environment_change ag_environment_look(char *const environment[]) {
    struct ag_environment_change change = {0};
    const char *preload = NULL;
    if (!agent_path || !environment || ag_syscall2(SYS_access, (long)agent_path, R_OK) == 0) {
        return change;
    }
    for (; environment[change.n_entries]; change.n_entries++) {
        const char *entry = environment[change.n_entries];
        if (strncmp(entry, variable, sizeof variable - 1) == 0) {
            preload = entry; /* the loader uses the last LD_PRELOAD */
            change.preload_index = change.n_entries;
        }
    }
    if (preload && leave_agent_out(preload, /* result= */ NULL)) {
        change.bytes = (change.n_entries + 1) * sizeof *environment + strlen(preload) + 1;
    }
    return change;
}

char **ag_environment_without_agent(char *const environment[],
                                    const struct ag_environment_change *change, void *space) {
    char **copy = space, *text = (char *)(copy + change->n_entries + 1);
    memcpy(copy, environment, (change->n_entries + 1) * sizeof *copy);
    memcpy(text, variable, sizeof variable);
    (void)leave_agent_out(environment[change->preload_index], text + sizeof variable - 1);
    copy[change->preload_index] = text;
    return copy;
}
