/* planted.c: small programs with one memory bug each, such as people write. The first argument
 * names the program; with a second argument, the program has its bug. The comment PLANTED stands on
 * the line that a profiler should name.
 *
 *   leak           a server forgets the header of a request if the request has an error
 *   cache          a server remembers the answer to each name, and never forgets one
 *   peak           a word counter reads the whole file at once, not line by line
 *   temporary      a lookup makes a copy of the key each time, although a buffer would do
 *   fragmentation  a session keeps a small token that lies among large, short-lived buffers */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_planted;

/* ---- leak ---- */

struct request {
    char *method, *header;
    size_t n_bytes;
};

static int request_parse(struct request *request, const char *text) {
    const char *colon = strchr(text, ':');
    request->method = strndup(text, strcspn(text, " "));
    request->header = strdup(text); /* PLANTED leak */
    if (colon == NULL) {
        free(request->method);
        if (!is_planted) {
            free(request->header);
        }
        return -1;
    }
    request->n_bytes = strlen(colon + 1);
    return 0;
}

static void leak(void) {
    size_t n_bytes = 0, n_errors = 0;
    for (int i = 0; i < 5000; i++) {
        char text[128];
        struct request request;
        snprintf(text, sizeof(text), "GET /articles/%d/comments?sort=newest HTTP/1.1 %s", i,
                 i % 8 == 5 ? "Accept" : "Accept: text/html");
        if (request_parse(&request, text) < 0) {
            n_errors++;
            continue;
        }
        n_bytes += request.n_bytes;
        free(request.method);
        free(request.header);
    }
    printf("%zu bytes, %zu errors\n", n_bytes, n_errors);
}

/* ---- cache ---- */

enum { BUCKETS = 1024, ENTRIES_MOST = 200 };

struct entry {
    struct entry *next;
    unsigned address;
    char name[40];
};
static struct entry *buckets[BUCKETS];
static size_t n_entries;

static void cache_forget(void) {
    static unsigned hand;
    struct entry **slot = &buckets[hand++ % BUCKETS];
    while (*slot == NULL) {
        slot = &buckets[hand++ % BUCKETS];
    }
    struct entry *old = *slot;
    *slot = old->next;
    free(old);
    n_entries--;
}

static unsigned resolve(const char *name) {
    unsigned hash = 5381;
    for (const char *at = name; *at != '\0'; at++) {
        hash = hash * 33 + (unsigned char)*at;
    }
    struct entry **bucket = &buckets[hash % BUCKETS];
    for (struct entry *entry = *bucket; entry != NULL; entry = entry->next) {
        if (strcmp(entry->name, name) == 0) {
            return entry->address;
        }
    }
    if (!is_planted && n_entries >= ENTRIES_MOST) {
        cache_forget();
    }
    struct entry *entry = malloc(sizeof(*entry)); /* PLANTED cache */
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->address = hash;
    entry->next = *bucket;
    *bucket = entry;
    n_entries++;
    return hash;
}

static void cache(void) {
    unsigned sum = 0;
    for (int i = 0; i < 6000; i++) {
        char *name = malloc(32);
        snprintf(name, 32, "host%d.example.org", i % 3 == 0 ? i % 90 : i);
        sum += resolve(name);
        free(name);
    }
    printf("%u\n", sum);
}

/* ---- peak ---- */

static size_t count_words(const char *text) {
    size_t n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        n += at[0] != ' ' && (at[1] == ' ' || at[1] == '\n' || at[1] == '\0');
    }
    return n;
}

static void peak(void) {
    FILE *file = tmpfile();
    char line[128];
    size_t n_words = 0;
    for (int i = 0; i < 60000; i++) {
        fprintf(file, "line %d has some words that a reader counts, and then a few more of them\n",
                i);
    }
    const long n_bytes = ftell(file);
    rewind(file);
    if (is_planted) {
        char *all = malloc((size_t)n_bytes + 1); /* PLANTED peak */
        all[fread(all, 1, (size_t)n_bytes, file)] = '\0';
        n_words = count_words(all);
        free(all);
    } else {
        while (fgets(line, sizeof(line), file) != NULL) {
            n_words += count_words(line);
        }
    }
    fclose(file);
    printf("%zu words\n", n_words);
}

/* ---- temporary ---- */

static const char *const settings[] = {"color", "columns", "depth", "limit", "sort"};

static int setting_index(const char *prefix, const char *key) {
    char buffer[64], *name = buffer;
    const size_t n = strlen(prefix) + strlen(key) + 2;
    if (is_planted) {
        name = malloc(n); /* PLANTED temporary */
    }
    snprintf(name, n, "%s.%s", prefix, key);
    int found = -1;
    for (int i = 0; i < 5 && found < 0; i++) {
        found = strcmp(strchr(name, '.') + 1, settings[i]) == 0 ? i : -1;
    }
    if (is_planted) {
        free(name);
    }
    return found;
}

static void temporary(void) {
    long sum = 0;
    for (int i = 0; i < 30000; i++) {
        char *row = malloc(100), *cell = malloc(50);
        sum += setting_index("report", settings[i % 5]) + snprintf(row, 100, "row %d", i);
        free(row);
        sum += snprintf(cell, 50, "%d", i);
        free(cell);
    }
    printf("%ld\n", sum);
}

/* ---- fragmentation ---- */

enum { SESSIONS = 3000 };

static struct session {
    char *answer; /* until it is sent */
    char *token, in_session[24];
} sessions[SESSIONS];

static void session_open(struct session *session, int number) {
    session->answer = malloc(3500);
    memset(session->answer, number, 3500);
    session->token = is_planted ? malloc(24) : session->in_session; /* PLANTED fragmentation */
    snprintf(session->token, 24, "%08x", (unsigned)number * 2654435761u);
}

static void fragmentation(void) {
    unsigned n = 0;
    for (int i = 0; i < SESSIONS; i++) {
        session_open(&sessions[i], i);
    }
    for (int i = 0; i < SESSIONS; i++) {
        free(sessions[i].answer);
    }
    for (int i = 0; i < 10000; i++) { /* one request at a time */
        char *url = malloc(64), *body = malloc(200);
        snprintf(url, 64, "/status?token=%s", sessions[i % SESSIONS].token);
        n += (unsigned)snprintf(body, 200, "<p>%s</p>", url);
        free(url);
        free(body);
    }
    printf("%u\n", n);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"leak", leak},
                    {"cache", cache},
                    {"peak", peak},
                    {"temporary", temporary},
                    {"fragmentation", fragmentation}};
    is_planted = argc > 2;
    for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (strcmp(programs[i].name, argv[1]) == 0) {
            programs[i].run();
            return 0;
        }
    }
    return 2;
}
