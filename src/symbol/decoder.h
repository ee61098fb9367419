/* decoder.h: what a runtime implements to be understood offline: whose a function of an image is,
 * what its programmers call it, and frames that the native tables do not tell of.
 *
 * A decoder lives in adapters/NAME and stands as one row in adapters/decoders.c. The
 * symbolizer opens each image's file once for each decoder; the first one that knows the image is
 * asked, for each address of it before the native tables (frames), and for each linker symbol that
 * those found (name). What either answers for is a frame of the runtime: reports show it as
 * "[vm] Module.f", with the runtime's name; the rest stays native.
 *
 * All of a file is untrusted: a decoder reads it through the functions below, checks every length
 * it finds there, and answers 0 to what it does not understand. What the decoder uses counts as the
 * image's (work_meter.h): when the image's share is spent, the functions below find nothing more.
 * Lists that may name a table again need a bound of their own. Threads: as a symbolizer. */
#ifndef AG_DECODER_H
#define AG_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what a decoder may ask about an image's file; addresses are the file's own (no bias) ---- */

struct ag_decoder_file;

/* The bytes that the file loads at ADDRESS, and how many follow in the same segment; NULL: none.
 * They stay as long as the file. */
const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes);
/* How long the file is: tables that do not overlap have no more bytes together. */
size_t ag_decoder_file_bytes(struct ag_decoder_file *file);
/* The 64-bit word at ADDRESS as the loader leaves it at bias 0: relative relocations are applied.
 */
bool ag_decoder_word(struct ag_decoder_file *file, uint64_t address, uint64_t *ret_word);
/* Something executable is loaded there. */
bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address);
/* A defined symbol of the file, function or data, from .symtab or .dynsym. Takes time by their
 * length. */
bool ag_decoder_symbol(struct ag_decoder_file *file, const char *name, uint64_t *ret_address);

/* ---- what a decoder is ---- */

struct ag_decoded_frame { /* texts live until the state is asked again */
    const char *function, *file;
    uint32_t line;   /* 0: not known */
    bool is_inlined; /* into the frame after it */
};
/* What a frame of the runtime's says of a block that was allocated there. */
enum ag_decoded_place {
    AG_PLACE_SILENT, /* nothing */
    AG_PLACE_SHIM,   /* of the runtime's binding to its allocator: who called it allocates */
    AG_PLACE_OBJECT, /* makes an object */
    AG_PLACE_BUFFER, /* makes memory for elements */
};
struct ag_decoder_types; /* names of the numbers that a runtime's process told as types */

struct ag_decoder {
    const char *runtime; /* as in the reports */
    /* The state for an image, or NULL: nothing of the runtime is in it. Called for every image of a
     * trace, so the answer no must be quick: a symbol that only the runtime's programs have. */
    void *(*open)(struct ag_decoder_file *file);
    void (*close)(void *state);
    /* A linker symbol as its programmers write it, into ret_text (terminated). false: it is not one
     * of the runtime's functions. */
    bool (*name)(void *state, const char *linkage, char *ret_text, size_t capacity);
    /* The frames at PC, innermost first; 0: ask the native tables. PC is as it was recorded: a
     * return address where is_return_address, and it may point at data, where the runtime's half in
     * the process recorded such. NULL: the native tables know all. */
    size_t (*frames)(void *state, uint64_t pc, bool is_return_address,
                     struct ag_decoded_frame *ret_frames, size_t capacity);
    /* By a frame's name as shown, and its file (or NULL). ret_type: the type's name, "" where it
     * does not say which. NULL: the runtime's frames tell no types. */
    enum ag_decoded_place (*place)(const char *function, const char *file, char *ret_type,
                                   size_t capacity);
    /* For runtimes whose process tells types as numbers ("#187"), which a file explains: the option
     * that names it ("vm-types"), and its reading: 0, or negative errno with one line in
     * ret_message. type_name: NULL: not in it; types may be NULL (no file was given). */
    const char *types_option;
    int (*read_types)(const char *path, struct ag_decoder_types **ret_types, char ret_message[512]);
    const char *(*type_name)(const struct ag_decoder_types *types, uint32_t number);
    void (*free_types)(struct ag_decoder_types *types);
};
/* adapters/decoders.c: all that were built, NULL at the end. */
extern const struct ag_decoder *const ag_decoders[];
/* The option for which one of them has read_types, its help, and its twin in the environment, which
 * tells the half in the process. */
extern const char ag_types_option[], ag_types_option_help[], ag_types_environment[];

#endif
