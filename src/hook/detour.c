/* detour.c: redirects a function of the process, for adapters (the code for one runtime or
 * allocator each). It maps a page near the function, writes code into the page, and overwrites the
 * function's first bytes with a jump to the page.
 *
 * 1. The page has to be within 2 GiB of the target (the function), for jmp rel32 and for
 * rip-relative operands of the copied instructions. The nearest gap below the target's image (the
 * loaded file with the target) is used, because the program's heap grows above the image. Each
 * detour has a page of its own (except the prepared detours of section 3), so a page whose code a
 * thread may be executing need never become writable again. The kernel merges neighboring pages
 * into one mapping.
 *
 * 2. The protection of the target's pages is read from the kernel, changed to writable, and
 * restored. The pages stay executable meanwhile if the system permits pages that are writable and
 * executable, because other threads may be executing their code.
 *
 * 3. In a program that already runs, detours are only prepared (ag_detours_prepare_only): this code
 * fills their pages, which several detours share, but does not write their jumps. `allogram
 * attach`, which can stop the program's threads, writes the jumps.
 *
 * 4. A thread may call the target while the jump is written. So first a two-byte jump to itself is
 * written, in which such a thread waits; then the other bytes of the jump; then its first two
 * bytes. */
#include "detour.h"

#include <errno.h>
#include <string.h>

#include "arch/x86_64/relocate.h"
#include "base/pages.h"
#include "base/raw_syscall.h"
#include "process_map.h"

enum {
    LOWEST_ADDRESS = 1 << 16, /* vm.mmap_min_addr */
    WAY_OFFSET = 0,           /* offset of the jump to the replacement; offsets are from the start
                               * of the entry, the part of a page that belongs to one detour */
    ORIGINAL_OFFSET = 48,
};
_Static_assert(WAY_OFFSET + AG_KEPT_FRAME_BYTES <= ORIGINAL_OFFSET &&
                   WAY_OFFSET + AG_FAR_JUMP_BYTES <= ORIGINAL_OFFSET,
               "the jump to the replacement ends before the copied instructions");

/* The code to which a detour leads. */
struct way {
    const void *code; /* the replacement, or ENTER of ag_detour_install_kept */
    uintptr_t datum;
    bool is_kept;
};

/* The greatest distance between page and target. It is 1.5 GiB, because operands of the copied
 * instructions may be 512 MiB further away from the page than the target. */
static const uintptr_t reach_bytes = (uintptr_t)3 << 29;

_Static_assert((int)AG_DETOUR_BYTES == (int)AG_JUMP_BYTES, "a detour is one jump");
_Static_assert(ORIGINAL_OFFSET + AG_LANDING_BYTES + AG_RELOCATED_BYTES <= AG_PAGE_BYTES,
               "a detour fits into one page");

static int detour_fail(struct ag_detour *detour, int error, const char *reason) {
    detour->reason = reason;
    return error;
}

/* The results of a walk over the process map: the mapping that contains the target, extended by
 * adjacent mappings with the same protection, and the address of a free page. */
struct surroundings {
    uintptr_t target;
    struct ag_mapping mapping;
    bool is_mapped;
    uintptr_t previous_high;
    uintptr_t page; /* 0: not found yet */
};

static bool look_around(void *context, const struct ag_mapping *mapping) {
    struct surroundings *around = context;
    /* the gap before this mapping is below the target */
    const bool is_below = mapping->low <= around->target;
    const uintptr_t low = around->previous_high, high = mapping->low;
    around->previous_high = mapping->high;
    if (mapping->low <= around->target && around->target < mapping->high) {
        around->mapping = *mapping;
        around->is_mapped = true;
    } else if (around->is_mapped && mapping->low == around->mapping.high &&
               mapping->protection == around->mapping.protection) {
        /* the kernel splits a mapping at a page that was written to; the code continues in the next
         * mapping */
        around->mapping.high = mapping->high;
    }
    if (high < low + AG_PAGE_BYTES || high < LOWEST_ADDRESS + AG_PAGE_BYTES) {
        return true;
    }
    if (is_below) {
        const uintptr_t page = high - AG_PAGE_BYTES;
        around->page = around->target - page < reach_bytes ? page : around->page;
        return true;
    }
    /* above the target: uses the high end of the gap, because a heap may grow from the low end */
    if (around->page == 0) {
        const uintptr_t end = around->target + reach_bytes;
        const uintptr_t page = ag_page_of(high < end ? high : end) - AG_PAGE_BYTES;
        around->page = page >= low && page > around->target ? page : 0;
    }
    return around->page == 0 && mapping->low - around->target < reach_bytes;
}

static void *map_page(uintptr_t address) {
    const long page = ag_syscall6(SYS_mmap, (long)address, AG_PAGE_BYTES, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (ag_syscall_failed(page)) {
        return NULL;
    }
    if ((uintptr_t)page != address) { /* a kernel before 4.17 treats the address as a hint */
        ag_pages_unmap((void *)page, AG_PAGE_BYTES);
        return NULL;
    }
    return (void *)page;
}

static int set_protection(uintptr_t low, size_t n_bytes, int protection) {
    const uintptr_t first = ag_page_of(low);
    return (int)ag_syscall3(SYS_mprotect, (long)first, (long)(low + n_bytes - first), protection);
}

/* A jump to itself: a thread that executes it waits. */
static const uint8_t wait_here[2] = {0xeb, 0xfe};

static void write_head(uint8_t *place, const uint8_t head[2]) {
    uint16_t word;
    memcpy(&word, head, sizeof(word));
    __atomic_store_n((uint16_t *)place, word, __ATOMIC_SEQ_CST);
}

static void write_code(uint8_t *place, const uint8_t bytes[AG_DETOUR_BYTES]) {
    write_head(place, wait_here);
    for (size_t i = sizeof(wait_here); i < AG_DETOUR_BYTES; i++) {
        __atomic_store_n(&place[i], bytes[i], __ATOMIC_SEQ_CST);
    }
    write_head(place, bytes);
}

static int make_writable(uint8_t *place, int protection) {
    const uintptr_t low = (uintptr_t)place;
    const int r = set_protection(low, AG_DETOUR_BYTES, protection | PROT_WRITE);
    return r == 0 || (protection & PROT_EXEC) == 0
               ? r
               : set_protection(low, AG_DETOUR_BYTES, PROT_READ | PROT_WRITE);
}

/* Writes an entry of a page: the jump to the replacement, and the instructions copied from PLACE,
 * which is LANDING bytes after the beginning of the function. */
static int fill_entry(struct ag_detour *detour, uint8_t *entry, const uint8_t *place,
                      size_t landing, size_t readable, size_t target_bytes, const struct way *way) {
    uint8_t *copy = entry + ORIGINAL_OFFSET + AG_LANDING_BYTES;
    struct ag_relocation relocation = {
        .code = place,
        .address = (uintptr_t)place,
        .readable_bytes = readable - landing,
        .function_bytes = target_bytes != 0 ? target_bytes - landing : 0,
        .copy = copy,
        .copy_address = (uintptr_t)copy,
    };
    if (way->is_kept) {
        ag_write_kept_frame(entry + WAY_OFFSET, (uintptr_t)way->code, way->datum);
    } else {
        ag_write_far_jump(entry + WAY_OFFSET, (uintptr_t)way->code);
    }
    ag_write_landing(entry + ORIGINAL_OFFSET);
    const int r = ag_relocate(&relocation);
    return r < 0 ? detour_fail(detour, r, relocation.reason) : 0;
}

/* Makes the page executable and read-only. */
static int seal_page(struct ag_detour *detour, uint8_t *page) {
    if (set_protection((uintptr_t)page, AG_PAGE_BYTES, PROT_READ | PROT_EXEC) < 0) {
        return detour_fail(detour, -EACCES, "the system does not permit new executable memory");
    }
    return 0;
}

/* ---- in a running program: prepared, not written ---- */

enum { ENTRY_BYTES = 160, ENTRIES = AG_PAGE_BYTES / ENTRY_BYTES };
_Static_assert(ORIGINAL_OFFSET + AG_LANDING_BYTES + AG_RELOCATED_BYTES <= ENTRY_BYTES &&
                   (int)AG_DETOUR_PAGE_BYTES == (int)AG_PAGE_BYTES,
               "a detour fits into an entry");

static struct { /* used only by the thread that prepares detours */
    bool is_on;
    struct {
        uint8_t *bytes;
        size_t n_entries;
    } pages[AG_DETOUR_PAGES_MOST];
    size_t n_pages, n_detours;
    struct ag_detour *detours[AG_DETOURS_PREPARED_MOST];
} prepared;

/* Maps a free page below the target, at a distance that doubles with each attempt. A page above the
 * target is never tried, because a stack may grow there. If a page is in use, the kernel refuses it
 * in 0.1 us. To read from the process map which pages are free takes 100 us, and a thread of the
 * program is stopped meanwhile. NULL: none of the tried pages was free. */
static uint8_t *map_page_below(uintptr_t target) {
    const uintptr_t last = ag_page_of(target);
    void *page = NULL;
    for (uintptr_t distance = AG_PAGE_BYTES;
         page == NULL && distance < reach_bytes && last > distance + LOWEST_ADDRESS;
         distance *= 2) {
        page = map_page(last - distance);
    }
    return page;
}

/* Maps a free page that it finds by reading the process map: below the target if there is one in
 * reach, else above it. */
static uint8_t *map_page_around(struct ag_detour *detour, uintptr_t target) {
    struct surroundings around = {.target = target};
    const int code = PROT_READ | PROT_EXEC;
    if (ag_process_map_walk(look_around, &around) < 0 || !around.is_mapped ||
        (around.mapping.protection & code) != code) {
        detour->reason = "there is no code at its address";
        return NULL;
    }
    uint8_t *page = around.page != 0 ? map_page(around.page) : NULL;
    if (page == NULL) {
        detour->reason = "there is no free page near its code";
    }
    return page;
}

/* Reserves an entry within reach of the target, in an existing page or in a new one. */
static uint8_t *take_entry(struct ag_detour *detour, uintptr_t target) {
    for (size_t i = 0; i < prepared.n_pages; i++) {
        const uintptr_t page = (uintptr_t)prepared.pages[i].bytes;
        const uintptr_t distance = page < target ? target - page : page - target;
        if (distance < reach_bytes && prepared.pages[i].n_entries < ENTRIES) {
            return prepared.pages[i].bytes + prepared.pages[i].n_entries++ * ENTRY_BYTES;
        }
    }
    if (prepared.n_pages == AG_DETOUR_PAGES_MOST) {
        detour->reason = "its code is too far from the pages of the other detours";
        return NULL;
    }
    uint8_t *page = map_page_below(target);
    page = page != NULL ? page : map_page_around(detour, target);
    if (page != NULL) {
        prepared.pages[prepared.n_pages].bytes = page;
        prepared.pages[prepared.n_pages++].n_entries = 1;
    }
    return page;
}

/* Saves the overwritten bytes. Then writes the jump and restores the protection of its pages, or,
 * if detours are only prepared, adds the detour to the list of prepared detours. */
static void detour_take_effect(struct ag_detour *detour, uint8_t *place, int protection) {
    memcpy(detour->saved, place, AG_DETOUR_BYTES);
    detour->place = place;
    if (prepared.is_on) {
        prepared.detours[prepared.n_detours++] = detour;
        return;
    }
    write_code(place, detour->jump);
    /* If this fails, the program works on; the only effect is that the pages stay writable. */
    (void)set_protection((uintptr_t)place, AG_DETOUR_BYTES, protection);
}

static int detour_prepare(struct ag_detour *detour, uint8_t *target, size_t target_bytes,
                          const struct way *way, void **ret_original) {
    *detour = (struct ag_detour){0};
    const size_t readable = /* if the size is unknown, assumes that ENTRY_BYTES can be read */
        target_bytes != 0 ? target_bytes : (size_t)ENTRY_BYTES;
    const size_t landing = ag_landing_bytes(target, readable);
    uint8_t *place = target + landing;
    if (readable < landing + AG_DETOUR_BYTES) {
        return detour_fail(detour, -ENOSPC, "it is too short for a jump");
    }
    if (prepared.n_detours == AG_DETOURS_PREPARED_MOST) {
        return detour_fail(detour, -ENOMEM, "there are too many detours");
    }
    uint8_t *entry = take_entry(detour, (uintptr_t)target);
    if (entry == NULL) {
        return -ENOMEM;
    }
    const int r = fill_entry(detour, entry, place, landing, readable, target_bytes, way);
    if (r < 0) {
        return r;
    }
    if (ag_write_jump(detour->jump, (uintptr_t)place, (uintptr_t)entry + WAY_OFFSET) < 0) {
        return detour_fail(detour, -ERANGE, "its code is too far from the page of its detour");
    }
    detour->page = entry;
    *ret_original = entry + ORIGINAL_OFFSET;
    detour_take_effect(detour, place, /* protection= */ 0);
    return 0;
}

void ag_detours_prepare_only(void) {
    prepared.is_on = true;
}

int ag_detours_seal(const char **ret_reason) {
    for (size_t i = 0; i < prepared.n_pages; i++) {
        struct ag_detour refused = {0};
        const int r = seal_page(&refused, prepared.pages[i].bytes);
        if (r < 0) {
            *ret_reason = refused.reason;
            return r;
        }
    }
    return 0;
}

size_t ag_detours_prepared(struct ag_detour *const **ret_detours) {
    *ret_detours = prepared.detours;
    return prepared.n_detours;
}

size_t ag_detours_pages(uintptr_t ret_pages[AG_DETOUR_PAGES_MOST]) {
    for (size_t i = 0; i < prepared.n_pages; i++) {
        ret_pages[i] = (uintptr_t)prepared.pages[i].bytes;
    }
    return prepared.n_pages;
}

void ag_detours_drop(void) {
    for (size_t i = 0; i < prepared.n_pages; i++) {
        ag_pages_unmap(prepared.pages[i].bytes, AG_PAGE_BYTES);
    }
    prepared.n_pages = prepared.n_detours = 0;
}

/* ---- a single detour, at the start of a program ---- */

static int detour_write(struct ag_detour *detour, void *target, size_t target_bytes,
                        const struct way *way, void **ret_original) {
    if (prepared.is_on) {
        return detour_prepare(detour, target, target_bytes, way, ret_original);
    }
    *detour = (struct ag_detour){0};
    struct surroundings around = {.target = (uintptr_t)target};
    if (ag_process_map_walk(look_around, &around) < 0) {
        return detour_fail(detour, -ENOENT, "/proc/self/maps cannot be read");
    }
    const int code = PROT_READ | PROT_EXEC;
    if (!around.is_mapped || (around.mapping.protection & code) != code) {
        return detour_fail(detour, -EFAULT, "there is no code at its address");
    }
    const size_t readable = around.mapping.high - around.target;
    const size_t landing = ag_landing_bytes(target, readable);
    uint8_t *place = (uint8_t *)target + landing;
    if (readable < landing + AG_DETOUR_BYTES || (target_bytes != 0 && target_bytes <= landing)) {
        return detour_fail(detour, -ENOSPC, "it is too short for a jump");
    }
    uint8_t *page = around.page != 0 ? map_page(around.page) : NULL;
    if (page == NULL) {
        return detour_fail(detour, -ENOMEM, "there is no free page near its code");
    }
    int r = fill_entry(detour, page, place, landing, readable, target_bytes, way);
    if (r == 0) {
        r = seal_page(detour, page);
    }
    if (r == 0) {
        r = ag_write_jump(detour->jump, (uintptr_t)place, (uintptr_t)page + WAY_OFFSET);
    }
    if (r == 0 && make_writable(place, around.mapping.protection) < 0) {
        r = detour_fail(detour, -EACCES, "its code cannot be made writable");
    }
    if (r < 0) {
        ag_pages_unmap(page, AG_PAGE_BYTES); /* not in use yet */
        return r;
    }
    detour->page = page;
    *ret_original = page + ORIGINAL_OFFSET;
    detour_take_effect(detour, place, around.mapping.protection);
    return 0;
}

int ag_detour_install(struct ag_detour *detour, void *target, size_t target_bytes,
                      void *replacement, void **ret_original) {
    const struct way way = {.code = replacement};
    return detour_write(detour, target, target_bytes, &way, ret_original);
}

int ag_detour_install_kept(struct ag_detour *detour, void *target, size_t target_bytes,
                           const void *enter, uintptr_t datum, void **ret_original) {
    const struct way way = {.code = enter, .datum = datum, .is_kept = true};
    return detour_write(detour, target, target_bytes, &way, ret_original);
}

/* For a replacement that a near jump cannot reach: the near jump leads to a far jump in a new page,
 * or in an entry of a shared page. */
static int jump_by_page(struct ag_detour *detour, uint8_t *place, void *replacement) {
    uint8_t *entry =
        prepared.is_on ? take_entry(detour, (uintptr_t)place) : map_page_below((uintptr_t)place);
    if (entry == NULL) {
        return detour_fail(detour, -ENOMEM, "there is no free page near its code");
    }
    ag_write_far_jump(entry + WAY_OFFSET, (uintptr_t)replacement);
    int r = prepared.is_on ? 0 : seal_page(detour, entry);
    if (r == 0) {
        r = ag_write_jump(detour->jump, (uintptr_t)place, (uintptr_t)entry + WAY_OFFSET);
    }
    if (r < 0) {
        if (!prepared.is_on) {
            ag_pages_unmap(entry, AG_PAGE_BYTES); /* not in use yet */
        }
        return r;
    }
    detour->page = entry;
    return 0;
}

uintptr_t ag_detour_passed_on(const void *target) {
    const uintptr_t *slot = ag_jump_slot(target);
    return slot ? *slot : 0;
}

int ag_detour_install_empty(struct ag_detour *detour, void *target, void *replacement) {
    enum { READABLE = 32, CODE = PROT_READ | PROT_EXEC };
    *detour = (struct ag_detour){0};
    uint8_t *place = (uint8_t *)target + ag_landing_bytes(target, READABLE);
    if (!ag_is_empty_function(place, READABLE)) {
        return detour_fail(detour, -ENOTSUP, "it is not an empty function");
    }
    if (prepared.is_on && prepared.n_detours == AG_DETOURS_PREPARED_MOST) {
        return detour_fail(detour, -ENOMEM, "there are too many detours");
    }
    int r = ag_write_jump(detour->jump, (uintptr_t)place, (uintptr_t)replacement);
    r = r < 0 ? jump_by_page(detour, place, replacement) : 0;
    /* The page must be writable and executable at the same time, because other threads may be
     * executing its code. If the system forbids this, the detour is not installed: a page that is
     * only writable may not be allowed to become executable again. */
    if (r == 0 && !prepared.is_on &&
        set_protection((uintptr_t)place, AG_DETOUR_BYTES, CODE | PROT_WRITE) < 0) {
        if (detour->page != NULL) {
            ag_pages_unmap(detour->page, AG_PAGE_BYTES); /* not in use yet */
            detour->page = NULL;
        }
        r = detour_fail(detour, -EACCES, "its code cannot be made writable");
    }
    if (r < 0) {
        return r;
    }
    detour_take_effect(detour, place, CODE);
    return 0;
}

bool ag_detour_is_written(const struct ag_detour *detour) {
    return detour->place != NULL && memcmp(detour->place, detour->jump, AG_DETOUR_BYTES) == 0;
}

int ag_detour_remove(struct ag_detour *detour) {
    if (detour->place == NULL) {
        return 0;
    }
    if (prepared.is_on) { /* the process that writes the jumps skips a zeroed detour */
        *detour = (struct ag_detour){0};
        return 0;
    }
    struct surroundings around = {.target = (uintptr_t)detour->place};
    const int r = ag_process_map_walk(look_around, &around);
    if (r < 0) {
        return detour_fail(detour, r, "/proc/self/maps cannot be read");
    }
    if (!around.is_mapped) { /* the library was unloaded together with its detour */
        *detour = (struct ag_detour){0};
        return 0;
    }
    if (memcmp(detour->place, detour->jump, AG_DETOUR_BYTES) != 0) {
        return detour_fail(detour, -EBUSY,
                           "another library has changed its code since allogram read it");
    }
    if (make_writable(detour->place, around.mapping.protection) < 0) {
        return detour_fail(detour, -EACCES, "its code cannot be made writable");
    }
    write_code(detour->place, detour->saved);
    (void)set_protection((uintptr_t)detour->place, AG_DETOUR_BYTES, around.mapping.protection);
    *detour = (struct ag_detour){0};
    return 0;
}
