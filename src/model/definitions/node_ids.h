/* node_ids.h: maps a trace's numbers of nodes to dense ones. Like index_map.h, but for keys of 32
 * bits: 8 bytes per slot and a load of up to 3/4, since a trace may have millions of nodes. */
#ifndef AG_NODE_IDS_H
#define AG_NODE_IDS_H

#include <stddef.h>
#include <stdint.h>

#define AG_NODE_NONE UINT32_MAX

struct ag_node_ids { /* zero-initialise */
    uint64_t *slots; /* id << 32 | node + 1; 0: empty */
    uint32_t bits;   /* log2 of the number of slots */
    size_t count;
};

void ag_node_ids_done(struct ag_node_ids *ids);
/* NODE < AG_NODE_NONE. 1, or 0 when ID is there already (it stays what it was), or -ENOMEM. */
int ag_node_ids_insert(struct ag_node_ids *ids, uint32_t id, uint32_t node);
/* ID will be looked up or inserted soon: prefetches its slot. */
void ag_node_ids_expect(const struct ag_node_ids *ids, uint32_t id);
/* AG_NODE_NONE: not there. */
uint32_t ag_node_ids_find(const struct ag_node_ids *ids, uint32_t id);

#endif
