/* exec_self.c: a program that executes itself twice, so that one pid has three traces. Image n (0,
 * 1, 2) allocates 10 + n blocks of 8 * (n + 1) bytes and frees n of them.
 *
 * @process          first image
 * @allocated_blocks 10
 * @allocated_bytes  80
 * @freed_blocks     0
 * @process          second image
 * @allocated_blocks 11
 * @allocated_bytes  11 * 16
 * @freed_blocks     1
 * @temporary_blocks 1
 * @process          third image
 * @allocated_blocks 12
 * @allocated_bytes  12 * 24
 * @freed_blocks     2
 * @temporary_blocks 1
 * @exit             7
 */
#include "../say.h"

int main(int n_arguments, char **arguments) {
    int n = n_arguments > 1 ? atoi(arguments[1]) : 0;
    void *blocks[12];
    for (int i = 0; i < 10 + n; i++) {
        blocks[i] = malloc(8 * ((size_t)n + 1));
        OPAQUE(blocks[i]);
    }
    for (int i = 0; i < n; i++) {
        free(blocks[9 + n - i]);
    }
    say("image %d\n", n);
    if (n == 2) {
        return 7;
    }
    char next[8];
    snprintf(next, sizeof next, "%d", n + 1);
    execl("/proc/self/exe", arguments[0], next, (char *)NULL);
    return 1;
}
