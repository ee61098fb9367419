/* nodes.h: the text of a torture program (a random program with unusual behavior, see
 * run_torture.py) and its tree of acts. An act is a function that the program executes as a step; a
 * node is one act with its arguments in the text:
 *
 *     act(number, number, ... act(...), act(...))
 *
 * The first number is the seed of the act's random numbers. The comment before each act (acts_*.c)
 * describes the other numbers and the inner acts. The result of an act depends on its numbers and
 * on the seed with which it is called, never on time, addresses or the order of threads. So every
 * run of a program gives the same results, with allogram and without. */
#ifndef TORTURE_NODES_H
#define TORTURE_NODES_H

#include <stdint.h>

enum { NODE_NUMBERS = 8, NODE_CHILDREN = 16, NODES = 2048 };

struct node;
typedef uint64_t act_function(const struct node *node, uint64_t seed);

struct node {
    const char *text, *end; /* start and end of the act in the text of the program */
    act_function *act;
    int64_t numbers[NODE_NUMBERS];
    int n_children;
    const struct node *children[NODE_CHILDREN];
};

/* A row of the table of acts. */
struct act {
    const char *name;
    act_function *function;
};

/* Parses a text; ends the process if the text is invalid. */
const struct node *nodes_parse(const char *text);

uint64_t node_run(const struct node *node, uint64_t seed);
/* Runs all inner acts of a node, one after the other. */
uint64_t node_run_children(const struct node *node, uint64_t seed);

/* The state of a generator of random numbers. Each run of an act has its own. */
struct dice {
    uint64_t state;
};
static inline uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t x = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) + UINT64_C(0x632be59bd9b4e019);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}
static inline struct dice dice_of(const struct node *node, uint64_t seed) {
    return (struct dice){mix((uint64_t)node->numbers[0], seed)};
}
static inline uint64_t dice_roll(struct dice *dice) {
    return mix(dice->state += UINT64_C(0x9e3779b97f4a7c15), 1);
}
static inline uint64_t dice_below(struct dice *dice, uint64_t n) {
    return dice_roll(dice) % n;
}

/* The path of this program, for acts that execute the program again. */
extern const char *program_path;
/* The folder with the plugins. */
extern const char *plugin_folder;

#define ACT(name) uint64_t act_##name(const struct node *node, uint64_t seed);
#include "acts.def"
#undef ACT

#endif
