/* node_probes.h: attaches breakpoints (uprobes) to the emulator's functions that collect
 * garbage. */
#ifndef AG_NODE_PROBES_H
#define AG_NODE_PROBES_H

#include "node.h"

struct bpf_link;
struct bpf_object;

enum {
    NODE_PROBES_SESSION = 57, /* BPF_TRACE_UPROBE_SESSION (Linux 6.13); headers may lack it */
    NODE_PROBES_MOST = 8,
};
struct node_probes {
    struct bpf_link *links[NODE_PROBES_MOST];
    size_t n;    /* number of attached probes; if session is 0, also of links */
    int session; /* descriptor of a uprobe session + 1; 0: none */
};
/* HAS_SESSIONS: the program node_collection of OBJECT is loaded and is tried first. Otherwise, or
 * if it cannot be attached, node_collection_begins and node_collection_ends are attached. Returns
 * 0; or a negative errno with the reason in RET_PROBLEM, and nothing is attached. */
int node_probes_attach(struct node *node, struct bpf_object *object, bool has_sessions,
                       struct node_probes *probes, char *ret_problem, size_t problem_bytes);
void node_probes_detach(struct node_probes *probes);

#endif
