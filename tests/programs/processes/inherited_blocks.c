/* inherited_blocks.c: allocates 60 blocks of 48 bytes and forks. The child frees 10 of them, gives
 * 10 others to realloc (5 of which grow to 4096 bytes and 5 of which keep their size), fails to
 * realloc 3 more, and frees 2 of these. It allocates 20 x 48 bytes and frees 5 of them. It forks a
 * grandchild, which inherits blocks of both processes: it frees 4 blocks of the first process and 6
 * of the child, and reallocates one block of each.
 *
 * @process          parent
 * @allocated_blocks 60
 * @allocated_bytes  60 * 48
 * @freed_blocks     60
 * @in_use_blocks    0
 * @ghost_frees      0
 * @inherited_frees  0
 * @process          child
 * @allocated_blocks 10 + 20
 * @allocated_bytes  5 * 4096 + 5 * 48 + 20 * 48
 * @freed_blocks     5
 * @in_use_blocks    25
 * @ghost_frees      0
 * @inherited_frees  10 + 10 + 2
 * @process          grandchild
 * @allocated_blocks 2
 * @allocated_bytes  64 + 64
 * @freed_blocks     1
 * @in_use_blocks    1
 * @ghost_frees      0
 * @inherited_frees  4 + 6 + 1 + 1
 */
#include <stdint.h>
#include <sys/wait.h>

#include "../say.h"

enum { BLOCKS = 60, OWN = 20 };
static void *blocks[BLOCKS], *own[OWN];

static int wait_for(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void be_grandchild(void) {
    for (int i = 40; i < 44; i++) {
        free(blocks[i]);
    }
    for (int i = 10; i < 16; i++) {
        free(own[i]);
    }
    void *moved = realloc(blocks[44], 64);
    void *kept = realloc(own[16], 64);
    free(moved);
    _exit(kept != NULL ? 3 : 1);
}

static void be_child(void) {
    for (int i = 0; i < 10; i++) {
        free(blocks[i]);
    }
    for (int i = 10; i < 20; i++) {
        blocks[i] = realloc(blocks[i], i % 2 == 0 ? 4096 : 48);
    }
    volatile size_t too_much = PTRDIFF_MAX;
    for (int i = 20; i < 23; i++) {
        if (realloc(blocks[i], too_much) != NULL) {
            _exit(2);
        }
    }
    free(blocks[20]);
    free(blocks[21]);
    for (int i = 0; i < OWN; i++) {
        own[i] = malloc(48);
    }
    for (int i = 0; i < 5; i++) {
        free(own[i]);
    }
    pid_t grandchild = fork();
    if (grandchild == 0) {
        be_grandchild();
    }
    _exit(wait_for(grandchild) + 1);
}

int main(void) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(48);
    }
    pid_t child = fork();
    if (child == 0) {
        be_child();
    }
    say("the child ended with %d\n", wait_for(child));
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return 0;
}
