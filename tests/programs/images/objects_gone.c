/* objects_gone.c: loads and unloads shared objects all the time.
 *
 *     objects_gone converters ROUNDS THREADS
 *         iconv loads and unloads its modules; it calls no dlclose that allogram could replace
 *     objects_gone plugins ROUNDS THREADS FILE...
 *         loads, runs and unloads the plugins in turn; ROUNDS 0: until standard input ends
 *     objects_gone keep ROUNDS 0 FILE...
 *         loads all plugins and keeps them, then calls one function of each, ROUNDS times
 *
 * THREADS further threads allocate all the time. */
#include <dlfcn.h>
#include <iconv.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../say.h"

static _Atomic int is_over;

__attribute__((noinline, noclone)) static void *allocate(void *unused) {
    for (size_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        void *block = malloc(16 + i % 200);
        OPAQUE(block);
        free(block);
    }
    return unused;
}

static int convert(long n_rounds) {
    static const char *const charsets[] = {"ISO-8859-15", "KOI8-R",    "EUC-JP",      "BIG5",
                                           "GB18030",     "CP1252",    "CP437",       "SHIFT_JIS",
                                           "EUC-KR",      "UTF-16",    "ISO-2022-JP", "TIS-620",
                                           "IBM037",      "HP-ROMAN8", "JOHAB"};
    unsigned state = 12345;
    int n_converted = 0;
    for (long i = 0; i < n_rounds; i++) {
        state = state * 1103515245u + 12345u;
        iconv_t converter = iconv_open("UTF-8", charsets[(state >> 16) % 15]);
        if (converter == (iconv_t)-1) {
            continue;
        }
        char in[] = "abc", out[32], *from = in, *to = out;
        size_t in_left = 3, out_left = sizeof out;
        (void)iconv(converter, &from, &in_left, &to, &out_left);
        n_converted += out_left < sizeof out;
        iconv_close(converter);
        void *block = malloc(100);
        OPAQUE(block);
        free(block);
    }
    return n_converted;
}

static void *open_plugin(const char *path, const char *name, void (**ret_run)(void)) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        say("%s\n", dlerror());
        exit(1);
    }
    *ret_run = (void (*)(void))dlsym(plugin, name);
    return plugin;
}

static int is_asked_to_end(void) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void take_turns(long n_rounds, int n_files, char **files) {
    for (long i = 0; n_rounds > 0 ? i < n_rounds : !is_asked_to_end(); i++) {
        void (*run)(void);
        void *plugin = open_plugin(files[i % n_files], "run", &run);
        run();
        dlclose(plugin);
    }
}

static void keep_all(long n_rounds, int n_files, char **files) {
    void (**runs)(void) = calloc((size_t)n_files, sizeof *runs);
    for (int i = 0; i < n_files; i++) {
        (void)open_plugin(files[i], "run_one", &runs[i]);
    }
    for (long round = 0; round < n_rounds; round++) {
        for (int i = 0; i < n_files; i++) {
            runs[i]();
        }
    }
    free(runs);
}

int main(int argc, char **argv) {
    const char *what = argc > 3 ? argv[1] : "";
    const long n_rounds = argc > 3 ? atol(argv[2]) : 0;
    const int n_threads = argc > 3 ? atoi(argv[3]) : 0;
    pthread_t threads[8];
    int result = 0;
    for (int i = 0; i < n_threads && i < 8; i++) {
        pthread_create(&threads[i], NULL, allocate, NULL);
    }
    if (strcmp(what, "converters") == 0) {
        result = convert(n_rounds);
    } else if (strcmp(what, "plugins") == 0) {
        take_turns(n_rounds, argc - 4, argv + 4);
    } else if (strcmp(what, "keep") == 0) {
        keep_all(n_rounds, argc - 4, argv + 4);
    }
    atomic_store(&is_over, 1);
    for (int i = 0; i < n_threads && i < 8; i++) {
        pthread_join(threads[i], NULL);
    }
    say("%s %d\n", what, result);
    return 0;
}
