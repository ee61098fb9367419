/* fork_child.c: allocates 100 blocks of 32 bytes, then forks. The child has a trace of its own that
 * starts empty. It frees 40 of its parent's blocks (inherited blocks), allocates 7 x 11 bytes and
 * frees 3 of them. It forks a grandchild, which allocates 2 x 5 bytes, frees one block of the
 * child's and ends by exit; then the child ends by _exit. The parent then frees 60 of its own
 * blocks and allocates 1 x 1 byte.
 *
 * @process          parent
 * @allocated_blocks 101
 * @allocated_bytes  3201
 * @freed_blocks     60
 * @in_use_blocks    41
 * @in_use_bytes     40 * 32 + 1
 * @peak_bytes       3200
 * @peak_blocks      100
 * @temporary_blocks 1
 * @ghost_frees      0
 * @inherited_frees  0
 * @process          child
 * @allocated_blocks 7
 * @allocated_bytes  77
 * @freed_blocks     3
 * @in_use_bytes     44
 * @peak_bytes       77
 * @temporary_blocks 1
 * @ghost_frees      0
 * @inherited_frees  40
 * @process          grandchild
 * @allocated_blocks 2
 * @allocated_bytes  10
 * @freed_blocks     0
 * @peak_bytes       10
 * @ghost_frees      0
 * @inherited_frees  1
 */
#include <sys/wait.h>

#include "../say.h"

static void *blocks[100], *own[7];

static int wait_for(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void be_grandchild(void) {
    void *volatile kept[2];
    for (int i = 0; i < 2; i++) {
        kept[i] = malloc(5);
    }
    free(own[0]);
    exit(kept[1] != NULL ? 4 : 1);
}

static void be_child(void) {
    for (int i = 0; i < 40; i++) {
        free(blocks[i]);
    }
    for (int i = 0; i < 7; i++) {
        own[i] = malloc(11);
    }
    for (int i = 6; i > 3; i--) {
        free(own[i]);
    }
    pid_t grandchild = fork();
    if (grandchild == 0) {
        be_grandchild();
    }
    _exit(wait_for(grandchild) + 1);
}

int main(void) {
    for (int i = 0; i < 100; i++) {
        blocks[i] = malloc(32);
    }
    pid_t child = fork();
    if (child == 0) {
        be_child();
    }
    say("the child ended with %d\n", wait_for(child));
    for (int i = 99; i >= 40; i--) {
        free(blocks[i]);
    }
    void *last = malloc(1);
    OPAQUE(last);
    return 0;
}
