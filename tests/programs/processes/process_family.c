/* process_family.c: process_family SEED LOG NAME DEPTH: a tree of processes that the seed
 * determines. Each process allocates blocks, and frees and reallocates blocks of its own and
 * blocks that it has inherited from its parents. It starts children by fork, fork and exec, vfork
 * and exec, and a double fork, whose first child ends at once. Before a process ends, or executes
 * another program, it appends a line to the file LOG with its own counts:
 *
 *     NAME IMAGE PARENT HOW PID ALLOCATED_BLOCKS ALLOCATED_BYTES FREED_BLOCKS INHERITED_FREES
 *
 * NAME: the name of the process and of its program. IMAGE: the name in the arguments of the
 * program, which forked processes share. PARENT: the process and program from which it comes; "-":
 * none. HOW: fork, exec (in the same process), spawn (vfork and exec); "-": the first process. No
 * process calls malloc in any other way. */
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../say.h"

enum { BLOCKS_MOST = 4096, NAME_BYTES = 64 };

struct block {
    void *address;
    size_t size;
    int is_inherited;
};
static struct block blocks[BLOCKS_MOST];
static size_t n_blocks;
static unsigned long long allocated_blocks, allocated_bytes, freed_blocks, inherited_frees;
static uint64_t random_state;
static const char *program, *log_path, *image;
static char name[NAME_BYTES], parent[NAME_BYTES], how[8];

static unsigned random_below(unsigned n) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(random_state >> 33) % n;
}

/* ---- blocks ---- */

static void add(void *address, size_t size) {
    if (address == NULL || n_blocks == BLOCKS_MOST) {
        _exit(90);
    }
    blocks[n_blocks++] = (struct block){address, size, 0};
    allocated_blocks++;
    allocated_bytes += size;
}

static struct block take(void) {
    const size_t at = random_below((unsigned)n_blocks);
    const struct block block = blocks[at];
    blocks[at] = blocks[--n_blocks];
    freed_blocks += !block.is_inherited;
    inherited_frees += block.is_inherited;
    return block;
}

static void use_memory(void) {
    for (unsigned left = 20 + random_below(60); left > 0; left--) {
        const unsigned act = random_below(10);
        const size_t size = 1 + random_below(2000);
        if (act < 5 || n_blocks == 0) {
            add(malloc(size), size);
        } else if (act < 8) {
            free(take().address);
        } else {
            const struct block old = take();
            add(realloc(old.address, size), size);
        }
    }
}

/* ---- processes ---- */

static void write_line(void) {
    char line[512];
    const int fd = open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    const int length = snprintf(line, sizeof line, "%s %s %s %s %d %llu %llu %llu %llu\n", name,
                                image, parent, how, (int)getpid(), allocated_blocks,
                                allocated_bytes, freed_blocks, inherited_frees);
    if (fd < 0 || write(fd, line, (size_t)length) != length) {
        _exit(91);
    }
    close(fd);
}

static void append(char to[NAME_BYTES], const char *text) {
    const size_t length = strlen(to);
    snprintf(to + length, NAME_BYTES - length, "%s", text);
}

/* In a forked child: all blocks are inherited now. */
static void become_child(unsigned number) {
    char suffix[16];
    for (size_t i = 0; i < n_blocks; i++) {
        blocks[i].is_inherited = 1;
    }
    allocated_blocks = allocated_bytes = freed_blocks = inherited_frees = 0;
    snprintf(parent, sizeof parent, "%s", name);
    snprintf(suffix, sizeof suffix, ".%u", number);
    append(name, suffix);
    snprintf(how, sizeof how, "fork");
    random_state ^= (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    (void)random_below(2);
}

/* Executes this program for a process with the name NEW_NAME, whose parent is the process FROM. */
static void execute(const char *new_name, const char *from, const char *new_how, int depth,
                    uint64_t seed) {
    char seed_text[24], depth_text[16];
    snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
    snprintf(depth_text, sizeof depth_text, "%d", depth);
    execl(program, program, seed_text, log_path, new_name, depth_text, from, new_how, (char *)NULL);
    _exit(92);
}

static void wait_for(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        _exit(93);
    }
}

static _Noreturn void live(int depth);

static void start_child(unsigned number, int depth) {
    const unsigned kind = random_below(4);
    const uint64_t seed = random_state ^ number;
    char child_name[NAME_BYTES];
    snprintf(child_name, sizeof child_name, "%s", name);
    const size_t length = strlen(child_name);
    snprintf(child_name + length, sizeof child_name - length, ".%u", number);
    if (kind == 3) {
        const pid_t child = vfork();
        if (child == 0) {
            execute(child_name, name, "spawn", depth - 1, seed);
        }
        wait_for(child);
        return;
    }
    const pid_t child = fork();
    if (child != 0) {
        wait_for(child);
        return;
    }
    become_child(number);
    if (kind == 0) {
        live(depth - 1);
    }
    use_memory();
    if (kind == 1) {
        char new_name[NAME_BYTES];
        snprintf(new_name, sizeof new_name, "%s", name);
        append(new_name, ".x");
        write_line();
        execute(new_name, name, "exec", depth - 1, seed);
    }
    const pid_t daemon = fork();
    if (daemon == 0) {
        become_child(9);
        live(depth - 1);
    }
    write_line();
    _exit(daemon < 0);
}

static _Noreturn void live(int depth) {
    use_memory();
    for (unsigned number = depth > 0 ? 1 + random_below(3) : 0; number > 0; number--) {
        start_child(number, depth);
        use_memory();
    }
    write_line();
    _exit(0);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        return 2;
    }
    program = argv[0];
    random_state = strtoull(argv[1], NULL, 10);
    log_path = argv[2];
    image = argv[3];
    snprintf(name, sizeof name, "%s", argv[3]);
    snprintf(parent, sizeof parent, "%s", argc > 6 ? argv[5] : "-");
    snprintf(how, sizeof how, "%s", argc > 6 ? argv[6] : "-");
    if (argc == 5 && random_below(2) == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    }
    live(atoi(argv[4]));
}
