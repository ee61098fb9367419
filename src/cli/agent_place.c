/* agent_place.c: finds the agent, the shared object that records inside a program, for the commands
 * that start a program or attach to a program. $ALLOGRAM_AGENT is used if it is set; otherwise
 * places relative to the executable of allogram are searched. */
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

int ag_agent_place_find(char ret_path[AG_AGENT_PLACE_BYTES], char ret_message[512]) {
    static const char *const places[] = {
        "liballogram-agent.so",
        "../lib/allogram/liballogram-agent.so",
        "../lib/x86_64-linux-gnu/allogram/liballogram-agent.so",
        "../lib64/allogram/liballogram-agent.so",
        /* this path and the next path exist in a build tree */
        "../../adapters/libc/liballogram-agent.so",
        "../adapters/libc/liballogram-agent.so",
    };
    char own[PATH_MAX], candidate[2 * PATH_MAX], resolved[PATH_MAX];
    const char *given = getenv("ALLOGRAM_AGENT");
    if (given != NULL && given[0] != '\0') {
        if (realpath(given, resolved) == NULL) {
            snprintf(ret_message, 512, "ALLOGRAM_AGENT=%.300s: %s", given, strerror(errno));
            return -ENOENT;
        }
        return agent_place_take(resolved, ret_path, ret_message);
    }
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(own, '/');
    for (size_t i = 0; slash != NULL && i < AG_ARRAY_SIZE(places); i++) {
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)(slash - own), own, places[i]);
        if (realpath(candidate, resolved) != NULL && access(resolved, R_OK) == 0) {
            return agent_place_take(resolved, ret_path, ret_message);
        }
    }
    snprintf(ret_message, 512,
             "liballogram-agent.so is neither in the folder of %.300s nor in ../lib/allogram; "
             "set ALLOGRAM_AGENT to its path",
             own);
    return -ENOENT;
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
