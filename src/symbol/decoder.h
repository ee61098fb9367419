/* decoder.h: the interface of a decoder, the part of a runtime's adapter (base/runtimes.h) that
 * reports use. A runtime is a virtual machine, or a language with its own symbol names. A decoder
 * says which functions of an image belong to the runtime, what their names are as programmers write
 * them, and which frames the native tables do not contain.
 *
 * The symbolizer passes the file of each image (a loaded program or library) to the decoders in
 * turn. The first decoder that recognizes the image is used for this image. The symbolizer calls
 * this decoder for each address, before it reads DWARF and the symbol table ("the native tables"),
 * and also for each linker symbol that the native tables return. A frame that `frames` or `name`
 * returns belongs to the runtime: reports show it as "[vm] Module.f", with the runtime's name. All
 * other frames are native.
 *
 * No file is trusted: a decoder reads the file through the functions below, checks every length in
 * the file, and returns 0 for data that it does not understand. The cost of a decoder is counted
 * for the image and limited (work_meter.h): when the limit is reached, the functions below return
 * nothing. If a list in the file may refer to one table many times, the decoder must limit its work
 * itself. Threads: a decoder's state is used by one thread at a time. */
#ifndef AG_DECODER_H
#define AG_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- what a decoder may read from an image's file ----
 *
 * All addresses are those of the file. In memory an address is greater by the bias, the distance by
 * which the loader moved the image. */

struct ag_decoder_file;

/* Returns the bytes that the file loads at ADDRESS, and their number up to the end of the segment.
 * NULL: the file loads nothing at ADDRESS. The bytes are valid as long as the file is open. */
const unsigned char *ag_decoder_bytes(struct ag_decoder_file *file, uint64_t address,
                                      size_t *ret_bytes);
/* Returns the length of the file, which is an upper bound for the sum of the lengths of tables that
 * do not overlap. */
size_t ag_decoder_file_bytes(struct ag_decoder_file *file);
/* Reads the 64-bit word at ADDRESS with relative relocations applied, as the loader would leave it
 * at bias 0. Returns false if there is no such word. */
bool ag_decoder_word(struct ag_decoder_file *file, uint64_t address, uint64_t *ret_word);
/* Whether the file loads executable code at ADDRESS. */
bool ag_decoder_is_code(struct ag_decoder_file *file, uint64_t address);
/* Finds a defined symbol of the file, function or data, in .symtab or .dynsym, by a linear search.
 * Returns false if there is none. */
bool ag_decoder_symbol(struct ag_decoder_file *file, const char *name, uint64_t *ret_address);

/* ---- what a decoder implements ---- */

struct ag_decoded_frame { /* texts are valid until the next call with the same state */
    const char *function, *file;
    uint32_t line; /* 0: unknown */
    /* the frame's code is the characters of the line from `column` up to, but without,
     * `end_column`, counted from 0; end_column 0: unknown */
    uint32_t column, end_column;
    bool is_inlined; /* the function is inlined into that of the next frame */
};
/* What a frame of the runtime shows about the blocks that its function allocates. */
enum ag_decoded_place {
    AG_PLACE_SILENT, /* the frame shows nothing */
    /* a shim: the function only forwards calls to the runtime's allocator, so its caller allocates
     * the block */
    AG_PLACE_SHIM,
    AG_PLACE_OBJECT, /* the function makes an object */
    AG_PLACE_BUFFER, /* the function makes memory for the elements of an object */
};
struct ag_decoder_types; /* the names of the type numbers that processes of a runtime record */

struct ag_decoder {
    const char *runtime; /* name of the runtime, as in reports */
    /* Returns the decoder's state for an image; NULL: the image contains nothing of the runtime.
     * `open` is called for every image of a trace, so NULL must be returned quickly, for example if
     * the file lacks a symbol that only programs of the runtime have. */
    void *(*open)(struct ag_decoder_file *file);
    void (*close)(void *state);
    /* Converts a linker symbol to the name as programmers write it, in ret_text (terminated by a
     * zero byte). Returns false if the symbol is not a function of the runtime. */
    bool (*name)(void *state, const char *linkage, char *ret_text, size_t capacity);
    /* Writes the frames at PC, innermost first, and returns their number; 0: the native tables are
     * used. PC is the recorded address: a return address if is_return_address; it may be an address
     * of data, if the adapter in the profiled process recorded such addresses. The pointer `frames`
     * may be NULL, if the native tables contain all frames. */
    size_t (*frames)(void *state, uint64_t pc, bool is_return_address,
                     struct ag_decoded_frame *ret_frames, size_t capacity);
    /* Returns what a frame shows about blocks. FUNCTION: name of the frame, as shown in reports.
     * FILE: its source file, or NULL. ret_type gets the name of the type; "" if unknown. The
     * pointer `place` may be NULL, if frames of the runtime never show types. */
    enum ag_decoded_place (*place)(const char *function, const char *file, char *ret_type,
                                   size_t capacity);
    /* Whether the code around a call of the allocator makes an object of SIZE_OF_OBJECT bytes, and
     * stores the type number NUMBER in it. RETURN_ADDRESS: that of the call. SIZE_OF_OBJECT 0: any
     * size. The pointer may be NULL, if numbers need no such check. */
    bool (*stores_type)(void *state, uint64_t return_address, uint32_t number,
                        uint64_t size_of_object);
    /* Whether a function belongs to the runtime or to the library of its language, rather than to
     * the program. Reports attribute blocks to the innermost function of the program. FUNCTION and
     * FILE: as for `place`. If is_native, the function is not written in the runtime's language: it
     * may be any function of a process, whether the process has this runtime or not. The pointer
     * may be NULL, if such functions are not known. */
    bool (*is_library)(const char *function, const char *file, bool is_native);
    /* For runtimes that record types as numbers ("#187"), whose names are in a file. types_option:
     * name of the option for the path of the file, such as "vm-types"; types_help: its help.
     * read_types reads the file; it returns 0, or a negative errno with one line in ret_message.
     * `run --vm-types=FILE` also sets ALLOGRAM_VM_TYPES in the environment of the program to the
     * absolute path of the file. type_name returns the name of a number, or NULL if the file does
     * not contain the number; TYPES may be NULL (no file was given). */
    const char *types_option, *types_help;
    int (*read_types)(const char *path, struct ag_decoder_types **ret_types, char ret_message[512]);
    const char *(*type_name)(const struct ag_decoder_types *types, uint32_t number);
    void (*free_types)(struct ag_decoder_types *types);
};

#endif
