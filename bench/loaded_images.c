/* loaded_images.c: asks the loader for the image (loaded program or library) that contains a pc. */
#include "loaded_images.h"

#include <errno.h>
#include <link.h>

struct image_search {
    uintptr_t pc;
    struct ag_unwind_image image;
};

static int look_at_image(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes;
    struct image_search *search = context;
    struct ag_unwind_image image = {.low = UINTPTR_MAX, .id = 1};
    for (const char *c = info->dlpi_name; *c != 0; c++) { // the id is a hash of the file's name
        image.id = image.id * 31 + (unsigned char)*c;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD) {
            image.low = start < image.low ? start : image.low;
            image.high =
                start + header->p_memsz > image.high ? start + header->p_memsz : image.high;
        } else if (header->p_type == PT_GNU_EH_FRAME) {
            image.eh_frame_hdr = start;
        }
    }
    search->image = image;
    return search->pc >= image.low && search->pc < image.high;
}

int loaded_image_find(void *unused, uintptr_t pc, ag_image_use_fn *use, void *use_context) {
    (void)unused;
    struct image_search search = {.pc = pc};
    if (dl_iterate_phdr(look_at_image, &search) == 0) {
        return -ENOENT;
    }
    use(use_context, &search.image);
    return 0;
}

void loaded_image_copy(void *context, const struct ag_unwind_image *image) {
    *(struct ag_unwind_image *)context = *image;
}
