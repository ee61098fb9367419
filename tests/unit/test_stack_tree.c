/* test_stack_tree.c: numbers for sites (a pc and its image, the loaded file) and nodes (a site with
 * its caller's node) in the stack tree: equal sites and equal nodes get one number, also when the
 * hash tables have grown, and when several threads and processes add them at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/populate.h"
#include "base/stack_tree.h"
#include "base/stack_tree_fast.h"

static struct ag_stack_tree tree;
static void *memory;

static int open_tree(void **state) {
    (void)state;
    memory = mmap(NULL, AG_TREE_BYTES, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(memory != MAP_FAILED);
    tree = (struct ag_stack_tree){0};
    return ag_stack_tree_init(&tree, memory, AG_TREE_SIZES - 1, ag_populate, NULL);
}

static int close_tree(void **state) {
    (void)state;
    return munmap(memory, AG_TREE_BYTES);
}

static void same_key_has_one_id(void **state) {
    (void)state;
    const uint32_t site = ag_site_intern(&tree, 0x401234, 1),
                   other = ag_site_intern(&tree, 0x401235, 1);
    assert_int_not_equal(site, 0);
    assert_int_not_equal(site, other);
    assert_int_equal(site, ag_site_intern(&tree, 0x401234, 1));
    const uint32_t node = ag_node_intern(&tree, AG_ROOT_COMPLETE, site);
    assert_true(node >= AG_NODE_FIRST);
    assert_int_equal(node, ag_node_intern(&tree, AG_ROOT_COMPLETE, site));
    assert_int_not_equal(node, ag_node_intern(&tree, AG_ROOT_CUT, site));
    assert_int_not_equal(node, ag_node_intern(&tree, AG_ROOT_COMPLETE, other));
    assert_int_not_equal(node, ag_node_intern(&tree, node, site));
}

static void same_pc_in_another_image_is_another_site(void **state) {
    (void)state;
    const uint32_t first = ag_site_intern(&tree, 0x401234, 1),
                   second = ag_site_intern(&tree, 0x401234, 2);
    assert_int_not_equal(first, second);
    uint64_t pc;
    uint32_t image;
    assert_true(ag_stack_tree_site(&tree, second, &pc, &image));
    assert_int_equal(pc, 0x401234);
    assert_int_equal(image, 2);
    assert_int_equal(ag_site_intern(&tree, 0x401234, 1), first);
}

static void site_left_unsettled_is_settled_by_the_finder(void **state) {
    (void)state;
    const uint32_t site = ag_site_intern(&tree, 0x401234, 7);
    // as if the process that created the site had been killed before it stored the image
    atomic_store(&tree.sites[site - 1].settled_image, 0);
    assert_int_equal(ag_site_intern(&tree, 0x401234, 7), site);
    uint64_t pc;
    uint32_t image;
    assert_true(ag_stack_tree_site(&tree, site, &pc, &image));
    assert_int_equal(image, 7);
}

static void a_site_of_an_unloaded_image_is_not_found_again(void **state) {
    (void)state;
    const uint32_t before = ag_site_intern(&tree, 0x401fff, 0),
                   inside = ag_site_intern(&tree, 0x402001, 0),
                   of_image = ag_site_intern(&tree, 0x402001, 3),
                   at_start = ag_site_intern(&tree, 0x402000, 0),
                   at_end = ag_site_intern(&tree, 0x403000, 0);
    ag_stack_tree_kill_sites(&tree, 0x402000, 0x403000);
    assert_int_equal(ag_site_intern(&tree, 0x401fff, 0), before);
    // the call instruction before this return address ends before the range
    assert_int_equal(ag_site_intern(&tree, 0x402000, 0), at_start);
    assert_int_not_equal(ag_site_intern(&tree, 0x402001, 0), inside);
    assert_int_not_equal(ag_site_intern(&tree, 0x403000, 0), at_end);
    assert_int_equal(ag_site_intern(&tree, 0x402001, 3), of_image);
    uint64_t pc;
    uint32_t image;
    assert_true(ag_stack_tree_site(&tree, inside, &pc, &image)); // the first values stay
    assert_int_equal(pc, 0x402001);
}

static void plugin_loaded_a_thousand_times_keeps_getting_sites(void **state) {
    (void)state;
    uint32_t before = 0;
    for (uint32_t image = 1; image <= 1000; image++) {
        const uint32_t site = ag_site_intern(&tree, 0x7f0012345678, image);
        assert_int_not_equal(site, 0);
        assert_int_not_equal(site, before);
        before = site;
    }
}

enum { MANY = 300000 };

static void full_levels_overflow_and_ids_stay(void **state) {
    (void)state;
    uint32_t *ids = malloc(MANY * sizeof *ids);
    for (uint32_t i = 0; i < MANY; i++) {
        ids[i] = ag_node_intern(&tree, i % 3, i / 3 + 1);
        assert_int_not_equal(ids[i], 0);
    }
    assert_true(ids[MANY - 1] != ids[0]);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t parent, site;
        assert_int_equal(ag_node_intern(&tree, i % 3, i / 3 + 1), ids[i]);
        assert_true(ag_stack_tree_node(&tree, ids[i], &parent, &site));
        assert_int_equal(parent, i % 3);
        assert_int_equal(site, i / 3 + 1);
        assert_int_equal(ids[i], ids[0] + i); // numbers are given out in order, without gaps
    }
    free(ids);
}

static void sites_overflow_and_end_at_the_last_level(void **state) {
    (void)state;
    tree = (struct ag_stack_tree){0};
    assert_int_equal(ag_stack_tree_init(&tree, memory, /* size= */ 0, ag_populate, NULL), 0);
    uint32_t n_found = 0;
    for (uint64_t pc = 1; pc <= AG_SITE_BASE_SLOTS; pc++) {
        n_found += ag_site_intern(&tree, pc * 16, 1) != 0;
    }
    assert_true(n_found > AG_SITE_BASE_SLOTS / 2);
    // buckets fill unevenly, and a full bucket takes no further site
    assert_true(n_found < AG_SITE_BASE_SLOTS);
    for (uint64_t pc = 1; pc <= 1000; pc++) {
        const uint32_t site = ag_site_intern(&tree, pc * 16, 1);
        uint64_t found_pc;
        uint32_t image;
        assert_true(site <= ag_tree_site_limit(0));
        assert_true(site == 0 ||
                    (ag_stack_tree_site(&tree, site, &found_pc, &image) && found_pc == pc * 16));
    }
}

static void a_larger_tree_has_sites_behind_the_base(void **state) {
    (void)state;
    uint32_t n_behind = 0;
    for (uint64_t pc = 1; pc <= AG_SITE_BASE_SLOTS; pc++) {
        const uint32_t site = ag_site_intern(&tree, pc * 16, 1);
        uint64_t found_pc;
        uint32_t image;
        assert_int_not_equal(site, 0);
        assert_true(ag_stack_tree_site(&tree, site, &found_pc, &image) && found_pc == pc * 16);
        n_behind += site > AG_SITE_BASE_SLOTS;
    }
    assert_true(n_behind > 1000);
    const uint32_t dies = ag_site_intern(&tree, 0x7000, 0);
    ag_stack_tree_kill_sites(&tree, 0x6fff, 0x7000);
    assert_int_not_equal(ag_site_intern(&tree, 0x7000, 0), dies);
}

/* ---- more ids than the base has; the base of a tree is always mapped, its pieces on demand --- */

static int tree_fd;
static void *map_piece(const struct ag_stack_tree *of, int piece) {
    (void)of;
    const struct ag_tree_piece place = ag_tree_piece(piece);
    void *mapped = mmap(NULL, place.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                        tree_fd, (off_t)place.offset);
    return mapped != MAP_FAILED ? mapped : NULL;
}
static void unmap_piece(void *address, uint64_t bytes) {
    (void)munmap(address, bytes);
}
static const struct ag_piece_mapper mapper = {map_piece, unmap_piece};

static void open_sparse_tree(struct ag_stack_tree *to, int size) {
    tree_fd = memfd_create("tree", MFD_CLOEXEC);
    assert_int_equal(ftruncate(tree_fd, (off_t)ag_tree_bytes(size)), 0);
    void *base = mmap(NULL, AG_TREE_BASE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, tree_fd, 0);
    assert_true(base != MAP_FAILED);
    *to = (struct ag_stack_tree){0};
    assert_int_equal(ag_stack_tree_init(to, base, size, ag_populate, &mapper), 0);
}

static void close_sparse_tree(struct ag_stack_tree *of) {
    ag_stack_tree_unmap_pieces(of);
    (void)munmap(of->sites, AG_TREE_BASE_BYTES);
    (void)close(tree_fd);
}

static void pieces_tile_the_tree(void **state) {
    (void)state;
    uint64_t bytes = 0;
    for (int piece = 0; piece < AG_TREE_PIECES; piece++) {
        const struct ag_tree_piece place = ag_tree_piece(piece);
        assert_true(place.bytes > 0 && place.offset % AG_TREE_SLICE_BYTES == 0);
        bytes += place.bytes;
        for (int other = 0; other < piece; other++) {
            const struct ag_tree_piece before = ag_tree_piece(other);
            assert_true(place.offset >= before.offset + before.bytes ||
                        before.offset >= place.offset + place.bytes);
        }
    }
    assert_int_equal(bytes, AG_TREE_BYTES);
    for (int size = 0; size < AG_TREE_SIZES; size++) {
        assert_int_equal(ag_tree_size_of(ag_tree_bytes(size)), size);
        const uint64_t last = ag_tree_node_offset(ag_tree_node_limit(size) - 1);
        assert_true(last + sizeof(struct ag_linked_node) <= ag_tree_bytes(size));
        assert_true(ag_tree_site_offset(ag_tree_site_limit(size)) + sizeof(struct ag_site) <=
                    ag_tree_bytes(size));
    }
    assert_int_equal(ag_tree_size_of(AG_TREE_BYTES - 4096), -1);
}

/* Builds a chain of nodes with the ids from 50 before `place` to 50 after it; returns the innermost
 * node. */
static uint32_t chain_over(struct ag_stack_tree *to, uint32_t place) {
    atomic_store(&to->counts->n_nodes, place - AG_NODE_FIRST - 50);
    uint32_t node = AG_ROOT_COMPLETE;
    for (uint32_t site = 1; site <= 100; site++) {
        node = ag_node_intern(to, node, site);
    }
    return node;
}

static void ids_go_on_behind_the_base_and_relatives_find_them(void **state) {
    (void)state;
    static const uint32_t places[] = {UINT32_C(1) << 22, UINT32_C(1) << 24, UINT32_C(1) << 26,
                                      (UINT32_C(1) << 28) - 60};
    struct ag_stack_tree far;
    open_sparse_tree(&far, AG_TREE_SIZES - 1);
    const pid_t child = fork();
    if (child == 0) { /* the child maps the pieces that it needs; its parent has mapped none yet */
        uint32_t node = 0;
        for (size_t i = 0; i < AG_ARRAY_SIZE(places); i++) {
            node = chain_over(&far, places[i]);
            if (node == 0) {
                _exit(1);
            }
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* the child's calls of chain_over all found the first chain, because the sites are the same */
    const uint64_t before = atomic_load(&far.counts->n_nodes);
    uint32_t node = AG_ROOT_COMPLETE;
    for (uint32_t site = 1; site <= 100; site++) {
        node = ag_node_intern(&far, node, site);
        assert_int_equal(node, places[0] - 50 + site - 1);
        uint32_t parent, found_site;
        assert_true(ag_stack_tree_node(&far, node, &parent, &found_site));
        assert_int_equal(found_site, site);
    }
    assert_int_equal(atomic_load(&far.counts->n_nodes), before);
    for (size_t i = 1; i < AG_ARRAY_SIZE(places); i++) {
        atomic_store(&far.counts->n_nodes, places[i] - AG_NODE_FIRST);
        node = ag_node_intern(&far, AG_ROOT_COMPLETE, 1000 + (uint32_t)i);
        assert_int_equal(node, places[i]);
        assert_int_equal(ag_node_intern(&far, AG_ROOT_COMPLETE, 1000 + (uint32_t)i), node);
        const uint32_t inner = ag_node_intern(&far, node, 7);
        assert_int_equal(inner, places[i] + 1);
        assert_int_equal(ag_node_intern(&far, node, 7), inner);
    }
    close_sparse_tree(&far);
}

static void after_the_last_id_there_is_none(void **state) {
    (void)state;
    for (int size = 0; size < AG_TREE_SIZES; size++) {
        struct ag_stack_tree far;
        open_sparse_tree(&far, size);
        const uint32_t limit = ag_tree_node_limit(size);
        atomic_store(&far.counts->n_nodes, limit - AG_NODE_FIRST - 1);
        const uint32_t last = ag_node_intern(&far, AG_ROOT_COMPLETE, 1);
        assert_int_equal(last, limit - 1);
        assert_int_equal(ag_node_intern(&far, last, 2), 0);
        assert_int_equal(ag_node_intern(&far, AG_ROOT_COMPLETE, 3), 0);
        assert_int_equal(ag_node_intern(&far, AG_ROOT_COMPLETE, 1), last);
        assert_int_equal(atomic_load(&far.counts->n_nodes), limit - AG_NODE_FIRST);
        close_sparse_tree(&far);
    }
}

static void *map_nothing(const struct ag_stack_tree *of, int piece) {
    (void)of;
    (void)piece;
    return NULL;
}

static void without_addresses_there_is_no_id(void **state) {
    (void)state;
    static const struct ag_piece_mapper none = {map_nothing, unmap_piece};
    struct ag_stack_tree far;
    open_sparse_tree(&far, 1);
    far.mapper = &none;
    atomic_store(&far.counts->n_nodes, AG_WINDOW_NODES - AG_NODE_FIRST - 1);
    const uint32_t last = ag_node_intern(&far, AG_ROOT_COMPLETE, 1);
    assert_int_equal(last, AG_WINDOW_NODES - 1);
    assert_int_equal(ag_node_intern(&far, last, 2), 0);
    assert_int_equal(atomic_load(&far.counts->n_nodes), AG_WINDOW_NODES - AG_NODE_FIRST);
    far.mapper = &mapper; /* memory is available again */
    assert_int_equal(ag_node_intern(&far, last, 2), AG_WINDOW_NODES);
    close_sparse_tree(&far);
}

static void frames_read_back_innermost_first(void **state) {
    (void)state;
    uint32_t node = AG_ROOT_CUT;
    for (uint64_t pc = 0x1000; pc < 0x1005; pc++) {
        node = ag_node_intern(&tree, node, ag_site_intern(&tree, pc, 0));
    }
    uint64_t pcs[3];
    enum ag_root root;
    assert_int_equal(ag_stack_tree_frames(&tree, node, 3, pcs, &root), 5);
    assert_int_equal(root, AG_ROOT_CUT);
    assert_int_equal(pcs[0], 0x1004);
    assert_int_equal(pcs[2], 0x1002);
}

static void damaged_tree_is_refused(void **state) {
    (void)state;
    uint64_t pc;
    uint32_t parent, site, image;
    assert_false(ag_stack_tree_node(&tree, AG_NODE_FIRST - 1, &parent, &site));
    assert_false(ag_stack_tree_node(&tree, AG_NODE_FIRST + AG_NODE_SLOTS, &parent, &site));
    assert_false(ag_stack_tree_node(&tree, UINT32_MAX, &parent, &site));
    assert_false(ag_stack_tree_site(&tree, 0, &pc, &image));
    assert_false(ag_stack_tree_site(&tree, AG_SITE_SLOTS + 1, &pc, &image));
    const uint32_t good_site = ag_site_intern(&tree, 0x1000, 0),
                   node = ag_node_intern(&tree, 0, good_site);
    enum ag_root root;
    // the node is its own parent
    atomic_store(&tree.nodes[node].word, (uint64_t)node << 32 | good_site);
    assert_true(ag_stack_tree_frames(&tree, node, 0, NULL, &root) < 0);
    atomic_store(&tree.nodes[node].word, UINT64_C(5) << 32 | good_site); // no such root
    assert_true(ag_stack_tree_frames(&tree, node, 0, NULL, &root) < 0);
}

static int populate_calls_left;
static bool populate_some(void *address, size_t bytes) {
    return populate_calls_left-- > 0 && ag_populate(address, bytes);
}

static void without_memory_there_is_no_id_and_no_access(void **state) {
    (void)state;
    struct ag_stack_tree poor = {0};
    populate_calls_left = 0;
    assert_true(ag_stack_tree_init(&poor, memory, 0, populate_some, NULL) < 0);
    populate_calls_left = 1000;
    assert_int_equal(ag_stack_tree_init(&poor, memory, 0, populate_some, NULL), 0);
    populate_calls_left = 0;
    assert_int_equal(ag_site_intern(&poor, 0x1000, 0), 0);
    uint32_t n_lost = 0;
    for (uint32_t site = 1; site < 40000; site++) {
        n_lost += ag_node_intern(&poor, 0, site) == 0;
    }
    // the nodes that have memory already get ids, and the nodes after them get none
    assert_true(n_lost > 20000 && n_lost < 40000);
}

/* ---- several threads or processes at once --------------------------------- */
enum { AT_ONCE = 4, KEYS = 20000 };
static uint32_t ids_found[AT_ONCE][KEYS];

static void *intern_all(void *which) {
    const uintptr_t self = (uintptr_t)which;
    for (uint32_t i = 0; i < KEYS; i++) {
        const uint32_t key = self & 1 ? KEYS - 1 - i : i;
        const uint32_t site = ag_site_intern(&tree, 0x10000 + key % 500, key % 500 / 100);
        ids_found[self][key] =
            ag_node_intern(&tree, AG_ROOT_COMPLETE, site + key / 500 * AG_SITE_SLOTS);
    }
    return NULL;
}

static void threads_agree_on_ids(void **state) {
    (void)state;
    pthread_t threads[AT_ONCE];
    for (uintptr_t i = 0; i < AT_ONCE; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, intern_all, (void *)i), 0);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 1; i < AT_ONCE; i++) {
        assert_memory_equal(ids_found[0], ids_found[i], sizeof ids_found[0]);
    }
}

static void forked_relatives_agree_on_ids(void **state) {
    (void)state;
    uint32_t(*shared)[KEYS] =
        mmap(NULL, sizeof ids_found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t children[AT_ONCE];
    for (uintptr_t i = 0; i < AT_ONCE; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            intern_all((void *)i);
            for (int k = 0; k < KEYS; k++) {
                shared[i][k] = ids_found[i][k];
            }
            _exit(0);
        }
    }
    for (int i = 0; i < AT_ONCE; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_not_equal(shared[0][0], 0);
    for (int i = 1; i < AT_ONCE; i++) {
        assert_memory_equal(shared[0], shared[i], sizeof shared[0]);
    }
    munmap(shared, sizeof ids_found);
}

/* ---- populate ------------------------------------------------------------ */
static void check_populate(ag_populate_fn *populate) {
    const int fd = memfd_create("populate", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8192), 0);
    char *pages = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pages[1] = 'x';
    assert_true(populate(pages, 8192));
    assert_int_equal(pages[0], 0);
    assert_int_equal(pages[1], 'x');
    assert_int_equal(pages[4096], 0);
    assert_false(populate(
        pages, 8193)); // the third page lies after the end of the file: touching it raises SIGBUS
    assert_false(populate(pages + 12288, 4096));
    munmap(pages, 16384);
    assert_false(populate(pages, 4096));
    close(fd);
}
static void populate_refuses_what_would_raise_sigbus(void **state) {
    (void)state;
    check_populate(ag_populate);
}
static void populate_on_an_old_kernel_does_the_same(void **state) {
    (void)state;
    check_populate(ag_populate_at_once);
}

int main(void) {
#define IN_A_TREE(test) cmocka_unit_test_setup_teardown(test, open_tree, close_tree)
    const struct CMUnitTest tests[] = {
        IN_A_TREE(same_key_has_one_id),
        IN_A_TREE(same_pc_in_another_image_is_another_site),
        IN_A_TREE(site_left_unsettled_is_settled_by_the_finder),
        IN_A_TREE(a_site_of_an_unloaded_image_is_not_found_again),
        IN_A_TREE(plugin_loaded_a_thousand_times_keeps_getting_sites),
        IN_A_TREE(full_levels_overflow_and_ids_stay),
        IN_A_TREE(sites_overflow_and_end_at_the_last_level),
        IN_A_TREE(a_larger_tree_has_sites_behind_the_base),
        cmocka_unit_test(pieces_tile_the_tree),
        cmocka_unit_test(ids_go_on_behind_the_base_and_relatives_find_them),
        cmocka_unit_test(after_the_last_id_there_is_none),
        cmocka_unit_test(without_addresses_there_is_no_id),
        IN_A_TREE(frames_read_back_innermost_first),
        IN_A_TREE(damaged_tree_is_refused),
        IN_A_TREE(without_memory_there_is_no_id_and_no_access),
        IN_A_TREE(threads_agree_on_ids),
        IN_A_TREE(forked_relatives_agree_on_ids),
        cmocka_unit_test(populate_refuses_what_would_raise_sigbus),
        cmocka_unit_test(populate_on_an_old_kernel_does_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
