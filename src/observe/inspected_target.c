/* inspected_target.c: the functions of allogram/inspector.h by which inspectors read the target,
 * the observed process. An inspector is the code for one runtime (virtual machine) that reads a
 * process of this runtime from outside. */
#include <allogram/inspector.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "observation_state.h"
#include "remote/remote_memory.h"

int allogram_target_pid(const struct allogram_target *target) {
    return target->process->pid;
}

int allogram_target_read(struct allogram_target *target, uint64_t address, void *ret_bytes,
                         size_t n_bytes) {
    return ag_remote_memory_read(target->process->pid, address, ret_bytes, n_bytes);
}

int allogram_target_read_pieces(struct allogram_target *target, const struct allogram_piece *pieces,
                                size_t n_pieces) {
    _Static_assert(sizeof(struct allogram_piece) == sizeof(struct ag_remote_piece),
                   "both structures have the same layout");
    return ag_remote_memory_read_pieces(target->process->pid,
                                        (const struct ag_remote_piece *)pieces, n_pieces);
}

int allogram_target_read_text(struct allogram_target *target, uint64_t address, char *ret_text,
                              size_t limit) {
    return ag_remote_memory_read_text(target->process->pid, address, ret_text, limit);
}

/* ---- mappings ------------------------------------------------------------------------ */

size_t allogram_target_mappings(struct allogram_target *target,
                                const struct allogram_target_mapping **ret_mappings) {
    const struct ag_remote_maps *maps = &target->images->maps;
    struct allogram_target_mapping *mappings =
        reallocarray(target->mappings, maps->n + 1, sizeof *mappings);
    if (mappings == NULL) {
        return 0;
    }
    for (size_t i = 0; i < maps->n; i++) {
        const struct ag_remote_mapping *from = &maps->items[i];
        mappings[i] = (struct allogram_target_mapping){from->low, from->high, from->protection,
                                                       from->file_offset, from->path};
    }
    target->mappings = mappings;
    *ret_mappings = mappings;
    return maps->n;
}

const struct allogram_target_mapping *allogram_target_mapping(struct allogram_target *target,
                                                              uint64_t address) {
    const struct ag_remote_maps *maps = &target->images->maps;
    const struct ag_remote_mapping *found = ag_remote_maps_find(maps, address);
    const struct allogram_target_mapping *mappings;
    if (found == NULL || allogram_target_mappings(target, &mappings) == 0) {
        return NULL;
    }
    return &mappings[found - maps->items];
}

int allogram_target_refresh_mappings(struct allogram_target *target) {
    return ag_observed_images_refresh(target->images);
}

int allogram_target_symbol(struct allogram_target *target, const char *name,
                           struct allogram_target_symbol *ret_symbol) {
    struct allogram_target_symbol symbol;
    if (!ag_observed_images_symbol(target->images, name, &symbol.address, &symbol.n_bytes)) {
        return -ENOENT;
    }
    *ret_symbol = symbol;
    return 0;
}

int allogram_target_file(struct allogram_target *target, uint64_t address, char *ret_path,
                         size_t limit, uint64_t *ret_offset) {
    return ag_observed_images_place(target->images, address, ret_path, limit, ret_offset);
}

/* ---- the list of generated code for debuggers -------------------------------------------
 *
 *     descriptor   version u32, action u32, addresses u64 of the relevant and of the first entry
 *     entry        addresses u64 of the next entry, the previous entry and the symbol file, and
 *                  the size of this file in bytes u64 */
enum {
    DESCRIPTOR_BYTES = 24,
    FIRST_AT = 16,
    ENTRY_WORDS = 4,
    MOST_ENTRIES = 1 << 17,
    MOST_OBJECT_BYTES = 64 << 20,
    /* limit of the bytes of all objects together, in one reading of the list */
    MOST_LIST_BYTES = 1 << 30,
    REST = 20, /* pause after reading the list, in multiples of the time that it took */
};
static const uint64_t most_reading_ns = UINT64_C(500000000);

static bool is_stopped(const struct allogram_target *target) {
    return target->is_stopped != NULL && target->is_stopped();
}

static uint64_t find_list(struct allogram_target *target) {
    struct allogram_target_symbol symbol;
    if (target->code_list == 0) {
        target->code_list = allogram_target_symbol(target, "__jit_debug_descriptor", &symbol) == 0
                                ? symbol.address
                                : UINT64_MAX;
    }
    return target->code_list == UINT64_MAX ? 0 : target->code_list;
}

static int read_head(struct allogram_target *target, uint64_t *ret_first) {
    uint8_t descriptor[DESCRIPTOR_BYTES];
    uint32_t version;
    const uint64_t list = find_list(target);
    if (list == 0) {
        return -ENOENT;
    }
    const int r = allogram_target_read(target, list, descriptor, sizeof descriptor);
    if (r < 0) {
        return r;
    }
    memcpy(&version, descriptor, sizeof version);
    memcpy(ret_first, descriptor + FIRST_AT, sizeof *ret_first);
    return version == 1 ? 0 : -ENOENT; /* version 0: the list is not used yet */
}

uint64_t allogram_target_code_stamp(struct allogram_target *target) {
    uint64_t first = 0;
    if (target->code_list_rest_ns != 0 && ag_monotonic_ns() < target->code_list_rest_ns) {
        return target->code_list_stamp;
    }
    return target->code_list_stamp = read_head(target, &first) == 0 ? first : 0;
}

static int read_object(struct allogram_target *target, const uint64_t entry[ENTRY_WORDS],
                       uint8_t **ret_file) {
    if (entry[3] == 0 || entry[3] > MOST_OBJECT_BYTES) {
        return -EBADMSG;
    }
    uint8_t *file = malloc(entry[3]);
    const int r = file != NULL ? allogram_target_read(target, entry[2], file, entry[3]) : -ENOMEM;
    if (r < 0) {
        free(file);
        return r == -EFAULT ? -EAGAIN : r;
    }
    *ret_file = file;
    return 0;
}

int allogram_target_code_entries(struct allogram_target *target, allogram_code_entry_fn *visit,
                                 void *context) {
    const uint64_t begin_ns = ag_monotonic_ns();
    uint64_t first = 0, again, landmark = 0, n_bytes = 0;
    int r = read_head(target, &first);
    bool goes_on = true;
    size_t n = 0;
    for (uint64_t at = r == 0 ? first : 0; at != 0 && goes_on && r == 0; n++) {
        uint64_t entry[ENTRY_WORDS];
        uint8_t *file;
        if (at == landmark || n == MOST_ENTRIES || n_bytes > MOST_LIST_BYTES ||
            ag_monotonic_ns() - begin_ns > most_reading_ns || is_stopped(target)) {
            r = -EBADMSG; /* a cycle, or too long: what was read so far is kept */
            break;
        }
        if ((n & (n - 1)) == 0) {
            /* Brent's algorithm finds a cycle: each entry is compared with a landmark, which is set
             * anew after 1, 2, 4 ... entries */
            landmark = at;
        }
        r = allogram_target_read(target, at, entry, sizeof entry);
        r = r < 0 ? (r == -EFAULT ? -EAGAIN : r) : read_object(target, entry, &file);
        if (r == 0) {
            n_bytes += entry[3];
            goes_on = visit(context, at, file, entry[3]);
            free(file);
            at = entry[0];
        }
    }
    const uint64_t end_ns = ag_monotonic_ns();
    target->code_list_rest_ns = end_ns + REST * (end_ns - begin_ns);
    if (r == 0 && goes_on && (read_head(target, &again) < 0 || again != first)) {
        return -EAGAIN;
    }
    return r;
}

/* ---- a sample ---------------------------------------------------------------------------- */

bool allogram_sample_word(const struct allogram_sample *sample, uint64_t address,
                          uint64_t *ret_word) {
    const uint64_t offset = address - sample->stack_address;
    if (address < sample->stack_address || offset > sample->stack_bytes ||
        sample->stack_bytes - offset < sizeof *ret_word) {
        return false;
    }
    memcpy(ret_word, (const uint8_t *)sample->stack + offset, sizeof *ret_word);
    return true;
}
