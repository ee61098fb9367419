/* images.c: records at which addresses which objects (images) are loaded, and finds the unwind
 * tables of an image for the unwinder. The tables are never read at a moment when they may be
 * unmapped.
 *
 * 1. Data. Images that stay as long as the process (the program, and the objects that the loader
 * loads with the program, which glibc never unloads) are in an array that is written once. All
 * other images are in `moving`, an array of slots; `spans` is an index, sorted by address, of the
 * loaded images in `moving`. An id is assigned once. An image that is loaded again (the same file,
 * by build id, at the same address) gets its old id again. So a plugin that is loaded and unloaded
 * repeatedly reuses its sites (addresses with their image) instead of filling the table of sites.
 *
 * 2. When the list changes. The loader reports each change (loader_notice.h), whatever caused it:
 * dlopen, dlclose, iconv, NSS, a locale. The loader calls on_notice before it unmaps anything, and
 * again when its list is consistent; then the list is read and merged into these tables, and the
 * changes are recorded in the trace. So a lookup never calls the loader, and takes no lock of the
 * host (the profiled program).
 *
 * 3. Reading tables that may be unmapped. A thread that sees a pc for the first time reads the
 * .eh_frame of its image, while another thread may be in dlclose. So readers are counted, and the
 * thread that is about to unmap an image sets a flag and waits until there are no readers (DELETES
 * and IS_WHOLE are notices of the loader):
 *
 *     reader                                    unloading thread
 *       n_readers++                               DELETES: lock; wait for n_readers == 0
 *       lock or changer set: n_readers--, retry            changer = self; unlock
 *       look up, read the tables                  (the loader unmaps)
 *       n_readers--                               IS_WHOLE: lock, wait; merge; unlock; changer = 0
 *
 * A reader blocks all signals, so no handler can delay it, and it finishes after a few microseconds
 * of CPU time. Blocking and restoring signals takes two system calls for each new pc in a moving
 * image; other pcs need none. While objects are being unloaded, a reader waits briefly and then
 * gives up: its stack is recorded as incomplete, and is not cached. The reader must not wait for
 * long, because the unloading thread may be waiting for a lock that the reader's thread holds.
 * (Alternatives: Copies of all tables would need no synchronization, but would take memory: 10 % of
 * the code's size. Reading the tables through the kernel needs system calls that sandboxes forbid.)
 *
 * 4. Sometimes the loader's notices cannot be used: with musl, which never unloads; in static
 * programs; if the loader's code cannot be patched, or a debugger has set a breakpoint in it; in a
 * program that is linked with liballogram and runs without the agent (the preloaded library). Then
 * the loader is queried at each new pc, and the tables are read inside the callback of that query,
 * under the lock of the loader's list. In this mode, the unwinder may keep a cached pc after its
 * image was unloaded, until the next new pc. So a stack may name the wrong object, but no unmapped
 * memory is read.
 *
 * 5. Locks. A thread that takes both locks takes the loader's lock first, then the lock of this
 * file. The lock of this file is held only for a merge, for setting `changer`, and for a look-up in
 * the mode of section 4, always with all signals blocked, and the loader is never called while it
 * is held.
 *
 * 6. Reused addresses. When another image is loaded at the addresses of an unloaded image, the
 * unwinder's data about the old image are dropped before code of the new image can run
 * (ag_unwind_space_forget). The data about generated code that was at these addresses are dropped
 * in the same way. */
#include "images.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "base/blocked_signals.h"
#include "base/join_text.h"
#include "base/pages.h"
#include "base/raw_syscall.h"
#include "base/short_wait.h"
#include "hook/loaded_objects.h"
#include "hook/loader_notice.h"
#include "hook/process_map.h"
#include "image_tables.h"
#include "made_code.h"
#include "thread_state.h"
#include "unwind/readable_range.h"

enum {
    PATH_BYTES = 512,
    BUILD_ID_BYTES = 32,
    SLOTS_FIRST = 64, /* doubled when full */
    GONE_KEPT = 512,  /* number of unloaded images whose ids are remembered */
    /* largest number of waits of a reader while objects are unloaded: a few ms in total */
    READER_TRIES = 100,
    YIELD_NS = 1000,
};

struct image {
    struct ag_unwind_image unwind;
    uintptr_t bias;
    /* address of the object's program headers: identifies the object while it is loaded */
    const void *phdr;
    uint32_t seen; /* value of images.visit when the image was last in the loader's list */
    /* is_used: the slot is taken; is_gone: the image is unloaded, but its id is remembered;
     * is_announced: announce_load was called */
    bool is_used, is_gone, is_announced;
    uint32_t build_id_bytes;
    unsigned char build_id[BUILD_ID_BYTES];
    uint64_t name_hash; /* hash of the loader's name for the object, which may be a relative path */
    char path[PATH_BYTES];
};
struct span { /* the addresses [low, high) belong to images.moving[slot] */
    uintptr_t low, high;
    uint32_t slot;
};

static struct {
    struct image *fixed; /* written before n_fixed */
    _Atomic uint32_t n_fixed;
    size_t fixed_bytes;

    /* Read by threads that are counted in n_readers or hold the lock; written by the holder of the
     * lock while n_readers is 0. */
    struct image *moving;
    struct span *spans; /* spans of the loaded moving images, sorted by address */
    uint32_t n_moving, n_spans, capacity, n_gone;
    uint32_t visit; /* number of walks over the loader's list */
    /* The range [low, high) that contains all moving images since the start. It only grows. A pc
     * outside of the range cannot be in a moving image. */
    _Atomic uintptr_t low, high;

    _Atomic uintptr_t lock_owner; /* own_number of a thread, 0: free */
    _Atomic uintptr_t changer;    /* own_number of the thread that is unloading, 0: none */
    _Atomic uint32_t n_readers;
    /* ag_objects_version of the newest merged list; written under the lock */
    _Atomic uint64_t version;
    _Atomic bool is_watched; /* the list was merged after the loader's notices were installed */
} images;

/* ---- the lock, and readers ---- */

/* Identifies the calling thread; a child that it forks or vforks gets the same number. */
static uintptr_t own_number(void) {
    return (uintptr_t)&ag_thread_current;
}

/* Called with all signals blocked. When it returns there are no readers, and no new one can
 * start. */
static void lock_images(void) {
    const uintptr_t self = own_number();
    uintptr_t owner = 0;
    while (!atomic_compare_exchange_strong_explicit(&images.lock_owner, &owner, self,
                                                    memory_order_seq_cst, memory_order_relaxed)) {
        owner = 0;
        ag_short_wait(YIELD_NS);
    }
    while (atomic_load_explicit(&images.n_readers, memory_order_seq_cst) != 0) {
        ag_short_wait(YIELD_NS);
    }
}

static void unlock_images(void) {
    atomic_store_explicit(&images.lock_owner, 0, memory_order_seq_cst);
}

enum reader { READER_IS_IN, READER_IS_CHANGER, READER_GAVE_UP };

/* Called with all signals blocked. */
static enum reader begin_reading(void) {
    for (int i = 0; i < READER_TRIES; i++) {
        atomic_fetch_add_explicit(&images.n_readers, 1, memory_order_seq_cst);
        const uintptr_t changer = atomic_load_explicit(&images.changer, memory_order_seq_cst);
        if (changer == 0 && atomic_load_explicit(&images.lock_owner, memory_order_seq_cst) == 0) {
            return READER_IS_IN;
        }
        atomic_fetch_sub_explicit(&images.n_readers, 1, memory_order_seq_cst);
        if (changer == own_number()) {
            return READER_IS_CHANGER;
        }
        ag_short_wait(YIELD_NS);
    }
    return READER_GAVE_UP;
}

static void end_reading(void) {
    atomic_fetch_sub_explicit(&images.n_readers, 1, memory_order_seq_cst);
}

/* ---- the loader's list ---- */

static void read_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * notes,
                          struct image *image) {
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
            memcpy(image->build_id, at + name_bytes, note.n_descsz);
            image->build_id_bytes = note.n_descsz;
            return;
        }
        at += name_bytes + text_bytes;
    }
}

static uint64_t hash_of(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *name != '\0'; name++) {
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* The kernel's own object, which is in no file. */
static bool is_vdso(const char *name) {
    static const char vdso[] = "linux-vdso.so";
    return strncmp(name, vdso, sizeof(vdso) - 1) == 0;
}

/* Copies the object's path; if its name is relative or begins with /proc/, the path of the file
 * that is mapped. A relative name depends on the working directory at the time of the loading, and
 * /proc/self/fd/N on a descriptor, but the path of the mapped file does not. A relative name need
 * not contain a slash: an empty entry of LD_LIBRARY_PATH means the working directory, and gives the
 * name "libx.so". The path is read with system calls that the loader has just made, too (open,
 * read, close), so a sandbox permits them. */
static void copy_path(const struct dl_phdr_info *info, bool is_executable, uintptr_t address,
                      char path[PATH_BYTES]) {
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    /* The name of the program is "", or with musl its argv[0]. If the loader was executed with the
     * program as its argument, /proc/self/exe is the loader. */
    const bool is_lasting = name[0] == '/' && strncmp(name, "/proc/", 6) != 0;
    if (!is_lasting && !is_vdso(name) && ag_process_map_path(address, path, PATH_BYTES) == 0) {
        return;
    }
    if (is_executable && name[0] != '/') {
        const long length =
            ag_syscall3(SYS_readlink, (long)"/proc/self/exe", (long)path, PATH_BYTES - 1);
        path[length > 0 ? length : 0] = '\0';
        return;
    }
    ag_copy_text(path, PATH_BYTES, name);
}

/* Fills *ret_image, except for its unwind tables. Returns false if the object has no code or
 * data. */
static bool image_describe(const struct dl_phdr_info *info, bool is_executable,
                           struct image *ret_image) {
    struct image *image = ret_image;
    uintptr_t low = UINTPTR_MAX, high = 0;
    *image = (struct image){0};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD) {
            low = start < low ? start : low;
            high = start + segment->p_memsz > high ? start + segment->p_memsz : high;
        } else if (segment->p_type == PT_NOTE && image->build_id_bytes == 0) {
            read_build_id(info, segment, image);
        }
    }
    if (low >= high) {
        return false;
    }
    image->unwind.low = low;
    image->unwind.high = high;
    image->bias = info->dlpi_addr;
    image->phdr = info->dlpi_phdr;
    image->is_used = true;
    image->name_hash = hash_of(info->dlpi_name ? info->dlpi_name : "");
    copy_path(info, is_executable, low, image->path);
    return true;
}

/* ---- the trace ---- */

/* The thread state to whose stream records can be appended: the thread's own state, or the nested
 * state in a handler that interrupted an append. NULL: there is none. */
static struct ag_thread *state_for_records(void) {
    struct ag_thread *thread = ag_thread_current;
    if (thread->gate == AG_GATE_ABSENT) {
        return ag_thread_begin();
    }
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
    const struct ag_record record = {
        .kind = AG_RECORD_IMAGE_LOAD,
        .u.image_load = {.image = image->unwind.id,
                         .bias = image->bias,
                         .low = image->unwind.low,
                         .high = image->unwind.high,
                         .build_id = {.data = (const char *)image->build_id,
                                      .length = (uint32_t)image->build_id_bytes},
                         .path = ag_bytes_of(image->path, PATH_BYTES)}};
    ag_stream_append_record(thread, &record);
}

static void announce_unload(const struct image *image) {
    struct ag_thread *thread = state_for_records();
    if (thread) {
        const struct ag_record record = {.kind = AG_RECORD_IMAGE_UNLOAD,
                                         .u.image_unload.image = image->unwind.id};
        ag_stream_append_record(thread, &record);
    }
}

/* ---- tables ---- */

static bool images_grow(void) {
    const uint32_t capacity = images.capacity ? 2 * images.capacity : (uint32_t)SLOTS_FIRST;
    struct image *moving = ag_pages_map(capacity * sizeof(*moving));
    struct span *spans = ag_pages_map(capacity * sizeof(*spans));
    if (!moving || !spans) {
        ag_pages_unmap(moving, capacity * sizeof(*moving));
        ag_pages_unmap(spans, capacity * sizeof(*spans));
        return false;
    }
    memcpy(moving, images.moving, images.n_moving * sizeof(*moving));
    memcpy(spans, images.spans, images.n_spans * sizeof(*spans));
    ag_pages_unmap(images.moving, images.capacity * sizeof(*moving));
    ag_pages_unmap(images.spans, images.capacity * sizeof(*spans));
    images.moving = moving;
    images.spans = spans;
    images.capacity = capacity;
    return true;
}

/* The index of the first span that begins after the address. */
static uint32_t spans_up_to(uintptr_t address) {
    uint32_t low = 0, high = images.n_spans;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (images.spans[middle].low <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The loaded moving image that contains the address, or NULL. */
static struct image *moving_at(uintptr_t address) {
    const uint32_t at = spans_up_to(address);
    return at > 0 && address < images.spans[at - 1].high ? &images.moving[images.spans[at - 1].slot]
                                                         : NULL;
}

static const struct image *fixed_at(uintptr_t address) {
    const uint32_t n = atomic_load_explicit(&images.n_fixed, memory_order_acquire);
    for (uint32_t i = 0; i < n; i++) {
        const struct ag_unwind_image *unwind = &images.fixed[i].unwind;
        if (address - unwind->low < unwind->high - unwind->low) {
            return &images.fixed[i];
        }
    }
    return NULL;
}

static void add_span(uint32_t slot) {
    const struct ag_unwind_image *unwind = &images.moving[slot].unwind;
    const uint32_t at = spans_up_to(unwind->low);
    memmove(&images.spans[at + 1], &images.spans[at],
            (images.n_spans - at) * sizeof(images.spans[0]));
    images.spans[at] = (struct span){unwind->low, unwind->high, slot};
    images.n_spans++;
    const uintptr_t low = atomic_load_explicit(&images.low, memory_order_relaxed);
    const uintptr_t high = atomic_load_explicit(&images.high, memory_order_relaxed);
    if (high == 0 || unwind->low < low) {
        atomic_store_explicit(&images.low, unwind->low, memory_order_relaxed);
    }
    if (unwind->high > high) {
        atomic_store_explicit(&images.high, unwind->high, memory_order_release);
    }
}

static uint32_t next_image_id(void) {
    /* Forked processes share a stack tree, whose sites contain image ids; so they must share the
     * ids. The ids are counted in the process slot whose number is that of the tree. */
    struct ag_process_slot *owner =
        (struct ag_process_slot *)(ag_recorder.slots +
                                   (size_t)ag_recorder.tree_index * AG_SLOT_BYTES);
    return atomic_fetch_add_explicit(&owner->n_images, 1, memory_order_relaxed) + 1;
}

static bool is_same_file(const struct image *gone, const struct image *image) {
    return gone->is_gone && gone->bias == image->bias && gone->unwind.low == image->unwind.low &&
           gone->unwind.high == image->unwind.high && image->build_id_bytes > 0 &&
           gone->build_id_bytes == image->build_id_bytes &&
           memcmp(gone->build_id, image->build_id, image->build_id_bytes) == 0 &&
           strcmp(gone->path, image->path) == 0;
}

/* Assigns a slot and an id to a newly loaded image. -ENOMEM: there is no room. */
static int take_slot(const struct image *image) {
    uint32_t slot = images.n_moving, free_slot = UINT32_MAX, id = 0;
    for (uint32_t i = 0; i < images.n_moving && (images.n_gone > 0 || free_slot == UINT32_MAX);
         i++) {
        if (is_same_file(&images.moving[i], image)) {
            free_slot = i;
            id = images.moving[i].unwind.id;
            images.n_gone--;
            break;
        }
        free_slot = images.moving[i].is_used ? free_slot : i;
    }
    if (free_slot != UINT32_MAX) {
        slot = free_slot;
    } else if (images.n_moving == images.capacity && !images_grow()) {
        return -ENOMEM;
    } else {
        images.n_moving++;
    }
    images.moving[slot] = *image;
    images.moving[slot].unwind.id = id != 0 ? id : next_image_id();
    return (int)slot;
}

/* ---- merging: under the lock ---- */

struct merge {
    uint64_t version; /* see ag_objects_version */
    bool is_begun, is_done;
    uint32_t n_visited;
    struct image image; /* scratch */
};

static void take_object(const struct dl_phdr_info *info, struct merge *merge) {
    const uint32_t n_fixed = atomic_load_explicit(&images.n_fixed, memory_order_relaxed);
    const bool is_executable = merge->n_visited == 0;
    const uint32_t number = merge->n_visited++;
    if (number < n_fixed && images.fixed[number].phdr == info->dlpi_phdr) {
        /* a fixed image: fixed images come first in the loader's list, in the order of loading */
        return;
    }
    struct image *known = moving_at((uintptr_t)info->dlpi_phdr);
    if (known && known->phdr == info->dlpi_phdr && known->bias == info->dlpi_addr &&
        (is_executable || !info->dlpi_name || known->name_hash == hash_of(info->dlpi_name))) {
        known->seen = images.visit;
        return;
    }
    if (!image_describe(info, is_executable, &merge->image)) {
        return;
    }
    known = moving_at(merge->image.unwind.low);
    if (known && known->phdr == merge->image.phdr && strcmp(known->path, merge->image.path) == 0) {
        known->seen = images.visit;
        return;
    }
    for (uint32_t i = 0; i < n_fixed; i++) {
        if (images.fixed[i].phdr == merge->image.phdr) {
            return;
        }
    }
    merge->image.seen = images.visit;
    ag_image_tables_find(info, merge->image.path, &merge->image.unwind);
    if (take_slot(&merge->image) < 0) {
        ag_image_tables_release(&merge->image.unwind);
        ag_record_lost(AG_LOST_NO_MEMORY, 1); /* stacks end at frames of this image */
    }
}

static int merge_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct merge *merge = context;
    if (!merge->is_begun) {
        merge->is_begun = true;
        merge->version = ag_object_version(info);
        lock_images();
        if (merge->version <= atomic_load_explicit(&images.version, memory_order_relaxed)) {
            merge->is_done = true;
            return 1; /* another thread has merged this list meanwhile */
        }
        images.visit++;
    }
    take_object(info, merge);
    return 0;
}

/* Keeps the slot of an unloaded image that has a build id, so that the image gets the same id when
 * it is loaded again; frees the slot of an image without one. If too many slots are kept, another
 * kept slot is freed. */
static void remember_gone(struct image *image) {
    static uint32_t next; /* slot to replace next */
    image->is_gone = image->is_used = image->build_id_bytes > 0;
    images.n_gone += image->is_gone;
    for (uint32_t i = 0; images.n_gone > GONE_KEPT && i < images.n_moving; i++) {
        struct image *other = &images.moving[next++ % images.n_moving];
        if (other->is_gone && other != image) {
            other->is_gone = other->is_used = false;
            images.n_gone--;
        }
    }
}

/* Drops the images that were not in the loader's list in this visit. Called before new images are
 * added, because new images may lie at the same addresses. */
static void images_drop_unseen(void) {
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < images.n_spans; i++) {
        struct image *image = &images.moving[images.spans[i].slot];
        if (image->seen == images.visit) {
            images.spans[n_kept++] = images.spans[i];
            continue;
        }
        announce_unload(image);
        remember_gone(image);
        ag_unwind_space_forget(ag_recorder.space, image->unwind.low, image->unwind.high);
        ag_image_tables_release(&image->unwind);
    }
    images.n_spans = n_kept;
}

static void take_in(void) {
    for (uint32_t slot = 0; slot < images.n_moving; slot++) {
        struct image *image = &images.moving[slot];
        if (image->seen == images.visit && image->is_used && !image->is_announced) {
            announce_load(image);
            image->is_announced = true; /* set even if the record was lost */
            ag_unwind_space_forget_made(ag_recorder.space, image->unwind.low, image->unwind.high);
            add_span(slot);
        }
    }
}

/* Called after the first walk over the loader's list: moves the images that were loaded with the
 * program to the array of fixed images. In the list, these are the objects up to the C library and
 * the loader. */
static void fix_first(void) {
    const uintptr_t loader = ag_loader_address(), libc = ag_objects_visitor();
    uint32_t n_fixed = 0;
    for (uint32_t i = 0; i < images.n_moving; i++) {
        const struct ag_unwind_image *unwind = &images.moving[i].unwind;
        const uintptr_t bytes = unwind->high - unwind->low;
        if (libc - unwind->low < bytes || (loader != 0 && loader - unwind->low < bytes)) {
            n_fixed = i + 1;
        }
    }
    struct image *fixed = n_fixed > 0 ? ag_pages_map(n_fixed * sizeof(*fixed)) : NULL;
    if (!fixed) {
        return; /* no memory: all images are treated as moving, which is slower */
    }
    memcpy(fixed, images.moving, n_fixed * sizeof(*fixed));
    images.n_moving -= n_fixed;
    memmove(images.moving, images.moving + n_fixed, images.n_moving * sizeof(*fixed));
    for (uint32_t i = 0; i < n_fixed; i++) {
        announce_load(&fixed[i]);
    }
    images.fixed = fixed;
    images.fixed_bytes = n_fixed * sizeof(*fixed);
    /* release: pairs with the acquire in fixed_at, so that the images are complete */
    atomic_store_explicit(&images.n_fixed, n_fixed, memory_order_release);
}

/* Called with signals blocked. */
static void merge_list(void) {
    struct merge merge = {0};
    (void)ag_objects_visit(merge_object, &merge); /* `merge` has the result */
    if (!merge.is_begun) {
        return; /* no objects at all: cannot happen */
    }
    if (!merge.is_done) {
        images_drop_unseen();
        if (images.visit == 1) {
            fix_first();
        }
        take_in();
        atomic_store_explicit(&images.version, merge.version, memory_order_release);
    }
    unlock_images();
}

void ag_images_refresh(void) {
    if (ag_objects_version() == atomic_load_explicit(&images.version, memory_order_acquire)) {
        /* no object was loaded or unloaded since the last merge (this is frequent: each new pc in
         * generated code leads to this function) */
        return;
    }
    const uint64_t mask = ag_signals_block();
    merge_list();
    ag_signals_restore(mask);
}

/* ---- the loader's notices ---- */

/* The calling thread is about to remove objects from the list of the loader's first namespace. */
static void begin_unloading(void) {
    const uint64_t mask = ag_signals_block();
    lock_images();
    atomic_store_explicit(&images.changer, own_number(), memory_order_seq_cst);
    unlock_images();
    ag_signals_restore(mask);
}

static void end_change(void) {
    ag_images_refresh();
    if (atomic_load_explicit(&images.changer, memory_order_relaxed) == own_number()) {
        atomic_store_explicit(&images.changer, 0, memory_order_seq_cst);
    }
}

static void (*at_change)(void); /* set once, before the notices are installed */

static void on_notice(enum ag_loader_state state) {
    if (ag_recorder_is_active() && ag_process_is_forked()) {
        ag_recorder_child_start();
    }
    if (!ag_recorder_is_active()) {
        atomic_store_explicit(&images.changer, 0, memory_order_seq_cst);
        atomic_store_explicit(&images.is_watched, false, memory_order_relaxed);
        return; /* the next lookup merges the list again */
    }
    switch (state) {
    case AG_LOADER_ADDS:
        break;
    case AG_LOADER_DELETES:
        at_change();
        begin_unloading();
        break;
    case AG_LOADER_IS_WHOLE:
        end_change();
        at_change();
        break;
    }
}

void ag_recorder_watch_images(void (*call_at_change)(void)) {
    at_change = call_at_change;
    (void)ag_loader_notice_install(on_notice); /* if it fails, see section 4 */
}

/* Whether the loader's notices are installed. If they are, the list was merged after they were
 * installed. */
static bool is_watched(void) {
    if (!ag_loader_notice_is_written()) {
        atomic_store_explicit(&images.is_watched, false, memory_order_relaxed);
        return false;
    }
    if (AG_UNLIKELY(!atomic_load_explicit(&images.is_watched, memory_order_acquire))) {
        ag_images_refresh();
        atomic_store_explicit(&images.is_watched, true, memory_order_release);
    }
    return true;
}

/* ---- lookups ---- */

/* Whether the image, or its tables, are still mapped. Called only by the thread that is unloading,
 * so no other thread unmaps them during the call. */
static bool is_readable(const struct ag_unwind_image *image) {
    const uintptr_t low = image->tables_high ? image->tables_low : image->low;
    const uintptr_t high = image->tables_high ? image->tables_high : image->high;
    for (uintptr_t page = ag_page_of(low); page < high; page += AG_PAGE_BYTES) {
        if (!ag_readable_word(page)) {
            return false;
        }
    }
    return true;
}

static int find_moving(uintptr_t pc, ag_image_use_fn *use, void *context) {
    /* acquire: pairs with the release in add_span, which stores `low` before `high` */
    const uintptr_t high = atomic_load_explicit(&images.high, memory_order_acquire);
    const uintptr_t low = atomic_load_explicit(&images.low, memory_order_relaxed);
    if (pc < low || pc >= high) {
        return -ENOENT;
    }
    const uint64_t mask = ag_signals_block();
    const enum reader reader = begin_reading();
    int r = reader == READER_GAVE_UP ? -EAGAIN : -ENOENT;
    const struct image *image = reader != READER_GAVE_UP ? moving_at(pc) : NULL;
    if (image && (reader == READER_IS_IN || is_readable(&image->unwind))) {
        use(context, &image->unwind);
        r = 0;
    }
    if (reader == READER_IS_IN) {
        end_reading();
    }
    ag_signals_restore(mask);
    return r;
}

struct visit {
    uintptr_t pc;
    ag_image_use_fn *use;
    void *context;
    int result;
};

static int use_in_visit(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct visit *visit = context;
    if (!ag_object_contains(info, visit->pc)) {
        return 0;
    }
    lock_images();
    const struct image *image = moving_at(visit->pc);
    const bool is_known = image && image->phdr == info->dlpi_phdr;
    const struct ag_unwind_image unwind = is_known ? image->unwind : (struct ag_unwind_image){0};
    unlock_images();
    if (is_known) {
        visit->use(visit->context, &unwind);
    }
    visit->result = is_known ? 0 : -EAGAIN;
    return 1;
}

/* Finds the image in a callback of the loader. USE reads the tables in this callback, under the
 * loader's lock, so no object is unmapped meanwhile. */
static int find_by_loader(uintptr_t pc, ag_image_use_fn *use, void *context) {
    struct visit visit = {pc, use, context, -ENOENT};
    ag_images_refresh();
    const uint64_t mask = ag_signals_block();
    (void)ag_objects_visit(use_in_visit, &visit); /* visit.result has the result */
    ag_signals_restore(mask);
    return visit.result;
}

int ag_images_find(void *context, uintptr_t pc, ag_image_use_fn *use, void *use_context) {
    (void)context; /* there is one recorder with one table */
    const struct image *fixed = fixed_at(pc);
    struct ag_unwind_image made;
    if (fixed) {
        use(use_context, &fixed->unwind);
        return 0;
    }
    if (ag_made_code_find(pc, &made)) {
        use(use_context, &made);
        return 0;
    }
    return is_watched() ? find_moving(pc, use, use_context) : find_by_loader(pc, use, use_context);
}

/* ---- life ---- */

void ag_images_announce_again(void) {
    /* Other threads, which may have been reading, merging or unloading, do not exist in the child.
     * If this thread was unloading, a signal handler interrupted it and forked, and the unloading
     * continues after the handler. This thread does not hold the lock, because signals are blocked
     * while a thread holds it. */
    const uintptr_t self = own_number();
    const uintptr_t changer = atomic_load_explicit(&images.changer, memory_order_relaxed);
    const bool is_half = atomic_load_explicit(&images.lock_owner, memory_order_relaxed) != 0 ||
                         (changer != 0 && changer != self);
    atomic_store_explicit(&images.lock_owner, 0, memory_order_relaxed);
    atomic_store_explicit(&images.changer, changer == self ? self : 0, memory_order_relaxed);
    atomic_store_explicit(&images.n_readers, 0, memory_order_relaxed);
    if (is_half) { /* the table may be inconsistent: the next notice rebuilds it */
        images.n_moving = images.n_spans = images.n_gone = 0;
        atomic_store_explicit(&images.version, 0, memory_order_relaxed);
    }
    ag_images_announce_all();
}

void ag_images_announce_all(void) {
    const uint32_t n_fixed = atomic_load_explicit(&images.n_fixed, memory_order_relaxed);
    for (uint32_t i = 0; i < n_fixed; i++) {
        announce_load(&images.fixed[i]);
    }
    for (uint32_t i = 0; i < images.n_spans; i++) {
        announce_load(&images.moving[images.spans[i].slot]);
    }
}

uint32_t ag_images_last_id(void) {
    uint32_t last = 0;
    const uint32_t n_fixed = atomic_load_explicit(&images.n_fixed, memory_order_relaxed);
    for (uint32_t i = 0; i < n_fixed; i++) {
        last = images.fixed[i].unwind.id > last ? images.fixed[i].unwind.id : last;
    }
    for (uint32_t i = 0; i < images.n_moving; i++) {
        last = images.moving[i].unwind.id > last ? images.moving[i].unwind.id : last;
    }
    return last;
}

void ag_images_unmap(void) {
    const uint32_t n_fixed = atomic_load_explicit(&images.n_fixed, memory_order_relaxed);
    for (uint32_t i = 0; i < n_fixed; i++) {
        ag_image_tables_release(&images.fixed[i].unwind);
    }
    for (uint32_t i = 0; i < images.n_spans; i++) {
        ag_image_tables_release(&images.moving[images.spans[i].slot].unwind);
    }
    ag_pages_unmap(images.fixed, images.fixed_bytes);
    ag_pages_unmap(images.moving, images.capacity * sizeof(struct image));
    ag_pages_unmap(images.spans, images.capacity * sizeof(struct span));
    memset(&images, 0, sizeof(images)); /* no other thread uses the tables */
}
