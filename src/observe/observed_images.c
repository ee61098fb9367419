/* observed_images.c: keeps the list of the images of the target (the examined process), for
 * `observe` and `attach`: the files with code that the target has mapped.
 *
 * An image is a file with one bias (address in memory minus address in the file). A file whose code
 * is mapped in several pieces with one bias is one image; a file that is mapped twice at different
 * places is two images. The bias comes from the segment that contains the mapping's file offset. A
 * file that was deleted or replaced is opened through /proc/PID/map_files, which leads to the
 * mapped file, not to the file that has its name now. */
#include "observed_images.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "remote/foreign_file.h"
#include "remote/remote_memory.h"
#include "symbol/image_cfi.h"
#include "table/array.h"
#include "unwind/eh_frame.h"

enum {
    VDSO_BYTES_MAX = 64 << 10,
    MOST_IMAGES = 1 << 16,
    LOOK_BACK = 4096, /* images searched, from the newest on: a process has some hundred */
    COST = 4,         /* memory for tables and unwind rules of a file, in multiples of its bytes */
    /* Limits for opening files, in proportion to the bytes that the files occupy: CPU time in ns
     * for each byte, and cost in bytes of memory for each byte. */
    NS_PER_BYTE = 50,
    MOST_COST = 16,
};
/* cost and CPU time that are allowed in addition to these limits */
static const uint64_t free_cost = UINT64_C(192) << 20, most_open_ns = UINT64_C(1000000000);

void ag_observed_images_path(const struct ag_observed_images *images, const char *path,
                             char *ret_path, size_t limit) {
    (void)snprintf(ret_path, limit, "%s%s", images->process->root, path);
}

static bool is_vdso(const struct ag_remote_mapping *mapping) {
    return strcmp(mapping->path, "[vdso]") == 0;
}

static bool is_the_file(const struct ag_observed_images *images, const char *path,
                        const struct ag_remote_mapping *mapping) {
    struct stat facts;
    return ag_foreign_file_look(path, &facts) == 0 &&
           ag_foreign_file_is_mapped(&facts, images->process->pid, mapping);
}

/* Finds a path by which this process can open the mapped file: PATH; PATH below the target's root,
 * if the target is in a container; or the link in map_files, which leads to a deleted file, too. */
static int find_place(const struct ag_observed_images *images, const char *path,
                      const struct ag_remote_mapping *mapping, char *ret_place, size_t limit) {
    (void)snprintf(ret_place, limit, "%s", path);
    if (is_the_file(images, ret_place, mapping)) {
        return 0;
    }
    (void)snprintf(ret_place, limit, "/proc/%d/root%s", images->process->pid, path);
    if (is_the_file(images, ret_place, mapping)) {
        return 0;
    }
    (void)snprintf(ret_place, limit, "/proc/%d/map_files/%llx-%llx", images->process->pid,
                   (unsigned long long)mapping->low, (unsigned long long)mapping->high);
    return is_the_file(images, ret_place, mapping) ? 0 : -ENOENT;
}

static int open_vdso(const struct ag_observed_images *images,
                     const struct ag_remote_mapping *mapping, struct ag_remote_elf *ret_elf) {
    const size_t n_bytes = mapping->high - mapping->low;
    uint8_t *copy = n_bytes <= VDSO_BYTES_MAX ? malloc(n_bytes) : NULL;
    if (copy == NULL ||
        ag_remote_memory_read(images->process->pid, mapping->low, copy, n_bytes) < 0) {
        free(copy);
        return -ENOEXEC;
    }
    return ag_remote_elf_adopt(copy, n_bytes, ret_elf);
}

/* Returns an open image of the same file, maybe mapped at another address (Node.js maps its code
 * again for each worker); NULL: there is none. */
static struct ag_observed_image *find_same_file(const struct ag_observed_images *images,
                                                const struct ag_observed_image *image) {
    for (size_t i = images->n; i-- > 0;) {
        struct ag_observed_image *other = images->items[i];
        if (other->is_open && other->inode != 0 && other->device == image->device &&
            other->inode == image->inode) {
            return other;
        }
    }
    return NULL;
}

static int open_image(const struct ag_observed_images *images,
                      const struct ag_remote_mapping *mapping, struct ag_observed_image *image) {
    char place[4096 + 64];
    const struct ag_observed_image *other = find_same_file(images, image);
    if (other != NULL) {
        image->elf = other->elf;
        image->cfi = other->cfi;
        image->place = other->place != NULL ? strdup(other->place) : NULL;
        return 0;
    }
    struct ag_remote_elf *elf = calloc(1, sizeof *elf);
    if (elf == NULL) {
        return -ENOMEM;
    }
    image->elf = elf;
    image->owns_file = true;
    if (is_vdso(mapping)) {
        return open_vdso(images, mapping, image->elf);
    }
    int r = find_place(images, image->path, mapping, place, sizeof place);
    image->is_unreachable = r < 0;
    r = r < 0 ? r : ag_remote_elf_open(place, image->elf);
    image->place = r == 0 ? strdup(place) : NULL; /* out of memory: its functions have no names */
    return r;
}

int ag_observed_images_place(const struct ag_observed_images *images, uint64_t address,
                             char *ret_place, size_t limit, uint64_t *ret_offset) {
    const struct ag_remote_mapping *mapping = ag_remote_maps_find(&images->maps, address);
    if (mapping == NULL || mapping->inode == 0) {
        return -ENOENT;
    }
    const int r = find_place(images, mapping->path, mapping, ret_place, limit);
    if (r == 0) {
        *ret_offset = address - mapping->low + mapping->file_offset;
    }
    return r;
}

static char *path_without_mark(const char *path) {
    static const char mark[] = " (deleted)";
    const size_t length = strlen(path), n = sizeof mark - 1;
    return strndup(path, length > n && strcmp(path + length - n, mark) == 0 ? length - n : length);
}

static bool image_has_mapping(const struct ag_observed_image *image,
                              const struct ag_remote_mapping *mapping) {
    return image->device == mapping->device && image->inode == mapping->inode &&
           image->low <= mapping->low && mapping->high <= image->high;
}

/* Returns the image of this mapping, if it is known. Nearly always the image was mapped at the last
 * refresh; otherwise the file may have been unmapped and mapped again. */
static struct ag_observed_image *find_known_image(const struct ag_observed_images *images,
                                                  const struct ag_remote_mapping *mapping) {
    struct ag_observed_image *image = ag_observed_images_find(images, mapping->low);
    if (image != NULL && image_has_mapping(image, mapping)) {
        return image;
    }
    for (size_t i = images->n; i-- > 0 && images->n - i <= LOOK_BACK;) {
        if (image_has_mapping(images->items[i], mapping)) {
            return images->items[i];
        }
    }
    return NULL;
}

/* Whether one more file may be opened. The cost is compared with the bytes that the files occupy on
 * the disk, because a file may consist mostly of holes. */
static bool is_within_limits(const struct ag_observed_images *images) {
    return !images->is_over_bound && images->cost <= free_cost + MOST_COST * images->stored_bytes;
}

static bool may_open(struct ag_observed_images *images) {
    if (images->is_stopped != NULL && images->is_stopped()) {
        return false;
    }
    images->has_left_out |= !is_within_limits(images);
    return is_within_limits(images);
}

static void count_cost(struct ag_observed_images *images, const struct ag_observed_image *image) {
    images->cost += COST * image->elf->file_bytes;
    images->stored_bytes += image->elf->stored_bytes;
}

static struct ag_observed_image *with_bias(const struct ag_observed_images *images,
                                           const struct ag_observed_image *other) {
    for (size_t i = 0; i < images->n; i++) {
        struct ag_observed_image *image = images->items[i];
        if (image->device == other->device && image->inode == other->inode &&
            image->bias == other->bias && image->is_open && !image->is_gone) {
            return image;
        }
    }
    return NULL;
}

static void release_image(struct ag_observed_image *image) {
    if (image->owns_file) {
        (void)ag_image_cfi_free(image->cfi);
        ag_remote_elf_close(image->elf);
        free(image->elf);
    }
    free(image->path);
    free(image->place);
    free(image);
}

static struct ag_observed_image *make_image(struct ag_observed_images *images,
                                            const struct ag_remote_mapping *mapping) {
    struct ag_observed_image *image = calloc(1, sizeof *image);
    if (image == NULL || (image->path = path_without_mark(mapping->path)) == NULL) {
        free(image);
        return NULL;
    }
    static struct ag_remote_elf no_file;
    image->elf = &no_file;
    image->low = mapping->low;
    image->high = mapping->high;
    image->device = mapping->device;
    image->inode = mapping->inode;
    image->bias = mapping->low - mapping->file_offset;
    if (may_open(images) && open_image(images, mapping, image) == 0) {
        const Elf64_Phdr *code = ag_remote_elf_segment_at(image->elf, mapping->file_offset, PF_X);
        if (code != NULL) {
            image->is_open = true;
            image->bias += code->p_offset - code->p_vaddr;
        }
    }
    return image;
}

static int observed_images_add(struct ag_observed_images *images,
                               const struct ag_remote_mapping *mapping) {
    if (images->n >= MOST_IMAGES) {
        return -ENOMEM;
    }
    struct ag_observed_image *image = make_image(images, mapping);
    if (image == NULL) {
        return -ENOMEM;
    }
    struct ag_observed_image *same = image->is_open ? with_bias(images, image) : NULL;
    if (same != NULL) {
        same->low = same->low < image->low ? same->low : image->low;
        same->high = same->high > image->high ? same->high : image->high;
        release_image(image);
        return 0;
    }
    if (image->is_open && image->owns_file) {
        count_cost(images, image);
        image->cfi = ag_image_cfi_new(image->elf);
    }
    if (image->is_unreachable && images->unreachable == NULL) {
        images->unreachable = image->path;
    }
    image->is_program = images->n == 0;
    image->id = (uint32_t)images->n + 1;
    const int r = AG_ARRAY_ADD(images->items, images->n, image);
    if (r < 0) {
        images->unreachable = images->unreachable == image->path ? NULL : images->unreachable;
        release_image(image);
    }
    return r;
}

static bool has_code(const struct ag_remote_mapping *mapping) {
    return (mapping->protection & PROT_EXEC) != 0 && (mapping->inode != 0 || is_vdso(mapping));
}

static int by_low(const void *a, const void *b) {
    const struct ag_observed_image *const *first = a, *const *second = b;
    return (*first)->low < (*second)->low ? -1 : (*first)->low > (*second)->low;
}

static int sort_images(struct ag_observed_images *images) {
    struct ag_observed_image **sorted = reallocarray(images->sorted, images->n + 1, sizeof *sorted);
    if (sorted == NULL) {
        return -ENOMEM;
    }
    images->sorted = sorted;
    images->n_sorted = 0;
    for (size_t i = 0; i < images->n; i++) {
        if (!images->items[i]->is_gone) {
            sorted[images->n_sorted++] = images->items[i];
        }
    }
    qsort(sorted, images->n_sorted, sizeof(struct ag_observed_image *), by_low);
    return 0;
}

int ag_observed_images_refresh(struct ag_observed_images *images) {
    int r = ag_remote_maps_read(&images->maps, images->process->pid);
    if (r < 0) {
        return r;
    }
    bool changed = images->sorted == NULL;
    for (size_t i = 0; i < images->n; i++) {
        images->items[i]->is_gone = true;
    }
    const uint64_t begin_ns = ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const size_t n_before = images->n_sorted;
    size_t n_alive = 0;
    for (size_t i = 0; i < images->maps.n && r == 0; i++) {
        const struct ag_remote_mapping *mapping = &images->maps.items[i];
        if (!has_code(mapping)) {
            continue;
        }
        struct ag_observed_image *image = find_known_image(images, mapping);
        if (image == NULL) {
            changed = true;
            r = observed_images_add(images, mapping);
            images->is_over_bound |= ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns >
                                     most_open_ns + NS_PER_BYTE * images->stored_bytes;
        } else if (image->is_gone) {
            image->is_gone = false;
            n_alive++;
        }
    }
    if (r == 0 && (changed || n_alive != n_before)) {
        images->generation++;
        r = sort_images(images);
    }
    return r;
}

struct ag_observed_image *ag_observed_images_find(const struct ag_observed_images *images,
                                                  uint64_t pc) {
    size_t low = 0, high = images->n_sorted; /* the first that starts after pc */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (images->sorted[middle]->low <= pc) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low != 0 && pc < images->sorted[low - 1]->high ? images->sorted[low - 1] : NULL;
}

bool ag_observed_image_function(struct ag_observed_image *image, uint64_t address,
                                uint64_t *ret_low, uint64_t *ret_high) {
    struct ag_cfi_entry entry;
    if (!image->is_open) {
        return false;
    }
    const struct ag_remote_symbol *symbol =
        ag_remote_elf_function(image->elf, address - image->bias);
    if (symbol != NULL) {
        *ret_low = symbol->address + image->bias;
        *ret_high = *ret_low + symbol->n_bytes;
        return true;
    }
    if (ag_image_cfi_function(image->cfi, address - image->bias, &entry) < 0) {
        return false;
    }
    *ret_low = entry.function + image->bias;
    *ret_high = entry.end + image->bias;
    return true;
}

bool ag_observed_images_is_trampoline(const struct ag_observed_images *images, uint64_t address) {
    const struct ag_remote_mapping *mapping = ag_remote_maps_find(&images->maps, address);
    return mapping != NULL && strcmp(mapping->path, "[uprobes]") == 0;
}

bool ag_observed_images_symbol(struct ag_observed_images *images, const char *name,
                               uint64_t *ret_address, uint64_t *ret_bytes) {
    for (size_t i = 0; i < images->n; i++) {
        struct ag_observed_image *image = images->items[i];
        const struct ag_remote_symbol *symbol =
            !image->is_gone && image->is_open ? ag_remote_elf_symbol(image->elf, name) : NULL;
        if (symbol != NULL) {
            *ret_address = symbol->address + image->bias;
            *ret_bytes = symbol->n_bytes;
            return true;
        }
    }
    return false;
}

void ag_observed_images_done(struct ag_observed_images *images) {
    for (size_t i = 0; i < images->n; i++) {
        release_image(images->items[i]);
    }
    free(images->items);
    free(images->sorted);
    ag_remote_maps_done(&images->maps);
    *images = (struct ag_observed_images){0};
}
