/* images.c: which object lies where, kept without the loader's lock.
 *
 * 1. Data. An append-only table of images; an entry is published by its count (release) and ends by
 * its flag `is_gone`. Readers scan it without a lock: it is read only when a pc is seen for the
 * first time.
 *
 * 2. When it changes. A new pc in no known image, and dlclose (hooked by the adapter), ask the
 * loader. What came by dlopen and was never in a stack needs no entry: nobody will look for it.
 *
 * 3. Locks. Asking takes the loader's list lock (loaded_objects.h), and a thread that holds that
 * lock may come here through malloc. So the order is: take a snapshot under the loader's lock with
 * none of ours held; then merge it under ours. Ours is tried, not waited for, when the same thread
 * already holds it (a signal handler came in between): the handler goes on with the old table.
 *
 * 4. Reused addresses. Where an image was unloaded and another took its place, the unwinder's sites
 * of the first are dead before the second can run (ag_unwind_space_forget), so no pc ever means two
 * things. */
#include "images.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "hook/loaded_objects.h"
#include "made_code.h"
#include "thread_state.h"

enum {
    MAX_IMAGES = 4096, /* over a process' life; python3 with every module of its library has 90 */
    MAX_SNAPSHOT = 1024,
    PATH_BYTES = 512,
    BUILD_ID_BYTES = 32,
};

struct image {
    struct ag_unwind_image unwind;
    uintptr_t bias;
    _Atomic uint32_t is_gone;
    uint32_t is_seen; /* while merging: the snapshot has it */
    uint32_t build_id_bytes;
    unsigned char build_id[BUILD_ID_BYTES];
    char path[PATH_BYTES];
};

struct snapshot_entry {
    struct ag_unwind_image unwind;
    uintptr_t bias;
    uint32_t build_id_bytes;
    unsigned char build_id[BUILD_ID_BYTES];
    char path[PATH_BYTES];
};
struct snapshot {
    uint64_t version; /* see loader_version; 0 before the first object */
    size_t count;
    bool is_first_object;
    struct snapshot_entry entries[MAX_SNAPSHOT];
};

static struct {
    struct image *table; /* MAX_IMAGES entries of mapped memory, touched as they come */
    _Atomic uint32_t count;
    _Atomic uintptr_t lock_owner; /* own_number of a thread, 0: free */
    _Atomic uint64_t
        version; /* the loader's counters of the newest snapshot merged; written under the lock */
} images;

/* ---- the lock ---- */

/* The calling thread's, and that of the child that it forks or vforks. */
static uintptr_t own_number(void) {
    return (uintptr_t)&ag_thread_current;
}

static bool lock_images(void) {
    const uintptr_t self = own_number();
    for (;;) {
        uintptr_t owner = 0;
        if (atomic_compare_exchange_strong_explicit(&images.lock_owner, &owner, self,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
        if (owner == self) {
            return false;
        }
        (void)ag_syscall1(SYS_sched_yield, 0);
    }
}

static void unlock_images(void) {
    atomic_store_explicit(&images.lock_owner, 0, memory_order_release);
}

/* ---- what the loader says ---- */

static void read_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * notes,
                          struct snapshot_entry *entry) {
    const unsigned char *at = (const unsigned char *)(info->dlpi_addr + notes->p_vaddr);
    const unsigned char *end = at + notes->p_memsz;
    while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof(note));
        const size_t name_bytes = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        const size_t text_bytes = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        at += sizeof(note);
        if (name_bytes > (size_t)(end - at) || text_bytes > (size_t)(end - at) - name_bytes) {
            return;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(at, "GNU", 4) == 0 &&
            note.n_descsz <= BUILD_ID_BYTES) {
            memcpy(entry->build_id, at + name_bytes, note.n_descsz);
            entry->build_id_bytes = note.n_descsz;
            return;
        }
        at += name_bytes + text_bytes;
    }
}

static void copy_path(const struct dl_phdr_info *info, bool is_executable, char path[PATH_BYTES]) {
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    if (is_executable && name[0] != '/') { /* "", or with musl as it was called */
        const long length =
            ag_syscall3(SYS_readlink, (long)"/proc/self/exe", (long)path, PATH_BYTES - 1);
        path[length > 0 ? length : 0] = '\0';
        return;
    }
    const size_t length = strnlen(name, PATH_BYTES - 1);
    memcpy(path, name, length);
    path[length] = '\0';
}

/* Objects ever loaded and unloaded, by the loader's own counters, which only grow. One more, for
 * musl's begin at 0. */
static uint64_t loader_version(const struct dl_phdr_info *info) {
    return info->dlpi_adds + info->dlpi_subs + 1;
}

static int read_version(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size; /* the counters are there since glibc 2.4 */
    *(uint64_t *)context = loader_version(info);
    return 1; /* the first object's say is enough */
}

static int add_to_snapshot(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct snapshot *snapshot = context;
    snapshot->version = loader_version(info);
    if (snapshot->count == MAX_SNAPSHOT) {
        return 1;
    }
    struct snapshot_entry *entry = &snapshot->entries[snapshot->count];
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            low = start < low ? start : low;
            high = start + segment->p_memsz > high ? start + segment->p_memsz : high;
        } else if (segment->p_type == PT_GNU_EH_FRAME) {
            entry->unwind.eh_frame_hdr = start;
        } else if (segment->p_type == PT_NOTE && entry->build_id_bytes == 0) {
            read_build_id(info, segment, entry);
        }
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && entry->unwind.eh_frame_hdr - start < segment->p_memsz) {
            entry->unwind.tables_low = start;
            entry->unwind.tables_high = start + segment->p_memsz;
        }
    }
    const bool is_executable = snapshot->is_first_object;
    snapshot->is_first_object = false;
    if (low >= high) {
        return 0;
    }
    entry->unwind.low = low;
    entry->unwind.high = high;
    entry->bias = info->dlpi_addr;
    copy_path(info, is_executable, entry->path);
    snapshot->count++;
    return 0;
}

static struct snapshot *take_snapshot(void) {
    const long address = ag_syscall6(SYS_mmap, 0, sizeof(struct snapshot), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ag_syscall_failed(address)) {
        return NULL;
    }
    struct snapshot *snapshot = (struct snapshot *)address;
    snapshot->is_first_object = true;
    (void)ag_objects_visit(add_to_snapshot,
                           snapshot); /* the result is ours: a full snapshot is cut, not wrong */
    return snapshot;
}

static void drop_snapshot(struct snapshot *snapshot) {
    (void)ag_syscall2(SYS_munmap, (long)snapshot, sizeof(*snapshot));
}

/* ---- telling the trace ---- */

/* The state that may be appended to here: the thread's own, but in a handler that interrupted an
 * append. */
static struct ag_thread *state_for_records(void) {
    struct ag_thread *thread = ag_thread_current;
    while (!ag_thread_is_idle(thread) && (thread->gate & AG_GATE_APPENDING) && thread->nested) {
        thread = thread->nested;
    }
    return thread->gate == AG_GATE_ABSENT ||
                   (!ag_thread_is_idle(thread) && (thread->gate & AG_GATE_APPENDING))
               ? NULL
               : thread;
}

static void announce_load(const struct image *image) {
    struct ag_thread *thread = state_for_records();
    if (!thread) {
        ag_record_lost(AG_LOST_DAMAGED, 1);
        return;
    }
    const struct ag_wide_image_load fields = {
        .image = image->unwind.id,
        .build_id_bytes = (uint16_t)image->build_id_bytes,
        .path_bytes = (uint16_t)strnlen(image->path, PATH_BYTES),
        .bias = image->bias,
        .low = image->unwind.low,
        .high = image->unwind.high,
    };
    const struct ag_wide_part parts[] = {
        {&fields, sizeof(fields)},
        {image->build_id, fields.build_id_bytes},
        {image->path, fields.path_bytes},
    };
    ag_stream_append_wide(thread, AG_WIDE_IMAGE_LOAD, parts, AG_ARRAY_SIZE(parts));
}

static void announce_unload(const struct image *image) {
    struct ag_thread *thread = state_for_records();
    if (thread) {
        const struct ag_wide_image_unload fields = {.image = image->unwind.id};
        const struct ag_wide_part parts[] = {{&fields, sizeof(fields)}};
        ag_stream_append_wide(thread, AG_WIDE_IMAGE_UNLOAD, parts, AG_ARRAY_SIZE(parts));
    }
}

/* ---- merging ---- */

static uint32_t next_image_id(void) {
    /* The slot that owns the tree counts for its whole fork family: sites are shared, so ids must
     * be. */
    struct ag_process_slot *owner =
        (struct ag_process_slot *)(ag_recorder.slots +
                                   (size_t)ag_recorder.tree_index * AG_SLOT_BYTES);
    return atomic_fetch_add_explicit(&owner->n_images, 1, memory_order_relaxed) + 1;
}

static struct image *find_same(const struct snapshot_entry *entry, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct image *image = &images.table[i];
        if (!atomic_load_explicit(&image->is_gone, memory_order_relaxed) &&
            image->bias == entry->bias && image->unwind.low == entry->unwind.low &&
            image->unwind.high == entry->unwind.high && strcmp(image->path, entry->path) == 0) {
            return image;
        }
    }
    return NULL;
}

static void add_image(const struct snapshot_entry *entry, uint32_t index) {
    struct image *image = &images.table[index];
    image->unwind = entry->unwind;
    image->unwind.id = next_image_id();
    image->bias = entry->bias;
    image->build_id_bytes = entry->build_id_bytes;
    memcpy(image->build_id, entry->build_id, entry->build_id_bytes);
    memcpy(image->path, entry->path, PATH_BYTES);
    image->is_seen = 1;
    announce_load(image);
    /* release: pairs with the acquire in ag_images_find; the entry is whole */
    atomic_store_explicit(&images.count, index + 1, memory_order_release);
}

static void merge_snapshot(const struct snapshot *snapshot) {
    const uint32_t count = atomic_load_explicit(&images.count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        images.table[i].is_seen = 0;
    }
    for (size_t i = 0; i < snapshot->count; i++) {
        struct image *same = find_same(&snapshot->entries[i], count);
        if (same) {
            same->is_seen = 1;
        }
    }
    for (uint32_t i = 0; i < count;
         i++) { /* first what went, so that what took its place finds dead sites */
        struct image *image = &images.table[i];
        if (!image->is_seen && !atomic_load_explicit(&image->is_gone, memory_order_relaxed)) {
            atomic_store_explicit(&image->is_gone, 1, memory_order_release);
            announce_unload(image);
            ag_unwind_space_forget(ag_recorder.space, image->unwind.low, image->unwind.high);
        }
    }
    uint32_t end = count;
    for (size_t i = 0; i < snapshot->count && end < MAX_IMAGES; i++) {
        if (!find_same(&snapshot->entries[i], count)) {
            add_image(&snapshot->entries[i], end++);
        }
    }
}

static bool make_table(void) {
    if (images.table) {
        return true;
    }
    const long address =
        ag_syscall6(SYS_mmap, 0, MAX_IMAGES * sizeof(struct image), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ag_syscall_failed(address)) {
        return false;
    }
    images.table = (struct image *)address;
    return true;
}

void ag_images_refresh(void) {
    uint64_t version = 0;
    (void)ag_objects_visit(read_version, &version);
    if (version == atomic_load_explicit(&images.version, memory_order_acquire)) {
        return; /* generated code asks for each of its new pcs: nothing was loaded since, nothing is
                   to be found */
    }
    struct snapshot *snapshot = take_snapshot();
    if (!snapshot) {
        return; /* no memory: stacks through new objects end incomplete, which is counted */
    }
    if (lock_images()) {
        if (snapshot->version > atomic_load_explicit(&images.version, memory_order_relaxed) &&
            make_table()) {
            merge_snapshot(
                snapshot); /* an older snapshot that lost the race for the lock is dropped */
            atomic_store_explicit(&images.version, snapshot->version, memory_order_release);
        }
        unlock_images();
    }
    drop_snapshot(snapshot);
}

static bool find_in_table(uintptr_t pc, struct ag_unwind_image *ret_image) {
    const uint32_t count = atomic_load_explicit(&images.count, memory_order_acquire);
    for (uint32_t i = count; i-- > 0;) {
        const struct image *image = &images.table[i];
        if (pc - image->unwind.low < image->unwind.high - image->unwind.low &&
            !atomic_load_explicit(&image->is_gone, memory_order_acquire)) {
            *ret_image = image->unwind;
            return true;
        }
    }
    return false;
}

bool ag_images_find(void *context, uintptr_t pc, struct ag_unwind_image *ret_image) {
    (void)context; /* one recorder, one table */
    if (find_in_table(pc, ret_image) || ag_made_code_find(pc, ret_image)) {
        return true;
    }
    ag_images_refresh();
    return find_in_table(pc, ret_image);
}

void ag_images_announce_again(void) {
    /* Another owner did not come along with the fork. If it is this thread, a handler interrupted
     * it and forked, and it goes on later. */
    if (atomic_load_explicit(&images.lock_owner, memory_order_relaxed) != own_number()) {
        unlock_images();
    }
    ag_images_announce_all();
}

void ag_images_announce_all(void) {
    const uint32_t count = atomic_load_explicit(&images.count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (!atomic_load_explicit(&images.table[i].is_gone, memory_order_relaxed)) {
            announce_load(&images.table[i]);
        }
    }
}

uint32_t ag_images_last_id(void) {
    uint32_t last = 0;
    const uint32_t count = atomic_load_explicit(&images.count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        last = images.table[i].unwind.id > last ? images.table[i].unwind.id : last;
    }
    return last;
}

void ag_images_unmap(void) {
    if (images.table) {
        (void)ag_syscall2(SYS_munmap, (long)images.table, MAX_IMAGES * sizeof(struct image));
    }
    images.table = NULL;
    atomic_store_explicit(&images.count, 0, memory_order_relaxed);
    atomic_store_explicit(&images.version, 0, memory_order_relaxed);
}
