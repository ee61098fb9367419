/* node_capture.c: keeps captures until the observer looks them up. A capture is the state of a
 * process, copied at a sample by the kernel half (the code that runs in the kernel).
 *
 * One interrupt writes a sample to the observer's ring buffer and a capture to the ring buffer of
 * the kernel half (node.bpf.c), at nearly the same time. So a sample and a capture are matched by
 * their thread and the nearest time. The newest few thousand captures are kept. The observer drops
 * samples that are older than these. */
#include "node_capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node_kernel.h"

enum {
    KEPT = 4096,
    APART_NS = 300 * 1000, /* maximum time between the sample and the capture of one interrupt:
                            * usually some us, more when the hypervisor takes the CPU away between
                            * them */
    DISORDER_NS = 20 * 1000 * 1000, /* for the same reason, a later record in the ring may have an
                                     * earlier time, by at most this difference */
};
struct node_capture {
    uint64_t n; /* number of captures so far: the next goes to n % KEPT */
    struct node_captured kept[KEPT];
};

void node_capture_note(struct node *node, const struct node_event *event, size_t n_words) {
    if (node->capture == NULL) {
        return;
    }
    struct node_captured *to = &node->capture->kept[node->capture->n++ % KEPT];
    to->time_ns = event->start_ns;
    to->thread = event->thread;
    to->process = event->process;
    to->heap = event->before.heap;
    to->heap_top = event->before.heap_top;
    to->heap_end = event->before.heap_end;
    to->stack_top = event->before.stack_top;
    to->instruction = event->instruction;
    to->state = (uint32_t)event->state;
    to->top = event->top;
    to->n_words = 0;
    if (n_words > to->room) {
        free(to->words);
        to->words = malloc(n_words * sizeof *to->words);
        to->room = to->words != NULL ? n_words : 0;
    }
    if (to->words != NULL) {
        memcpy(to->words, event->words, n_words * sizeof *to->words);
        to->n_words = n_words;
    }
}

/* Captures are in the order of their times, except those of two CPUs at nearly the same time. So
 * the search goes from the newest backward, as long as a capture can match. */
static const struct node_captured *nearest(const struct node_capture *capture, uint32_t thread,
                                           uint64_t time_ns) {
    const struct node_captured *found = NULL;
    uint64_t apart = APART_NS;
    const uint64_t n = capture->n < KEPT ? capture->n : KEPT;
    for (uint64_t i = 1; i <= n; i++) {
        const struct node_captured *at = &capture->kept[(capture->n - i) % KEPT];
        if (at->time_ns + DISORDER_NS < time_ns) {
            break;
        }
        const uint64_t distance =
            at->time_ns > time_ns ? at->time_ns - time_ns : time_ns - at->time_ns;
        if (at->thread == thread && distance < apart) {
            apart = distance;
            found = at;
        }
    }
    return found;
}

const struct node_captured *node_capture_find(struct node *node,
                                              const struct allogram_sample *sample) {
    if (node->capture == NULL) {
        return NULL;
    }
    const struct node_captured *found = nearest(node->capture, sample->thread, sample->time_ns);
    if (found == NULL) {
        node_kernel_drain(node);
        found = nearest(node->capture, sample->thread, sample->time_ns);
    }
    return found;
}

int node_capture_program(void *state, char *ret_problem, size_t problem_bytes) {
    struct node *node = state;
    const int r = node_kernel_start(node, ret_problem, problem_bytes);
    if (r < 0) {
        return r; /* the observer then reads states itself, after the samples, and reports this */
    }
    if (node->capture == NULL) {
        node->capture = calloc(1, sizeof *node->capture);
        if (node->capture == NULL) {
            return -ENOMEM;
        }
    }
    return node_kernel_sample_program(node);
}

void node_capture_close(struct node *node) {
    for (size_t i = 0; node->capture != NULL && i < KEPT; i++) {
        free(node->capture->kept[i].words);
    }
    free(node->capture);
    node->capture = NULL;
}
