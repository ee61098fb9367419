/* process_family.c: process_family SEED LOG NAME DEPTH: a tree of processes that the seed
 * determines. Each process allocates blocks, and frees and reallocates blocks of its own and
 * blocks that it has inherited from its parents. It starts children in all ways of `start_child`,
 * and may change its title, become a subreaper, a session leader, or (as root) change its root
 * folder. Before a process ends, or executes another program, it appends a line to the file LOG
 * with its own counts:
 *
 *     NAME PARENT HOW PID IMAGE TITLE ALLOCATED_BLOCKS ALLOCATED_BYTES FREED_BLOCKS FREED_BYTES
 *     INHERITED_FREES PEAK_BYTES
 *
 * NAME: the name of the process and of its program. PARENT: the process and program from which it
 * comes; "-": none. HOW: fork, exec (in the same process), spawn (vfork or posix_spawn, and exec);
 * "-": the first process. IMAGE: how many programs the process has executed before. TITLE: what the
 * process calls itself; "-": what the kernel called it when its program began; "?": it has changed
 * its title too shortly before its end for allogram to see it with certainty.
 *
 * The order of the events of two threads at one address is only known up to a tick of the writer.
 * So a thread frees only blocks of its own, and leaves none; PEAK_BYTES of a process that has run a
 * thread is "?"; and a child that a thread has forked starts no thread, because libc may give that
 * thread the heap with the inherited blocks that the child frees.
 *
 * No process calls malloc in any other way, except that the first thread of a program that
 * pthread_create starts needs a block of libc. The caller gives its size in the environment
 * variable THREAD_BLOCK_BYTES, which it measures with "process_family THREADS", where THREADS
 * threads run one after the other. */
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../say.h"

enum {
    BLOCKS_MOST = 4096,
    NAME_BYTES = 64,
    PATH_BYTES = 512,
    SEEN_US = 600000, /* the writer reads titles every 50 ms, with many processes less often */
};

struct block {
    void *address;
    size_t size;
    int is_inherited;
};
static struct block blocks[BLOCKS_MOST];
static size_t n_blocks, first_own; /* the running thread frees no block before first_own */
static struct counts {
    unsigned long long allocated_blocks, allocated_bytes, freed_blocks, freed_bytes,
        inherited_frees, peak_bytes;
} counts;
static uint64_t random_state;
/* Copies of the arguments, which the title may overwrite. */
static char program[PATH_BYTES], log_path[PATH_BYTES];
static char name[NAME_BYTES], parent[NAME_BYTES], how[8], title[32] = "-";
static char *arguments_begin, *arguments_end;
static int log_fd;
static unsigned n_images;         /* programs that this process has executed before */
static size_t thread_block_bytes; /* 0: no threads */
static int has_thread_block;      /* a block of an ended thread is kept for the next one */
static int has_run_thread;        /* in this process */
static int is_of_thread;          /* pthread_create has started the main thread, in a parent */
static int is_in_root;            /* in another root folder, where no program is */
extern char **environ;

static unsigned random_below(unsigned n) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % n;
}

/* ---- blocks ---- */

static void count_allocation(size_t size) {
    counts.allocated_blocks++;
    counts.allocated_bytes += size;
    const unsigned long long in_use = counts.allocated_bytes - counts.freed_bytes;
    counts.peak_bytes = in_use > counts.peak_bytes ? in_use : counts.peak_bytes;
}

static void add(void *address, size_t size) {
    if (address == NULL || n_blocks == BLOCKS_MOST) {
        _exit(90);
    }
    blocks[n_blocks++] = (struct block){address, size, 0};
    count_allocation(size);
}

static struct block take(void) {
    const size_t at = first_own + random_below((unsigned)(n_blocks - first_own));
    const struct block block = blocks[at];
    blocks[at] = blocks[--n_blocks];
    counts.freed_blocks += !block.is_inherited;
    counts.freed_bytes += block.is_inherited ? 0 : block.size;
    counts.inherited_frees += block.is_inherited;
    return block;
}

static void use_memory(void) {
    for (unsigned left = 20 + random_below(60); left > 0; left--) {
        const unsigned act = random_below(10);
        const size_t size = 1 + random_below(2000);
        if (act < 5 || n_blocks == first_own) {
            add(malloc(size), size);
        } else if (act < 8) {
            free(take().address);
        } else {
            const struct block old = take();
            add(realloc(old.address, size), size);
        }
    }
}

/* ---- names ---- */

static void append(char to[NAME_BYTES], const char *text) {
    const size_t length = strlen(to);
    snprintf(to + length, NAME_BYTES - length, "%s", text);
}

static void append_number(char to[NAME_BYTES], unsigned number) {
    char suffix[16];
    snprintf(suffix, sizeof suffix, ".%u", number);
    append(to, suffix);
}

/* Overwrites the arguments, as setproctitle does, or sets the name of the main thread. */
static void change_title(void) {
    const size_t room = (size_t)(arguments_end - arguments_begin);
    if (random_below(2) == 0) {
        snprintf(title, sizeof title, "family:%u", random_below(1000000));
        memset(arguments_begin, 0, room);
        memcpy(arguments_begin, title, strlen(title) < room ? strlen(title) : room);
        return;
    }
    char thread_name[16];
    snprintf(thread_name, sizeof thread_name, "member%u", random_below(1000000));
    prctl(PR_SET_NAME, thread_name);
    if (strncmp(title, "family:", 7) != 0) { /* the arguments take precedence */
        snprintf(title, sizeof title, "%s", thread_name);
    }
}

/* A process that has changed its title may stay until allogram has surely seen it. */
static void be_seen(void) {
    if (strcmp(title, "-") == 0) {
        return;
    }
    if (random_below(3) == 0) {
        usleep(SEEN_US);
    } else {
        snprintf(title, sizeof title, "?");
    }
}

static void write_line(void) {
    char line[512];
    be_seen();
    char peak[24] = "?";
    if (!has_run_thread) {
        snprintf(peak, sizeof peak, "%llu", counts.peak_bytes);
    }
    const int length = snprintf(
        line, sizeof line, "%s %s %s %d %u %s %llu %llu %llu %llu %llu %s\n", name, parent, how,
        (int)getpid(), n_images, title, counts.allocated_blocks, counts.allocated_bytes,
        counts.freed_blocks, counts.freed_bytes, counts.inherited_frees, peak);
    if (write(log_fd, line, (size_t)length) != length) {
        _exit(91);
    }
}

/* ---- processes ---- */

/* In a forked child: all blocks are inherited now. */
static void become_child(unsigned number) {
    for (size_t i = 0; i < n_blocks; i++) {
        blocks[i].is_inherited = 1;
    }
    counts = (struct counts){0};
    n_images = 0;
    has_run_thread = 0;
    first_own = 0;
    snprintf(parent, sizeof parent, "%s", name);
    append_number(name, number);
    snprintf(how, sizeof how, "fork");
    random_state ^= (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    (void)random_below(2);
}

struct command { /* the arguments of an executed program */
    char seed[24], depth[16], image[16], name[NAME_BYTES];
    char *words[9];
};

static void write_command(struct command *command, const char *new_name, const char *new_how,
                          unsigned image, int depth, uint64_t seed) {
    snprintf(command->seed, sizeof command->seed, "%llu", (unsigned long long)seed);
    snprintf(command->depth, sizeof command->depth, "%d", depth);
    snprintf(command->image, sizeof command->image, "%u", image);
    snprintf(command->name, sizeof command->name, "%s", new_name);
    char *words[] = {program, command->seed,   log_path,       command->name, command->depth,
                     name,    (char *)new_how, command->image, NULL};
    memcpy(command->words, words, sizeof words);
}

static void wait_for(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        _exit(93);
    }
}

static _Noreturn void live(int depth);

/* The child of vfork and posix_spawn is no process of its own before it executes. */
static void spawn_child(unsigned number, int depth, int is_vfork) {
    char child_name[NAME_BYTES];
    snprintf(child_name, sizeof child_name, "%s", name);
    append_number(child_name, number);
    struct command command;
    write_command(&command, child_name, "spawn", 0, depth, random_state ^ number);
    pid_t child;
    if (is_vfork) {
        child = vfork();
        if (child == 0) {
            execv(program, command.words);
            _exit(92);
        }
    } else if (posix_spawn(&child, program, NULL, NULL, command.words, environ) != 0) {
        child = -1;
    }
    wait_for(child);
}

static _Noreturn void execute(int depth) {
    char new_name[NAME_BYTES];
    snprintf(new_name, sizeof new_name, "%s", name);
    append(new_name, ".x");
    struct command command;
    write_command(&command, new_name, "exec", n_images + 1, depth, random_state);
    execv(program, command.words);
    _exit(92);
}

/* Moves into an empty root folder, if the user may. */
static void change_root(void) {
    char folder[PATH_BYTES + 8];
    snprintf(folder, sizeof folder, "%s.root", log_path);
    is_in_root |= chroot(folder) == 0 && chdir("/") == 0;
}

struct forking {
    unsigned number;
    int depth;
};

static void *fork_in_thread(void *context) {
    const struct forking *forking = context;
    first_own = n_blocks;
    use_memory();
    const pid_t child = fork();
    if (child == 0) {
        become_child(forking->number);
        is_of_thread = 1;
        live(forking->depth - 1);
    }
    use_memory();
    wait_for(child);
    while (n_blocks > first_own) {
        free(take().address);
    }
    first_own = 0;
    return NULL;
}

static void run_thread(void *(*start)(void *), void *context) {
    pthread_t thread;
    has_run_thread = 1;
    if (!has_thread_block) {
        count_allocation(thread_block_bytes);
        has_thread_block = 1;
    }
    if (pthread_create(&thread, NULL, start, context) != 0 || pthread_join(thread, NULL) != 0) {
        _exit(94);
    }
}

/* A child that ends at once, and whose child lives on. */
static _Noreturn void start_daemon(int depth) {
    const pid_t daemon = fork();
    if (daemon == 0) {
        if (random_below(2) == 0) {
            setsid();
        }
        become_child(9);
        live(depth - 1);
    }
    write_line();
    _exit(daemon < 0);
}

enum kind { FORK, EXEC, DAEMON, VFORK, SPAWN, SESSION, THREAD, ROOT, KINDS };

static void start_child(unsigned number, int depth) {
    enum kind kind = random_below(KINDS);
    const int is_exec = kind == EXEC || kind == VFORK || kind == SPAWN;
    if ((is_exec && is_in_root) || (kind == THREAD && (thread_block_bytes == 0 || is_of_thread))) {
        kind = FORK;
    }
    if (kind == VFORK || kind == SPAWN) {
        spawn_child(number, depth - 1, kind == VFORK);
        return;
    }
    if (kind == THREAD) {
        run_thread(fork_in_thread, &(struct forking){number, depth});
        return;
    }
    const pid_t child = fork();
    if (child != 0) {
        wait_for(child);
        return;
    }
    become_child(number);
    if (kind == SESSION) {
        setsid();
    } else if (kind == ROOT) {
        change_root();
    } else if (kind == EXEC) {
        use_memory();
        write_line();
        execute(depth - 1);
    } else if (kind == DAEMON) {
        use_memory();
        start_daemon(depth);
    }
    live(depth - 1);
}

static _Noreturn void live(int depth) {
    use_memory();
    if (random_below(4) == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    for (unsigned number = depth > 0 ? 1 + random_below(3) : 0; number > 0; number--) {
        if (random_below(6) == 0) {
            change_title();
        }
        start_child(number, depth);
        use_memory();
    }
    if (random_below(6) == 0) {
        change_title();
    }
    write_line();
    _exit(0);
}

static void *do_nothing(void *context) {
    return context;
}

int main(int argc, char **argv) {
    if (argc == 2) {
        for (int left = atoi(argv[1]); left > 0; left--) {
            run_thread(do_nothing, NULL);
        }
        return 0;
    }
    if (argc < 5) {
        return 2;
    }
    const char *size = getenv("THREAD_BLOCK_BYTES");
    thread_block_bytes = size != NULL ? strtoul(size, NULL, 10) : 0;
    arguments_begin = argv[0];
    arguments_end = argv[argc - 1] + strlen(argv[argc - 1]);
    random_state = strtoull(argv[1], NULL, 10);
    snprintf(program, sizeof program, "%s", argv[0]);
    snprintf(log_path, sizeof log_path, "%s", argv[2]);
    snprintf(name, sizeof name, "%s", argv[3]);
    snprintf(parent, sizeof parent, "%s", argc > 7 ? argv[5] : "-");
    snprintf(how, sizeof how, "%s", argc > 7 ? argv[6] : "-");
    n_images = argc > 7 ? (unsigned)atoi(argv[7]) : 0;
    log_fd = open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    live(atoi(argv[4]));
}
