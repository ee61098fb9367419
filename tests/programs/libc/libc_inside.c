/* libc_inside.c: allocations that the C library makes for its callers: strdup, asprintf, getline,
 * fopen, opendir, qsort of a large array, setlocale, open_memstream. Their number depends on the
 * library. So a second preloaded library (counting_preload.c) counts the calls of malloc, and the
 * trace must agree with it.
 *
 * In the counts below, `runtime` stands for the further blocks of the C library, so 100 is only a
 * lower limit.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 100 + runtime
 * @ghost_frees      0
 * @threads          1
 */
#include <dirent.h>
#include <locale.h>
#include <string.h>

#include "../say.h"

static int by_value(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

int main(void) {
    for (int i = 0; i < 100; i++) {
        char *copy = strdup("a string of some length"), *text = NULL;
        if (asprintf(&text, "%s %d", copy, i) < 0) {
            return 1;
        }
        free(copy);
        if (i % 2 == 0) {
            free(text);
        }
    }
    FILE *self = fopen("/proc/self/status", "r");
    char *line = NULL;
    size_t room = 0, n_lines = 0;
    while (getline(&line, &room, self) >= 0) {
        n_lines++;
    }
    free(line);
    fclose(self);

    DIR *root = opendir("/");
    closedir(root);
    static int numbers[100000];
    for (int i = 0; i < 100000; i++) {
        numbers[i] = (i * 7919) % 100003;
    }
    qsort(numbers, 100000, sizeof numbers[0], by_value);
    setlocale(LC_ALL, "C.UTF-8");

    char *memory = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&memory, &length);
    for (int i = 0; i < 1000; i++) {
        fprintf(stream, "%d,", i);
    }
    fclose(stream);
    printf("%zu bytes, sorted %d %d, lines %s\n", length, numbers[0], numbers[99999],
           n_lines > 10 ? "many" : "few");
    free(memory);
    return 0;
}
