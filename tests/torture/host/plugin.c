/* plugin.c: the source of the C plugins that torture programs load (act_plugins of acts_images.c).
 * It is compiled once for each plugin, with other macros. PLUGIN_FIRST and PLUGIN_SECOND are the
 * names of the plugin's two sites (functions that allocate), and PLUGIN_NUMBER is the number of the
 * first. PLUGIN_PADDING is the size of a constant array in bytes; it differs between plugins, so
 * their layouts and the stack frames of before_sites and of the second site differ, too. */
#include "plugin.h"

#include <stdlib.h>

#define OPAQUE(value) __asm__ volatile("" : "+r"(value) : : "memory")

plugin_function plugin_run;

__attribute__((used)) static const char padding[PLUGIN_PADDING] = {1};

__attribute__((noinline, noclone, used)) static uint64_t before_sites(uint64_t seed) {
    volatile uint64_t values[1 + PLUGIN_PADDING / 512];
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        values[i] = seed * i;
    }
    return values[0];
}

__attribute__((noinline, noclone, used)) void *PLUGIN_FIRST(const struct plugin_host *host,
                                                            size_t n) {
    host->begin(PLUGIN_NUMBER, n);
    void *block = malloc(n);
    OPAQUE(block);
    host->done(PLUGIN_NUMBER, n, block);
    return block;
}

__attribute__((noinline, noclone, used)) void *PLUGIN_SECOND(const struct plugin_host *host,
                                                             size_t n) {
    volatile char frame[PLUGIN_PADDING / 16 + 1];
    frame[0] = (char)n;
    host->begin(PLUGIN_NUMBER + 1, n);
    void *block = calloc(n, 1);
    OPAQUE(block);
    host->done(PLUGIN_NUMBER + 1, n, block);
    (void)frame[0];
    return block;
}

uint64_t plugin_run(const struct plugin_host *host, uint64_t n, uint64_t seed) {
    uint64_t result = before_sites(seed);
    for (uint64_t i = 0; i < n; i++) {
        const size_t size = 32 + (seed * (i + 7)) % 300;
        void *block = i & 1 ? PLUGIN_SECOND(host, size) : PLUGIN_FIRST(host, size);
        result = result * 31 + size;
        host->free_block(block);
    }
    return result;
}
