/* fresh_none.c: a program without generated text has nothing to run there. */
#include "nodes.h"

uint64_t act_fresh(const struct node *node, uint64_t seed) {
    (void)node;
    return seed;
}
