/* process.c: how a process joins a session (one recording, of one or several processes), and how a
 * forked child begins its own recording. To join, a process maps the live file, which the processes
 * of the session share with the writer process, and claims a slot (an entry for the process) in it.
 *
 * 1. Joining. The live file is opened by its path, or `attach` has passed descriptors of it. It is
 * mapped in three parts (header with slots and controls; the base of the slot's stack tree; the
 * first window, 64 MiB, of the chunks for events) and closed at once. So the host (the profiled
 * program) keeps no descriptor of the recorder. Two file locks show that the process is alive; the
 * mappings hold them (segment.h, section 6). The process gets a random identity here. A process
 * that may read the header but is not to be recorded (--follow=none) maps nothing.
 *
 * 2. A forked child has inherited the mappings. It claims a slot, derives an identity without a
 * system call (a sandbox may refuse it), keeps the stack tree of its parent, and begins event
 * streams of its own. (Stacks are added without a lock, and equal stacks are found by their
 * content, so forked processes can share a tree.) The child's trace starts with no allocated
 * blocks.
 *
 * Between the fork and the claim no other process can see the child in the segment. This may take
 * long: the child may be stopped, may not get CPU time, or was made by a raw system call and has no
 * event for a while. Meanwhile the parent's slot may have been reused for another process, and the
 * tree may have been cleared because it had no users. So a child does not read from the parent's
 * slot which tree it uses; it stores the number of the tree itself. And each tree has a generation:
 *
 *     child    writes tree T into its slot    then reads T's generation: if it changed, starts over
 *     writer   increments T's generation      then looks again for slots with T, then clears T
 *
 * Each side writes before it reads, so at least one of the two sees the write of the other. A child
 * that starts over drops its cached sites (numbers of pcs in the tree) and uses the tree of its own
 * slot.
 *
 * 3. Leaving a session and starting again (only in a program that embeds the recorder). Other
 * threads may be in the middle of an event. Leaving does not wait for them, so the memory that they
 * use stays mapped. The next recording reuses the thread states and the tables of images, and maps
 * its own live file. Each thread resets its own state. It knows that it has to, because a new start
 * closes the gate of each state (the word that shows whether the thread may record). If a thread
 * that was in an event opens its gate again, the recording number in the state shows that the state
 * is old.
 *
 * 4. exec. The kernel releases the locks of the process, so the writer learns that the recording of
 * the previous program has ended. The new program joins like any process. If it knows its PID
 * namespace, it marks the slot of the previous program as replaced, so that the writer learns of
 * the end sooner. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/blocked_signals.h"
#include "base/pages.h"
#include "base/populate.h"
#include "base/raw_syscall.h"
#include "base/short_wait.h"
#include "block_choice.h"
#include "forked_hook.h"
#include "images.h"
#include "process_life.h"
#include "raw_clock.h"
#include "recorder.h"
#include "sampled_blocks.h"
#include "sampler.h"
#include "thread_state.h"
#include "unwind/unwind_space.h"

struct ag_recorder ag_recorder;

/* ---- the segment ---- */

static void *map_shared(int fd, uint64_t offset, uint64_t bytes) {
    const long address = ag_syscall6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_NORESERVE, fd, (long)offset);
    if (ag_syscall_failed(address)) {
        return NULL;
    }
    (void)ag_syscall3(SYS_madvise, address, (long)bytes,
                      MADV_DONTDUMP); /* keeps the segment out of the host's core dumps */
    return (void *)address;
}

/* Whether all sizes in the header are valid. Other processes of the session can write to the
 * header, so each size is checked separately before sums of sizes are computed; so no sum
 * overflows. */
static bool header_is_sane(const struct ag_segment_header *header, uint64_t file_bytes) {
    enum { MAX_DEPTH = 1 << 16, MAX_SLOTS = 1 << 16, MAX_CHUNKS = 1 << 24 };
    return header->magic == AG_SEGMENT_MAGIC && header->version == AG_SEGMENT_VERSION &&
           header->file_bytes == file_bytes && header->n_slots > 0 &&
           header->n_slots <= MAX_SLOTS && header->n_chunks > 0 && header->n_chunks <= MAX_CHUNKS &&
           ag_tree_size_of(header->tree_bytes) >= 0 && header->n_trees >= header->n_slots &&
           header->n_trees <= MAX_SLOTS && header->depth > 0 && header->depth <= MAX_DEPTH &&
           header->slots_offset == AG_SEGMENT_HEADER_BYTES &&
           header->controls_offset <= file_bytes && header->trees_offset <= file_bytes &&
           header->chunks_offset <= file_bytes &&
           header->controls_offset >=
               header->slots_offset + (uint64_t)header->n_slots * AG_SLOT_BYTES &&
           header->trees_offset >= header->controls_offset + (uint64_t)header->n_chunks *
                                                                 sizeof(struct ag_chunk_control) &&
           header->chunks_offset + (uint64_t)header->n_chunks * AG_CHUNK_BYTES <= file_bytes &&
           header->chunks_offset >=
               header->trees_offset + (uint64_t)header->n_trees * header->tree_bytes;
}

/* Whether this process is to be recorded, in a session that may record its first process only. */
static bool is_wanted(const struct ag_segment_header *header) {
    const bool is_first = header->first_pid == ag_recorder.pid &&
                          (header->first_namespace == ag_recorder.pid_namespace ||
                           header->first_namespace == 0 || ag_recorder.pid_namespace == 0);
    return header->follow_children || header->first_pid == 0 || is_first;
}

static int map_control_part(int fd) {
    struct stat status = {0};
    long r = ag_syscall2(SYS_fstat, fd, (long)&status);
    if (ag_syscall_failed(r)) {
        return (int)r;
    }
    if (status.st_size < AG_SEGMENT_HEADER_BYTES) {
        return -EINVAL;
    }
    struct ag_segment_header header;
    r = ag_syscall6(SYS_pread64, fd, (long)&header, sizeof(header), 0, 0, 0);
    if (r != sizeof(header) || !header_is_sane(&header, (uint64_t)status.st_size)) {
        return ag_syscall_failed(r) ? (int)r : -EINVAL;
    }
    if (!is_wanted(&header)) {
        return -ECANCELED;
    }
    const uint64_t control_bytes = header.trees_offset;
    unsigned char *base = map_shared(fd, 0, control_bytes);
    if (!base) {
        return -ENOMEM;
    }
    const uint32_t reachable = AG_WINDOW_CHUNKS * AG_MAX_WINDOWS;
    ag_recorder.header = (struct ag_segment_header *)base;
    ag_recorder.slots = base + header.slots_offset;
    ag_recorder.controls = (struct ag_chunk_control *)(base + header.controls_offset);
    ag_recorder.control_bytes = control_bytes;
    ag_recorder.chunks_offset = header.chunks_offset;
    ag_recorder.tree_bytes = header.tree_bytes;
    ag_recorder.tree_size = ag_tree_size_of(header.tree_bytes);
    ag_recorder.node_limit = header.node_limit;
    ag_recorder.depth = header.depth;
    ag_recorder.n_slots = header.n_slots;
    ag_recorder.n_chunks = header.n_chunks < reachable ? header.n_chunks : reachable;
    return 0;
}

static int map_first_window(int fd) {
    const uint64_t bytes = (uint64_t)ag_recorder.n_chunks * AG_CHUNK_BYTES;
    unsigned char *window = map_shared(fd, ag_recorder.chunks_offset,
                                       bytes < AG_WINDOW_BYTES ? bytes : AG_WINDOW_BYTES);
    atomic_store_explicit(&ag_recorder.windows[0], window, memory_order_release);
    return window ? 0 : -ENOMEM;
}

void *ag_recorder_map(size_t bytes) {
    void *memory = ag_pages_map(bytes);
    atomic_fetch_add_explicit(&ag_recorder.private_bytes, memory ? bytes : 0, memory_order_relaxed);
    return memory;
}

/* ---- slots ---- */

static struct ag_process_slot *slot_at(uint32_t index) {
    return (struct ag_process_slot *)(ag_recorder.slots + (size_t)index * AG_SLOT_BYTES);
}

/* Publishes the number of used slots before a slot is taken, so that a search need not read all
 * slots. Each slot has pages of its own: reading all slots would take 8 MiB of memory, and as long
 * as all other steps of the start. */
static void announce_slot(uint32_t index) {
    _Atomic uint32_t *used = &ag_recorder.header->n_slots_used;
    uint32_t found = atomic_load_explicit(used, memory_order_relaxed);
    /* release: pairs with the acquire in n_slots_used */
    while (found <= index &&
           !atomic_compare_exchange_weak_explicit(used, &found, index + 1, memory_order_release,
                                                  memory_order_relaxed)) {
    }
}

static uint32_t n_slots_used(void) {
    const uint32_t used =
        atomic_load_explicit(&ag_recorder.header->n_slots_used, memory_order_acquire);
    return used < ag_recorder.n_slots ? used : ag_recorder.n_slots;
}

static bool tree_is_in_use(uint32_t tree) {
    const uint32_t n_used = n_slots_used();
    for (uint32_t i = 0; i < n_used; i++) {
        const struct ag_process_slot *slot = slot_at(i);
        if (i != tree && atomic_load_explicit(&slot->tree, memory_order_relaxed) == tree &&
            atomic_load_explicit(&slot->state, memory_order_acquire) != AG_SLOT_FREE) {
            return true;
        }
    }
    return false;
}

static int take_slot(void) {
    for (uint32_t i = 0; i < ag_recorder.n_slots; i++) {
        struct ag_process_slot *slot = slot_at(i);
        uint32_t expected = AG_SLOT_FREE;
        if (i >= n_slots_used() && !ag_populate(slot, AG_SLOT_BYTES)) {
            break;
        }
        if (atomic_load_explicit(&slot->state, memory_order_relaxed) != AG_SLOT_FREE ||
            tree_is_in_use(i)) {
            continue;
        }
        announce_slot(i);
        if (!atomic_compare_exchange_strong_explicit(&slot->state, &expected, AG_SLOT_CLAIMED,
                                                     memory_order_acq_rel, memory_order_relaxed)) {
            continue;
        }
        ag_recorder.slot = slot;
        ag_recorder.slot_index = i;
        ag_recorder.slot_generation = atomic_load_explicit(&slot->generation, memory_order_relaxed);
        return 0;
    }
    return -EBUSY;
}

/* Returns a slot that was claimed but never filled. Another process may claim it at once, so this
 * process must no longer use it. */
static void return_slot(void) {
    struct ag_process_slot *slot = ag_recorder.slot;
    ag_recorder.slot = NULL;
    atomic_store_explicit(&slot->state, AG_SLOT_FREE, memory_order_release);
}

/* Marks this process as no longer recorded, so that the writer seals its trace. */
static void leave_slot(void) {
    uint32_t exiting = AG_SLOT_STAYS;
    (void)atomic_compare_exchange_strong_explicit(&ag_recorder.slot->exiting, &exiting,
                                                  AG_SLOT_LEAVES, memory_order_relaxed,
                                                  memory_order_relaxed);
    atomic_store_explicit(&ag_recorder.slot->state, AG_SLOT_REPLACED, memory_order_release);
}

/* Whether there is a process that has ended, or is about to end, and whose trace is not sealed
 * (completed) yet. Its slot will be free soon. */
static bool is_any_slot_ending(void) {
    const uint32_t n_used = n_slots_used();
    for (uint32_t i = 0; i < n_used; i++) {
        const struct ag_process_slot *slot = slot_at(i);
        const uint32_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
        if (state == AG_SLOT_REPLACED ||
            (state == AG_SLOT_LIVE &&
             atomic_load_explicit(&slot->exiting, memory_order_relaxed) != AG_SLOT_STAYS)) {
            return true;
        }
    }
    return false;
}

static void count_refused_process(void) {
    atomic_fetch_add_explicit(&ag_recorder.header->n_refused_processes, 1, memory_order_relaxed);
}

/* Takes a slot. If many short processes start at once and all slots are in use, a process waits
 * until the writer frees a slot, because otherwise it would not be recorded. It does not wait if
 * all slots belong to processes that still run. It stops waiting after about 5 s, or if the writer
 * makes no progress (its tick does not change for about a second). */
static int claim_slot(void) {
    enum { POLL_NS = 1000 * 1000, POLLS = 5000, POLLS_WITHOUT_TICK = 1000 };
    _Atomic uint64_t *tick = &ag_recorder.header->tick;
    uint64_t last_tick = atomic_load_explicit(tick, memory_order_relaxed);
    int r = take_slot();
    for (int n = 0, still = 0;
         r < 0 && n < POLLS && still < POLLS_WITHOUT_TICK && is_any_slot_ending(); n++) {
        ag_short_wait(POLL_NS);
        const uint64_t now = atomic_load_explicit(tick, memory_order_relaxed);
        still = now == last_tick ? still + 1 : 0;
        last_tick = now;
        r = take_slot();
    }
    if (r < 0) {
        count_refused_process();
    }
    return r;
}

static void clear_slot(struct ag_process_slot *slot) {
    atomic_store_explicit(&slot->n_streams, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->n_executions, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->exiting, AG_SLOT_STAYS, memory_order_relaxed);
    atomic_store_explicit(&slot->resting, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->wait_status_known, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->n_images, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->max_rss_kib, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->trace_created, 0, memory_order_relaxed);
    for (int cause = 0; cause < AG_LOST_CAUSES; cause++) {
        atomic_store_explicit(&slot->lost[cause], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&slot->failed_stack_checks, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->stack_checks, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->sampler_raw, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->waited_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->n_waits, 0, memory_order_relaxed);
    slot->note[0] = '\0';
}

static uint32_t read_whole(const char *path, char *text, uint32_t capacity) {
    const long fd = ag_syscall3(SYS_open, (long)path, O_RDONLY | O_CLOEXEC, 0);
    if (ag_syscall_failed(fd)) {
        return 0;
    }
    uint32_t length = 0;
    while (length < capacity) {
        const long n = ag_syscall3(SYS_read, fd, (long)(text + length), capacity - length);
        if (n <= 0) {
            break;
        }
        length += (uint32_t)n;
    }
    (void)ag_syscall1(SYS_close, fd);
    return length;
}

/* text: cwd NUL exe NUL argument NUL argument NUL ...; arguments that do not fit are left out. The
 * text is read once, when the program joins the session. A forked child has the same text, and a
 * sandbox may forbid the child to read it again. */
static struct {
    uint32_t text_bytes, cwd_offset, exe_offset, command_offset, n_arguments;
    char text[AG_SLOT_TEXT_BYTES];
} description;

static void describe_process(void) {
    enum { PATH_LIMIT = 1024 };
    char *text = description.text;
    uint32_t at = 0;
    description.cwd_offset = at;
    /* the result counts the NUL */
    const long cwd_bytes = ag_syscall2(SYS_getcwd, (long)text, PATH_LIMIT);
    at += ag_syscall_failed(cwd_bytes) ? 0 : (uint32_t)cwd_bytes - 1;
    text[at++] = '\0';
    description.exe_offset = at;
    const long exe_bytes =
        ag_syscall3(SYS_readlink, (long)"/proc/self/exe", (long)(text + at), PATH_LIMIT);
    at += ag_syscall_failed(exe_bytes) ? 0 : (uint32_t)exe_bytes;
    text[at++] = '\0';
    description.command_offset = at;
    const uint32_t end = at + read_whole("/proc/self/cmdline", text + at, AG_SLOT_TEXT_BYTES - at);
    description.n_arguments = 0;
    description.text_bytes = at;
    for (uint32_t i = at; i < end; i++) {
        if (text[i] == '\0') {
            description.n_arguments++;
            description.text_bytes = i + 1;
        }
    }
}

/* The pid of this process; 0: unknown, because a seccomp filter refuses the call. */
static uint32_t own_pid(void) {
    const long pid = ag_syscall1(SYS_getpid, 0);
    return ag_syscall_failed(pid) ? 0 : (uint32_t)pid;
}

/* The inode of the PID namespace of this process; 0: unknown. */
static uint64_t own_pid_namespace(void) {
    struct stat status = {0};
    const long r = ag_syscall2(SYS_stat, (long)"/proc/self/ns/pid", (long)&status);
    return ag_syscall_failed(r) ? 0 : status.st_ino;
}

/* FORKED_FROM, PARENT: identity and slot of the process that forked this process; 0 and NULL if the
 * process has executed a program. */
static void fill_slot(struct ag_process_slot *slot, uint32_t parent_pid, uint64_t forked_from,
                      const struct ag_process_slot *parent) {
    slot->pid = ag_recorder.pid;
    slot->pid_namespace = ag_recorder.pid_namespace;
    slot->namespace_is_inherited = ag_recorder.namespace_is_inherited;
    slot->identity = ag_recorder.identity;
    slot->family = ag_recorder.family;
    slot->forked_from = forked_from;
    slot->has_own_lock = ag_recorder.lock_page != NULL;
    slot->parent_pid = parent_pid;
    slot->start_raw = ag_raw_clock(ag_recorder.header->clock_kind);
    slot->parent_slot = UINT32_MAX;
    if (parent) {
        slot->parent_slot =
            (uint32_t)(((const unsigned char *)parent - ag_recorder.slots) / AG_SLOT_BYTES);
    }
    slot->cwd_offset = description.cwd_offset;
    slot->exe_offset = description.exe_offset;
    slot->command_offset = description.command_offset;
    slot->n_arguments = description.n_arguments;
    slot->text_bytes = description.text_bytes;
    memcpy(slot->text, description.text, description.text_bytes);
    /* release: pairs with the writer's acquire, so that all fields above are valid when the writer
     * reads AG_SLOT_LIVE */
    atomic_store_explicit(&slot->state, AG_SLOT_LIVE, memory_order_release);
}

/* Marks the slot of the program that this process ran before exec. A pid is unique only within its
 * namespace: if the pid or the namespace of this process is unknown, the writer has to find the
 * slot by other means. */
static void replace_earlier_image(void) {
    const bool is_known = ag_recorder.pid != 0 && ag_recorder.pid_namespace != 0;
    const uint32_t n_used = is_known ? n_slots_used() : 0;
    for (uint32_t i = 0; i < n_used; i++) {
        struct ag_process_slot *slot = slot_at(i);
        uint32_t expected = AG_SLOT_LIVE;
        if (slot != ag_recorder.slot && slot->pid == ag_recorder.pid &&
            slot->pid_namespace == ag_recorder.pid_namespace) {
            (void)atomic_compare_exchange_strong_explicit(&slot->state, &expected, AG_SLOT_REPLACED,
                                                          memory_order_acq_rel,
                                                          memory_order_relaxed);
        }
    }
}

/* ---- identity ---- */

static uint64_t random_identity(void) {
    uint64_t random = 0;
    const long n = ag_syscall3(SYS_getrandom, (long)&random, sizeof(random), /* flags= */ 0);
    if (n != (long)sizeof(random)) { /* a kernel before 3.17, or a seccomp filter */
        random = ag_mix_bits(ag_raw_clock(AG_CLOCK_TSC) ^ (uint64_t)ag_recorder.pid << 40);
    }
    return random != 0 ? random : 1;
}

/* The identity of a forked child: a hash of the parent's identity, and of the number and generation
 * of the child's slot. It is unique in the session, because each use of a slot has its own
 * generation. */
static uint64_t child_identity(uint64_t parent) {
    const uint64_t use = (uint64_t)ag_recorder.slot_generation << 32 | ag_recorder.slot_index;
    const uint64_t identity = ag_mix_bits(ag_mix_bits(parent) ^ use);
    return identity != 0 ? identity : 1;
}

static bool lock_life(int fd, enum ag_life_lock which) {
    const struct flock lock = {
        .l_type = F_RDLCK, /* a read lock never waits for another read lock */
        .l_whence = SEEK_SET,
        .l_start = ag_life_lock_place(ag_recorder.identity, which),
        .l_len = 1,
    };
    return ag_syscall3(SYS_fcntl, fd, F_OFD_SETLK, (long)&lock) == 0;
}

/* Maps the page through which the process holds its own lock. NULL: the process holds no lock of
 * its own, and the writer finds out in other ways whether the process lives. */
static void *map_lock_page(int fd, const struct stat *expected) {
    struct stat status = {0};
    long page = 0;
    if (ag_syscall2(SYS_fstat, fd, (long)&status) == 0 && status.st_ino == expected->st_ino &&
        status.st_dev == expected->st_dev && lock_life(fd, AG_LOCK_OWN)) {
        page = ag_syscall6(SYS_mmap, 0, AG_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
        page = ag_syscall_failed(page) ? 0 : page;
    }
    if (page != 0 &&
        ag_syscall_failed(ag_syscall3(SYS_madvise, page, AG_PAGE_BYTES, MADV_DONTFORK))) {
        /* MADV_DONTFORK failed: a child would inherit the lock */
        ag_pages_unmap((void *)page, AG_PAGE_BYTES);
        page = 0;
    }
    if (page != 0) {
        (void)ag_syscall3(SYS_madvise, page, AG_PAGE_BYTES, MADV_DONTDUMP);
    }
    return (void *)page;
}

/* Takes the locks that show that the process is alive. fd, lock_fd: as for ag_recorder_start_with;
 * the mappings keep the open file descriptions after the descriptors are closed. */
static void lock_as_alive(int fd, int lock_fd) {
    struct stat status = {0};
    if (ag_recorder.header->has_locks == 1 && ag_syscall2(SYS_fstat, fd, (long)&status) == 0 &&
        lock_life(fd, AG_LOCK_FAMILY)) {
        ag_recorder.family = ag_recorder.identity;
        ag_recorder.lock_page = map_lock_page(lock_fd, &status);
    }
}

void ag_recorder_unlock(void) {
    ag_pages_unmap(ag_recorder.lock_page, AG_PAGE_BYTES);
    ag_recorder.lock_page = NULL;
}

/* ---- announcements ---- */

enum { NAME_MOST_BYTES = 200 }; /* limit of each name in an announcement */

static void announce_heap(struct ag_thread *thread, const struct ag_heap_definition *heap) {
    const struct ag_record record = {
        .kind = AG_RECORD_HEAP,
        .u.heap = {.heap = heap->heap,
                   .domain = heap->domain,
                   .is_backing = heap->is_backing,
                   .name = ag_bytes_of(heap->name, NAME_MOST_BYTES),
                   .allocator = ag_bytes_of(heap->allocator, NAME_MOST_BYTES),
                   .runtime = ag_bytes_of(heap->runtime, NAME_MOST_BYTES)}};
    ag_stream_append_record(thread, &record);
}

static void announce_via(struct ag_thread *thread, const struct ag_via_definition *via) {
    const struct ag_record record = {.kind = AG_RECORD_VIA,
                                     .u.via = {.via = via->via,
                                               .heap = via->heap,
                                               .name = ag_bytes_of(via->name, NAME_MOST_BYTES)}};
    ag_stream_append_record(thread, &record);
}

void ag_record_runtime(const struct ag_runtime_definition *runtime) {
    const struct ag_record record = {
        .kind = AG_RECORD_RUNTIME,
        .u.runtime = {.hooked = runtime->is_hooked,
                      .name = ag_bytes_of(runtime->name, NAME_MOST_BYTES),
                      .version = ag_bytes_of(runtime->version, NAME_MOST_BYTES),
                      .note = ag_bytes_of(runtime->note, NAME_MOST_BYTES),
                      .reported = runtime->reported,
                      .counted = runtime->counted}};
    ag_recorder_append(&record);
}

static void record_announcement(struct ag_thread *thread,
                                const struct ag_announcement *announcement) {
    ag_block_choice_announce(announcement);
    for (size_t i = 0; i < announcement->n_heaps; i++) {
        announce_heap(thread, &announcement->heaps[i]);
    }
    for (size_t i = 0; i < announcement->n_vias; i++) {
        announce_via(thread, &announcement->vias[i]);
    }
    if (announcement->runtime) {
        ag_record_runtime(announcement->runtime);
    }
    if (announcement->report_more) {
        announcement->report_more();
    }
}

void ag_recorder_announce(const struct ag_announcement *announcement) {
    const uint32_t index =
        atomic_fetch_add_explicit(&ag_recorder.n_announcements, 1, memory_order_relaxed);
    if (index < AG_MAX_ANNOUNCEMENTS) {
        ag_recorder.announcements[index] = *announcement;
    }
    if (ag_thread_is_idle(ag_thread_current)) {
        record_announcement(ag_thread_current, announcement);
    }
}

/* ---- trees ---- */

/* Publishes that this process uses the tree. Returns whether the tree's generation is unchanged,
 * which means that the tree was not cleared. */
static bool keep_tree(void) {
    const struct ag_process_slot *owner = slot_at(ag_recorder.tree_index);
    atomic_store_explicit(&ag_recorder.slot->tree, ag_recorder.tree_index, memory_order_relaxed);
    atomic_thread_fence(
        memory_order_seq_cst); /* pairs with the fence in clear_unused_tree (writer.c) */
    return atomic_load_explicit(&owner->tree_generation, memory_order_relaxed) ==
           ag_recorder.tree_generation;
}

/* Selects the slot's own tree, which no other process uses. */
static void choose_own_tree(void) {
    ag_recorder.tree_index = ag_recorder.slot_index;
    ag_recorder.tree_generation =
        atomic_load_explicit(&ag_recorder.slot->tree_generation, memory_order_relaxed);
    /* the result is true, because the writer does not clear the tree of a slot that is in use */
    (void)keep_tree();
}

/* Maps BYTES of the file, DISTANCE bytes after the file offset of a page that is mapped already.
 * The file itself is closed, so the mapping is made by mremap with an old size of 0, as in
 * chunk_supply.c. The new mapping begins at the same file offset as last_page; its first DISTANCE
 * bytes are unmapped again. So the mapping needs little address space if the distance is small. */
static void *map_behind(const void *last_page, uint64_t distance, uint64_t bytes) {
    const long address =
        ag_syscall6(SYS_mremap, (long)last_page, 0, (long)(distance + bytes), MREMAP_MAYMOVE, 0, 0);
    if (ag_syscall_failed(address)) {
        return NULL;
    }
    unsigned char *wanted = (unsigned char *)address + distance;
    ag_pages_unmap((void *)address, distance);
    return wanted;
}

static void *map_tree_again(void) {
    return map_behind(
        (unsigned char *)ag_recorder.header + ag_recorder.control_bytes - AG_PAGE_BYTES,
        AG_PAGE_BYTES + ag_recorder.tree_index * ag_recorder.tree_bytes, AG_TREE_BASE_BYTES);
}

static void *map_tree_piece(const struct ag_stack_tree *tree, int piece) {
    const struct ag_tree_piece wanted = ag_tree_piece(piece);
    const char *last_page = NULL;
    uint64_t distance = UINT64_MAX;
    for (int i = 0; i < AG_TREE_PIECES; i++) {
        const char *mapped = atomic_load_explicit(&tree->pieces[i], memory_order_acquire);
        const struct ag_tree_piece before = ag_tree_piece(i);
        const uint64_t end = before.offset + before.bytes;
        if (mapped != NULL && end <= wanted.offset && wanted.offset - end < distance) {
            distance = wanted.offset - end;
            last_page = mapped + before.bytes - AG_PAGE_BYTES;
        }
    }
    return map_behind(last_page, AG_PAGE_BYTES + distance, wanted.bytes);
}

static void unmap_tree_piece(void *address, uint64_t bytes) {
    ag_pages_unmap(address, bytes);
}

/* Initializes the process' view of its tree, in zeroed memory. */
static struct ag_unwind_space *start_space(void *memory) {
    static const struct ag_piece_mapper mapper = {map_tree_piece, unmap_tree_piece};
    struct ag_unwind_space *space =
        ag_unwind_space_init(memory, ag_recorder.tree, ag_recorder.tree_size, &mapper,
                             ag_recorder.depth, ag_populate, ag_images_find, NULL);
    if (space && space->tree.node_limit > ag_recorder.node_limit) {
        space->tree.node_limit = ag_recorder.node_limit;
    }
    return space;
}

/* For a child that claimed its slot so late that the tree of its parent was cleared: begins a new
 * tree, and drops all cached sites. */
static int start_over(bool is_inside_hook) {
    choose_own_tree();
    void *tree = map_tree_again();
    if (!tree) {
        return -ENOMEM;
    }
    if (!is_inside_hook) { /* an interrupted hook continues with the old tree */
        ag_stack_tree_unmap_pieces(&ag_recorder.space->tree);
        ag_pages_unmap(ag_recorder.tree, AG_TREE_BASE_BYTES);
    }
    ag_recorder.tree = tree;
    const long r = ag_syscall3(SYS_madvise, (long)ag_recorder.space, (long)ag_unwind_space_bytes(),
                               MADV_DONTNEED); /* fills the private memory with zeros */
    if (ag_syscall_failed(r)) {
        return (int)r;
    }
    ag_recorder.space = start_space(ag_recorder.space);
    atomic_store_explicit(&ag_recorder.slot->n_images, ag_images_last_id(), memory_order_relaxed);
    return ag_recorder.space ? 0 : -ENOMEM;
}

/* ---- life ---- */

static int join_session(int fd) {
    int r = map_control_part(fd);
    if (r < 0) {
        return r;
    }
    r = claim_slot();
    if (r < 0) {
        return r;
    }
    r = map_first_window(fd);
    if (r < 0) {
        return r;
    }
    choose_own_tree();
    ag_recorder.tree = map_shared(
        fd, ag_recorder.control_bytes + (uint64_t)ag_recorder.slot_index * ag_recorder.tree_bytes,
        AG_TREE_BASE_BYTES);
    return ag_recorder.tree ? 0 : -ENOMEM;
}

static int start_unwinding(void) {
    void *memory = ag_recorder_map(ag_unwind_space_bytes());
    if (!memory) {
        return -ENOMEM;
    }
    ag_recorder.walker_bytes = ag_walker_bytes(ag_recorder.depth);
    ag_recorder.space = start_space(memory);
    return ag_recorder.space ? 0 : -ENOMEM;
}

static bool is_sampling(void) {
    return ag_recorder.header->mode == AG_MODE_SAMPLE;
}

static int start_sampling(void) {
    if (!is_sampling()) {
        return 0;
    }
    void *memory = ag_recorder_map(ag_sampled_blocks_bytes());
    if (!memory) {
        return -ENOMEM;
    }
    ag_sampled_blocks_start(memory);
    return 0;
}

/* Converts a number of events between two stamps (words with the time) to a number of words. An
 * event takes 1 to 3 words; an alloc and its free take 3 words together, so the mean is 3/2 words
 * per event. */
static uint32_t words_between_stamps(uint32_t events) {
    return events <= 1 ? 0 : events + events / 2;
}

void ag_recorder_turn_off(void) {
    atomic_store_explicit(&ag_recorder.state, AG_RECORDER_OFF, memory_order_release);
}

/* Resets the state of an earlier recording of this process. */
static void reset_earlier_recording(void) {
    ag_recorder.slot = NULL;
    for (uint32_t i = 0; i < AG_MAX_WINDOWS; i++) {
        atomic_store_explicit(&ag_recorder.windows[i], NULL, memory_order_relaxed);
    }
    struct ag_thread *thread = atomic_load_explicit(&ag_recorder.threads, memory_order_acquire);
    for (; thread; thread = thread->next) {
        thread->gate = AG_GATE_ABSENT;
    }
    ag_recorder.recording++;
}

static void write_announcements(struct ag_thread *thread) {
    const uint32_t count = atomic_load_explicit(&ag_recorder.n_announcements, memory_order_relaxed);
    for (uint32_t i = 0; i < count && i < AG_MAX_ANNOUNCEMENTS; i++) {
        record_announcement(thread, &ag_recorder.announcements[i]);
    }
}

int ag_recorder_start_with(int fd, int lock_fd) {
    reset_earlier_recording();
    /* counts a fork if this process is the forked child of a process that recorded earlier */
    ag_recorder.process_number += ag_process_is_forked();
    ag_threads_start();
    ag_recorder.pid = own_pid();
    ag_recorder.pid_namespace = own_pid_namespace();
    ag_recorder.namespace_is_inherited = false;
    ag_recorder.identity = random_identity();
    ag_recorder.family = 0;
    int r = join_session(fd);
    if (r == 0) {
        lock_as_alive(fd, lock_fd);
    }
    (void)ag_syscall1(SYS_close, fd);
    if (lock_fd >= 0) {
        (void)ag_syscall1(SYS_close, lock_fd);
    }
    if (r == 0) {
        r = start_unwinding();
    }
    if (r == 0) {
        r = start_sampling();
    }
    if (r == 0) {
        r = ag_block_choice_start(ag_recorder.header);
    }
    if (r < 0) {
        if (ag_recorder.slot) {
            return_slot();
        }
        ag_recorder_unlock();
        ag_recorder_turn_off();
        return r;
    }
    ag_recorder.stamp_words = words_between_stamps(ag_recorder.header->stamp_every);
    ag_recorder.has_free_stacks = ag_recorder.header->free_stacks == 1;
    atomic_store_explicit(&ag_recorder.n_resets,
                          atomic_load_explicit(&ag_recorder.header->n_resets, memory_order_relaxed),
                          memory_order_relaxed);
    replace_earlier_image();
    clear_slot(ag_recorder.slot);
    atomic_store_explicit(&ag_recorder.slot->n_images, ag_images_last_id(), memory_order_relaxed);
    describe_process();
    fill_slot(ag_recorder.slot, (uint32_t)ag_syscall1(SYS_getppid, 0), /* forked_from= */ 0, NULL);
    ag_process_life_begin();
    atomic_store_explicit(&ag_recorder.state,
                          is_sampling() ? AG_RECORDER_SAMPLING : AG_RECORDER_ACTIVE,
                          memory_order_release);
    /* the name of the first thread is recorded now, because the process may end before the writer
     * reads the name; reports show a thread without a name by its number */
    (void)ag_syscall2(SYS_prctl, PR_GET_NAME, (long)ag_recorder.first_name);
    struct ag_thread *thread = ag_thread_begin();
    ag_recorder.first_name[0] = '\0';
    if (thread) {
        ag_thread_do_not_copy_caches(thread);
        ag_images_announce_all();
        ag_images_refresh();
        write_announcements(thread);
    }
    ag_recorder.slot->profiler_private_bytes =
        atomic_load_explicit(&ag_recorder.private_bytes, memory_order_relaxed);
    return 0;
}

static int open_live_file(const char *path) {
    return (int)ag_syscall3(SYS_open, (long)path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
}

int ag_recorder_start(const char *session_path) {
    const int fd = open_live_file(session_path);
    return fd < 0 ? fd : ag_recorder_start_with(fd, open_live_file(session_path));
}

/* Whether ag_recorder.slot may be changed: after the process has left the session, another process
 * may have claimed the slot. */
static bool has_slot(void) {
    return ag_recorder_is_active() && ag_recorder.slot;
}

void ag_recorder_leave(void) {
    if (!has_slot()) {
        return;
    }
    ag_recorder_turn_off();
    leave_slot();
    ag_recorder_unlock();
}

void ag_recorder_exiting(void) {
    /* in a forked child whose recording has not begun, the slot is that of the parent */
    if (has_slot() && !ag_process_is_forked()) {
        atomic_store_explicit(&ag_recorder.slot->exiting, AG_SLOT_EXITS, memory_order_relaxed);
    }
}

void ag_recorder_executes(void) {
    if (has_slot()) {
        atomic_fetch_add_explicit(&ag_recorder.slot->n_executions, 1, memory_order_relaxed);
    }
}

void ag_recorder_has_not_executed(void) {
    if (has_slot()) {
        atomic_fetch_sub_explicit(&ag_recorder.slot->n_executions, 1, memory_order_relaxed);
    }
}

/* The pid of a forked child, without a system call if possible: the C library's fork writes the
 * child's tid, which is its pid, over the tid of the thread that forked. */
static uint32_t pid_of_child(uint32_t parent_tid) {
    const uint32_t tid = parent_tid != 0 ? ag_thread_tid_in_memory() : 0;
    return tid != 0 && tid != parent_tid ? tid : own_pid();
}

/* Which thread begins the recording of a forked child. */
enum child_thread {
    CHILD_THREAD_FORKED, /* the thread that was forked */
    CHILD_THREAD_ANY,    /* any thread, in its first event */
};

/* Detaches the child from the chunks and thread states that it inherited: the chunks belong to the
 * parent, and an interrupted hook (the code that records a call) in the child may still write to
 * them. Returns false if the child cannot be recorded: there is no memory, or another thread was
 * inside a hook or suspended. */
static bool detach_from_parent(struct ag_thread *thread, enum child_thread which) {
    if (ag_thread_is_inside(thread)) {
        return ag_forked_hook_part(thread);
    }
    return which == CHILD_THREAD_FORKED || thread->gate != AG_GATE_ABSENT ||
           ag_threads_leave_behind();
}

static void child_goes_unrecorded(void) {
    ag_recorder_turn_off();
    ag_process_life_settle(AG_LIFE_UNRECORDED);
}

/* Begins the recording of a forked child. Afterward, ag_process_life (process_life.h) is
 * AG_LIFE_BEGUN if the child is recorded, else AG_LIFE_UNRECORDED. */
static void begin_child(uint32_t parent_tid, enum child_thread which) {
    struct ag_thread *thread = ag_thread_current;
    const bool is_inside = ag_thread_is_inside(thread);
    const bool is_suspended = thread->gate == AG_GATE_SUSPENDED;
    const bool has_parted = detach_from_parent(thread, which);
    const struct ag_process_slot *parent = ag_recorder.slot;
    const uint32_t forked_from = ag_recorder.pid;
    ag_recorder.pid = pid_of_child(parent_tid);
    /* getppid is not called, because a sandbox may forbid it; the first process of a PID namespace
     * (pid 1) has no parent in it */
    const uint32_t parent_pid = ag_recorder.pid != 1 ? forked_from : 0;
    /* The child may be in another PID namespace than its parent. To determine this takes a system
     * call (stat), which a sandbox may forbid, so the writer does it. */
    ag_recorder.pid_namespace = ag_recorder.pid != 1 ? ag_recorder.pid_namespace : 0;
    ag_recorder.namespace_is_inherited = true;
    ag_recorder.process_number++;
    ag_recorder.lock_page = NULL; /* that of the parent, which the child does not inherit */
    if (!has_parted) {
        count_refused_process();
    }
    if (!has_parted || !ag_recorder.header->follow_children || claim_slot() < 0) {
        /* the slot is that of the parent, so the child must not mark it as ended */
        ag_recorder.slot = NULL;
        child_goes_unrecorded();
        return;
    }
    const uint64_t parent_identity = ag_recorder.identity;
    ag_recorder.identity = child_identity(parent_identity);
    clear_slot(ag_recorder.slot);
    if (!keep_tree() && start_over(is_inside) < 0) {
        count_refused_process();
        return_slot();
        child_goes_unrecorded();
        return;
    }
    fill_slot(ag_recorder.slot, parent_pid, parent_identity, parent);
    ag_sampler_forked();
    ag_block_choice_forked();
    ag_process_life_settle(AG_LIFE_BEGUN);
    thread = ag_thread_begin();
    if (!thread) { /* no memory; the trace counts the first lost event */
        child_goes_unrecorded();
        leave_slot();
        return;
    }
    ag_images_announce_again();
    write_announcements(thread);
    if (is_suspended) {
        thread->gate = AG_GATE_SUSPENDED; /* ag_record_resume opens the gate */
    }
}

static void child_start(uint32_t parent_tid, enum child_thread which) {
    const uint64_t signals = ag_signals_block();
    if (ag_process_life_claim()) {
        begin_child(parent_tid, which);
    }
    ag_signals_restore(signals);
}

void ag_recorder_child_start(void) {
    /* thread_id was copied from the thread that forked; 0: that thread had no state */
    child_start(ag_thread_current->thread_id, CHILD_THREAD_ANY);
}

void ag_recorder_forked(uint32_t parent_tid) {
    ag_process_life_forked();
    if (ag_recorder_is_active() && ag_process_is_forked()) {
        child_start(parent_tid, CHILD_THREAD_FORKED);
    }
}

bool ag_recorder_trace(char *ret_path, size_t capacity) {
    const struct ag_process_slot *slot = ag_recorder.slot;
    /* acquire: pairs with the writer's release, so that the path is complete */
    if (!slot || !atomic_load_explicit(&slot->trace_created, memory_order_acquire)) {
        return false;
    }
    const struct ag_slot_trace *note =
        (const struct ag_slot_trace *)(const void *)((const unsigned char *)slot +
                                                     AG_SLOT_TRACE_OFFSET);
    const size_t length = strnlen(note->path, sizeof(note->path));
    if (note->generation != ag_recorder.slot_generation || length == 0 || length >= capacity) {
        return false;
    }
    memcpy(ret_path, note->path, length);
    ret_path[length] = '\0';
    return true;
}

void ag_recorder_images_changed(void) {
    if (ag_recorder_is_active()) {
        ag_images_refresh();
    }
}
