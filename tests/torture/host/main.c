/* main.c: the main function of torture programs: runs the acts (steps) of a program text (nodes.h)
 * and prints their results. The driver is run_torture.py.
 *
 *     usage: PROGRAM TEXT [RESULT]
 *
 * An act that executes this program again passes RESULT, the number of a slot in the file of counts
 * (truth.h); then the result of TEXT is stored in this slot. Without RESULT the results are
 * printed, one line for each inner act of the outermost act `program(seed, ending, ...)`.
 *
 * Environment variables:
 *
 *     TORTURE_TRUTH         the file of counts
 *     TORTURE_PLUGINS       the folder of the plugins
 *     TORTURE_GATE          a file; the program waits until the driver removes it, so that the
 *                           driver can attach allogram before the first act
 *     TORTURE_MILLISECONDS  the time for which the acts are repeated, as long as the file of counts
 *                           has room for more processes; every round must give the same results
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nodes.h"
#include "processes.h"
#include "truth.h"

const char *program_path, *plugin_folder;

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void wait_at_gate(const char *gate) {
    for (int i = 0; gate != NULL && i < 20000 && access(gate, F_OK) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    }
}

static void print_result(int number, uint64_t result) {
    char line[64];
    const int len = snprintf(line, sizeof line, "%d %016llx\n", number, (unsigned long long)result);
    if (write(1, line, (size_t)len) != len) {
        complain("a line could not be written");
    }
}

int main(int argc, char **argv) {
    if (argc < 2) {
        return 95;
    }
    truth_open();
    program_path = argv[0];
    plugin_folder = getenv("TORTURE_PLUGINS");
    const struct node *root = nodes_parse(argv[1]);
    if (argc > 2) {
        truth_is_executed = 1;
        /* so that the file of counts has this process, also if no act has a counted block */
        (void)truth_self();
        atomic_store(truth_result((unsigned)atoi(argv[2])), node_run(root, 0));
        return 0;
    }
    const char *period = getenv("TORTURE_MILLISECONDS");
    wait_at_gate(getenv("TORTURE_GATE"));
    const uint64_t until = now_ms() + (period != NULL ? strtoull(period, NULL, 10) : 0);
    uint64_t results[NODE_CHILDREN];
    atomic_store(&truth_file->is_running, 1);
    for (int round = 0; round == 0 || (now_ms() < until && truth_has_room()); round++) {
        for (int i = 0; i < root->n_children; i++) {
            const uint64_t result = node_run(root->children[i], 0);
            if (round == 0) {
                results[i] = result;
            } else if (result != results[i]) {
                char line[100];
                snprintf(line, sizeof line, "round %d: act %d gave %llx, at first %llx", round, i,
                         (unsigned long long)result, (unsigned long long)results[i]);
                complain(line);
            }
        }
    }
    for (int i = 0; i < root->n_children; i++) {
        print_result(i, results[i]);
    }
    process_end((int)root->numbers[1]);
    return 0;
}

/* program(seed, ending, ...): runs its inner acts one after the other. It is the outermost act of a
 * text, or a sequence inside of another act. */
uint64_t act_program(const struct node *node, uint64_t seed) {
    return node_run_children(node, seed);
}
