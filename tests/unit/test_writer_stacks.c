/* test_writer_stacks.c: the writer (the process that writes traces) takes nodes out of a shared
 * stack tree: each node once, and after its parent. A damaged tree must not cause a crash. A leaf
 * is a node that has the type or the label of a block instead of a frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "writer/stack_harvest.h"

static uint8_t *tree;
static struct ag_stack_harvest harvest;

static int make_tree(void **state) {
    (void)state;
    tree = mmap(NULL, AG_TREE_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return tree == MAP_FAILED ? -1 : ag_stack_harvest_start(&harvest, tree, AG_TREE_SIZES - 1);
}

static int drop_tree(void **state) {
    (void)state;
    ag_stack_harvest_done(&harvest);
    return munmap(tree, AG_TREE_BYTES);
}

static uint32_t put_node(uint32_t slot, uint32_t parent, uint32_t site) {
    struct ag_linked_node *nodes = (struct ag_linked_node *)(void *)(tree + AG_NODES_OFFSET);
    struct ag_site *sites = (struct ag_site *)(void *)tree;
    atomic_store(&nodes[AG_NODE_FIRST + slot].word, (uint64_t)parent << 32 | site);
    if (site >= 1 && site <= AG_SITE_SLOTS) {
        atomic_store(&sites[site - 1].pc, 0x1000u + site);
        atomic_store(&sites[site - 1].image, 5);
    }
    return AG_NODE_FIRST + slot;
}

static void parents_come_first_and_only_once(void **state) {
    (void)state;
    const uint32_t outer = put_node(900, AG_ROOT_COMPLETE, 1), middle = put_node(3, outer, 2),
                   inner = put_node(500, middle, 3), other = put_node(1, middle, 4);
    ag_stack_harvest_name(&harvest, inner);
    assert_int_equal(harvest.n_nodes, 3);
    assert_int_equal(harvest.nodes[0].id, outer);
    assert_int_equal(harvest.nodes[0].parent, AG_ROOT_COMPLETE);
    assert_int_equal(harvest.nodes[1].id, middle);
    assert_int_equal(harvest.nodes[2].id, inner);
    assert_int_equal(harvest.nodes[2].pc, 0x1003);
    assert_int_equal(harvest.nodes[2].image, 5);
    ag_stack_harvest_written(&harvest);
    ag_stack_harvest_name(&harvest, inner);
    assert_int_equal(harvest.n_nodes, 0);
    ag_stack_harvest_name(&harvest, other);
    assert_int_equal(harvest.n_nodes, 1);
    assert_int_equal(harvest.nodes[0].parent, middle);
    assert_int_equal(harvest.n_stacks, 2);
    assert_int_equal(harvest.n_cut + harvest.n_incomplete, 0);
}

static void ends_are_counted_by_kind(void **state) {
    (void)state;
    ag_stack_harvest_name(&harvest, put_node(1, AG_ROOT_CUT, 1));
    ag_stack_harvest_name(&harvest, put_node(2, AG_ROOT_INCOMPLETE, 1));
    ag_stack_harvest_name(&harvest, AG_ROOT_INCOMPLETE);
    ag_stack_harvest_name(&harvest, AG_ROOT_COMPLETE);
    assert_int_equal(harvest.n_stacks, 4);
    assert_int_equal(harvest.n_cut, 1);
    assert_int_equal(harvest.n_incomplete, 2);
}

static void a_mapping_is_no_stack_of_an_allocation(void **state) {
    (void)state;
    const uint32_t node = put_node(1, AG_ROOT_COMPLETE, 1);
    ag_stack_harvest_learn(&harvest, node);
    assert_int_equal(harvest.n_nodes, 1);
    assert_int_equal(harvest.n_stacks, 0);
    ag_stack_harvest_name(&harvest, node);
    assert_int_equal(harvest.n_nodes, 1);
    assert_int_equal(harvest.n_stacks, 1);
}

static void a_circle_ends_as_incomplete(void **state) {
    (void)state;
    put_node(1, AG_NODE_FIRST + 2, 1);
    put_node(2, AG_NODE_FIRST + 3, 1);
    put_node(3, AG_NODE_FIRST + 1, 1);
    ag_stack_harvest_name(&harvest, AG_NODE_FIRST + 1);
    assert_int_equal(harvest.n_nodes, 3);
    assert_int_equal(harvest.nodes[0].parent, AG_ROOT_INCOMPLETE);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(harvest.nodes[i].parent, harvest.nodes[i - 1].id);
    }
    assert_int_equal(harvest.n_incomplete, 1);
}

static void impossible_ids_are_not_followed(void **state) {
    (void)state;
    ag_stack_harvest_name(&harvest, put_node(1, UINT32_MAX, UINT32_MAX));
    ag_stack_harvest_name(&harvest, put_node(2, 9, AG_SITE_SLOTS + 1));
    ag_stack_harvest_name(&harvest, AG_NODE_FIRST + 77); /* a node that was never written */
    assert_int_equal(harvest.n_nodes, 2);
    assert_int_equal(harvest.nodes[0].parent, AG_ROOT_INCOMPLETE);
    assert_int_equal(harvest.nodes[0].pc, 0);
    assert_int_equal(harvest.nodes[1].parent, AG_ROOT_INCOMPLETE);
    assert_int_equal(harvest.n_incomplete, 3);
}

static void the_deepest_chain_is_walked_without_recursion(void **state) {
    (void)state;
    enum { DEPTH = 200000 };
    uint32_t parent = AG_ROOT_COMPLETE;
    for (uint32_t i = 0; i < DEPTH; i++) {
        parent = put_node(i, parent, 1);
    }
    ag_stack_harvest_name(&harvest, parent);
    assert_int_equal(harvest.n_nodes, DEPTH);
    assert_int_equal(harvest.nodes[0].parent, AG_ROOT_COMPLETE);
    assert_int_equal(harvest.error, 0);
}

static void nodes_read_back_have_the_same_ends(void **state) {
    (void)state;
    struct ag_stack_harvest back;
    assert_int_equal(ag_stack_harvest_start(&back, /* tree= */ NULL, AG_TREE_SIZES - 1), 0);
    ag_stack_harvest_add_node(&back, &(struct ag_node){.id = 16, .parent = AG_ROOT_CUT});
    ag_stack_harvest_add_node(&back, &(struct ag_node){.id = 17, .parent = 16});
    ag_stack_harvest_add_node(&back, &(struct ag_node){.id = UINT32_MAX, .parent = 16});
    ag_stack_harvest_add_node(&back, &(struct ag_node){.id = 20, .parent = UINT32_MAX});
    ag_stack_harvest_name(&back, 17);
    ag_stack_harvest_name(&back, 19); /* a node that is in no record */
    assert_int_equal(back.n_stacks, 2);
    assert_int_equal(back.n_cut, 1);
    assert_int_equal(back.n_incomplete, 1);
    ag_stack_harvest_done(&back);
}

static void mark_leaf(uint32_t site, uint32_t image) {
    atomic_store(&((struct ag_site *)(void *)tree)[site - 1].image, image);
}

static void leaves_are_written_and_count_as_the_stack_under_them(void **state) {
    (void)state;
    const uint32_t outer = put_node(10, AG_ROOT_COMPLETE, 1), inner = put_node(11, outer, 2),
                   label = put_node(12, inner, 3), type = put_node(13, label, 4),
                   other = put_node(14, inner, 5);
    mark_leaf(3, AG_IMAGE_LABEL);
    mark_leaf(4, AG_IMAGE_TYPE);
    mark_leaf(5, AG_IMAGE_TYPE);
    ag_stack_harvest_name(&harvest, type);
    assert_int_equal(harvest.n_nodes, 4);
    assert_int_equal(harvest.nodes[3].id, type);
    assert_int_equal(harvest.nodes[3].image, AG_IMAGE_TYPE);
    assert_int_equal(harvest.n_stacks, 1);
    ag_stack_harvest_name(&harvest, other);
    ag_stack_harvest_name(&harvest, type);
    ag_stack_harvest_name(&harvest, inner);
    assert_int_equal(harvest.n_stacks, 1);
    ag_stack_harvest_name(&harvest, outer);
    assert_int_equal(harvest.n_stacks, 2);
}

static void leaves_of_a_hostile_trace_end(void **state) {
    (void)state;
    static const struct ag_node nodes[] = {
        {.id = 20, .parent = 20, .image = AG_IMAGE_TYPE}, /* its own parent */
        {.id = 21, .parent = 22, .image = AG_IMAGE_TYPE}, /* its parent comes later ... */
        {.id = 22, .parent = 21, .image = AG_IMAGE_TYPE}, /* ... and has this parent */
        {.id = 23, .parent = 0, .pc = 1},
        {.id = 24, .parent = 23, .image = AG_IMAGE_LABEL},
        {.id = 23, .parent = 24, .image = AG_IMAGE_TYPE}, /* a second node 23, which is ignored */
    };
    struct ag_stack_harvest back;
    assert_int_equal(ag_stack_harvest_start(&back, /* tree= */ NULL, AG_TREE_SIZES - 1), 0);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        ag_stack_harvest_add_node(&back, &nodes[i]);
    }
    for (uint32_t stack = 20; stack < 25; stack++) {
        ag_stack_harvest_name(&back, stack);
    }
    assert_in_range(back.n_stacks, 1, 5);
    assert_int_equal(back.error, 0);
    ag_stack_harvest_done(&back);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parents_come_first_and_only_once, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(ends_are_counted_by_kind, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(a_mapping_is_no_stack_of_an_allocation, make_tree,
                                        drop_tree),
        cmocka_unit_test_setup_teardown(a_circle_ends_as_incomplete, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(impossible_ids_are_not_followed, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(the_deepest_chain_is_walked_without_recursion, make_tree,
                                        drop_tree),
        cmocka_unit_test(nodes_read_back_have_the_same_ends),
        cmocka_unit_test_setup_teardown(leaves_are_written_and_count_as_the_stack_under_them,
                                        make_tree, drop_tree),
        cmocka_unit_test(leaves_of_a_hostile_trace_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
