/* agent_place.c: finds the agent, the shared object that records inside a program, for the commands
 * that start a program or attach to a program. $ALLOGRAM_AGENT is used if it is set; otherwise
 * folders relative to the executable of allogram are searched. */
#include "cli/agent_place.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"

/* LD_PRELOAD separates its entries by colons and spaces, so the path must not contain them. */
static int agent_place_take(const char *path, char ret_path[AG_AGENT_PLACE_BYTES],
                            char ret_message[512]) {
    if (strpbrk(path, ": \t\n") != NULL) {
        snprintf(
            ret_message, 512,
            "the agent's path %.300s contains a space or a colon, which LD_PRELOAD cannot contain; "
            "move it or set ALLOGRAM_AGENT",
            path);
        return -EINVAL;
    }
    snprintf(ret_path, AG_AGENT_PLACE_BYTES, "%s", path);
    return 0;
}

/* Looks for the file NAME in the FOLDERS, which are relative to the folder of this program. */
static bool find_beside_program(const char *const *folders, size_t n_folders, const char *name,
                                char ret_own[PATH_MAX], char ret_path[PATH_MAX]) {
    char candidate[2 * PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", ret_own, PATH_MAX - 1);
    ret_own[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(ret_own, '/');
    for (size_t i = 0; slash != NULL && i < n_folders; i++) {
        snprintf(candidate, sizeof candidate, "%.*s/%s/%s", (int)(slash - ret_own), ret_own,
                 folders[i], name);
        if (realpath(candidate, ret_path) != NULL && access(ret_path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

#define INSTALLED_FOLDERS \
    ".", "../lib/allogram", "../lib/x86_64-linux-gnu/allogram", "../lib64/allogram"

int ag_agent_place_find(char ret_path[AG_AGENT_PLACE_BYTES], char ret_message[512]) {
    static const char *const folders[] = {
        INSTALLED_FOLDERS,
        /* this path and the next path exist in a build tree */
        "../../adapters/libc",
        "../adapters/libc",
    };
    char own[PATH_MAX], resolved[PATH_MAX];
    const char *given = getenv("ALLOGRAM_AGENT");
    if (given != NULL && given[0] != '\0') {
        if (realpath(given, resolved) == NULL) {
            snprintf(ret_message, 512, "ALLOGRAM_AGENT=%.300s: %s", given, strerror(errno));
            return -ENOENT;
        }
        return agent_place_take(resolved, ret_path, ret_message);
    }
    if (find_beside_program(folders, AG_ARRAY_SIZE(folders), "liballogram-agent.so", own,
                            resolved)) {
        return agent_place_take(resolved, ret_path, ret_message);
    }
    snprintf(ret_message, 512,
             "liballogram-agent.so is neither in the folder of %.300s nor in ../lib/allogram; "
             "set ALLOGRAM_AGENT to its path",
             own);
    return -ENOENT;
}

bool ag_agent_place_find_own(const char *name, const char *built,
                             char ret_path[AG_AGENT_PLACE_BYTES]) {
    const char *const folders[] = {INSTALLED_FOLDERS, built};
    char own[PATH_MAX], resolved[PATH_MAX];
    const bool is_found = find_beside_program(folders, AG_ARRAY_SIZE(folders), name, own, resolved);
    (void)snprintf(ret_path, AG_AGENT_PLACE_BYTES, "%s", is_found ? resolved : "");
    return is_found;
}

int ag_agent_place_find_attached(const char *name, char ret_path[AG_AGENT_PLACE_BYTES],
                                 char ret_message[512]) {
    char beside[AG_AGENT_PLACE_BYTES + 64];
    const int r = ag_agent_place_find(ret_path, ret_message);
    if (r < 0) {
        return r;
    }
    const char *slash = strrchr(ret_path, '/'); /* the path is absolute */
    (void)snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - ret_path), ret_path, name);
    if (strlen(beside) >= AG_AGENT_PLACE_BYTES || access(beside, R_OK) != 0) {
        (void)snprintf(ret_message, 512,
                       "%s is not in the folder of %.300s; install all files of allogram", name,
                       ret_path);
        return -ENOENT;
    }
    memcpy(ret_path, beside, strlen(beside) + 1);
    return 0;
}
