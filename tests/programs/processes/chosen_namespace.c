/* chosen_namespace.c: its children live in another PID namespace than itself. It forks three
 * children that live at the same time and have the pids 1, 2 and 3 in that namespace. Child N
 * allocates N * 100 blocks, waits until it may end, and allocates as many again. Needs the right to
 * unshare.
 *
 * The parent's own namespace also has processes with the pids 2 and 3. Only the kernel knows in
 * which namespace a child has its pid. */
#include <sched.h>
#include <sys/wait.h>

#include "../say.h"

enum { CHILDREN = 3 };

static void make_blocks(int n_blocks) {
    for (int i = 0; i < n_blocks; i++) {
        void *block = malloc(20);
        OPAQUE(block);
        free(block);
    }
}

int main(void) {
    int gates[CHILDREN][2], ready[2];
    pid_t children[CHILDREN];
    char byte = 0;
    if (pipe(ready) != 0 || unshare(CLONE_NEWPID) != 0) {
        say("cannot unshare\n");
        return 77;
    }
    for (int i = 0; i < CHILDREN; i++) {
        if (pipe(gates[i]) != 0 || (children[i] = fork()) < 0) {
            return 78;
        }
        if (children[i] == 0) {
            make_blocks((i + 1) * 100);
            (void)!write(ready[1], &byte, 1);
            (void)!read(gates[i][0], &byte, 1);
            make_blocks((i + 1) * 100);
            return 0;
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        (void)!read(ready[0], &byte, 1);
    }
    make_blocks(5000);
    usleep(300 * 1000);                       /* in this time allogram's writer process examines all
                                               * children */
    for (int i = CHILDREN - 1; i >= 0; i--) { /* pid 1 last: the kernel kills the namespace's other
                                               * processes when it ends */
        (void)!write(gates[i][1], &byte, 1);
        waitpid(children[i], NULL, 0);
    }
    say("three\n");
    return 0;
}
