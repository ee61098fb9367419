/* session.c: creates, opens, checks and removes the live segment of a session: the file that its
 * processes share with the writer (segment.h).
 *
 * Access. A process of the session may run as another user when it maps the file: after setpriv,
 * runuser, or a container's entry point. So the file's mode lets all users read and write, and its
 * name keeps other users out: 128 random bits, in a folder that they may traverse but not list. The
 * program gets the name in its environment, which the kernel shows only to the same user and to
 * root. A program that records itself (AG_KEEPER_NONE) passes its file to no other process, so its
 * file's mode excludes other users, too.
 *
 *     /dev/shm/.allogram-live.SESSION/ 0711, owned by the user; SESSION: the session's number
 *     /dev/shm/.allogram-live.SESSION/NAME 0666
 *
 * The file is sparse: of its terabytes of address space, only the touched pages have memory. If so
 * much address space is refused (by a file system, a limit, or a small address space), the file has
 * fewer trees and chunks. The header and the first page of controls are populated here, once, by a
 * system call that fails instead of raising SIGBUS. The writer populates some chunks in advance
 * (ag_session_prepare_chunks); each other part is populated by its first user (segment.h, section
 * 4). */
#include "session.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error_message.h"
#include "base/populate.h"
#include "base/stack_tree.h"
#include "process_watch.h"
#include "session_clock.h"
#include "trace_file.h"

enum {
    DEFAULT_DEPTH = 256,
    DEFAULT_STAMP_EVERY = 64,
    MAX_STAMP_EVERY = 1 << 20,
    MAX_DEPTH = 1 << 16,
    PAGE_BYTES = 4096,
    /* limit of soft_chunks: 8 MiB, which the busiest thread fills in 20 ms. With a higher limit,
     * chunks would only use more cache. */
    SOFT_CHUNKS_MAX = 128,
    SOFT_CHUNKS_MIN = 32,
    FEWEST_CHUNKS = 1024,   /* least number of chunks: 64 MiB */
    FEWEST_NODES = 1 << 18, /* least number of stack nodes: 4 MiB */
    MAX_SLOTS = 1 << 16,    /* limits for what a header may claim */
    MAX_TREES = 1 << 16,
    MAX_CHUNKS = 1 << 24,
    DEFAULT_INTERVAL_BYTES = 512 << 10,
};
#define SHARED_MEMORY_FOLDER "/dev/shm"
#define ROOM_WANTED_BYTES \
    (UINT64_C(48) << 20) /* with less in /dev/shm the output's folder is used */

/* The sizes of a live file, tried in this order: 3.5 TiB of address space, then 228 GiB, 29 GiB, 4
 * GiB and 224 MiB. Each slot has a stack tree, which its process uses unless it was forked from
 * another process of the session: then it shares its parent's tree. */
static const struct {
    uint32_t n_slots, n_chunks;
    int tree_size;
} layouts[] = {{512, 65536, 3}, {512, 65536, 1}, {64, 16384, 1}, {8, 8192, 1}, {2, 1024, 0}};

static int fail(char ret_message[512], int error, const char *what, const char *path) {
    return ag_error_message(ret_message, error, "cannot %s %.400s: %s", what, path,
                            strerror(-error));
}

static uint64_t round_up(uint64_t bytes) {
    return (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

/* ---- geometry ---- */

static void lay_out(struct ag_session *session, uint32_t n_slots, uint32_t n_trees,
                    uint64_t tree_bytes, uint32_t n_chunks) {
    session->n_slots = n_slots;
    session->n_trees = n_trees;
    session->tree_bytes = tree_bytes;
    session->n_chunks = n_chunks;
    session->slots_offset = AG_SEGMENT_HEADER_BYTES;
    session->controls_offset = session->slots_offset + (uint64_t)n_slots * AG_SLOT_BYTES;
    session->trees_offset =
        round_up(session->controls_offset + (uint64_t)n_chunks * sizeof(struct ag_chunk_control));
    session->chunks_offset = round_up(session->trees_offset + (uint64_t)n_trees * tree_bytes);
    session->file_bytes = session->chunks_offset + (uint64_t)n_chunks * AG_CHUNK_BYTES;
}

static int map_file(struct ag_session *session) {
    void *base =
        mmap(NULL, session->file_bytes, PROT_READ | PROT_WRITE,
             (session->is_private ? MAP_PRIVATE : MAP_SHARED) | MAP_NORESERVE, session->fd, 0);
    if (base == MAP_FAILED) {
        return -errno;
    }
    session->base = base;
    session->header = base;
    return 0;
}

static void unmap_file(struct ag_session *session) {
    if (session->base) {
        (void)munmap(session->base, session->file_bytes); /* our own mapping: cannot fail */
        session->base = NULL;
        session->header = NULL;
    }
}

/* Allocates memory for a range of the file. */
static int populate_at(const struct ag_session *session, uint64_t offset, uint64_t bytes) {
    static const uint8_t zeros[PAGE_BYTES];
    if (fallocate(session->fd, 0, (off_t)offset, (off_t)bytes) == 0) {
        return 0;
    }
    if (errno != EOPNOTSUPP && errno != ENOSYS) {
        return -errno;
    }
    for (uint64_t at = offset; at < offset + bytes;) {
        const uint64_t left = offset + bytes - at;
        const ssize_t n =
            pwrite(session->fd, zeros, left < sizeof(zeros) ? left : sizeof(zeros), (off_t)at);
        if (n < 0 && errno != EINTR) {
            return -errno;
        }
        at += n > 0 ? (uint64_t)n : 0;
    }
    return 0;
}

/* Populates the header and the first page of controls, which all processes touch. */
static int populate_front(struct ag_session *session) {
    const int r = populate_at(session, 0, AG_SEGMENT_HEADER_BYTES);
    return r < 0 ? r : populate_at(session, session->controls_offset, PAGE_BYTES);
}

/* Populates what the first process of `attach` touches when it joins, because one of its threads is
 * stopped while the process joins. What cannot be populated now is populated when it is needed. */
static void populate_first(const struct ag_session *session) {
    struct ag_stack_tree *tree = calloc(1, sizeof(*tree)); /* a temporary view of the tree */
    struct ag_chunk_control *control = ag_session_control(session, 0);
    uint8_t *chunk = session->base + session->chunks_offset;
    (void)ag_populate(session->base, AG_SEGMENT_HEADER_BYTES);
    (void)ag_populate(ag_session_slot(session, 0), AG_SLOT_BYTES);
    (void)ag_populate(control, sizeof(*control));
    if (tree != NULL) {
        (void)ag_stack_tree_init(tree, session->base + session->trees_offset,
                                 ag_tree_size_of(session->tree_bytes), ag_populate,
                                 /* mapper= */ NULL);
    }
    atomic_store_explicit(&control->populated, ag_populate(chunk, AG_CHUNK_BYTES),
                          memory_order_relaxed);
    free(tree);
}

void ag_session_prepare_chunks(const struct ag_session *session) {
    enum { AHEAD_MOST = 32, CONTROLS_A_PAGE = PAGE_BYTES / sizeof(struct ag_chunk_control) };
    struct ag_segment_header *header = session->header;
    const uint32_t touched = atomic_load_explicit(&header->n_chunks_touched, memory_order_acquire);
    const uint32_t ahead = touched + 2 < AHEAD_MOST ? touched + 2 : AHEAD_MOST;
    const uint32_t end = touched < session->n_chunks && ahead < session->n_chunks - touched
                             ? touched + ahead
                             : session->n_chunks;
    uint32_t ready = atomic_load_explicit(&header->n_chunks_ready, memory_order_relaxed);
    for (ready = ready > touched ? ready : touched; ready < end; ready++) {
        const uint64_t control =
            session->controls_offset + (uint64_t)ready * sizeof(struct ag_chunk_control);
        const uint64_t words = session->chunks_offset + (uint64_t)ready * AG_CHUNK_BYTES;
        /* fallocate, not writes: a write would modify a chunk that a recorder has taken
         * meanwhile */
        if ((ready % CONTROLS_A_PAGE == 0 &&
             fallocate(session->fd, 0, (off_t)control, PAGE_BYTES) < 0) ||
            fallocate(session->fd, 0, (off_t)words, AG_CHUNK_BYTES) < 0) {
            return;
        }
        /* release: pairs with the acquire in the recorders' chunk_supply.c */
        atomic_store_explicit(&header->n_chunks_ready, ready + 1, memory_order_release);
    }
}

static uint64_t room_bytes(const char *folder) {
    struct statfs status;
    return statfs(folder, &status) == 0 ? (uint64_t)status.f_bavail * (uint64_t)status.f_bsize : 0;
}

/* Limits the chunks to half of the free space: without a writer, the recorders fill all of them. */
static uint32_t bounded_chunks(const struct ag_session *session, uint32_t n_chunks) {
    const uint64_t most = room_bytes(session->path) / 2 / AG_CHUNK_BYTES;
    return most >= n_chunks ? n_chunks : most > FEWEST_CHUNKS ? (uint32_t)most : FEWEST_CHUNKS;
}

/* Limits the nodes of stack trees to half of the free space: chunks need memory, too. */
static uint32_t bounded_nodes(const struct ag_session *session) {
    const uint64_t most = room_bytes(session->path) / 2 / sizeof(struct ag_linked_node);
    const uint32_t limit = ag_tree_node_limit(ag_tree_size_of(session->tree_bytes));
    return most >= limit ? limit : most > FEWEST_NODES ? (uint32_t)most : FEWEST_NODES;
}

static int size_and_map(struct ag_session *session) {
    int r = -EFBIG;
    for (size_t i = 0; i < AG_ARRAY_SIZE(layouts); i++) {
        lay_out(session, layouts[i].n_slots, layouts[i].n_slots,
                ag_tree_bytes(layouts[i].tree_size), bounded_chunks(session, layouts[i].n_chunks));
        r = ftruncate(session->fd, (off_t)session->file_bytes) == 0 ? map_file(session) : -errno;
        if (r == 0) {
            r = populate_front(session);
            if (r < 0) {
                unmap_file(session); /* the caller tries another folder, or gives up */
            }
            return r;
        }
    }
    return r;
}

/* ---- creating ---- */

enum { NAME_DIGITS = 32 };

static void live_folder(const char *folder, uint64_t id, char ret_path[4096]) {
    (void)snprintf(ret_path, 4096, "%.4000s" AG_LIVE_FOLDER_MARK "%016llx", folder,
                   (unsigned long long)id);
}

static bool is_live_name(const char *name) {
    size_t digits = 0;
    while (isxdigit((unsigned char)name[digits])) {
        digits++;
    }
    return digits == NAME_DIGITS && name[digits] == '\0';
}

/* Removes the folder of a live file that is gone. A folder whose name is not that of a live folder
 * is not removed. */
static void remove_live_folder(const char *live_path) {
    char folder[4096];
    const char *slash = strrchr(live_path, '/');
    (void)snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - live_path) : 0, live_path);
    const char *name = strrchr(folder, '/');
    if (name && strncmp(name, AG_LIVE_FOLDER_MARK, strlen(AG_LIVE_FOLDER_MARK)) == 0) {
        (void)rmdir(folder); /* a folder with another file stays */
    }
}

/* Is NAME in FOLDER a regular file of OWNER? Does not use fstatat: the symbol is newer than some C
 * libraries with which Allogram.jl has to load. */
static bool is_file_of(int folder, const char *name, uint32_t owner) {
    struct stat status;
    const int fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    const bool is =
        fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == owner;
    ag_descriptor_close(fd);
    return is;
}

bool ag_session_find_live(const char *folder, uint64_t id, uint32_t owner, char ret_path[4096]) {
    char live[4096];
    struct stat status;
    live_folder(folder, id, live);
    const int fd = open(live, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *listing =
        fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == owner ? fdopendir(fd) : NULL;
    if (!listing) {
        ag_descriptor_close(fd);
        return false;
    }
    bool is_found = false;
    for (struct dirent *entry; !is_found && (entry = readdir(listing));) {
        is_found = is_live_name(entry->d_name) && is_file_of(fd, entry->d_name, owner);
        if (is_found) {
            (void)snprintf(ret_path, 4096, "%.4060s/%.32s", live, entry->d_name);
        }
    }
    (void)closedir(listing); /* nothing was written */
    return is_found;
}

void ag_session_remove_empty_folder(const char *folder, uint64_t id, uint32_t owner) {
    char live[4096];
    struct stat status;
    live_folder(folder, id, live);
    if (lstat(live, &status) == 0 && status.st_uid == owner) {
        (void)rmdir(live); /* a folder that is not empty stays */
    }
}

/* Whether the live file PATH was left by an `attach` that was killed before its writer began. Such
 * a file has no events, and no process removes it. Other live files are kept: `allogram check`
 * completes a trace from the live file that a killed writer has left. Each process that uses a live
 * file holds a lock on it: the command that created it, its writer, and each recorded process. */
static bool is_abandoned(const char *path) {
    struct ag_segment_header header = {0};
    struct flock any = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    const int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const bool is = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                    fcntl(fd, F_OFD_GETLK, &any) == 0 && any.l_type == F_UNLCK &&
                    pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
                    header.magic == AG_SEGMENT_MAGIC && header.version == AG_SEGMENT_VERSION &&
                    header.keeper == AG_KEEPER_ATTACH && header.has_locks == 1 &&
                    atomic_load_explicit(&header.writer_pid, memory_order_relaxed) == 0;
    ag_descriptor_close(fd);
    return is;
}

/* Removes the abandoned live files of this user in FOLDER. */
static void remove_abandoned(const char *folder) {
    static const char mark[] = AG_LIVE_FOLDER_MARK; /* begins with a slash */
    char path[4096];
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (strncmp(entry->d_name, mark + 1, sizeof(mark) - 2) == 0 &&
            ag_session_find_live(folder, strtoull(entry->d_name + sizeof(mark) - 2, NULL, 16),
                                 geteuid(), path) &&
            is_abandoned(path)) {
            ag_session_remove_path(path);
        }
    }
    if (listing) {
        (void)closedir(listing); /* nothing was written */
    }
}

static int open_live(struct ag_session *session, const char *folder, enum ag_keeper keeper) {
    uint64_t random[2];
    live_folder(folder, session->id, session->path);
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return -EIO;
    }
    if (mkdir(session->path, 0700) < 0) {
        return -errno;
    }
    const size_t length = strlen(session->path);
    if (chmod(session->path, keeper == AG_KEEPER_NONE ? 0700 : 0711) < 0 ||
        length + 1 + NAME_DIGITS >= sizeof(session->path)) {
        (void)rmdir(session->path); /* created a moment ago */
        return -EPERM;
    }
    (void)snprintf(session->path + length, sizeof(session->path) - length, "/%016llx%016llx",
                   (unsigned long long)random[0], (unsigned long long)random[1]);
    session->fd = open(session->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (session->fd < 0) {
        const int r = -errno;
        remove_live_folder(session->path);
        return r;
    }
    if (keeper != AG_KEEPER_NONE) {
        (void)fchmod(session->fd, 0666); /* fails only on a file system without modes */
    }
    return 0;
}

/* Does a lock live exactly as long as a mapping on this file system (segment.h, section 6)? This is
 * tested, because file systems and sandboxes that emulate Linux differ. */
static bool try_locks(const struct ag_session *session) {
    const uint64_t identity = session->id;
    struct flock lock = {.l_type = F_RDLCK,
                         .l_whence = SEEK_SET,
                         .l_start = ag_life_lock_place(identity, AG_LOCK_OWN),
                         .l_len = 1};
    const int fd = open(session->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    void *page = MAP_FAILED;
    if (fd >= 0 && fcntl(fd, F_OFD_SETLK, &lock) == 0) {
        page = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    }
    ag_descriptor_close(fd);
    if (page == MAP_FAILED) {
        return false;
    }
    const bool is_kept = ag_session_is_locked(session, identity, AG_LOCK_OWN);
    (void)munmap(page, PAGE_BYTES); /* our own mapping: cannot fail */
    return is_kept && !ag_session_is_locked(session, identity, AG_LOCK_OWN);
}

/* Locks the byte of the file that belongs to the identity 0, which no process has. The lock lasts
 * as long as this process or a child that inherits the descriptor lives. */
static void lock_as_keeper(const struct ag_session *session) {
    struct flock lock = {.l_type = F_RDLCK,
                         .l_whence = SEEK_SET,
                         .l_start = ag_life_lock_place(/* identity= */ 0, AG_LOCK_OWN),
                         .l_len = 1};
    /* fails only if try_locks has failed, too; then the header says that the file has no locks */
    (void)fcntl(session->fd, F_OFD_SETLK, &lock);
}

static int make_in(struct ag_session *session, const char *folder, enum ag_keeper keeper) {
    int r = open_live(session, folder, keeper);
    if (r == 0) {
        r = size_and_map(session);
        if (r < 0) {
            ag_session_remove(session); /* created a moment ago */
        }
    }
    return r;
}

static void write_header(struct ag_session *session, const struct ag_session_options *options) {
    struct ag_segment_header *header = session->header;
    header->version = AG_SEGMENT_VERSION;
    header->header_bytes = AG_SEGMENT_HEADER_BYTES;
    header->file_bytes = session->file_bytes;
    header->session = session->id;
    header->n_slots = session->n_slots;
    header->n_trees = session->n_trees;
    header->n_chunks = session->n_chunks;
    header->slots_offset = session->slots_offset;
    header->controls_offset = session->controls_offset;
    header->trees_offset = session->trees_offset;
    header->chunks_offset = session->chunks_offset;
    header->tree_bytes = session->tree_bytes;
    header->node_limit = bounded_nodes(session);
    header->mode = session->mode;
    header->seed = session->seed;
    atomic_store_explicit(&header->interval_bytes, session->interval_bytes, memory_order_relaxed);
    header->depth = session->depth;
    header->follow_children = !options->no_children;
    header->free_stacks = options->has_free_stacks;
    /* Samples are rare, and the clock is read for each sample anyway. So each sample has its own
     * stamp (time), and the writer does not have to increment header.tick every millisecond. */
    const uint32_t usual = options->is_sampling ? 1 : DEFAULT_STAMP_EVERY;
    header->stamp_every = options->stamp_every ? options->stamp_every : usual;
    const uint64_t room_chunks =
        room_bytes(session->path) / 4 / AG_CHUNK_BYTES; /* a quarter of the free space */
    header->soft_chunks = room_chunks < SOFT_CHUNKS_MIN   ? SOFT_CHUNKS_MIN
                          : room_chunks > SOFT_CHUNKS_MAX ? SOFT_CHUNKS_MAX
                                                          : (uint32_t)room_chunks;
    header->pid_namespace = session->pid_namespace;
    header->keeper = options->keeper;
    header->has_locks = session->has_locks;
    header->keeper_pid = (uint32_t)getpid();
    header->max_trace_bytes = session->max_trace_bytes;
    memcpy(header->trace_pattern, session->trace_pattern, sizeof(header->trace_pattern));
    memcpy(header->filter, session->filter, sizeof(header->filter));
    header->clock_kind = session->clock_kind;
    ag_session_clock_begin(session);
    header->clock_origin = session->clock_origin;
    header->clock_origin_realtime_ns = session->clock_origin_realtime_ns;
    header->magic = AG_SEGMENT_MAGIC;
}

static int check_options(const struct ag_session_options *options, char ret_message[512]) {
    struct ag_block_filter filter;
    if (options->size != sizeof(*options)) {
        return ag_error_message(
            ret_message, -EINVAL,
            "the options have a size that this version of allogram does not know; compile the caller with the header of this version");
    }
    if (options->depth > MAX_DEPTH) {
        return ag_error_message(ret_message, -EINVAL,
                                "a depth of %u frames is more than the limit of %u", options->depth,
                                MAX_DEPTH);
    }
    if (options->stamp_every > MAX_STAMP_EVERY) {
        return ag_error_message(ret_message, -EINVAL,
                                "a time stamp every %u events is more than the limit of %u events",
                                options->stamp_every, MAX_STAMP_EVERY);
    }
    return ag_block_filter_parse(options->filter, &filter, ret_message);
}

static int random_id(uint64_t *ret_id) {
    do {
        if (getrandom(ret_id, sizeof(*ret_id), 0) != (ssize_t)sizeof(*ret_id)) {
            return -EIO;
        }
    } while (*ret_id == 0);
    return 0;
}

static struct ag_session *new_session(void) {
    struct ag_session *session = calloc(1, sizeof(*session));
    if (session) {
        session->fd = session->first_trace_fd = -1;
    }
    return session;
}

/* Copies the conditions of dumps, and maps the page for requests. Must be called before `run`
 * forks: all of its processes share the page. */
static int set_up_snapshots(struct ag_session *session, const struct ag_session_options *options) {
    for (size_t i = 0; i < options->n_dumps; i++) {
        const enum ag_dump_kind kind = options->dumps[i].kind;
        session->dumps[session->n_dumps++] = options->dumps[i];
        session->follows_bytes |=
            kind == AG_DUMP_GC || kind == AG_DUMP_PEAK || kind == AG_DUMP_BYTES;
    }
    if (!options->has_requests) {
        return 0;
    }
    void *page = mmap(NULL, sizeof(*session->requests), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    session->requests = page != MAP_FAILED ? page : NULL;
    return session->requests ? 0 : -ENOMEM;
}

enum ag_pause ag_session_pause(struct ag_session *session, enum ag_pause pause) {
    uint32_t was = atomic_load_explicit(&session->header->paused, memory_order_relaxed);
    while (was != AG_PAUSE_OVER &&
           !atomic_compare_exchange_weak_explicit(&session->header->paused, &was, pause,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
    return was;
}

enum ag_pause ag_session_paused(const struct ag_session *session) {
    return atomic_load_explicit(&session->header->paused, memory_order_relaxed);
}

struct ag_snapshot_requests *ag_session_requests(const struct ag_session *session) {
    return session->requests;
}

static int set_up_sampling(struct ag_session *session, const struct ag_session_options *options) {
    session->mode = options->is_sampling ? AG_MODE_SAMPLE : AG_MODE_EXACT;
    if (!options->is_sampling) {
        return 0;
    }
    session->interval_bytes =
        options->interval_bytes ? options->interval_bytes : DEFAULT_INTERVAL_BYTES;
    session->least_interval_bytes = session->most_interval_bytes = session->interval_bytes;
    session->budget_percent = options->budget_percent;
    session->seed = options->seed;
    return options->has_seed ? 0 : random_id(&session->seed);
}

int ag_session_create(const struct ag_session_options *options, struct ag_session **ret_session,
                      char ret_message[512]) {
    int r = check_options(options, ret_message);
    if (r < 0) {
        return r;
    }
    struct ag_session *session = new_session();
    if (!session) {
        return fail(ret_message, -ENOMEM, "start", "a session");
    }
    session->depth = options->depth ? options->depth : DEFAULT_DEPTH;
    session->has_free_stacks = options->has_free_stacks;
    session->is_attached = options->is_attached;
    session->max_trace_bytes = options->max_bytes;
    if (options->filter) {
        (void)snprintf(session->filter, sizeof(session->filter), "%s", options->filter); /* fits */
    }
    session->pid_namespace = ag_process_own_namespace();
    session->begun_ticks = options->is_attached ? 0 : ag_process_boot_ticks();
    session->clock_kind = ag_session_clock_choose();
    session->clock_origin_realtime_ns = ag_kernel_clock_ns(CLOCK_REALTIME);
    r = ag_trace_pattern_complete(options->output_pattern, session->trace_pattern, ret_message);
    if (r < 0) {
        goto failed;
    }
    r = random_id(&session->id);
    r = r < 0 ? r : set_up_sampling(session, options);
    if (r < 0) {
        (void)fail(ret_message, r, "read", "random bytes");
        goto failed;
    }
    r = set_up_snapshots(session, options);
    if (r < 0) {
        (void)fail(ret_message, r, "map a page for", "requests of snapshots");
        goto failed;
    }
    char output_folder[4096];
    ag_trace_pattern_folder(session->trace_pattern, output_folder);
    const char *folder = options->live_directory;
    if (options->keeper != AG_KEEPER_NONE) {
        remove_abandoned(folder ? folder : SHARED_MEMORY_FOLDER);
    }
    r = -ENOSPC;
    if (folder || room_bytes(SHARED_MEMORY_FOLDER) >= ROOM_WANTED_BYTES) {
        r = make_in(session, folder ? folder : SHARED_MEMORY_FOLDER, options->keeper);
    }
    if (r < 0 && !folder) {
        ag_descriptor_close(session->fd); /* the file in shared memory that could not be enlarged */
        session->fd = -1; /* the number may soon be that of another thread's descriptor */
        r = make_in(session, output_folder, options->keeper);
    }
    if (r == -EFBIG) {
        (void)snprintf(ret_message, 512,
                       "cannot create the live file: the limit on file sizes is too small; "
                       "raise it: ulimit -f unlimited");
        goto failed;
    }
    if (r == -ENOMEM) {
        (void)snprintf(ret_message, 512,
                       "cannot map the live file: not enough address space; raise the limit: "
                       "ulimit -v unlimited");
        goto failed;
    }
    if (r < 0) {
        (void)fail(ret_message, r, "create a live file in", folder ? folder : output_folder);
        goto failed;
    }
    session->has_locks = try_locks(session);
    lock_as_keeper(session);
    write_header(session, options);
    if (options->is_attached) {
        populate_first(session);
    }
    *ret_session = session;
    return 0;
failed:
    (void)ag_session_close(session); /* returns NULL */
    return r;
}

/* ---- opening an existing session ---- */

static bool geometry_is_sane(const struct ag_segment_header *header, const struct stat *status) {
    if (header->magic != AG_SEGMENT_MAGIC || header->version != AG_SEGMENT_VERSION ||
        header->session == 0 || header->n_slots == 0 || header->n_slots > MAX_SLOTS ||
        header->n_trees == 0 || header->n_trees > MAX_TREES || header->n_chunks == 0 ||
        header->n_chunks > MAX_CHUNKS || ag_tree_size_of(header->tree_bytes) < 0) {
        return false;
    }
    struct ag_session expected;
    lay_out(&expected, header->n_slots, header->n_trees, header->tree_bytes, header->n_chunks);
    return header->file_bytes == expected.file_bytes &&
           (uint64_t)status->st_size == expected.file_bytes &&
           header->slots_offset == expected.slots_offset &&
           header->controls_offset == expected.controls_offset &&
           header->trees_offset == expected.trees_offset &&
           header->chunks_offset == expected.chunks_offset &&
           header->clock_kind <= AG_CLOCK_MONOTONIC;
}

static int read_header(struct ag_session *session, struct ag_segment_header *ret_header,
                       struct stat *ret_status) {
    const int access = session->is_private ? O_RDONLY : O_RDWR;
    session->fd = open(session->path, access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (session->fd < 0 || fstat(session->fd, ret_status) < 0) {
        return -errno;
    }
    if (!S_ISREG(ret_status->st_mode)) {
        return -EINVAL;
    }
    const ssize_t n = pread(session->fd, ret_header, sizeof(*ret_header), 0);
    return n < 0 ? -errno : n != (ssize_t)sizeof(*ret_header) ? -EINVAL : 0;
}

static int open_session(const char *path, bool is_private, struct ag_session **ret_session,
                        char ret_message[512]) {
    struct ag_session *session = new_session();
    if (!session) {
        return fail(ret_message, -ENOMEM, "open", path);
    }
    session->is_private = is_private;
    struct ag_segment_header header;
    struct stat status = {0};
    int r = -ENAMETOOLONG;
    if ((size_t)snprintf(session->path, sizeof(session->path), "%s", path) <
        sizeof(session->path)) {
        r = read_header(session, &header, &status);
    }
    if (r == 0) {
        r = geometry_is_sane(&header, &status) ? 0 : -EINVAL;
    }
    if (r == 0) {
        lay_out(session, header.n_slots, header.n_trees, header.tree_bytes, header.n_chunks);
        r = map_file(session);
    }
    if (r < 0) {
        const char *why = r != -EINVAL               ? strerror(-r)
                          : !S_ISREG(status.st_mode) ? "it is not a regular file"
                                                     : "it is damaged or was made by another "
                                                       "version of allogram";
        (void)ag_session_close(session); /* returns NULL */
        return ag_error_message(ret_message, r, "cannot open the live file %.400s: %s", path, why);
    }
    session->id = header.session;
    session->mode = header.mode;
    session->seed = header.seed;
    session->interval_bytes = atomic_load_explicit(&header.interval_bytes, memory_order_relaxed);
    session->least_interval_bytes = session->most_interval_bytes = session->interval_bytes;
    session->depth = header.depth;
    session->has_free_stacks = header.free_stacks != 0;
    session->clock_kind = header.clock_kind;
    session->clock_origin = header.clock_origin;
    session->clock_origin_realtime_ns = header.clock_origin_realtime_ns;
    session->max_trace_bytes = header.max_trace_bytes;
    session->pid_namespace = header.pid_namespace;
    session->has_locks = header.has_locks == 1;
    memcpy(session->trace_pattern, header.trace_pattern, sizeof(session->trace_pattern));
    session->trace_pattern[sizeof(session->trace_pattern) - 1] = '\0';
    memcpy(session->filter, header.filter, sizeof(session->filter));
    session->filter[sizeof(session->filter) - 1] = '\0';
    *ret_session = session;
    return 0;
}

int ag_session_open(const char *path, struct ag_session **ret_session, char ret_message[512]) {
    return open_session(path, /* is_private= */ false, ret_session, ret_message);
}

int ag_session_open_private(const char *path, struct ag_session **ret_session,
                            char ret_message[512]) {
    return open_session(path, /* is_private= */ true, ret_session, ret_message);
}

const char *ag_session_path(const struct ag_session *session) {
    return session->path;
}

bool ag_session_can_be_joined(const struct ag_session *session) {
    struct stat file, name;
    return fstat(session->fd, &file) < 0 || /* cannot fail for an open file */
           (lstat(session->path, &name) == 0 && name.st_dev == file.st_dev &&
            name.st_ino == file.st_ino);
}

struct ag_session *ag_session_close(struct ag_session *session) {
    if (session) {
        unmap_file(session);
        if (session->requests) {
            /* our own mapping: cannot fail */
            (void)munmap(session->requests, sizeof(*session->requests));
        }
        ag_descriptor_close(session->fd);
        ag_descriptor_close(session->first_trace_fd);
        free(session);
    }
    return NULL;
}

void ag_session_remove(struct ag_session *session) {
    ag_session_remove_path(session->path);
}

void ag_session_remove_path(const char *path) {
    (void)unlink(path); /* fails only when it has been removed already */
    remove_live_folder(path);
}

/* Refuses an output that exists and is not a regular file, such as a folder or /dev/null: the user
 * does not expect that a file with a numbered name is created instead. 0, or -EEXIST with a
 * message. */
static int refuse_strange_output(const struct ag_session *session,
                                 const struct ag_trace_names *names, char ret_message[512]) {
    char path[4096];
    struct stat status;
    if (ag_trace_name_expand(session->trace_pattern, names, path) < 0 || lstat(path, &status) < 0 ||
        S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) {
        return 0; /* creating the file reports other errors */
    }
    return ag_error_message(ret_message, -EEXIST, "output %.400s: %s", path,
                            S_ISDIR(status.st_mode) ? "is a folder; name a file in it"
                                                    : "is not a regular file; name a new one");
}

int ag_session_first_trace(struct ag_session *session, uint32_t pid, const char *program,
                           char ret_path[4096], char ret_message[512]) {
    const struct ag_trace_names names = {
        .program = program, .pid = pid, .start_s = session->clock_origin_realtime_ns / 1000000000u};
    uint64_t namespace = session->pid_namespace;
    const uint32_t own_pid = session->is_attached ? ag_process_own_pid(pid, &namespace)
                                                  /* a child of `run` is in the same PID
                                                   * namespace */
                                                  : pid;
    const struct ag_trace_header header = {.session = session->id,
                                           .pid = own_pid,
                                           .slot = AG_NUMBER_FIRST,
                                           .start_realtime_ns = session->clock_origin_realtime_ns};
    const int r = refuse_strange_output(session, &names, ret_message);
    if (r < 0) {
        return r;
    }
    const int fd =
        ag_trace_file_create(session->trace_pattern, &names, &header, session->first_trace_path);
    if (fd < 0) {
        return ag_error_message(ret_message, fd,
                                "cannot create the trace %.400s: %s; choose another path with -o",
                                session->first_trace_path, strerror(-fd));
    }
    session->first_pid = pid;
    session->first_own_pid = own_pid;
    session->first_namespace = namespace;
    session->header->first_pid = own_pid;
    session->header->first_namespace = namespace;
    session->first_trace_fd = fd;
    memcpy(ret_path, session->first_trace_path, sizeof(session->first_trace_path));
    return 0;
}

void ag_session_remove_empty_trace(const char *path) {
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size <= AG_SESSION_EMPTY_TRACE_BYTES) {
        (void)unlink(path); /* a leftover file is harmless */
    }
}

void ag_session_first_is_gone(struct ag_session *session, enum ag_gone gone) {
    const uint32_t n_used = ag_session_slots_used(session);
    for (uint32_t i = 0; i < n_used; i++) {
        struct ag_process_slot *slot = ag_session_slot(session, i);
        uint32_t expected = AG_SLOT_LIVE;
        if (ag_session_is_first(session, slot->pid, slot->pid_namespace) &&
            atomic_load_explicit(&slot->state, memory_order_acquire) == AG_SLOT_LIVE) {
            atomic_store_explicit(&slot->exiting,
                                  gone == AG_GONE_BY_EXEC ? AG_SLOT_EXITS : AG_SLOT_LEAVES,
                                  memory_order_relaxed);
            /* release: pairs with the writer's acquire; how the process ended is stored before */
            (void)atomic_compare_exchange_strong_explicit(&slot->state, &expected, AG_SLOT_REPLACED,
                                                          memory_order_release,
                                                          memory_order_relaxed);
        }
    }
}

void ag_session_code_changed(struct ag_session *session) {
    _Atomic uint64_t *const changed_ns = &session->header->code_changed_ns;
    if (atomic_load_explicit(changed_ns, memory_order_relaxed) == 0) {
        atomic_store_explicit(changed_ns, ag_session_clock_now_ns(session), memory_order_relaxed);
    }
}

void ag_session_free_memory(const struct ag_session *session) {
    (void)fallocate(session->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    /* if this fails, the memory is freed with the last mapping */
                    (off_t)session->file_bytes);
}

size_t ag_session_descriptors(const struct ag_session *session,
                              int ret_fds[AG_SESSION_MAX_DESCRIPTORS]) {
    size_t count = 0;
    if (session->fd >= 0) {
        ret_fds[count++] = session->fd;
    }
    if (session->first_trace_fd >= 0) {
        ret_fds[count++] = session->first_trace_fd;
    }
    return count;
}

/* ---- operations of a writer ---- */

int ag_session_lock(struct ag_session *session, bool wait) {
    /* Makes an open file description of its own: a description that is shared with a forked process
     * would keep the lock as long as that process lives. The path in /proc works even if the live
     * file was deleted, so that the writer can serve the processes that have it mapped. */
    char own[32];
    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", session->fd);
    int fd = wait ? open(own, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) {
        fd = open(session->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        return -errno;
    }
    while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0) {
        if (errno != EINTR) {
            const int r = -errno;
            (void)close(fd); /* nothing was written */
            return r;
        }
    }
    (void)close(session->fd); /* the mapping does not need the descriptor */
    session->fd = fd;
    return 0;
}

/* A writer holds the exclusive lock as long as it lives; readers share the lock. */
bool ag_session_lock_out_writer(const struct ag_session *session) {
    return flock(session->fd, LOCK_SH | LOCK_NB) == 0;
}

bool ag_session_has_writer(const struct ag_session *session) {
    if (!ag_session_lock_out_writer(session)) {
        return true;
    }
    (void)flock(session->fd, LOCK_UN); /* cannot fail while it is held */
    return false;
}

bool ag_session_is_locked(const struct ag_session *session, uint64_t identity,
                          enum ag_life_lock which) {
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = ag_life_lock_place(identity, which),
                         .l_len = 1};
    return fcntl(session->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

bool ag_session_has_families(const struct ag_session *session) {
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = ag_life_lock_place(/* identity= */ 0, AG_LOCK_FAMILY),
                         .l_len = 0}; /* to the highest offset */
    return fcntl(session->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

void ag_session_clear_tree(struct ag_session *session, uint32_t tree) {
    const uint64_t offset = session->trees_offset + (uint64_t)tree * session->tree_bytes;
    if (fallocate(session->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)session->tree_bytes) == 0) {
        return;
    }
    /* This file system cannot punch holes, but the next user of the tree must find zeros. Writing
     * zeros everywhere would fill the disk, so only nonzero words are overwritten, in the base of
     * the tree and in those of its pieces (stack_tree.h) that were mapped. */
    const struct ag_tree_counts *counts =
        (const struct ag_tree_counts *)(const void *)(session->base + offset + AG_COUNTS_OFFSET);
    uint64_t pieces[AG_ARRAY_SIZE(counts->pieces)];
    for (size_t i = 0; i < AG_ARRAY_SIZE(pieces); i++) {
        pieces[i] = atomic_load_explicit(&counts->pieces[i], memory_order_relaxed);
    }
    for (int piece = 0; piece < AG_TREE_PIECES; piece++) {
        const struct ag_tree_piece place = ag_tree_piece(piece);
        const bool is_used = piece == AG_PIECE_BASE || (pieces[piece / 64] >> piece % 64 & 1);
        if (!is_used || place.offset + place.bytes > session->tree_bytes) {
            continue;
        }
        uint64_t *words = (uint64_t *)(void *)(session->base + offset + place.offset);
        for (uint64_t i = 0; i < place.bytes / 8; i++) {
            if (words[i] != 0) {
                words[i] = 0;
            }
        }
    }
}

void ag_session_release_chunk(struct ag_session *session, uint32_t chunk) {
    struct ag_segment_header *header = session->header;
    struct ag_chunk_control *control = ag_session_control(session, chunk);
    const bool is_counted =
        atomic_load_explicit(&control->state, memory_order_relaxed) != AG_CHUNK_COUNTERS;
    atomic_store_explicit(&control->used_words, 0, memory_order_relaxed);
    atomic_store_explicit(&control->state, AG_CHUNK_FREE, memory_order_relaxed);
    atomic_fetch_sub_explicit(&header->n_chunks_in_use, is_counted, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&header->free_head, memory_order_relaxed), replacement = 0;
    do {
        atomic_store_explicit(&control->next_free, (uint32_t)head, memory_order_relaxed);
        replacement = ((head >> 32) + 1) << 32 | (chunk + 1);
        /* release: the chunk's state is FREE before a recorder's pop (acquire) can find it */
    } while (!atomic_compare_exchange_weak_explicit(&header->free_head, &head, replacement,
                                                    memory_order_release, memory_order_relaxed));
}
