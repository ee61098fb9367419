/* observed_images.h: keeps the list of the target's images up to date while the target (the
 * observed process) runs. An image is a file with code that the target has mapped. */
#ifndef AG_OBSERVED_IMAGES_H
#define AG_OBSERVED_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/remote_elf.h"
#include "remote/remote_maps.h"
#include "remote/remote_process.h"

struct ag_image_cfi;
struct ag_observed_image {
    uint32_t id;              /* ids begin with 1 and are never used twice */
    uint64_t low, high, bias; /* low, high: the range of the image's code; bias: address in memory
                               * minus address in the file */
    uint64_t device, inode;
    char *path;  /* as in /proc/PID/maps of the target, without " (deleted)" */
    char *place; /* the path under which this process opened the file; NULL: opening failed, or
                  * the image is the vdso */
    /* is_gone: the file is no longer mapped; is_program: the first image, which is the program */
    bool is_gone, is_program;
    bool is_open;        /* the file could be read: elf and cfi are set */
    bool is_unreachable; /* no path was found under which this process can open the file */
    /* whether elf and cfi belong to this image, and not to another image of the same file */
    bool owns_file;
    struct ag_remote_elf *elf; /* all zero if the file could not be read */
    struct ag_image_cfi *cfi;  /* NULL: the file has no tables */
};
struct ag_observed_images { /* zero-initialize, set `process`, call ag_observed_images_refresh */
    const struct ag_remote_process *process;
    struct ag_remote_maps maps;
    struct ag_observed_image **items; /* all images, also those that are unmapped */
    size_t n;
    struct ag_observed_image **sorted; /* the images that are mapped, by address */
    size_t n_sorted;
    uint64_t generation;         /* changes with the mappings */
    bool (*is_stopped)(void);    /* returns true to open no more files; may be NULL */
    uint64_t cost, stored_bytes; /* bytes of memory that open files may need; bytes on the disk */
    bool is_over_bound;          /* opening files took too much CPU time; no more are opened */
    bool has_left_out;           /* a file was not opened, because that would have cost too much CPU
                                  * time or memory */
    /* path of the first file that this process cannot open under any path; NULL: none */
    const char *unreachable;
};
/* Reads the target's list of mappings again. Returns 0, or a negative errno; after an error,
 * look-ups find the images of the last call that succeeded. */
int ag_observed_images_refresh(struct ag_observed_images *images);
struct ag_observed_image *ag_observed_images_find(const struct ag_observed_images *images,
                                                  uint64_t pc);
/* Finds the function that contains the address in memory, [*ret_low, *ret_high), by the symbols of
 * its image or by its unwind tables. Returns false if they do not have it. */
bool ag_observed_image_function(struct ag_observed_image *image, uint64_t address,
                                uint64_t *ret_low, uint64_t *ret_high);
/* Whether the address is in the kernel's trampoline for return probes. While a function with such a
 * probe runs, its return address on the stack is replaced by the trampoline's address; only the
 * kernel knows the real return address. */
bool ag_observed_images_is_trampoline(const struct ag_observed_images *images, uint64_t address);
/* Finds the address in memory of a symbol in the mapped files, the program first. Returns false if
 * no file has the symbol. */
bool ag_observed_images_symbol(struct ag_observed_images *images, const char *name,
                               uint64_t *ret_address, uint64_t *ret_bytes);
/* The path under which this process can open the file that is mapped at ADDRESS, and the file
 * offset of ADDRESS. Returns 0 or -ENOENT. */
int ag_observed_images_place(const struct ag_observed_images *images, uint64_t address,
                             char *ret_place, size_t limit, uint64_t *ret_offset);
/* The path under which this process can open the target's PATH. */
void ag_observed_images_path(const struct ag_observed_images *images, const char *path,
                             char *ret_path, size_t limit);
void ag_observed_images_done(struct ag_observed_images *images);

#endif
