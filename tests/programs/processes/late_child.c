/* late_child.c: a child that the writer (the process that writes the traces) notices only after
 * another process has taken the place of the child's parent in the recording's table of processes.
 * A starts its program again, as B. B forks C by a raw system call, which allogram does not see,
 * and ends. C does nothing until the table entry of B is free again and D, a fork of A, has taken
 * this entry. Then C allocates 10 x 13 bytes and frees 4 of them. C's stacks must be its own,
 * although the stack tree of B, which C would have used, is gone.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @process          A
 * @allocated_blocks 2
 * @process          B
 * @allocated_blocks 3
 * @allocated_bytes  21
 * @site             early 3 21
 * @process          C
 * @allocated_blocks 10
 * @allocated_bytes  130
 * @freed_blocks     4
 * @ghost_frees      0
 * @site             late 10 130
 * @process          D
 * @allocated_blocks 5
 * @allocated_bytes  55
 * @site             other 5 55
 */
#include <limits.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../say.h"

enum { FORGOTTEN_MS = 800 }; /* longer than the table keeps the entry of an ended process */

/* One function for each process, so that a stack shows which process it is from. */
#define MAKER(name, count, size)                                \
    __attribute__((noinline, noclone)) static void name(void) { \
        void *blocks[count];                                    \
        for (int i = 0; i < (count); i++) {                     \
            blocks[i] = malloc(size);                           \
            OPAQUE(blocks[i]);                                  \
        }                                                       \
        for (int i = 0; i < (count)-6; i++) {                   \
            free(blocks[i]);                                    \
        }                                                       \
    }
MAKER(first, 2, 5)
MAKER(early, 3, 7)
MAKER(late, 10, 13)
MAKER(other, 5, 11)

static void wait_for_byte(int fd) {
    char byte;
    while (read(fd, &byte, 1) < 0) {
    }
}

/* go: C continues when it has read a byte from this pipe. done: the write end of a pipe that B and
 * C keep open, so that A and D notice when C has ended. */
static int be_b(int go, int done) {
    early();
    if (syscall(SYS_fork) == 0) {
        wait_for_byte(go);
        late();
        _exit(0);
    }
    (void)done;
    _exit(0);
}

int main(int n_arguments, char **arguments) {
    int go[2], done[2];
    char exe[PATH_MAX], numbers[2][16];
    if (n_arguments > 2) {
        return be_b(atoi(arguments[1]), atoi(arguments[2]));
    }
    first();
    const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[length < 0 ? 0 : length] = 0;
    if (pipe(go) < 0 || pipe(done) < 0) {
        return 1;
    }
    snprintf(numbers[0], sizeof numbers[0], "%d", go[0]);
    snprintf(numbers[1], sizeof numbers[1], "%d", done[1]);
    pid_t child = vfork();
    if (child == 0) {
        execl(exe, exe, numbers[0], numbers[1], (char *)NULL);
        _exit(1);
    }
    waitpid(child, NULL, 0);
    usleep(FORGOTTEN_MS * 1000);
    child = fork();
    if (child == 0) {
        close(go[1]);
        close(done[1]);
        other();
        wait_for_byte(done[0]); /* D keeps the entry until C has ended */
        _exit(0);
    }
    close(done[1]);
    usleep(FORGOTTEN_MS * 1000 / 4);
    (void)!write(go[1], "g", 1);
    wait_for_byte(done[0]);
    waitpid(child, NULL, 0);
    say("the late child has spoken\n");
    return 0;
}
