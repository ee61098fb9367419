/* fork_with_threads.c: three threads allocate and free all the time while the main thread forks 20
 * children, one after the other. Each child allocates 5 x 17 bytes, frees 2 of them and ends. A
 * lock that another thread holds at the fork would block the child forever. Children never free a
 * block of their parent.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @traces           21
 * @process          parent
 * @ghost_frees      0
 * @varies           allocated_blocks allocated_bytes freed_blocks freed_bytes peak_bytes
 * @varies           peak_blocks temporary_blocks
 * @process          each child
 * @allocated_blocks 5
 * @allocated_bytes  85
 * @freed_blocks     2
 * @in_use_blocks    3
 * @in_use_bytes     51
 * @peak_bytes       85
 * @temporary_blocks 1
 * @ghost_frees      0
 * @threads          1
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "../say.h"

static atomic_bool stop;

static void *churn(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        void *blocks[16];
        for (int i = 0; i < 16; i++) {
            blocks[i] = malloc(24 + (size_t)i * 40);
            OPAQUE(blocks[i]);
        }
        for (int i = 0; i < 16; i++) {
            free(blocks[i]);
        }
        usleep(50);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, churn, NULL);
    }
    int sum = 0;
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            void *blocks[5];
            for (int k = 0; k < 5; k++) {
                blocks[k] = malloc(17);
            }
            free(blocks[4]);
            free(blocks[3]);
            _exit(i);
        }
        int status;
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    say("sum %d\n", sum);
    return 0;
}
