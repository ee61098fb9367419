/* nodes.c: parses the text of a torture program (nodes.h) to a tree of acts, and runs acts. The
 * tree is in static memory, so parsing allocates nothing. */
#include "nodes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "truth.h"

static const struct act acts[] = {
#define ACT(name) {#name, act_##name},
#include "acts.def"
#undef ACT
};

static struct node nodes[NODES];
static int n_nodes;

static void refuse(void) {
    complain("the text of the program is invalid");
    _Exit(96);
}

static act_function *act_named(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        if (strlen(acts[i].name) == len && memcmp(acts[i].name, name, len) == 0) {
            return acts[i].function;
        }
    }
    refuse();
    return NULL;
}

static const struct node *parse(const char **text) {
    const char *at = *text;
    if (n_nodes == NODES) {
        refuse();
    }
    struct node *node = &nodes[n_nodes++];
    node->text = at;
    while (isalnum((unsigned char)*at) || *at == '_') {
        at++;
    }
    node->act = act_named(node->text, (size_t)(at - node->text));
    if (*at++ != '(') {
        refuse();
    }
    for (int n_numbers = 0; *at != ')'; at += *at == ',') {
        if (isalpha((unsigned char)*at)) {
            if (node->n_children == NODE_CHILDREN) {
                refuse();
            }
            node->children[node->n_children++] = parse(&at);
        } else {
            char *end;
            const long long number = strtoll(at, &end, 10);
            if (end == at || n_numbers == NODE_NUMBERS) {
                refuse();
            }
            node->numbers[n_numbers++] = number;
            at = end;
        }
    }
    node->end = ++at;
    *text = at;
    return node;
}

const struct node *nodes_parse(const char *text) {
    return parse(&text);
}

uint64_t node_run(const struct node *node, uint64_t seed) {
    return node->act(node, seed);
}

uint64_t node_run_children(const struct node *node, uint64_t seed) {
    uint64_t result = seed;
    for (int i = 0; i < node->n_children; i++) {
        result = mix(result, node_run(node->children[i], seed));
    }
    return result;
}
