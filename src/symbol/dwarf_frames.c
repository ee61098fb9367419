/* dwarf_frames.c: finds functions, files and lines of an address in DWARF. The line table contains
 * the line in the innermost function. The entry of an inlined function contains the line of the
 * call (call_line), which is a line of the function that contains the call. So a frame combines a
 * function with the line that the next inner entry contains:
 *
 *     function                 line
 *     innermost inlined  <---- line table
 *     inlined around it  <---- call_line of the innermost
 *     the real function  <---- call_line of the outermost inlined
 *
 * The innermost inlined functions that have GNU C's attribute `artificial` are omitted, because the
 * attribute requests that debuggers show the function as a part of its caller. The real function is
 * never omitted. The inline functions of allogram.h have this attribute. */
#include "dwarf_frames.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "inline_tree.h"

/* ---- source files ---- */

/* Paths are simplified without looking at files, because the symbolic links of the machine that
 * compiled the program are unknown. */

struct path {
    char *text;
    size_t length, capacity;
};

static bool is_piece(const char *piece, size_t length, const char *wanted) {
    return strlen(wanted) == length && memcmp(piece, wanted, length) == 0;
}

/* Removes the last component of PATH. Returns false if PATH is empty or ends in "..", and so cannot
 * be shortened. */
static bool go_up(struct path *path) {
    size_t start = path->length;
    while (start > 0 && path->text[start - 1] != '/') {
        start--;
    }
    const size_t length = path->length - start;
    if (length == 0) {
        return path->length > 0; /* "/.." is "/" */
    }
    if (is_piece(path->text + start, length, "..")) {
        return false;
    }
    path->length = start > 1 ? start - 1 : start;
    return true;
}

static int add_piece(struct path *path, const char *piece, size_t length) {
    if (length == 0 || is_piece(piece, length, ".") ||
        (is_piece(piece, length, "..") && go_up(path))) {
        return 0;
    }
    const bool has_slash = path->length > 0 && path->text[path->length - 1] != '/';
    if (path->length + has_slash + length + 1 > path->capacity) {
        return -ENAMETOOLONG;
    }
    if (has_slash) {
        path->text[path->length++] = '/';
    }
    memcpy(path->text + path->length, piece, length);
    path->length += length;
    return 0;
}

static int add_pieces(struct path *path, const char *text) {
    while (*text != '\0') {
        const size_t length = strcspn(text, "/");
        const int r = add_piece(path, text, length);
        if (r < 0) {
            return r;
        }
        text += length + (text[length] == '/');
    }
    return 0;
}

/* Writes the path of FILE. If FILE is relative and FOLDER, in which the compiler ran, is absolute,
 * the result is FILE below FOLDER. "." and "x/.." are removed: "/build/../src/a.c" becomes
 * "/src/a.c". FOLDER may be NULL. Returns 0, or -ENAMETOOLONG: the path does not fit. */
static int source_path(const char *folder, const char *file, char *ret_path, size_t capacity) {
    struct path path = {.text = ret_path, .capacity = capacity};
    const bool is_below = file[0] != '/' && folder != NULL && folder[0] == '/';
    if (is_below || file[0] == '/') {
        path.text[path.length++] = '/';
    }
    int r = is_below ? add_pieces(&path, folder) : 0;
    if (r == 0) {
        r = add_pieces(&path, file);
    }
    ret_path[path.length] = '\0';
    return r;
}

enum {
    /* most references to follow, from an inlined copy to its abstract function to its declaration;
     * compilers use up to 3 */
    REFERENCES = 16,
    QUALIFIED_BYTES = 4096,
    PATH_BYTES = 4096,
};

static const char *text_attribute(Dwarf_Die *die, unsigned name) {
    Dwarf_Attribute attribute;
    return dwarf_formstring(dwarf_attr_integrate(die, name, &attribute));
}

/* Returns the declaration of the function DIE. The parents of the declaration are the name spaces
 * of the function. */
static Dwarf_Die declaration_of(const Dwarf_Die *die) {
    Dwarf_Die at = *die;
    for (int i = 0; i < REFERENCES; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Die next;
        if (dwarf_attr(&at, DW_AT_abstract_origin, &attribute) == NULL &&
            dwarf_attr(&at, DW_AT_specification, &attribute) == NULL) {
            break;
        }
        if (dwarf_formref_die(&attribute, &next) == NULL) {
            break;
        }
        at = next;
    }
    return at;
}

/* Adds type arguments to a demangled Rust name. In Rust's older mangling, names do not contain the
 * type arguments of a generic function, but the debug information does. So the demangled FUNCTION
 * "alloc::vec::Vec<T,A>::push" gets the arguments of NAME, "push<u64, alloc::alloc::Global>". Names
 * of other languages contain their arguments or have none, and are not changed. */
static const char *with_type_arguments(const char *function, const char *name,
                                       struct ag_names *names) {
    const char *arguments = name != NULL && function != NULL ? strchr(name, '<') : NULL;
    if (arguments == NULL || arguments == name) {
        return function;
    }
    const size_t stem = (size_t)(arguments - name), length = strlen(function);
    const size_t n_arguments = strlen(arguments);
    char text[QUALIFIED_BYTES];
    if (length < stem + 2 || memcmp(function + length - stem, name, stem) != 0 ||
        memcmp(function + length - stem - 2, "::", 2) != 0 ||
        length + n_arguments >= sizeof(text)) {
        return function;
    }
    memcpy(text, function, length);
    memcpy(text + length, arguments, n_arguments + 1);
    const char *kept = ag_names_keep(names, text);
    return kept != NULL ? kept : function;
}

static void name_frame(struct ag_dwarf_units *units, Dwarf_Die *die, struct ag_names *names,
                       struct ag_symbol_frame *frame) {
    const char *linkage = text_attribute(die, DW_AT_linkage_name);
    if (linkage == NULL) {
        linkage = text_attribute(die, DW_AT_MIPS_linkage_name);
    }
    const char *name = text_attribute(die, DW_AT_name);
    frame->linkage = ag_names_keep(names, linkage);
    frame->function = with_type_arguments(ag_names_demangled(names, linkage), name, names);
    if (frame->function == NULL && name != NULL) {
        char qualified[QUALIFIED_BYTES];
        Dwarf_Die declaration = declaration_of(die);
        ag_dwarf_units_qualify(units, &declaration, name, qualified, sizeof(qualified));
        frame->function = ag_names_keep(names, qualified);
        if (linkage == NULL) {
            frame->linkage = ag_names_keep(names, name);
        }
    } else if (frame->function == NULL && linkage != NULL) {
        frame->function = ag_names_function(names, linkage);
    }
    frame->is_known = frame->function != NULL;
}

struct place {
    const char *file;
    uint32_t line;
};

static const char *keep_path(struct ag_dwarf_unit *unit, const char *file, struct ag_names *names) {
    Dwarf_Attribute attribute;
    char path[PATH_BYTES];
    if (file == NULL) {
        return NULL;
    }
    const char *folder = dwarf_formstring(dwarf_attr(&unit->die, DW_AT_comp_dir, &attribute));
    return ag_names_keep(names, source_path(folder, file, path, sizeof(path)) == 0 ? path : file);
}

static struct place place_of_address(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit,
                                     uint64_t address, struct ag_names *names) {
    struct place place = {0};
    if (!ag_dwarf_unit_has_lines(units, unit)) {
        return place;
    }
    Dwarf_Line *line = dwarf_getsrc_die(&unit->die, address);
    int number;
    if (line != NULL && dwarf_lineno(line, &number) == 0 && number > 0) {
        place.line = (uint32_t)number;
    }
    if (line != NULL) {
        place.file = keep_path(unit, dwarf_linesrc(line, NULL, NULL), names);
    }
    return place;
}

static struct place place_of_call(struct ag_dwarf_units *units, struct ag_dwarf_unit *unit,
                                  const struct ag_inlined *call, struct ag_names *names) {
    struct place place = {.line = call->call_line};
    Dwarf_Files *files;
    size_t n_files;
    if (ag_dwarf_unit_has_lines(units, unit) &&
        dwarf_getsrcfiles(&unit->die, &files, &n_files) == 0 && call->call_file < n_files) {
        place.file = keep_path(unit, dwarf_filesrc(files, call->call_file, NULL, NULL), names);
    }
    return place;
}

/* Whether a unit was made by an assembler. The debug information of an assembler contains labels as
 * functions, and only the first of several names of a function. The symbol table shows which name
 * is public, so the symbol table is used instead of the debug information. */
static bool is_assembly(Dwarf_Die *unit) {
    /* dwarf_srclang is not used, because it opens the .dwo file of a split unit */
    Dwarf_Attribute attribute;
    Dwarf_Word language;
    return dwarf_formudata(dwarf_attr(unit, DW_AT_language, &attribute), &language) == 0 &&
           language == DW_LANG_Mips_Assembler;
}

static bool is_wrapper(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    bool is_artificial = false;
    return dwarf_formflag(dwarf_attr_integrate(die, DW_AT_artificial, &attribute),
                          &is_artificial) == 0 &&
           is_artificial;
}

size_t ag_dwarf_frames(struct ag_dwarf_units *units, uint64_t address, struct ag_names *names,
                       struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]) {
    struct ag_dwarf_unit *unit = ag_dwarf_units_at(units, address);
    if (unit == NULL) {
        return 0;
    }
    struct place place = place_of_address(units, unit, address, names);
    struct ag_dwarf_function *function =
        is_assembly(&unit->die) ? NULL : ag_dwarf_unit_function_at(units, unit, address);
    if (function == NULL) {
        ret_frames[0] = (struct ag_symbol_frame){.file = place.file, .line = place.line};
        return place.file != NULL ? 1 : 0;
    }
    if (function->tree == NULL) {
        function->tree = ag_inline_tree_new(&function->die, units->meter);
    }
    /* names are looked up last, because this may read the unit again, which frees its functions and
     * trees */
    Dwarf_Die dies[AG_FRAMES_PER_ADDRESS];
    size_t n = 0;
    uint32_t index =
        function->tree != NULL ? ag_inline_tree_find(function->tree, address) : AG_INLINE_NONE;
    while (index != AG_INLINE_NONE) {
        const struct ag_inlined *call = ag_inline_tree_at(function->tree, index);
        Dwarf_Die die = call->die;
        if (n + 1 < AG_FRAMES_PER_ADDRESS && (n > 0 || !is_wrapper(&die))) {
            dies[n] = call->die;
            ret_frames[n++] = (struct ag_symbol_frame){
                .file = place.file, .line = place.line, .is_inlined = true};
        }
        place = place_of_call(units, unit, call, names);
        index = call->parent;
    }
    dies[n] = function->die;
    ret_frames[n++] = (struct ag_symbol_frame){.file = place.file, .line = place.line};
    for (size_t i = 0; i < n; i++) {
        name_frame(units, &dies[i], names, &ret_frames[i]);
    }
    return n;
}
