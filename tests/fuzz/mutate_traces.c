/* mutate_traces.c: reads thousands of mutated traces, without libFuzzer. Each trace is read by the
 * decoders of the format; or with --inside, by commands of allogram in the same process; or with
 * --command, by a new process.
 *
 *     mutate_traces [--count=N] [--seed=N] [--memory-mib=N] [--seconds=N] [--keep=FOLDER]
 *                   [--inside=WORDS]... [--command=WORDS] TRACE...
 *
 * Mutation i of a seed is always the same, so --seed=SEED --count=i+1 repeats a failure. Each child
 * process reads up to 200 mutations (with --command one). It may use --memory-mib MiB of address
 * space (default 512; 0: no limit) and --seconds seconds for a mutation (default 10). If a child
 * dies or hangs, the mutation that it read is kept in FOLDER (default: a new folder in /tmp), and
 * the next child continues with the following mutation. With --inside the code of the command WORDS
 * (for example report --view=sites) reads the trace; if --inside is given several times, each of
 * the commands reads it. With --command the words are run as a process, with the path of the
 * mutation as the last argument. In both cases any exit status is right; a signal or a hang is a
 * failure. The default of --count is 5,000, with --inside or --command 500. AG_TEST_SCALE=full
 * makes it 100,000, and AG_TEST_SCALE=quarter (for slow machines) a quarter. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace_mutation.h"

enum { SEEDS_MAX = 64, WORDS_MAX = 32, INSIDE_MAX = 64, CHILD_TRACES = 200, FAILURES_MAX = 10 };

struct driver {
    uint64_t count, seed, memory_mib, seconds;
    const char *keep;
    /* the words of --command; if the first is NULL, the child itself reads the trace */
    char *words[WORDS_MAX + 2];
    const char *inside[INSIDE_MAX]; /* if there is none, the decoders read the trace */
    size_t n_inside;
    struct ag_trace_bytes seeds[SEEDS_MAX];
    size_t n_seeds;
    volatile uint64_t *current; /* in shared memory: the number of the child's current mutation, and
                                 * the index of the current command in `inside` */
};

/* ---- one mutation ---- */

static struct ag_trace_bytes mutation(const struct driver *driver, uint64_t number) {
    uint64_t random_state =
        driver->seed * UINT64_C(0x9e3779b97f4a7c15) + number * UINT64_C(0xd6e8feb86659fd93);
    const struct ag_trace_bytes *from = &driver->seeds[number % driver->n_seeds];
    const struct ag_trace_bytes *donor =
        &driver->seeds[(number / driver->n_seeds) % driver->n_seeds];
    struct ag_trace_bytes trace = {.data = malloc(from->n_bytes + 1), .n_bytes = from->n_bytes};

    if (trace.data == NULL) {
        abort();
    }
    memcpy(trace.data, from->data, from->n_bytes);
    ag_trace_mutate(&trace, donor, &random_state);
    return trace;
}

static void write_trace(const char *path, const struct ag_trace_bytes *trace) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, trace->data, trace->n_bytes) != (ssize_t)trace->n_bytes) {
        fprintf(stderr, "mutate_traces: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    close(fd);
}

/* ---- in a child ---- */

static void set_limits(const struct driver *driver) {
    const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core); /* a core file would only cost time */
    if (driver->memory_mib != 0) {
        const struct rlimit memory = {driver->memory_mib << 20, driver->memory_mib << 20};
        (void)setrlimit(RLIMIT_AS, &memory); /* lowering is always allowed */
    }
}

static void send_output_nowhere(void) {
    const int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) {
        dup2(nowhere, fd);
    }
    close(nowhere);
}

static void read_inside(const struct driver *driver, const struct ag_trace_bytes *trace) {
    for (size_t i = 0; i < driver->n_inside; i++) {
        driver->current[1] = i;
        ag_trace_read_by_command(driver->inside[i], trace->data, trace->n_bytes);
    }
}

static void read_some(const struct driver *driver, uint64_t first, uint64_t end) {
    set_limits(driver);
    if (driver->n_inside > 0) {
        send_output_nowhere();
    }
    for (uint64_t number = first; number < end; number++) {
        *driver->current = number;
        struct ag_trace_bytes trace = mutation(driver, number);
        (void)alarm((unsigned)driver->seconds); /* SIGALRM kills a child that hangs */
        if (driver->n_inside == 0) {
            (void)ag_trace_read_everything(trace.data,
                                           trace.n_bytes); /* the test passes if the call returns */
        } else {
            read_inside(driver, &trace);
        }
        free(trace.data);
    }
    *driver->current = end;
    _exit(0);
}

static void run_command(struct driver *driver, uint64_t number) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/mutation.allogram", driver->keep);
    struct ag_trace_bytes trace = mutation(driver, number);
    write_trace(path, &trace);
    set_limits(driver);
    size_t n_words = 0;
    while (driver->words[n_words] != NULL) {
        n_words++;
    }
    driver->words[n_words] = path;
    send_output_nowhere();
    (void)alarm((unsigned)driver->seconds); /* the alarm survives the exec */
    execvp(driver->words[0], driver->words);
    _exit(127);
}

/* ---- the parent ---- */

/* Returns true when the child ended by itself. A command that could not be run ends this program.
 */
static bool wait_for(const struct driver *driver, pid_t child, int *ret_status) {
    while (waitpid(child, ret_status, 0) < 0) {
        if (errno != EINTR) {
            abort();
        }
    }
    if (driver->words[0] != NULL && WIFEXITED(*ret_status) && WEXITSTATUS(*ret_status) == 127) {
        fprintf(stderr, "mutate_traces: %s cannot be run\n", driver->words[0]);
        exit(2);
    }
    return WIFEXITED(*ret_status);
}

static void tell_failure(const struct driver *driver, uint64_t number, int status) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/failed-%llu-%llu.allogram", driver->keep,
             (unsigned long long)driver->seed, (unsigned long long)number);
    struct ag_trace_bytes trace = mutation(driver, number);
    write_trace(path, &trace);
    free(trace.data);
    printf("# mutation %llu of seed %llu: %s: %s; kept as %s\n", (unsigned long long)number,
           (unsigned long long)driver->seed,
           driver->n_inside > 0 ? driver->inside[driver->current[1]] : "read",
           WIFEXITED(status)             ? "the reader ended with a status other than 0"
           : WTERMSIG(status) == SIGALRM ? "took too long"
                                         : strsignal(WTERMSIG(status)),
           path);
}

static unsigned run_all(struct driver *driver) {
    const uint64_t at_once = driver->words[0] == NULL ? CHILD_TRACES : 1;
    unsigned n_failed = 0;

    for (uint64_t first = 0; first < driver->count && n_failed < FAILURES_MAX;) {
        const uint64_t end = first + at_once < driver->count ? first + at_once : driver->count;
        fflush(stdout);
        const pid_t child = fork();
        if (child < 0) {
            abort();
        }
        if (child == 0 && driver->words[0] == NULL) {
            read_some(driver, first, end);
        }
        if (child == 0) {
            run_command(driver, first);
        }
        int status;
        const bool ended = wait_for(driver, child, &status);
        const bool is_good = ended && (driver->words[0] != NULL || WEXITSTATUS(status) == 0);
        const uint64_t reached = driver->words[0] == NULL ? *driver->current : first;
        if (!is_good) {
            tell_failure(driver, reached, status);
            n_failed++;
        }
        first = is_good ? end : reached + 1;
    }
    return n_failed;
}

/* ---- the command line ---- */

/* Adds a trace to start from, and the same trace without compression. */
static void add_seed(struct driver *driver, const char *path) {
    struct ag_trace_bytes trace = {.data = malloc(1 << 20)};
    FILE *file = fopen(path, "r");
    if (file == NULL || trace.data == NULL || driver->n_seeds + 2 > SEEDS_MAX) {
        fprintf(stderr, "mutate_traces: %s: cannot be read, or one too many\n", path);
        exit(2);
    }
    trace.n_bytes = fread(trace.data, 1, 1 << 20, file);
    fclose(file);
    driver->seeds[driver->n_seeds++] = trace;
    if (ag_trace_unpack(&trace, &driver->seeds[driver->n_seeds])) {
        driver->n_seeds++;
    }
}

static void parse(struct driver *driver, int argc, char **argv) {
    static const struct option options[] = {
        {"count", required_argument, NULL, 'c'},      {"seed", required_argument, NULL, 's'},
        {"memory-mib", required_argument, NULL, 'm'}, {"seconds", required_argument, NULL, 't'},
        {"keep", required_argument, NULL, 'k'},       {"inside", required_argument, NULL, 'i'},
        {"command", required_argument, NULL, 'x'},    {0}};
    for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        size_t n_words = 0;
        switch (id) {
        case 'c':
            driver->count = strtoull(optarg, NULL, 10);
            break;
        case 's':
            driver->seed = strtoull(optarg, NULL, 10);
            break;
        case 'm':
            driver->memory_mib = strtoull(optarg, NULL, 10);
            break;
        case 't':
            driver->seconds = strtoull(optarg, NULL, 10);
            break;
        case 'k':
            driver->keep = optarg;
            break;
        case 'i':
            if (driver->n_inside < INSIDE_MAX) {
                driver->inside[driver->n_inside++] = optarg;
            }
            break;
        case 'x':
            for (char *word = strtok(optarg, " "); word != NULL && n_words < WORDS_MAX;
                 word = strtok(NULL, " ")) {
                driver->words[n_words++] = word;
            }
            break;
        default:
            exit(2);
        }
    }
    for (int i = optind; i < argc; i++) {
        add_seed(driver, argv[i]);
    }
}

int main(int argc, char **argv) {
    struct driver driver = {.seed = 1, .memory_mib = 512, .seconds = 10};
    char keep[] = "/tmp/mutate_traces.XXXXXX";
    parse(&driver, argc, argv);
    if (driver.n_seeds == 0) {
        fprintf(stderr, "mutate_traces: no TRACE is given; name at least one trace to mutate\n");
        return 2;
    }
    if (driver.keep == NULL) {
        driver.keep = mkdtemp(keep);
    }
    if (driver.count == 0) {
        const char *scale = getenv("AG_TEST_SCALE");
        driver.count = scale != NULL && strcmp(scale, "full") == 0      ? 100000
                       : driver.words[0] != NULL || driver.n_inside > 0 ? 500
                                                                        : 5000;
        driver.count /= scale != NULL && strcmp(scale, "quarter") == 0 ? 4 : 1;
    }
    driver.current = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (driver.current == MAP_FAILED || driver.keep == NULL) {
        perror("mutate_traces");
        return 2;
    }
    const unsigned n_failed = run_all(&driver);
    printf("1..1\n%s 1 - %llu mutated traces", n_failed == 0 ? "ok" : "not ok",
           (unsigned long long)driver.count);
    for (size_t i = 0; i < driver.n_inside; i++) {
        printf("%s%s", i == 0 ? " through " : ", ", driver.inside[i]);
    }
    printf("%s%s\n", driver.words[0] == NULL ? "" : " through ",
           driver.words[0] == NULL ? "" : driver.words[0]);

    for (size_t i = 0; i < driver.n_seeds; i++) {
        free(driver.seeds[i].data);
    }
    char path[4096];
    snprintf(path, sizeof(path), "%s/mutation.allogram", driver.keep);
    (void)unlink(path); /* the file exists only with --command */
    if (n_failed == 0) {
        (void)rmdir(driver.keep); /* fails, as it should, when something else is in the folder */
    }
    return n_failed != 0;
}
