/* requests.c: counts requests by method and path, and allocates a key for each lookup: the program
 * of docs/tutorials/temporaries.md.
 *
 * 500,000 requests of 3 methods and 40 paths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 500000, SLOTS = 1024 };

static const char *const methods[] = {"GET", "POST", "DELETE"};

struct counter {
    char *key;
    int count;
};

static struct counter counters[SLOTS];

static char *make_key(const char *method, int path) {
    char *key = malloc(64);
    if (!key) {
        abort();
    }
    (void)snprintf(key, 64, "%s /items/%d", method, path);
    return key;
}

static unsigned hash_of(const char *text) {
    unsigned hash = 5381;
    for (; *text; text++) {
        hash = hash * 33 + (unsigned char)*text;
    }
    return hash;
}

/* Returns the counter of KEY. If there is none, adds one, with a copy of KEY. */
static struct counter *find_counter(const char *key) {
    unsigned slot = hash_of(key) % SLOTS;
    while (counters[slot].key && strcmp(counters[slot].key, key) != 0) {
        slot = (slot + 1) % SLOTS;
    }
    if (!counters[slot].key) {
        counters[slot].key = strdup(key);
    }
    return &counters[slot];
}

static void count_request(const char *method, int path) {
    char *key = make_key(method, path);
    find_counter(key)->count++;
    free(key);
}

int main(void) {
    for (int i = 0; i < REQUESTS; i++) {
        count_request(methods[i % 3], i % 40);
    }
    int n_keys = 0;
    for (int i = 0; i < SLOTS; i++) {
        n_keys += counters[i].key != NULL;
        free(counters[i].key);
    }
    printf("%d keys\n", n_keys);
    return 0;
}
