/* labels.c: see labels.h. A label is a leaf of the stack tree, as a type is: so one stack with two
 * labels is two rows, and every sum over rows is right whatever they are grouped by. */
#include "model/answers/labels.h"

#include "model/profile_state.h"

const char *ag_profile_stack_label(const struct ag_profile *profile, uint32_t stack) {
    const struct ag_definitions *definitions = &profile->definitions;
    const uint32_t label = ag_stack_nodes_leaf(&definitions->nodes, stack).label;
    return label != 0 ? ag_definitions_label(definitions, label) : NULL;
}
