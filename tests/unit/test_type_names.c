/* test_type_names.c: finds the types of blocks by the names of the functions that allocate them,
 * with names from real compilers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/answers/type_names.h"

/* The type found from these frames, innermost first; NULL ends them. */
static const char *type_of(const char *const *functions) {
    static char text[256];
    struct ag_type_reading reading = {.rank = 0};
    while (*functions && ag_type_read(&reading, *functions)) {
        functions++;
    }
    return ag_type_name(&reading, text, sizeof(text)) ? text : "untyped";
}
#define EXPECT(type, ...) \
    assert_string_equal(type_of((const char *const[]){__VA_ARGS__, NULL}), type)

static void cxx_containers_are_found_by_allocator_and_class(void **state) {
    (void)state;
    EXPECT(
        "std::vector<Point>", "std::__new_allocator<Point>::allocate(unsigned long, void const*)",
        "std::allocator_traits<std::allocator<Point> >::allocate(std::allocator<Point>&, unsigned long)",
        "std::_Vector_base<Point, std::allocator<Point> >::_M_allocate(unsigned long)",
        "void std::vector<Point, std::allocator<Point> >::_M_realloc_insert<Point>(int, Point&&)",
        "run()");
    EXPECT("std::deque<Point>",
           "std::__new_allocator<Point*>::allocate(unsigned long, void const*)",
           "std::_Deque_base<Point, std::allocator<Point> >::_M_allocate_map(unsigned long)");
    EXPECT(
        "std::map<int, std::string>",
        "std::__new_allocator<std::_Rb_tree_node<std::pair<int const, std::__cxx11::basic_string<char, "
        "std::char_traits<char>, std::allocator<char> > > > >::allocate(unsigned long, void const*)");
    EXPECT(
        "std::set<long>",
        "__gnu_cxx::new_allocator<std::_Rb_tree_node<long> >::allocate(unsigned long, void const*)");
    EXPECT(
        "std::set<std::pair<int, int>>",
        "std::__new_allocator<std::_Rb_tree_node<std::pair<int, int> > >::allocate(unsigned long, void const*)",
        "std::_Rb_tree<std::pair<int, int>, std::pair<int, int>, I, L, A>::_M_get_node()");
    EXPECT(
        "std::unordered_set<std::pair<const char*, int>>",
        "std::__new_allocator<std::__detail::_Hash_node<std::pair<const char*, int>, false> >::allocate");
    EXPECT(
        "std::map<const char*, int>",
        "std::__new_allocator<std::_Rb_tree_node<std::pair<const char* const, int> > >::allocate");
    EXPECT("std::map<int, Point>",
           "std::__new_allocator<std::_Rb_tree_node<std::pair<const int, Point> > >::allocate");
    EXPECT(
        "std::unordered_map<int, Point>",
        "std::__new_allocator<std::__detail::_Hash_node_base*>::allocate(unsigned long, void const*)",
        "std::__detail::_Hashtable_alloc<std::allocator<std::__detail::_Hash_node<std::pair<int const, "
        "Point>, false> > >::_M_allocate_buckets(unsigned long)",
        "std::_Hashtable<int, std::pair<int const, Point>, std::allocator<std::pair<int const, Point> >, "
        "std::__detail::_Select1st>::_M_allocate_buckets(unsigned long)");
    EXPECT("std::string",
           "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
           ">::_M_create(unsigned long&, unsigned long)");
    EXPECT("std::map<int, int>",
           "std::__1::allocator<std::__1::__tree_node<std::__1::__value_type<int, int>, void*> "
           ">::allocate[abi:v160006](unsigned long)");
}

static void cxx_single_objects_are_found_by_their_makers(void **state) {
    (void)state;
    EXPECT("Point",
           "std::__new_allocator<std::_Sp_counted_ptr_inplace<Point, std::allocator<void>, "
           "(__gnu_cxx::_Lock_policy)2> >::allocate(unsigned long, void const*)");
    EXPECT("Named", "std::_MakeUniq<Named>::__single_object std::make_unique<Named, int&>(int&)",
           "run()");
    EXPECT("Wide<int, 3>", "std::make_unique<Wide<int, 3> >()");
}

static void other_allocations_are_untyped(void **state) {
    (void)state;
    EXPECT("untyped", "run()",
           "std::vector<Point, std::allocator<Point> >::push_back(Point const&)");
    EXPECT("untyped", "Named::Named(int)", "std::make_unique<Named, int&>(int&)");
    EXPECT("untyped", "std::thread::_M_start_thread()", "std::make_unique<std::thread>()");
    EXPECT("untyped",
           "std::__shared_count<(__gnu_cxx::_Lock_policy)2>::__shared_count<Point*>(Point*)",
           "std::make_unique<Other>()");
    EXPECT("untyped", "parse");
    EXPECT("untyped", "");
}

static void rust_types_are_found_in_both_manglings(void **state) {
    (void)state;
    EXPECT("t::Point", "alloc::alloc::alloc", "<alloc::alloc::Global>::alloc_impl",
           "alloc::boxed::box_new_uninit",
           "alloc::boxed::Box<T>::new<alloc::rc::RcInner<t::Point>>",
           "alloc::rc::Rc<T>::new<t::Point>");
    EXPECT(
        "Vec<Rc<t::Point>>", "<alloc::raw_vec::RawVecInner>::finish_grow",
        "alloc::raw_vec::RawVec<T,A>::grow_one<alloc::sync::Arc<u64, alloc::alloc::Global>, alloc::alloc::Global>",
        "alloc::vec::Vec<T,A>::push<alloc::rc::Rc<t::Point, alloc::alloc::Global>, alloc::alloc::Global>",
        "t::rcs");
    EXPECT("Vec<u8>", "<alloc::raw_vec::RawVec<u8>>::with_capacity_in<u8, alloc::alloc::Global>",
           "<alloc::vec::Vec<u8>>::with_capacity<u8>", "<std::io::BufWriter<X>>::with_capacity");
    EXPECT("String", "<alloc::vec::Vec<u8>>::with_capacity<u8>",
           "<alloc::string::String>::with_capacity", "t::strings");
    EXPECT(
        "HashMap<u32, t::Point>",
        "hashbrown::raw::RawTableInner::resize_inner<alloc::alloc::Global>",
        "hashbrown::raw::RawTable<T,A>::reserve_rehash<(u32, t::Point), alloc::alloc::Global, f>");
    EXPECT("HashSet<u32>",
           "hashbrown::raw::RawTable<T,A>::reserve_rehash<(u32, ()), alloc::alloc::Global, f>");
    EXPECT(
        "BTreeMap<u32, t::Point>",
        "alloc::boxed::Box<T,A>::try_new_uninit_in<alloc::collections::btree::node::LeafNode<u32, "
        "t::Point>, alloc::alloc::Global>");
    EXPECT("VecDeque<u32>", "alloc::raw_vec::RawVec<T,A>::grow_one<u32, alloc::alloc::Global>",
           "alloc::collections::vec_deque::VecDeque<T,A>::grow<u32, alloc::alloc::Global>");
    EXPECT("untyped", "alloc::vec::Vec<T,A>::push", "t::main"); /* no frame shows what T is */
}

static void cxx_holders_and_equal_keys(void **state) {
    (void)state;
    EXPECT("std::multimap<int, Point>",
           "std::__new_allocator<std::_Rb_tree_node<std::pair<int const, Point> > >::allocate("
           "unsigned long, void const*)",
           "std::_Rb_tree<int, std::pair<int const, Point>, S, std::less<int>, A>::_M_get_node()",
           "std::multimap<int, Point, std::less<int>, A>::insert(std::pair<int, Point>&&)");
    EXPECT("std::map<int, Point>",
           "std::__new_allocator<std::_Rb_tree_node<std::pair<int const, Point> > >::allocate("
           "unsigned long, void const*)",
           "std::map<int, Point, std::less<int>, A>::operator[](int&&)");
    EXPECT("std::string", /* the string is allocated, not the set that copies it */
           "std::__cxx11::basic_string<char, std::char_traits<char>, A>::_M_create(unsigned long&)",
           "std::multiset<std::string, L, A>::insert(std::string const&)");
    EXPECT("std::function<int(int)>",
           "std::_Function_base::_Base_manager<run()::{lambda(int)#1}>::_M_create<int>(int&&)",
           "std::function<int (int)>::function<F>(F&&)", "run()");
    EXPECT("untyped", "std::function<int (int)>::operator()(int) const", "run()");
    EXPECT(
        "std::shared_ptr<Point>",
        "std::__shared_count<(__gnu_cxx::_Lock_policy)2>::__shared_count<Point*>(Point*)",
        "std::__shared_ptr<Point, (__gnu_cxx::_Lock_policy)2>::__shared_ptr<Point, void>(Point*)",
        "run()");
    EXPECT("Point", "std::any::_Manager_external<Point>::_S_create<Point>(std::any::_Storage&)");
    EXPECT("Point[]", "std::make_unique<Point []>(unsigned long)");
    EXPECT("std::wstring", "std::__new_allocator<wchar_t>::allocate(unsigned long, void const*)",
           "std::__cxx11::basic_string<wchar_t, std::char_traits<wchar_t>, A>::_M_create()");
}

static void rust_slices_lists_and_heaps(void **state) {
    (void)state;
    EXPECT("Vec<u16>", "alloc::boxed::Box<T>::new_uninit<[u16; 3]>", "t::main"); /* vec![1, 2, 3] */
    EXPECT("[u16; 3]", "alloc::boxed::Box<T>::new_uninit<[u16; 3]>",
           "alloc::boxed::Box<T>::new<[u16; 3]>", "t::main");
    EXPECT("[u32]", "alloc::rc::Rc<[T]>::allocate_for_slice<u32>", "t::main");
    EXPECT("[u32]", "<alloc::rc::Rc<[u32]>>::allocate_for_slice", "t::main");
    EXPECT("str", "alloc::rc::Rc<[T]>::allocate_for_slice<u8>",
           "<alloc::rc::Rc<str> as core::convert::From<&str>>::from", "t::main");
    EXPECT("LinkedList<t::Point>", "<&A as core::alloc::Allocator>::allocate<alloc::alloc::Global>",
           "alloc::boxed::Box<T,A>::new_in<alloc::collections::linked_list::Node<t::Point>, "
           "&alloc::alloc::Global>");
    EXPECT("Node<t::Point>", "alloc::boxed::Box<T>::new<Node<t::Point>>");
    EXPECT("BinaryHeap<i64>", "alloc::vec::Vec<T,A>::push<i64, alloc::alloc::Global>",
           "alloc::collections::binary_heap::BinaryHeap<T,A>::push<i64, alloc::alloc::Global>");
    EXPECT(
        "String", "alloc::vec::Vec<T,A>::with_capacity_in<u8, alloc::alloc::Global>",
        "<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec<u8, alloc::alloc::Global>",
        "alloc::slice::<impl [T]>::to_vec<u8>", "<str as alloc::borrow::ToOwned>::to_owned");
    EXPECT("Vec<u8>", "<alloc::vec::Vec<u8>>::with_capacity_in<u8, alloc::alloc::Global>",
           "<str as t::Mine>::make"); /* a trait of another crate: it does not show the type */
    EXPECT("Vec<HashMap<u8, u8>>", "<alloc::vec::Vec<std::collections::hash::map::HashMap<u8, u8, "
                                   "std::hash::random::RandomState>>>::with_capacity");
}

static void strange_names_are_read_without_harm(void **state) {
    (void)state;
    uint64_t random = 1;
    static const char alphabet[] = "<>(),: stdalocVRw<>::[]{}-";
    for (int i = 0; i < 200000; i++) {
        char name[64];
        size_t length = 0;
        const char *heads[] = {"std::", "<alloc::", "alloc::vec::", "std::vector<", ""};
        strcpy(name, heads[i % 5]);
        length = strlen(name);
        while (length + 1 < sizeof(name)) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            name[length++] = alphabet[(random >> 40) % (sizeof(alphabet) - 1)];
        }
        name[length] = '\0';
        const char *const functions[] = {"std::allocator<int>::allocate(unsigned long)", name, name,
                                         NULL};
        assert_non_null(type_of(functions + i % 2));
    }
    char deep[8192];
    memset(deep, '<', sizeof(deep) - 1);
    deep[sizeof(deep) - 1] = '\0';
    memcpy(deep, "std::a", 6);
    EXPECT("untyped", deep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cxx_containers_are_found_by_allocator_and_class),
        cmocka_unit_test(cxx_single_objects_are_found_by_their_makers),
        cmocka_unit_test(other_allocations_are_untyped),
        cmocka_unit_test(rust_types_are_found_in_both_manglings),
        cmocka_unit_test(cxx_holders_and_equal_keys),
        cmocka_unit_test(rust_slices_lists_and_heaps),
        cmocka_unit_test(strange_names_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
