/* decoder.h: what a runtime implements for offline reports: which functions of an image are the
 * runtime's, their names as programmers write them, and frames that the native tables do not have.
 *
 * A decoder is a part of a runtime's adapter (base/runtimes.h). The symbolizer offers each image's
 * file to the decoders in turn. The first one that recognizes the image is called for each of its
 * addresses, before DWARF and the symbol table ("the native tables") are read, and for each linker
 * symbol that these have. A frame that `frames` or `name` returns belongs to the runtime: reports
 * show it as "[vm] Module.f", with the runtime's name. All other frames are native.
 *
 * No file is trusted: a decoder reads it through the functions below, checks every length in it,
 * and returns 0 for what it does not understand. Its work counts as the image's (work_meter.h):
 * when the image's share is spent, the functions below find nothing more. If a list in the file may
 * name one table many times, the decoder must limit that itself. Threads: as for a symbolizer. */
#ifndef AG_DECODER_H
#define AG_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what a decoder may read from an image's file; addresses are the file's own (no bias) ---- */

struct ag_decoder_file;

/* The bytes that the file loads at ADDRESS, and how many follow in the same segment; NULL: none.
 * They stay valid as long as the file. */
const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes);
/* The length of the file: an upper bound for the sum of tables that do not overlap. */
size_t ag_decoder_file_bytes(struct ag_decoder_file *file);
/* The 64-bit word at ADDRESS as the loader leaves it at bias 0: with relative relocations
 * applied. */
bool ag_decoder_word(struct ag_decoder_file *file, uint64_t address, uint64_t *ret_word);
/* Whether the file loads something executable there. */
bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address);
/* A defined symbol of the file, function or data, from .symtab or .dynsym. A linear search. */
bool ag_decoder_symbol(struct ag_decoder_file *file, const char *name, uint64_t *ret_address);

/* ---- what a decoder implements ---- */

struct ag_decoded_frame { /* texts are valid until the next call with the same state */
    const char *function, *file;
    uint32_t line;   /* 0: unknown */
    bool is_inlined; /* into the next frame */
};
/* What a frame of the runtime's says about a block that was allocated there. */
enum ag_decoded_place {
    AG_PLACE_SILENT, /* nothing */
    AG_PLACE_SHIM,   /* the runtime's binding to its allocator: its caller allocates */
    AG_PLACE_OBJECT, /* makes an object */
    AG_PLACE_BUFFER, /* makes memory for elements */
};
struct ag_decoder_types; /* names of the type numbers that a runtime's process recorded */

struct ag_decoder {
    const char *runtime; /* as in the reports */
    /* Returns the state for an image, or NULL: nothing of the runtime is in it. Called for every
     * image of a trace, so a negative answer must be quick: look for a symbol that only the
     * runtime's programs have. */
    void *(*open)(struct ag_decoder_file *file);
    void (*close)(void *state);
    /* Converts a linker symbol to the name as programmers write it, in ret_text (terminated).
     * Returns false if it is not one of the runtime's functions. */
    bool (*name)(void *state, const char *linkage, char *ret_text, size_t capacity);
    /* The frames at PC, innermost first; 0: use the native tables. PC is as recorded: a return
     * address if is_return_address; it may point to data if the runtime's adapter in the process
     * recorded that. NULL: the native tables have everything. */
    size_t (*frames)(void *state, uint64_t pc, bool is_return_address,
                     struct ag_decoded_frame *ret_frames, size_t capacity);
    /* What a frame says, by its name as shown, and its file (or NULL). ret_type: the type's name;
     * "" if unknown. NULL: the runtime's frames say nothing about types. */
    enum ag_decoded_place (*place)(const char *function, const char *file, char *ret_type,
                                   size_t capacity);
    /* For runtimes that record types as numbers ("#187"), which a file explains: the option that
     * names the file ("vm-types"), its help, and the function that reads it: returns 0, or a
     * negative errno with one line in ret_message. `run --vm-types=FILE` also puts the file's
     * absolute path into the program's environment, as ALLOGRAM_VM_TYPES. type_name returns NULL if
     * the file does not have the number; types may be NULL (no file was given). */
    const char *types_option, *types_help;
    int (*read_types)(const char *path, struct ag_decoder_types **ret_types, char ret_message[512]);
    const char *(*type_name)(const struct ag_decoder_types *types, uint32_t number);
    void (*free_types)(struct ag_decoder_types *types);
};

#endif
