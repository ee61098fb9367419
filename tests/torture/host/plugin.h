/* plugin.h: the interface between torture programs and their plugins: the function that a plugin
 * exports, and the functions of the program that a plugin calls to count its blocks (truth.h). */
#ifndef TORTURE_PLUGIN_H
#define TORTURE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

enum { PLUGINS = 6 };

struct plugin_host {
    void (*begin)(unsigned site, size_t n);
    void (*done)(unsigned site, size_t n, void *block);
    void (*free_block)(void *block);
    /* called before and after a free that the plugin makes itself; the result of free_begin is the
     * argument of free_done */
    void *(*free_begin)(void *block);
    void (*free_done)(void *truth);
};

/* The function of a plugin: allocates n blocks at the plugin's own sites (functions that allocate),
 * and frees the blocks. */
typedef uint64_t plugin_function(const struct plugin_host *host, uint64_t n, uint64_t seed);

#endif
