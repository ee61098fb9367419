/* fresh_none.c: the act "fresh" of torture programs without generated code; it does nothing.
 * (fresh_source.py generates the act for the others.) */
#include "nodes.h"

uint64_t act_fresh(const struct node *node, uint64_t seed) {
    (void)node;
    return seed;
}
