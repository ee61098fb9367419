/* test_stack_tree.c: interning of sites and nodes: identity, overflow into later levels, several
 * threads and processes. */
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
    return ag_stack_tree_init(&tree, memory, ag_populate);
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
    assert_true(ag_stack_tree_site(memory, second, &pc, &image));
    assert_int_equal(pc, 0x401234);
    assert_int_equal(image, 2);
    assert_int_equal(ag_site_intern(&tree, 0x401234, 1), first);
}

static void site_left_unsettled_is_settled_by_the_finder(void **state) {
    (void)state;
    const uint32_t site = ag_site_intern(&tree, 0x401234, 7);
    atomic_store(&tree.sites[site - 1].settled_image, 0); // its claimer was killed here
    assert_int_equal(ag_site_intern(&tree, 0x401234, 7), site);
    uint64_t pc;
    uint32_t image;
    assert_true(ag_stack_tree_site(memory, site, &pc, &image));
    assert_int_equal(image, 7);
}

static void dead_site_is_not_found_again(void **state) {
    (void)state;
    const uint32_t before = ag_site_intern(&tree, 0x401fff, 0),
                   inside = ag_site_intern(&tree, 0x402001, 0),
                   of_image = ag_site_intern(&tree, 0x402001, 3),
                   at_start = ag_site_intern(&tree, 0x402000, 0),
                   at_end = ag_site_intern(&tree, 0x403000, 0);
    ag_stack_tree_kill_sites(&tree, 0x402000, 0x403000);
    assert_int_equal(ag_site_intern(&tree, 0x401fff, 0), before);
    assert_int_equal(ag_site_intern(&tree, 0x402000, 0), at_start); // its instruction ends before
    assert_int_not_equal(ag_site_intern(&tree, 0x402001, 0), inside);
    assert_int_not_equal(ag_site_intern(&tree, 0x403000, 0), at_end);
    assert_int_equal(ag_site_intern(&tree, 0x402001, 3), of_image);
    uint64_t pc;
    uint32_t image;
    assert_true(ag_stack_tree_site(memory, inside, &pc, &image)); // what was recorded stays
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
        assert_true(ag_stack_tree_node(memory, ids[i], &parent, &site));
        assert_int_equal(parent, i % 3);
        assert_int_equal(site, i / 3 + 1);
        assert_int_equal(ids[i], ids[0] + i); // in the order of their coming, without holes
    }
    free(ids);
}

static void sites_overflow_and_end_at_the_last_level(void **state) {
    (void)state;
    uint32_t n_found = 0;
    for (uint64_t pc = 1; pc <= AG_SITE_SLOTS; pc++) {
        n_found += ag_site_intern(&tree, pc * 16, 1) != 0;
    }
    assert_true(n_found > AG_SITE_SLOTS / 2);
    assert_true(n_found < AG_SITE_SLOTS); // buckets fill unevenly: a full bucket answers 0
}

static void frames_read_back_innermost_first(void **state) {
    (void)state;
    uint32_t node = AG_ROOT_CUT;
    for (uint64_t pc = 0x1000; pc < 0x1005; pc++) {
        node = ag_node_intern(&tree, node, ag_site_intern(&tree, pc, 0));
    }
    uint64_t pcs[3];
    enum ag_root root;
    assert_int_equal(ag_stack_tree_frames(memory, node, 3, pcs, &root), 5);
    assert_int_equal(root, AG_ROOT_CUT);
    assert_int_equal(pcs[0], 0x1004);
    assert_int_equal(pcs[2], 0x1002);
}

static void damaged_tree_is_refused(void **state) {
    (void)state;
    uint64_t pc;
    uint32_t parent, site, image;
    assert_false(ag_stack_tree_node(memory, AG_NODE_FIRST - 1, &parent, &site));
    assert_false(ag_stack_tree_node(memory, AG_NODE_FIRST + AG_NODE_SLOTS, &parent, &site));
    assert_false(ag_stack_tree_node(memory, UINT32_MAX, &parent, &site));
    assert_false(ag_stack_tree_site(memory, 0, &pc, &image));
    assert_false(ag_stack_tree_site(memory, AG_SITE_SLOTS + 1, &pc, &image));
    const uint32_t good_site = ag_site_intern(&tree, 0x1000, 0),
                   node = ag_node_intern(&tree, 0, good_site);
    enum ag_root root;
    atomic_store(&tree.nodes[node].word, (uint64_t)node << 32 | good_site); // its own parent
    assert_true(ag_stack_tree_frames(memory, node, 0, NULL, &root) < 0);
    atomic_store(&tree.nodes[node].word, UINT64_C(5) << 32 | good_site); // no such root
    assert_true(ag_stack_tree_frames(memory, node, 0, NULL, &root) < 0);
}

static int populate_calls_left;
static bool populate_some(void *address, size_t bytes) {
    return populate_calls_left-- > 0 && ag_populate(address, bytes);
}

static void no_memory_gives_no_id_and_no_touch(void **state) {
    (void)state;
    struct ag_stack_tree poor = {0};
    populate_calls_left = 0;
    assert_true(ag_stack_tree_init(&poor, memory, populate_some) < 0);
    populate_calls_left = 1000;
    assert_int_equal(ag_stack_tree_init(&poor, memory, populate_some), 0);
    populate_calls_left = 0;
    assert_int_equal(ag_site_intern(&poor, 0x1000, 0), 0);
    uint32_t n_lost = 0;
    for (uint32_t site = 1; site < 40000; site++) {
        n_lost += ag_node_intern(&poor, 0, site) == 0;
    }
    assert_true(n_lost > 20000 && n_lost < 40000); // the first level holds some, none goes further
}

/* ---- several at once ----------------------------------------------------- */
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
        pages, 8193)); // the third page lies behind the end of the file: SIGBUS when touched
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
    check_populate(ag_populate_slow);
}

int main(void) {
#define IN_A_TREE(test) cmocka_unit_test_setup_teardown(test, open_tree, close_tree)
    const struct CMUnitTest tests[] = {
        IN_A_TREE(same_key_has_one_id),
        IN_A_TREE(same_pc_in_another_image_is_another_site),
        IN_A_TREE(site_left_unsettled_is_settled_by_the_finder),
        IN_A_TREE(dead_site_is_not_found_again),
        IN_A_TREE(plugin_loaded_a_thousand_times_keeps_getting_sites),
        IN_A_TREE(full_levels_overflow_and_ids_stay),
        IN_A_TREE(sites_overflow_and_end_at_the_last_level),
        IN_A_TREE(frames_read_back_innermost_first),
        IN_A_TREE(damaged_tree_is_refused),
        IN_A_TREE(no_memory_gives_no_id_and_no_touch),
        IN_A_TREE(threads_agree_on_ids),
        IN_A_TREE(forked_relatives_agree_on_ids),
        cmocka_unit_test(populate_refuses_what_would_raise_sigbus),
        cmocka_unit_test(populate_on_an_old_kernel_does_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
