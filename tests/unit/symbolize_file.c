/* symbolize_file.c: looks up addresses in files, as a report does, for symbol_budgets.py. Prints
 * the function at the last address of the first file, then the symbolizer's lines about problems.
 *
 *     usage: symbolize_file FIRST END LOOK_UPS FILE...
 *
 * In each file it looks up LOOK_UPS addresses, at equal distances from FIRST to END. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/runtimes.h"
#include "symbol/symbol.h"

int main(int argc, char **argv) {
    if (argc < 5) {
        return 2;
    }
    const uint64_t first = strtoull(argv[1], NULL, 16), end = strtoull(argv[2], NULL, 16);
    const uint64_t n_look_ups = strtoull(argv[3], NULL, 10);
    const struct ag_symbol_options options = {.size = sizeof options, .runtimes = ag_runtimes};
    struct ag_symbolizer *symbolizer = ag_symbolizer_new(&options);
    const char *const *lines;
    const char *function = "";
    for (int file = 4; file < argc; file++) {
        const uint32_t id = (uint32_t)file - 3;
        if (ag_symbolizer_image(symbolizer, id, argv[file], NULL, 0, 0, 0, 0) < 0) {
            return 1;
        }
        for (uint64_t i = 0; i < n_look_ups; i++) {
            const struct ag_symbol_frame *frames = NULL;
            (void)ag_symbolizer_frames(symbolizer, id, first + (end - first) / n_look_ups * i + 2,
                                       /* return_address= */ false, &frames);
            function = file == 4 ? frames[0].function : function;
        }
    }
    printf("%.60s\n", function);
    const size_t n = ag_symbolizer_problems(symbolizer, &lines);
    for (size_t i = 0; i < n; i++) {
        printf("%s\n", lines[i]);
    }
    (void)ag_symbolizer_free(symbolizer);
    return 0;
}
