/* fresh_none.c: the act `fresh` of torture programs that contain no generated code. It does
 * nothing. (For other programs, fresh_source.py generates this act.) */
#include "nodes.h"

uint64_t act_fresh(const struct node *node, uint64_t seed) {
    (void)node;
    return seed;
}
