/* acts_images.c: acts (steps of torture programs, see nodes.h) that load and unload shared objects
 * (plugins, and modules that the C library loads itself), and acts that call functions of the C
 * library that allocate. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <iconv.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nodes.h"
#include "plugin.h"
#include "sites.h"

static void *free_begin(void *block) {
    return truth_free_begin(block);
}

static void free_done(void *truth) {
    truth_free_done(truth);
}

static const struct plugin_host plugin_host = {truth_begin, truth_done, block_free, free_begin,
                                               free_done};

/* plugins(seed, n): n times, chooses a random plugin. If it is loaded, it is unloaded; otherwise it
 * is loaded and called. */
uint64_t act_plugins(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    void *handles[PLUGINS] = {0};
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        const int k = (int)dice_below(&dice, PLUGINS);
        if (handles[k] != NULL) {
            dlclose(handles[k]);
            handles[k] = NULL;
            continue;
        }
        char path[512];
        snprintf(path, sizeof path, "%s/plugin_%d.so", plugin_folder, k);
        handles[k] = dlopen(path, (dice_below(&dice, 2) ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
        plugin_function *run =
            handles[k] ? (plugin_function *)(uintptr_t)dlsym(handles[k], "plugin_run") : NULL;
        if (run == NULL) {
            complain(handles[k] ? "a plugin has no function" : dlerror());
            return 0;
        }
        const uint64_t roll = dice_below(&dice, 1000);
        result = mix(result, run(&plugin_host, 1 + dice_below(&dice, 20), roll));
    }
    for (int k = 0; k < PLUGINS; k++) {
        if (handles[k] != NULL) {
            dlclose(handles[k]);
        }
    }
    return result;
}

/* cxx(seed, n): runs the plugin in C++ for n rounds. The plugin is not unloaded. */
uint64_t act_cxx(const struct node *node, uint64_t seed) {
    char path[512];
    snprintf(path, sizeof path, "%s/cxx_plugin.so", plugin_folder);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    plugin_function *run =
        handle ? (plugin_function *)(uintptr_t)dlsym(handle, "plugin_run") : NULL;
    if (run == NULL) {
        complain(handle ? "a plugin has no function" : dlerror());
        return 0;
    }
    struct dice dice = dice_of(node, seed);
    return run(&plugin_host, (uint64_t)node->numbers[1], dice_below(&dice, 1000));
}

/* converters(seed, n): converts texts n times with iconv; the C library loads and unloads a module
 * for each character set. */
uint64_t act_converters(const struct node *node, uint64_t seed) {
    static const char *const names[] = {"ISO-8859-2", "ISO-8859-5", "KOI8-R",    "CP1250",
                                        "CP437",      "EUC-JP",     "SHIFT_JIS", "BIG5",
                                        "GBK",        "UTF-16",     "UTF-7",     "EBCDIC-US"};
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        const char *name = names[dice_below(&dice, sizeof names / sizeof *names)];
        iconv_t converter = iconv_open(name, "UTF-8");
        block_free(block_make((unsigned)dice_below(&dice, 10), 77));
        if (converter != (iconv_t)-1) {
            char in[] = "plain text", out[128] = "";
            char *from = in, *to = out;
            size_t n_in = strlen(in), n_out = sizeof out;
            result = mix(result, (uint64_t)iconv(converter, &from, &n_in, &to, &n_out) + n_out);
            iconv_close(converter);
        }
    }
    return result;
}

/* names(seed, n): n % 8 times, looks up a user, a group and a service by name; the C library loads
 * modules for this. */
uint64_t act_names(const struct node *node, uint64_t seed) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    uint64_t result = seed;
    pthread_mutex_lock(&one_at_a_time);
    for (int64_t i = 0; i < node->numbers[1] % 8; i++) {
        const struct passwd *user = getpwnam(i & 1 ? "root" : "not-a-user");
        const struct group *group = getgrnam(i & 1 ? "not-a-group" : "daemon");
        const struct servent *service = getservbyname("domain", "tcp");
        block_free(block_make(1, 66));
        result = mix(result, (uint64_t)(user != NULL) << 2 | (uint64_t)(group != NULL) << 1 |
                                 (service != NULL));
    }
    pthread_mutex_unlock(&one_at_a_time);
    return result;
}

/* locales(seed, n): creates, uses and frees n locale objects. */
uint64_t act_locales(const struct node *node, uint64_t seed) {
    static const char *const names[] = {"C", "C.UTF-8", "POSIX", "xx_YY"};
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        locale_t locale = newlocale(LC_ALL_MASK, names[dice_below(&dice, 4)], (locale_t)0);
        block_free(block_make((unsigned)dice_below(&dice, 10), 88));
        result = mix(result, locale != (locale_t)0);
        if (locale != (locale_t)0) {
            locale_t before = uselocale(locale);
            char text[32];
            snprintf(text, sizeof text, "%'.2f", 12345.678);
            result = mix(result, strlen(text));
            uselocale(before);
            freelocale(locale);
        }
    }
    return result;
}

static int compare_bytes(const void *one, const void *two) {
    return (int)*(const unsigned char *)one - (int)*(const unsigned char *)two;
}

/* library(seed, n): calls functions of the C library that allocate, in n rounds. */
uint64_t act_library(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    uint64_t result = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        char *text = NULL;
        size_t len = 0;
        const int n = asprintf(&text, "%*d %.30f", (int)dice_below(&dice, 300), 17, 0.5);
        if (n > 0) {
            qsort(text, (size_t)n, 1, compare_bytes);
            result = mix(result, (uint64_t)n ^ (uint64_t)text[n / 2]);
            FILE *stream = fmemopen(text, (size_t)n, "r");
            char *line = NULL;
            if (stream != NULL) {
                result = mix(result, (uint64_t)getline(&line, &len, stream));
                fclose(stream);
            }
            free(line);
        }
        free(text);
        char *copy = strdup("a copy");
        OPAQUE(copy);
        free(copy);
    }
    return result;
}
