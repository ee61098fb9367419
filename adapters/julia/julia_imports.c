/* julia_imports.c: hooks functions of the C library in the import slots of libjulia only, so that
 * other callers of malloc are not slowed down.
 *
 * 1. posix_memalign has three callers in libjulia 1.5: the allocation of big objects, that of the
 * data of arrays, and the function that enlarges a big object or the data of an array. All of this
 * memory belongs to Julia's heaps, so it is not recorded as malloc's. The detours of the first two
 * callers take the new block (the field `fresh`; julia_calls.c); the third caller has no detour. If
 * the same thread calls free before a detour has taken the new block, the memory has moved from the
 * freed block to the new one.
 *
 * 2. free of such memory is the death of a big object or of an array's data. All other calls of
 * free continue in the function to which the import slot pointed before.
 *
 * 3. mmap: pages of the pools are recorded as mapped by the heap of the pools; they are recognized
 * by their flags (src/gc-pages.c). Stacks of tasks are recorded as mapped by a heap of their own.
 *
 * 4. dlsym: Julia opens libraries with RTLD_DEEPBIND, so their calls of malloc do not reach the
 * agent's malloc. When Julia looks up the first function of a library, the library's imports are
 * rebound to the agent's functions.
 *
 * 5. _U_dyn_register: Julia registers the unwind tables of generated code by this function of
 * libunwind. The adapter gives them to the agent's unwinder. */
#include "julia_imports.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "format/decode.h"
#include "hook/import_slot.h"
#include "hook/next_symbol.h"
#include "julia_blocks.h"
#include "julia_objects.h"
#include "julia_types.h"
#include "record/made_code.h"
#include "record/recorder.h"

#define CALLER_SP() ((const uintptr_t *)__builtin_frame_address(0) + 1)
#define CALLER_RBP() (*(const uintptr_t *)__builtin_frame_address(0))

/* From julia_entry.S, because dlsym uses its return address. */
extern void ag_julia_dlsym_entry(void) AG_HIDDEN;
extern void *ag_julia_dlsym_original AG_HIDDEN;
void *ag_julia_dlsym_original;
void ag_julia_look_at_libraries(void) AG_HIDDEN;

static int (*next_posix_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);
static void *(*next_mmap64)(void *, size_t, int, int, int, long);
static int (*next_munmap)(void *, size_t);
static int (*next_dyn_register)(void *);

/* ---- blocks ---- */

static int hooked_posix_memalign(void **ret_block, size_t alignment, size_t bytes) {
    struct ag_julia_thread *thread = ag_julia_thread();
    const uintptr_t suspended = ag_record_suspend();
    const int r = next_posix_memalign(ret_block, alignment, bytes);
    ag_record_resume(suspended);
    if (r == 0 && *ret_block) {
        (void)ag_address_bits_set(&ag_julia_blocks, AG_JULIA_BLOCK_OWN, (uintptr_t)*ret_block);
        if (thread) {
            thread->fresh = (uintptr_t)*ret_block;
            thread->fresh_bytes = bytes;
        }
    }
    return r;
}

static void move(struct ag_julia_thread *thread, uintptr_t from, const uintptr_t *sp,
                 uintptr_t rbp) {
    const bool is_array = thread->resized == from;
    const struct ag_julia_block_made to = {.sp = is_array ? thread->caller_sp : sp,
                                           .rbp = is_array ? thread->caller_rbp : rbp,
                                           .address = thread->fresh,
                                           .bytes = thread->fresh_bytes};
    (void)ag_julia_freed(AG_WORD_REALLOC_FREE, from, sp, rbp);
    if (is_array) {
        ag_julia_moved(thread, AG_JULIA_STD, thread->resized_tag, &to);
    } else { /* of the big objects only strings are enlarged */
        thread->n_calls++;
        ag_julia_moved(thread, AG_JULIA_BIG, (uintptr_t)*ag_julia.jl_string_type, &to);
    }
    thread->fresh = 0;
}

static void hooked_free(void *block) {
    const uintptr_t address = (uintptr_t)block;
    struct ag_julia_thread *thread = block ? ag_julia_thread() : NULL;
    const bool has_moved = thread && thread->fresh != 0;
    if (has_moved) { /* also if the block is from before the adapter was installed */
        move(thread, address, CALLER_SP(), CALLER_RBP());
    }
    if (!block || !ag_address_bits_clear(&ag_julia_blocks, AG_JULIA_BLOCK_OWN, address)) {
        next_free(block);
        return;
    }
    if (!has_moved) {
        (void)ag_julia_freed(AG_WORD_FREE, address, CALLER_SP(), CALLER_RBP());
    }
    const uintptr_t suspended = ag_record_suspend();
    next_free(block);
    ag_record_resume(suspended);
}

void ag_julia_free(void *block) {
    next_free(block);
}

/* ---- mappings ---- */

/* Regions of pools, 512 MiB each (REGION_PG_COUNT of src/gc.h), never unmapped. */
enum { REGIONS_MOST = 64 };
static struct region {
    uintptr_t address;
    size_t bytes;
} regions[REGIONS_MOST];
static _Atomic uint32_t n_regions;

static void keep_region(uintptr_t address, size_t bytes) {
    const uint32_t at = atomic_fetch_add_explicit(&n_regions, 1, memory_order_relaxed);
    if (at < REGIONS_MOST) {
        regions[at] = (struct region){address, bytes};
    }
}

/* The pages of a region that Julia has touched and not given back to the kernel (jl_gc_free_page of
 * src/gc-pages.c) are those that are resident. */
static uint64_t resident_bytes(const struct region *region) {
    enum { PAGE_BYTES = 4096, STEP_PAGES = 16384 };
    static unsigned char there[STEP_PAGES]; /* used by the thread that ends the process */
    uint64_t pages = 0;
    for (size_t at = 0; at < region->bytes; at += (size_t)STEP_PAGES * PAGE_BYTES) {
        const size_t left = region->bytes - at, step = (size_t)STEP_PAGES * PAGE_BYTES;
        const size_t bytes = left < step ? left : step;
        if (ag_syscall3(SYS_mincore, (long)(region->address + at), (long)bytes, (long)there) != 0) {
            return 0;
        }
        for (size_t i = 0; i < (bytes + PAGE_BYTES - 1) / PAGE_BYTES; i++) {
            pages += there[i] & 1;
        }
    }
    return pages * PAGE_BYTES;
}

void ag_julia_report_memory(void) {
    const uint32_t all = atomic_load_explicit(&n_regions, memory_order_relaxed);
    struct ag_held_memory pools = {.heap = ag_julia_heaps[AG_JULIA_POOL], .known = AG_MEMORY_SIZES};
    for (uint32_t i = 0; i < all && i < REGIONS_MOST; i++) {
        pools.reserved_bytes += regions[i].bytes;
        pools.committed_bytes += resident_bytes(&regions[i]);
    }
    ag_record_memory(&pools);
    static const enum ag_julia_heap of_malloc[] = {AG_JULIA_BIG, AG_JULIA_STD};
    for (size_t i = 0; i < AG_ARRAY_SIZE(of_malloc); i++) {
        const struct ag_held_memory memory = {.heap = ag_julia_heaps[of_malloc[i]],
                                              .known = AG_MEMORY_IN_MALLOC};
        ag_record_memory(&memory);
    }
}

static bool is_pool_page(int protection, int flags, int fd) {
    return protection == (PROT_READ | PROT_WRITE) && fd == -1 &&
           flags == (MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS);
}

static void *hooked_mmap64(void *address, size_t bytes, int protection, int flags, int fd,
                           long offset) {
    const struct ag_julia_thread *thread = ag_julia_thread();
    const bool is_stack = thread && thread->makes_stack;
    if (!is_stack && !is_pool_page(protection, flags, fd)) {
        return next_mmap64(address, bytes, protection, flags, fd, offset);
    }
    const uintptr_t suspended = ag_record_suspend();
    void *mapped = next_mmap64(address, bytes, protection, flags, fd, offset);
    ag_record_resume(suspended);
    if (mapped != MAP_FAILED) {
        if (is_stack) {
            (void)ag_address_bits_set(&ag_julia_blocks, AG_JULIA_BLOCK_STACK, (uintptr_t)mapped);
        }
        if (!is_stack) {
            keep_region((uintptr_t)mapped, bytes);
        }
        allogram_map(ag_julia_heaps[is_stack ? AG_JULIA_STACKS : AG_JULIA_POOL], (uintptr_t)mapped,
                     bytes);
    }
    return mapped;
}

static int hooked_munmap(void *address, size_t bytes) {
    if (!ag_address_bits_clear(&ag_julia_blocks, AG_JULIA_BLOCK_STACK, (uintptr_t)address)) {
        return next_munmap(address, bytes);
    }
    allogram_unmap(ag_julia_heaps[AG_JULIA_STACKS], (uintptr_t)address, bytes);
    const uintptr_t suspended = ag_record_suspend();
    const int r = next_munmap(address, bytes);
    ag_record_resume(suspended);
    return r;
}

/* ---- generated code ---- */

/* unw_dyn_info_t with UNW_INFO_FORMAT_IP_OFFSET (libunwind-dynamic.h). */
struct dyn_info {
    const struct dyn_info *next, *prev;
    uintptr_t start_ip, end_ip, gp;
    int32_t format, pad;
    uintptr_t name_ptr, segbase, table_len, table_data;
};
enum { IP_OFFSET = 4 };

/* The end of the last entry of the unwind tables: each entry begins with its length. */
static uintptr_t end_of_entries(const struct dyn_info *info, const struct ag_cfi_place *places,
                                size_t n_places) {
    uintptr_t end = info->segbase;
    for (size_t i = 0; i < n_places; i++) {
        const uintptr_t entry = info->segbase + (uintptr_t)(intptr_t)places[i].entry;
        uint32_t length = 0;
        memcpy(&length, (const void *)entry, sizeof(length)); // NOLINT(performance-no-int-to-ptr)
        const uintptr_t entry_end = entry + sizeof(length) + length;
        end = entry_end > end ? entry_end : end;
    }
    return end;
}

static void follow_code(const struct dyn_info *info) {
    if (info->format == IP_OFFSET && info->end_ip > info->start_ip) {
        const struct ag_cfi_place *places =
            (const struct ag_cfi_place *)info->table_data; // NOLINT(performance-no-int-to-ptr)
        /* the table's length counts words */
        const size_t n_places = info->table_len * sizeof(uintptr_t) / sizeof(*places);
        if (places && n_places > 0) {
            const struct ag_made_code code = {.low = info->start_ip,
                                              .high = info->end_ip,
                                              .tables_low = info->segbase,
                                              .tables_high = end_of_entries(info, places, n_places),
                                              .places = places,
                                              .n_places = n_places};
            (void)ag_made_code_add(&code); /* table full: stacks end in this code, and are counted
                                            * as incomplete */
        }
    }
}

static int hooked_dyn_register(void *description) {
    follow_code(description);
    return next_dyn_register(description);
}

void ag_julia_imports_follow_earlier_code(void) {
    struct dyn_info_list { /* unw_dyn_info_list_t */
        uint32_t version, generation;
        const struct dyn_info *first;
    };
    struct ag_symbol_place place;
    if (!ag_symbol_find("_U_dyn_info_list_addr", AG_SYMBOL_FIRST, NULL, &place)) {
        return; /* stacks end in that code, and are counted as incomplete */
    }
    const struct dyn_info_list *(*list_of)(void) =
        (const struct dyn_info_list *(*)(void))(uintptr_t)place.address;
    const struct dyn_info *info = list_of()->first;
    for (uint32_t i = 0; info && i < AG_MADE_MOST; i++, info = info->next) {
        follow_code(info);
    }
}

/* ---- libraries of the program ---- */

static const char *const families[] = {
    "malloc",       "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign",
    "reallocarray", "valloc", "pvalloc", "mmap", "mmap64",         "munmap",
};
static struct ag_import_target targets[AG_ARRAY_SIZE(families)];
static size_t n_targets;
static uint64_t rebound_version;

void ag_julia_look_at_libraries(void) {
    ag_imports_rebind(targets, n_targets, &rebound_version);
}

/* Finds the functions to which imports are rebound. If the program itself defines a function,
 * imports of that function are not changed. */
static void target_families(void) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(families); i++) {
        struct ag_symbol_place first, next;
        if (ag_symbol_find(families[i], AG_SYMBOL_FIRST, NULL, &first) &&
            ag_symbol_find(families[i], AG_SYMBOL_NEXT, (const void *)(uintptr_t)target_families,
                           &next) &&
            !first.in_executable) {
            targets[n_targets++] = (struct ag_import_target){.name = families[i],
                                                             .passed_by = (uintptr_t)next.address,
                                                             .wanted = (uintptr_t)first.address};
        }
    }
}

/* ---- start ---- */

static struct {
    const char *name;
    void *replacement;
    void **original;
    bool is_replaced;
} imports[] = {
    {"posix_memalign", (void *)hooked_posix_memalign, (void **)&next_posix_memalign, false},
    {"free", (void *)hooked_free, (void **)&next_free, false},
    {"mmap64", (void *)hooked_mmap64, (void **)&next_mmap64, false},
    {"munmap", (void *)hooked_munmap, (void **)&next_munmap, false},
    {"dlsym", (void *)ag_julia_dlsym_entry, &ag_julia_dlsym_original, false},
    {"_U_dyn_register", (void *)hooked_dyn_register, (void **)&next_dyn_register, false},
};

int ag_julia_imports_follow(const void *inside, const char **ret_name) {
    int r = 0;
    target_families();
    for (size_t i = 0; i < AG_ARRAY_SIZE(imports) && r == 0; i++) {
        r = ag_import_replace(inside, imports[i].name, imports[i].replacement, imports[i].original);
        imports[i].is_replaced = r == 0;
        *ret_name = imports[i].name;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(imports) && r < 0; i++) {
        if (imports[i].is_replaced) {
            void *unused = NULL;
            (void)ag_import_replace(inside, imports[i].name, *imports[i].original, &unused);
            imports[i].is_replaced = false;
        }
    }
    return r;
}
