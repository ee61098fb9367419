/* type_names.c: derives the type of a block from the names of the C++ or Rust functions that
 * allocated it, for types.c. For example, the frame "std::__new_allocator<std::_List_node<Point>
 * >::allocate(unsigned long)" gives the type "std::list<Point>".
 *
 * 1. Why names
 *
 * A call of malloc does not contain the type of the block, and debug information does not describe
 * it either. But the generic code that calls malloc was instantiated for a type, and its name
 * contains the type: C++ allocators, and Rust's Box and RawVec, have the type as an argument. (If
 * the mangled name of a Rust function has no arguments, the symbolizer adds them.) Compilers inline
 * most of these functions; frames of inlined functions are read like all others.
 *
 * 2. Which frames are read
 *
 * Frames are read from the allocation function outward, as long as they belong to the standard
 * library. The first frame that names a container determines the type. The frames of the allocator,
 * which come first, name the type of the element; this type is the result if no frame names a
 * container. Reading ends at the first frame of other code, because the name of a user's function
 * does not show the type of the block.
 *
 * In Rust programs, the linker may merge instances of a function with equal code, so the name of a
 * called RawVec<T> may contain another type of the same size. The Vec<T> that calls RawVec is
 * inlined into the user's function and has the correct type. So each proposal of a type has a rank,
 * and a proposal from Vec has a higher rank than one from RawVec. A String has a higher rank than
 * the Vec<u8> that it contains.
 *
 * 3. Which types are not found
 *
 * `new T` calls an allocation function whose name does not contain T, so such blocks have no type.
 * Blocks of C's malloc, of users' own allocators, and of code without debug information have no
 * type either. (types.c does not pass frames without debug information to this file.) The type is
 * not guessed from the size, because a wrong guess would not be noticed.
 *
 * 4. Forms
 *
 * A form is a pattern for the name of a type, such as "std::map<1, 2>", in which 1 is replaced by
 * the first argument and 2 by the second. The form "1" is the first argument itself. */
#include "model/answers/type_names.h"

#include <string.h>

enum { PARTS_MOST = 24 };

struct part { /* such as "vector<int, A>" of std::vector<int, A>::push_back */
    /* arguments: the text between the brackets; its `text` is NULL if there are none */
    struct ag_type_text name, arguments;
};
struct path {
    struct part parts[PARTS_MOST];
    size_t count;
};

static bool is(struct ag_type_text text, const char *wanted) {
    return text.text && strlen(wanted) == text.len && memcmp(text.text, wanted, text.len) == 0;
}

static bool same(struct ag_type_text one, struct ag_type_text other) {
    return one.len == other.len && one.len > 0 && memcmp(one.text, other.text, one.len) == 0;
}

static bool begins(struct ag_type_text text, const char *wanted) {
    const size_t length = strlen(wanted);
    return text.text && text.len >= length && memcmp(text.text, wanted, length) == 0;
}

static bool is_one_of(struct ag_type_text text, const char *const *list) {
    for (; *list; list++) {
        if (is(text, *list)) {
            return true;
        }
    }
    return false;
}

/* ---- brackets ---- */

static int depth_change(const char *text, size_t at) {
    switch (text[at]) {
    case '<':
    case '(':
    case '[':
    case '{':
        return 1;
    case '>': /* except in "->" */
        return at > 0 && text[at - 1] == '-' ? 0 : -1;
    case ')':
    case ']':
    case '}':
        return -1;
    }
    return 0;
}

static struct ag_type_text trimmed(const char *text, size_t length) {
    while (length > 0 && *text == ' ') {
        text++;
        length--;
    }
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    return (struct ag_type_text){text, length};
}

/* Argument number INDEX of a list such as "int, std::less<int> ". */
static struct ag_type_text argument(struct ag_type_text list, size_t index) {
    size_t start = 0, number = 0;
    int depth = 0;
    for (size_t i = 0; list.text && i <= list.len; i++) {
        if (i == list.len || (list.text[i] == ',' && depth == 0)) {
            if (number++ == index) {
                return trimmed(list.text + start, i - start);
            }
            start = i + 1;
        } else {
            depth += depth_change(list.text, i);
        }
    }
    return (struct ag_type_text){NULL, 0};
}

/* The length of a function's name without its parameters. The parameters begin at the first '('
 * that is outside of all brackets and follows a name. */
static size_t end_of_name(const char *text, size_t length) {
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '(' && depth == 0 && i > 0 && text[i - 1] != ':' && text[i - 1] != ' ') {
            return i;
        }
        depth += depth_change(text, i);
    }
    return length;
}

/* Removes the return type before the name of a function. */
static struct ag_type_text without_return_type(struct ag_type_text name) {
    int depth = 0;
    size_t start = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (name.text[i] == ' ' && depth == 0) {
            start = i + 1;
        }
        depth += depth_change(name.text, i);
    }
    return (struct ag_type_text){name.text + start, name.len - start};
}

static void add_part(struct path *path, struct ag_type_text text) {
    static const char *const inline_spaces[] = {"__cxx11", "__1", "__detail", "__debug", NULL};
    size_t bracket = 0;
    while (bracket < text.len && text.text[bracket] != '<') {
        bracket++;
    }
    struct part part = {.name = {text.text, bracket}};
    if (bracket + 1 < text.len && text.text[text.len - 1] == '>') {
        part.arguments = (struct ag_type_text){text.text + bracket + 1, text.len - bracket - 2};
    }
    if (path->count < PARTS_MOST && text.len > 0 && !is_one_of(part.name, inline_spaces)) {
        path->parts[path->count++] = part;
    }
}

/* Splits a name: "std::vector<int>::push_back" has the parts std, vector<int> and push_back. */
static void split(struct path *path, struct ag_type_text name) {
    int depth = 0;
    size_t start = 0;
    for (size_t i = 0; i < name.len; i++) {
        if (depth == 0 && name.text[i] == ':' && i + 1 < name.len && name.text[i + 1] == ':') {
            add_part(path, (struct ag_type_text){name.text + start, i - start});
            start = i + 2;
            i++;
        } else {
            depth += depth_change(name.text, i);
        }
    }
    add_part(path, (struct ag_type_text){name.text + start, name.len - start});
}

/* Splits the name of a type into its parts. */
static struct path path_of(struct ag_type_text type) {
    struct path path = {.count = 0};
    split(&path, type);
    return path;
}

static const struct part *last_of(const struct path *path) {
    static const struct part none;
    return path->count > 0 ? &path->parts[path->count - 1] : &none;
}

/* ---- proposing a type ---- */

static bool propose_type(struct ag_type_reading *reading, unsigned rank, const char *form,
                         struct ag_type_text first, struct ag_type_text second) {
    if (first.len > 0 && rank > reading->rank) {
        reading->form = form;
        reading->first = first;
        reading->second = second;
        reading->rank = rank;
    }
    return true;
}

/* Ranks of proposals of a type: a proposal with a higher rank replaces one with a lower rank. The
 * node of a container has a higher rank than the container that allocates the node, because the
 * arguments of the node are exact. A container that may contain a key several times, such as
 * multimap, has a still higher rank (RANK_FINAL), because its nodes have the same names as those of
 * map. */
enum { RANK_ELEMENT = 1, RANK_RAW = 2, RANK_CONTAINER = 3, RANK_NODE = 4, RANK_FINAL = 5 };

/* Removes `const` from a constant type, and returns whether the type was constant. Symbol names
 * contain `int const`, and debug information contains `const int`. `const char*` remains: the
 * pointer is not constant. */
static bool strip_const(struct ag_type_text *type) {
    static const char before[] = "const ", behind[] = " const";
    const size_t n = sizeof(before) - 1;
    if (type->len <= n) {
        return false;
    }
    const char last = type->text[type->len - 1];
    if (memcmp(type->text + type->len - n, behind, n) == 0) {
        type->len -= n;
        return true;
    }
    if (begins(*type, before) && last != '*' && last != '&') {
        type->text += n;
        type->len -= n;
        return true;
    }
    return false;
}

/* Proposes a map or a set, depending on the type of its values: a pair whose first member is const
 * belongs to a map, any other pair to a set of pairs. */
static bool name_associative(struct ag_type_reading *reading, unsigned rank, const char *map,
                             const char *set, struct ag_type_text value) {
    const struct path path = path_of(value);
    const struct part *last = last_of(&path);
    struct ag_type_text key = argument(last->arguments, 0);
    const bool is_constant = strip_const(&key);
    const bool is_map = (is(last->name, "pair") && is_constant) || is(last->name, "__value_type") ||
                        is(last->name, "__hash_value_type");
    if (!is_map || key.len == 0) {
        return propose_type(reading, rank, set, value, (struct ag_type_text){NULL, 0});
    }
    return propose_type(reading, rank, map, key, argument(last->arguments, 1));
}

/* ---- C++ ---- */

struct simple { /* a class, with the pattern (form) for the name of its type */
    const char *name, *form;
};

static const struct simple cxx_containers[] = {
    {"vector", "std::vector<1>"},
    {"_Vector_base", "std::vector<1>"},
    {"_Bvector_base", "std::vector<bool>"},
    {"__split_buffer", "std::vector<1>"},
    {"deque", "std::deque<1>"},
    {"_Deque_base", "std::deque<1>"},
    {"list", "std::list<1>"},
    {"_List_base", "std::list<1>"},
    {"forward_list", "std::forward_list<1>"},
    {"_Fwd_list_base", "std::forward_list<1>"},
    {"basic_string", "std::basic_string<1>"},
    {"set", "std::set<1>"},
    {"unordered_set", "std::unordered_set<1>"},
    {"map", "std::map<1, 2>"},
    {"unordered_map", "std::unordered_map<1, 2>"},
    {"valarray", "std::valarray<1>"},
    /* the block with the reference counts, if it is separate from the object */
    {"shared_ptr", "std::shared_ptr<1>"},
    {"__shared_ptr", "std::shared_ptr<1>"},
    {NULL, NULL},
};
static const struct simple cxx_multiple[] = {
    {"multiset", "std::multiset<1>"},
    {"multimap", "std::multimap<1, 2>"},
    {"unordered_multiset", "std::unordered_multiset<1>"},
    {"unordered_multimap", "std::unordered_multimap<1, 2>"},
    {NULL, NULL},
};
static const struct simple cxx_nodes[] = {
    /* types of the objects that containers and shared pointers allocate */
    {"_Sp_counted_ptr_inplace", "1"},
    {"__shared_ptr_emplace", "1"},
    {"_List_node", "std::list<1>"},
    {"__list_node", "std::list<1>"},
    {"_Fwd_list_node", "std::forward_list<1>"},
    {"__forward_list_node", "std::forward_list<1>"},
    {NULL, NULL},
};

static const char *form_of(const struct simple *list, struct ag_type_text name) {
    for (; list->name; list++) {
        if (is(name, list->name)) {
            return list->form;
        }
    }
    return NULL;
}

/* Proposes the element type of an allocator as the type. If the element is the node of a container,
 * proposes the container. */
static bool name_cxx_element(struct ag_type_reading *reading, struct ag_type_text element) {
    const struct path path = path_of(element);
    const struct part *last = last_of(&path);
    const struct ag_type_text none = {NULL, 0}, inner = argument(last->arguments, 0);
    const char *form = is(path.parts[0].name, "std") ? form_of(cxx_nodes, last->name) : NULL;
    if (form) {
        return propose_type(reading, RANK_FINAL, form, inner, none);
    }
    if (is(last->name, "_Rb_tree_node") || is(last->name, "__tree_node")) {
        return name_associative(reading, RANK_NODE, "std::map<1, 2>", "std::set<1>", inner);
    }
    if (is(last->name, "_Hash_node") || is(last->name, "__hash_node")) {
        return name_associative(reading, RANK_NODE, "std::unordered_map<1, 2>",
                                "std::unordered_set<1>", inner);
    }
    return propose_type(reading, RANK_ELEMENT, "1", element, none);
}

static bool is_associative(const struct ag_type_reading *reading) {
    return reading->form && (strstr(reading->form, "map<") || strstr(reading->form, "set<"));
}

/* std::function and std::any allocate a copy of the object that they contain. */
static bool read_cxx_holder(struct ag_type_reading *reading, const struct part *class,
                            const struct part *function) {
    static const char *const managers[] = {"_Function_base", "_Base_manager", "_Function_handler",
                                           NULL};
    const struct ag_type_text none = {NULL, 0}, first = argument(class->arguments, 0);
    if (is_one_of(class->name, managers)) {
        return begins(function->name, "_M_") && !begins(function->name, "_M_invoke");
    }
    if (is(class->name, "function") && !begins(function->name, "operator")) {
        return propose_type(reading, RANK_CONTAINER, "std::function<1>", first, none);
    }
    if (is(class->name, "_Manager_external") && reading->n_frames == 1) {
        return propose_type(reading, RANK_FINAL, "1", first, none);
    }
    return false;
}

static bool read_cxx_class(struct ag_type_reading *reading, const struct part *class,
                           const struct part *function) {
    static const char *const allocators[] = {"new_allocator", "__new_allocator", "allocator",
                                             "malloc_allocator", NULL};
    static const char *const plumbing[] = {"allocator_traits",  "__alloc_traits",
                                           "_Hashtable_alloc",  "__allocator",
                                           "__allocate_guard",  "_Deque_iterator",
                                           "_Base_alloc",       "__shared_count",
                                           "_Insert_base",      "_Insert",
                                           "_Map_base",         "_AllocNode",
                                           "_ReuseOrAllocNode", NULL};
    const struct ag_type_text first = argument(class->arguments, 0);
    if (is_one_of(class->name, allocators)) {
        return begins(function->name, "allocate") && name_cxx_element(reading, first);
    }
    if (is(class->name, "_Rb_tree") || is(class->name, "__tree")) {
        const size_t value = is(class->name, "_Rb_tree") ? 1 : 0;
        return name_associative(reading, RANK_CONTAINER, "std::map<1, 2>", "std::set<1>",
                                argument(class->arguments, value));
    }
    if (is(class->name, "_Hashtable") || is(class->name, "__hash_table")) {
        const size_t value = is(class->name, "_Hashtable") ? 1 : 0;
        return name_associative(reading, RANK_CONTAINER, "std::unordered_map<1, 2>",
                                "std::unordered_set<1>", argument(class->arguments, value));
    }
    const char *form = form_of(cxx_containers, class->name);
    if (form) {
        return propose_type(reading, RANK_CONTAINER, form, first, argument(class->arguments, 1));
    }
    const char *multiple = form_of(cxx_multiple, class->name);
    if (multiple) {
        return is_associative(reading) &&
               propose_type(reading, RANK_FINAL, multiple, first, argument(class->arguments, 1));
    }
    return is_one_of(class->name, plumbing) || read_cxx_holder(reading, class, function);
}

static bool read_cxx(struct ag_type_reading *reading, const struct path *path) {
    static const char *const plumbing[] = {"__allocate_guarded",     "__libcpp_allocate",
                                           "__libcpp_operator_new",  "__allocate_at_least",
                                           "__valarray_get_storage", NULL};
    const struct part *function = last_of(path);
    if (path->count < 2) {
        return false;
    }
    if (path->count == 2 && is(function->name, "make_unique")) {
        return reading->n_frames == 1 &&
               propose_type(reading, RANK_FINAL, "1", argument(function->arguments, 0),
                            (struct ag_type_text){NULL, 0});
    }
    /* the class may be any part of the name: for example, vector<T>::_Guard::_Guard belongs to
     * vector */
    for (size_t i = 1; i + 1 < path->count; i++) {
        if (read_cxx_class(reading, &path->parts[i], function)) {
            return true;
        }
    }
    return path->count == 2 && is_one_of(function->name, plumbing);
}

/* ---- Rust ---- */

/* Returns the type arguments of the class of a method. If the arguments of the class are only names
 * of parameters, as in "T,A", returns the arguments of the method, which begin with the actual
 * arguments of the class. */
static struct ag_type_text rust_arguments(const struct part *class, const struct part *method) {
    const struct ag_type_text own = class->arguments;
    const struct ag_type_text first = argument(own, 0);
    const size_t at = begins(first, "[") ? 1 : 0; /* a slice, [T] */
    const bool is_name_only =
        first.len == 1 + 2 * at && first.text[at] >= 'A' && first.text[at] <= 'Z';
    return is_name_only || !own.text ? method->arguments : own;
}

static bool name_rust_box(struct ag_type_reading *reading, struct ag_type_text inner) {
    const struct path path = path_of(inner);
    const struct part *last = last_of(&path);
    const struct ag_type_text none = {NULL, 0};
    static const char *const counted[] = {"RcInner", "ArcInner", "RcBox", NULL};
    static const char *const nodes[] = {"LeafNode", "InternalNode", NULL};
    if (is_one_of(last->name, counted)) {
        return propose_type(reading, RANK_FINAL, "1", argument(last->arguments, 0), none);
    }
    if (path.count > 1 && is(last->name, "Node") &&
        is(path.parts[path.count - 2].name, "linked_list")) {
        return propose_type(reading, RANK_FINAL, "LinkedList<1>", argument(last->arguments, 0),
                            none);
    }
    if (is_one_of(last->name, nodes)) {
        const struct ag_type_text value = argument(last->arguments, 1);
        const struct path value_path = path_of(value);
        const bool is_set = is(last_of(&value_path)->name, "SetValZST");
        return propose_type(reading, RANK_FINAL, is_set ? "BTreeSet<1>" : "BTreeMap<1, 2>",
                            argument(last->arguments, 0), value);
    }
    return propose_type(reading, RANK_FINAL, "1", inner, none);
}

/* Whether the block is the array of vec![a, b], which Box::new_uninit allocates. (All other arrays
 * in a Box are allocated by Box::new.) */
static bool is_array_of_vec(const struct part *method, struct ag_type_text inner,
                            struct ag_type_text *ret_element) {
    if (!is(method->name, "new_uninit") || !begins(inner, "[")) {
        return false;
    }
    int depth = 0;
    for (size_t i = 0; i < inner.len; i++) {
        if (inner.text[i] == ';' && depth == 1) {
            *ret_element = trimmed(inner.text + 1, i - 1);
            return true;
        }
        depth += depth_change(inner.text, i);
    }
    return false;
}

/* Rc<[T]> and Arc<[T]> allocate one block that contains reference counts and a slice. In the block
 * of Rc<str>, the slice is a slice of u8. */
static bool read_rust_counted(struct ag_type_reading *reading, const struct part *class,
                              const struct part *method, struct ag_type_text first) {
    const struct ag_type_text none = {NULL, 0};
    if (begins(method->name, "allocate_for_slice")) {
        const bool has_brackets = begins(first, "[") && first.len > 2;
        return propose_type(
            reading, RANK_CONTAINER, "[1]",
            has_brackets ? (struct ag_type_text){first.text + 1, first.len - 2} : first, none);
    }
    const struct ag_type_text own = argument(class->arguments, 0);
    if (is(own, "str") && is(reading->first, "u8")) {
        return propose_type(reading, RANK_FINAL, "1", own, none);
    }
    return true;
}

static bool name_rust_table(struct ag_type_reading *reading, struct ag_type_text pair) {
    const struct ag_type_text none = {NULL, 0};
    if (pair.len < 2 || pair.text[0] != '(') {
        return propose_type(reading, RANK_RAW, "HashMap<1>", pair, none);
    }
    const struct ag_type_text both = {pair.text + 1, pair.len - 2};
    const struct ag_type_text value = argument(both, 1);
    return propose_type(reading, RANK_RAW, is(value, "()") ? "HashSet<1>" : "HashMap<1, 2>",
                        argument(both, 0), value);
}

static bool read_rust_class(struct ag_type_reading *reading, const struct part *class,
                            const struct part *method) {
    const struct ag_type_text none = {NULL, 0}, list = rust_arguments(class, method);
    const struct ag_type_text first = argument(list, 0), second = argument(list, 1);
    if (is(class->name, "Box")) {
        static const char *const makers[] = {
            "new", "try_new", "pin", "default", "from", "clone_from_ref", "try_clone_from_ref",
            NULL};
        struct ag_type_text element;
        if (is_array_of_vec(method, first, &element)) {
            return propose_type(reading, RANK_RAW, "Vec<1>", element, none);
        }
        for (const char *const *maker = makers; *maker; maker++) {
            if (begins(method->name, *maker)) {
                return name_rust_box(reading, first);
            }
        }
        return false;
    }
    if (is(class->name, "RawVec")) {
        return propose_type(reading, RANK_RAW, "Vec<1>", first, none);
    }
    if (is(class->name, "Vec")) {
        return propose_type(reading, RANK_CONTAINER, "Vec<1>", first, none);
    }
    if (is(class->name, "VecDeque") && reading->rank == RANK_RAW) {
        return propose_type(reading, RANK_FINAL, "VecDeque<1>", first, none);
    }
    if (is(class->name, "BinaryHeap") && reading->form && same(first, reading->first)) {
        return propose_type(reading, RANK_FINAL, "BinaryHeap<1>", first, none);
    }
    if (is(class->name, "Rc") || is(class->name, "Arc")) {
        return read_rust_counted(reading, class, method, first);
    }
    if (is(class->name, "String") && reading->rank <= RANK_CONTAINER && is(reading->first, "u8")) {
        return propose_type(reading, RANK_FINAL, "String", class->name, none);
    }
    if (is(class->name, "RawTable")) {
        return name_rust_table(reading, first);
    }
    if (is(class->name, "HashMap") && reading->rank <= RANK_RAW) {
        return propose_type(reading, RANK_CONTAINER,
                            is(second, "()") ? "HashSet<1>" : "HashMap<1, 2>", first, second);
    }
    return true; /* all other classes of the library only forward the request to a class above */
}

/* Whether TRAIT is a trait that the library implements for any type. The name of a method of such a
 * trait does not show the type of the block, and no code of users runs in the method. */
static bool is_plumbing_trait(struct ag_type_text trait) {
    const struct path path = path_of(trait);
    static const char *const traits[] = {"Allocator", "ConvertVec", NULL};
    return is_one_of(last_of(&path)->name, traits);
}

/* Reads the name of a method of a slice or of str, which may be a method of one of the library's
 * traits. Bytes that a method of str allocates belong to a String. */
static bool read_rust_slice(struct ag_type_reading *reading, struct ag_type_text of,
                            struct ag_type_text trait) {
    static const char *const crates[] = {"alloc", "core", "std", NULL};
    const struct path path = path_of(trait);
    const struct ag_type_text none = {NULL, 0};
    if (trait.len > 0 && !is_one_of(path.parts[0].name, crates)) {
        return false; /* a trait that is not the library's */
    }
    if (is(of, "str") && reading->form && is(reading->first, "u8")) {
        return propose_type(reading, RANK_FINAL, "String", of, none);
    }
    return true;
}

/* Reads a name that contains a type and a method, such as "<alloc::vec::Vec<u8> as
 * Clone>::clone". */
static bool read_rust_impl(struct ag_type_reading *reading, struct ag_type_text name) {
    int depth = 0;
    size_t end = 0, as = 0;
    for (size_t i = 0; i < name.len && end == 0; i++) {
        depth += depth_change(name.text, i);
        if (depth == 1 && as == 0 && i + 4 < name.len && memcmp(name.text + i, " as ", 4) == 0) {
            as = i;
        }
        end = depth == 0 ? i : 0;
    }
    if (end == 0) {
        return false;
    }
    const struct ag_type_text of = {name.text + 1, (as ? as : end) - 1};
    const struct ag_type_text trait = {as ? name.text + as + 4 : NULL, as ? end - as - 4 : 0};
    const struct path type = path_of(of);
    const struct path rest =
        path_of((struct ag_type_text){name.text + end + 1, name.len - end - 1});
    if (is_plumbing_trait(trait)) {
        return true;
    }
    if (is(of, "str") || begins(of, "[")) {
        return read_rust_slice(reading, of, trait);
    }
    const bool is_ours = is(type.parts[0].name, "alloc") || is(type.parts[0].name, "hashbrown");
    return type.count > 0 && is_ours && read_rust_class(reading, last_of(&type), last_of(&rest));
}

static bool is_rust_library(const struct path *path) {
    static const char *const crates[] = {"alloc", "hashbrown", "__rustc", NULL};
    const struct ag_type_text first = path->parts[0].name;
    return is_one_of(first, crates) ||
           (is(first, "std") && path->count > 2 && is(path->parts[1].name, "collections")) ||
           (is(first, "core") && path->count > 2 && is(path->parts[1].name, "alloc"));
}

static bool read_rust(struct ag_type_reading *reading, const struct path *path) {
    static const char *const strings[] = {"str", "string", "fmt", NULL};
    const struct ag_type_text none = {NULL, 0};
    if (is(path->parts[0].name, "alloc") && path->count > 2 &&
        is_one_of(path->parts[1].name, strings) && is(reading->first, "u8") && reading->form) {
        return propose_type(reading, RANK_FINAL, "String", path->parts[1].name, none);
    }
    const struct part *method = last_of(path);
    return path->count < 3 || read_rust_class(reading, &path->parts[path->count - 2], method);
}

/* ---- reading ---- */

static bool read_name(struct ag_type_reading *reading, const char *function) {
    const size_t length = strlen(function);
    struct ag_type_text name = {function, end_of_name(function, length)};
    if (*function == '<') {
        return read_rust_impl(reading, (struct ag_type_text){function, length});
    }
    static const char *const shims[] = {"__rust_alloc",
                                        "__rust_realloc",
                                        "__rust_alloc_zeroed",
                                        "__rdl_alloc",
                                        "__rdl_realloc",
                                        "__rdl_alloc_zeroed",
                                        NULL};
    name = name.len == length ? name : without_return_type(name);
    const struct path path = path_of(name);
    if (path.count == 0) {
        return false;
    }
    if (is_rust_library(&path) || (path.count == 1 && is_one_of(path.parts[0].name, shims))) {
        return read_rust(reading, &path);
    }
    if (!is(path.parts[0].name, "std") && !is(path.parts[0].name, "__gnu_cxx")) {
        return false;
    }
    return read_cxx(reading, &path);
}

bool ag_type_read(struct ag_type_reading *reading, const char *function) {
    reading->n_frames++;
    return read_name(reading, function) && reading->rank < RANK_FINAL;
}

bool ag_type_runs_no_other_code(const char *function) {
    static const char *const heads[] = {"std::__cxx11::basic_string<char,",
                                        "std::__cxx11::basic_string<wchar_t,",
                                        "std::basic_string<char,",
                                        "alloc::raw_vec::",
                                        "<alloc::raw_vec::",
                                        "__rust_",
                                        "__rdl_",
                                        NULL};
    for (const char *const *head = heads; *head; head++) {
        if (strncmp(function, *head, strlen(*head)) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- writing ---- */

struct writing {
    char *text;
    size_t used, capacity;
};

static void name_put(struct writing *writing, const char *text, size_t length) {
    for (size_t i = 0; i < length && writing->used + 1 < writing->capacity; i++) {
        writing->text[writing->used++] = text[i];
    }
}

/* Returns the length of the default template argument with which TEXT begins, such as ",
 * std::allocator<int>", or 0. Programmers do not write default arguments, so they are not shown. */
static size_t default_argument(const char *text, size_t length) {
    static const char *const defaults[] = {", std::allocator<",
                                           ", std::char_traits<",
                                           ", std::less<",
                                           ", std::equal_to<",
                                           ", std::default_delete<",
                                           ", std::hash<",
                                           NULL};
    static const char *const whole[] = {", alloc::alloc::Global",
                                        ", std::hash::random::RandomState",
                                        ", std::collections::hash::map::RandomState", NULL};
    for (const char *const *one = whole; *one; one++) {
        if (begins((struct ag_type_text){text, length}, *one)) {
            return strlen(*one);
        }
    }
    for (const char *const *one = defaults; *one; one++) {
        const size_t n = strlen(*one);
        if (length >= n && memcmp(text, *one, n) == 0) {
            int depth = 1;
            size_t at = n;
            for (; at < length && depth > 0; at++) {
                depth += depth_change(text, at);
            }
            return at;
        }
    }
    return 0;
}

struct shorter {
    const char *text, *instead;
};

static size_t shorten(struct writing *writing, const char *text, size_t length) {
    static const struct shorter list[] = {
        {"std::__cxx11::", "std::"},
        {"std::__1::", "std::"},
        {"alloc::string::String", "String"},
        {"alloc::vec::Vec", "Vec"},
        {"alloc::boxed::Box", "Box"},
        {"alloc::rc::Rc", "Rc"},
        {"alloc::sync::Arc", "Arc"},
        {"core::option::Option", "Option"},
        {"alloc::collections::btree::map::BTreeMap", "BTreeMap"},
        {"alloc::collections::btree::set::BTreeSet", "BTreeSet"},
        {"alloc::collections::vec_deque::VecDeque", "VecDeque"},
        {"std::collections::hash::map::HashMap", "HashMap"},
        {"std::collections::hash::set::HashSet", "HashSet"},
        {" >", ">"},
        {" []", "[]"},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        const size_t n = strlen(list[i].text);
        if (length >= n && memcmp(text, list[i].text, n) == 0) {
            name_put(writing, list[i].instead, strlen(list[i].instead));
            return n;
        }
    }
    return 0;
}

static void put_type(struct writing *writing, struct ag_type_text type) {
    for (size_t i = 0; i < type.len;) {
        const size_t skipped = default_argument(type.text + i, type.len - i);
        const bool is_gap = type.text[i] == ' ' && i > 0 && i + 1 < type.len &&
                            type.text[i + 1] == '(' && type.text[i - 1] != ',';
        if (is_gap) { /* "int (int)" is shown as "int(int)", as programmers write it */
            i++;
            continue;
        }
        const size_t replaced = skipped > 0 ? 0 : shorten(writing, type.text + i, type.len - i);
        if (skipped + replaced == 0) {
            name_put(writing, type.text + i, 1);
        }
        i += skipped + replaced > 0 ? skipped + replaced : 1;
    }
}

/* Replaces "std::basic_string<char>" by its usual name std::string. */
static void name_strings(char *text) {
    static const struct shorter names[] = {
        {"std::basic_string<char>", "std::string"},
        {"std::basic_string<wchar_t>", "std::wstring"},
        {"std::basic_string<char8_t>", "std::u8string"},
        {"std::basic_string<char16_t>", "std::u16string"},
        {"std::basic_string<char32_t>", "std::u32string"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t from = strlen(names[i].text), to = strlen(names[i].instead);
        for (char *at = strstr(text, names[i].text); at; at = strstr(at, names[i].text)) {
            memcpy(at, names[i].instead, to);
            memmove(at + to, at + from, strlen(at + from) + 1);
        }
    }
}

bool ag_type_name(const struct ag_type_reading *reading, char *ret_text, size_t capacity) {
    if (!reading->form || capacity == 0) {
        return false;
    }
    struct writing writing = {.text = ret_text, .capacity = capacity};
    for (const char *at = reading->form; *at; at++) {
        const bool is_digit_of_form = at == reading->form || strchr("< [", at[-1]);
        if (*at == '1' && is_digit_of_form) {
            put_type(&writing, reading->first);
        } else if (*at == '2' && is_digit_of_form) {
            put_type(&writing, reading->second);
        } else {
            name_put(&writing, at, 1);
        }
    }
    ret_text[writing.used] = '\0';
    name_strings(ret_text);
    return true;
}
