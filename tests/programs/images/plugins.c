/* plugins.c: two different plugins, loaded and closed in turn, 50 rounds. The loader puts the
 * second plugin where the first plugin was, so that one address belongs to two functions. In each
 * round plugin_red allocates 10 x 40 bytes and plugin_blue 20 x 50; the program frees them all. In
 * the counts below, `runtime` stands for the blocks that the loader itself allocates, as the judge
 * (counting_preload.c) counts them. The sites view must show each plugin's function with its own
 * blocks.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 50 * 30 + runtime
 * @allocated_bytes  50 * (400 + 1000) + runtime
 * @ghost_frees      0
 * @site             red_block 500 500 * 40
 * @site             blue_block 1000 1000 * 50
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "../say.h"

static uintptr_t use(const char *folder, const char *name, int n) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *plugin = dlopen(path, RTLD_NOW);
    if (plugin == NULL) {
        say("%s\n", dlerror());
        exit(1);
    }
    void *(*make)(void) = (void *(*)(void))dlsym(plugin, "plugin_make");
    for (int i = 0; i < n; i++) {
        free(make());
    }
    uintptr_t address = (uintptr_t)make;
    dlclose(plugin);
    return address;
}

int main(int n_arguments, char **arguments) {
    const char *folder = n_arguments > 1 ? arguments[1] : ".";
    int same = 0;
    for (int round = 0; round < 50; round++) {
        uintptr_t red = use(folder, "plugin_red.so", 10), blue = use(folder, "plugin_blue.so", 20);
        same += red >> 12 == blue >> 12;
    }
    say("%s\n", same > 0 ? "both plugins had one address" : "the plugins lay apart");
    return 0;
}
