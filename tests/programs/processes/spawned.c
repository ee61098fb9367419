/* spawned.c: children made by vfork and exec, posix_spawn, system and popen. With a number as its
 * argument the program is such a child and allocates that many blocks of 3 bytes. The counts of the
 * shells of system and popen are not known here; only the judge (counting_preload.c) counts them.
 * Before its exec, a vfork child shares its parent's memory, so the block that it allocates counts
 * for the parent.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's
 * runtime allocates; the judge (counting_preload.c) counts them.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @process          parent
 * @allocated_blocks 5 + 1 + runtime
 * @ghost_frees      0
 * @process          vfork child
 * @allocated_blocks 21
 * @allocated_bytes  63
 * @process          posix_spawn child
 * @allocated_blocks 22
 * @allocated_bytes  66
 * @process          shell of system
 * @process          child of that
 * @allocated_blocks 23
 * @allocated_bytes  69
 * @process          shell of popen
 * @process          child of that
 * @allocated_blocks 24
 * @allocated_bytes  72
 */
#include <limits.h>
#include <spawn.h>
#include <sys/wait.h>

#include "../say.h"

extern char **environ;

static int be_child(int n) {
    for (int i = 0; i < n; i++) {
        void *block = malloc(3);
        OPAQUE(block);
    }
    say("child with %d\n", n);
    return n;
}

static void report(const char *how, pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    say("%s: %d\n", how, status);
}

int main(int n_arguments, char **arguments) {
    if (n_arguments > 1) {
        return be_child(atoi(arguments[1]));
    }
    for (int i = 0; i < 5; i++) {
        void *block = malloc(10);
        OPAQUE(block);
    }
    char exe[PATH_MAX], command[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length < 0 ? 0 : length] = 0;

    pid_t child = vfork();
    if (child == 0) {
        void *block = malloc(20);
        OPAQUE(block);
        execl(exe, exe, "21", (char *)NULL);
        _exit(1);
    }
    report("vfork", child);

    char *spawn_arguments[] = {exe, "22", NULL};
    int r = posix_spawn(&child, exe, NULL, NULL, spawn_arguments, environ);
    report("posix_spawn", r == 0 ? child : -1);

    snprintf(command, sizeof command, "'%s' 23; exit 5", exe);
    say("system: %d\n", system(command));
    snprintf(command, sizeof command, "'%s' 24; exit 6", exe);
    FILE *pipe = popen(command, "r");
    char line[64] = "";
    if (fgets(line, sizeof line, pipe) == NULL) {
        return 1;
    }
    say("popen: %s", line);
    say("pclose: %d\n", pclose(pipe));
    return 0;
}
