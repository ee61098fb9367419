/* order_repair.c: corrects the order of events of different threads at one address, for apply.c.
 *
 * 1. What can be wrong
 *
 * A window is the events of a stream (a thread) between two stamps, which are clock values. Windows
 * are applied as a whole, by their starts, although their events interleave in reality. At one
 * address events must alternate: alloc, free, alloc, free. An event that breaks this rule is out of
 * order, or has no partner:
 *
 *     true order                      applied as                     repair
 *     A: alloc x      B: free x       B: free x, A: alloc x          the free waits for the alloc
 *     A: free x       B: alloc x      B: alloc x, A: free x          the alloc waits for the free
 *
 * An event waits until its partner comes. A stream's window ends at time e, the time of the stamp
 * after it. Once the ledger's clock is beyond e, the windows of all events that can have happened
 * before e are applied. Then the partner cannot come any more, and events of the window that ended
 * at e and still wait are forced (section 4).
 *
 * 2. Which waiting event comes first
 *
 * The order inside a stream is exact, so an event never passes a waiting event of its own stream at
 * the same address. Of the waiting events that fit the state of the address, the next one is
 *
 *     1. one that is followed in its stream by a waiting event that fits after it: the two together
 *        leave the state of the address unchanged, so they displace no other event (if there are
 *        several such events, rule 3 decides);
 *     2. one whose window has ended, the earliest end first;
 *     3. the one that came first.
 *
 * 3. Pairs that come too late
 *
 * Two threads that pass one block back and forth can do this in one window each:
 *
 *     true order    A: alloc x | B: free x, alloc x | A: free x
 *     applied as    A: alloc x, free x;  then B: free x, alloc x
 *
 * and no later event frees the block of B's alloc. B's two events fit between A's. So when a free
 * and an alloc of one stream wait at a dead address whose block died in another stream's open
 * window, that death is undone. Then the waiting free and alloc are applied, and the death is
 * applied again, to the new block. For this, the deaths of open windows are kept when there are
 * several streams (ledger.deaths_are_kept). The mirror image is
 *
 *     true order    A: free x | B: alloc x, free x | A: alloc x
 *     applied as    A: free x, alloc x;  then B: alloc x, free x
 *
 * B's two events are the birth and the death of one block. The two events fit before the birth of
 * the block that lives at x now, if that birth is in an open window: then the living block is set
 * aside while B's two events are applied.
 *
 * 4. Expiry
 *
 * An event that still waits when its window has ended (section 1) is forced: it is applied now,
 * whether it fits or not.
 *
 *     a free, and the address is dead    If its block died in another stream's open window, that
 *                                        death is undone: the forced free frees the block, and the
 *                                        free that had freed it waits again.
 *     an alloc, and the address is live  If the block there was born in another stream's open
 *                                        window, its birth is undone: the forced alloc is applied,
 *                                        and the alloc that had been applied waits again.
 *
 * So of two events, the event whose window has ended goes first; the event whose window is open can
 * still be applied later. If any valid order exists, there is one with this property.
 *
 * If there is nothing to undo, the partner is lost: the free is counted as a ghost (a free of an
 * unknown block), and the alloc buries the block that lives there, whose free was not recorded. If
 * a ghost free and a burial happen at one address, in either order, they were partners: the free
 * was that of the buried block. Then the ghost and the burial are not counted, and the block counts
 * as freed by the thread of that free (credit_free).
 *
 * 5. What cannot be known
 *
 * Where an address is reused twice inside overlapping windows, allocs and frees can alternate in
 * more than one order. Allocation counts are right in any case. The ledger may be wrong about which
 * of two blocks died first, and so about the stack and size of the block that lives on. It may also
 * be wrong about which thread freed a block, and so about whether the block was temporary (freed by
 * its own thread soon after the allocation).
 *
 * Measured with simulated allocators (4 threads, each with a cache of freed addresses; windows of
 * 64 events; blocks of 1 to 200 bytes; the recording ends while all threads run): with 100 blocks
 * per thread and a fifth of the frees by another thread, there was no ghost and no wrong count of
 * blocks in 1.8 million events, and an error of 0.2 % in the bytes in use. With 3 blocks per thread
 * and 95 % of the frees by other threads, there was one ghost in 11,000 events. With two threads
 * that pass single blocks back and forth, there was no ghost, but temporary blocks were counted up
 * to twice too often. Shorter windows make all of these errors rarer.
 *
 * 6. Cost
 *
 * Waiting events are kept in lines (queues): each stream has one line at each address where it
 * waits, in the order of the stream. Addresses and lines are found by a hash, so an event joins or
 * leaves at constant cost, and only the first event of each line can be the next that is applied.
 * Three limits, which no allocator comes near, keep the cost of any input near-linear. If there are
 * more than LINES_LOOKED_AT lines at one address, the events in the lines beyond this limit wait
 * until they expire. At most PASSED_ON_MOST events displace each other in sequence. When TAKEN_MOST
 * events are kept, all waiting events are forced, as if their windows had ended. open_deaths.c
 * finds the deaths that can be undone.
 *
 * A thread's allocations are counted when they arrive, in the order of its stream; everything else
 * is counted when an event is applied. At that time order_bounds.c gets the waiting event, as a
 * late event. */
#include "ledger/ledger_state.h"

#include <errno.h>
#include <stdlib.h>

#include "base/keyed_hash.h"

enum {
    /* When so many events are kept (100 MiB), all waiting events are forced at once. Otherwise a
     * trace without stamps would make all of its events wait. */
    TAKEN_MOST = 1 << 19,
    /* most lines that are examined at one address; no allocator makes so many streams wait there */
    LINES_LOOKED_AT = 64,
    /* most events that displace each other in sequence; without this limit two streams could
     * displace each other's events in all their windows */
    PASSED_ON_MOST = 16,
};

void ag_repair_done(struct ag_repair *repair) {
    free(repair->pool);
    free(repair->lines);
    ag_address_lists_done(&repair->line_lists);
    ag_index_map_done(&repair->line_index);
    free(repair->odd_newest);
    free(repair->odd);
    ag_index_map_done(&repair->odd_index);
    *repair = (struct ag_repair){0};
}

/* ---- waiting events, by address and then by stream ---- */
static uint32_t find_line(const struct ag_repair *repair, uint64_t address, uint32_t stream) {
    const uint64_t hash = ag_keyed_hash_pair(address, stream);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&repair->line_index, hash, &cursor)) != AG_INDEX_NONE &&
           (repair->lines[at].address != address || repair->lines[at].stream != stream)) {
    }
    return at != AG_INDEX_NONE ? at : 0;
}

static int take_from_pool(struct ag_repair *repair, uint32_t *ret_at) {
    if (repair->first_free) {
        *ret_at = repair->first_free;
        repair->first_free = repair->pool[*ret_at].next_of_expiry;
    } else if (AG_ARRAY_EXTEND(repair->pool, repair->pool_capacity, repair->n_pool + (size_t)2) ==
               0) {
        *ret_at = ++repair->n_pool;
    } else {
        return -ENOMEM;
    }
    repair->n_taken++;
    return 0;
}

/* Adds a line. Returns its number; 0: no memory. */
static uint32_t add_line(struct ag_repair *repair, uint64_t address, uint32_t stream) {
    const uint32_t at = ag_address_lists_add(&repair->line_lists, address);
    if (!at || AG_ARRAY_EXTEND(repair->lines, repair->line_capacity, at + (size_t)1) < 0 ||
        ag_index_map_insert(&repair->line_index, ag_keyed_hash_pair(address, stream), at) < 0) {
        return 0;
    }
    repair->lines[at] = (struct ag_waiting_line){.address = address, .stream = stream};
    return at;
}

static void remove_line(struct ag_repair *repair, uint32_t at) {
    const struct ag_waiting_line *line = &repair->lines[at];
    ag_index_map_remove(&repair->line_index, ag_keyed_hash_pair(line->address, line->stream), at);
    ag_address_lists_remove(&repair->line_lists, at);
}

/* Puts the event AT of the pool into the line of its stream, at the front or the back. 0 or
 * -ENOMEM. */
static int link_by_address(struct ag_repair *repair, uint32_t at, bool in_front) {
    struct ag_waiting *event = &repair->pool[at];
    uint32_t index = find_line(repair, event->address, event->stream);
    index = index ? index : add_line(repair, event->address, event->stream);
    if (!index) {
        return -ENOMEM;
    }
    struct ag_waiting_line *line = &repair->lines[index];
    event->line = index;
    event->order = in_front ? --repair->first_order : ++repair->last_order;
    event->before = in_front ? 0 : line->last;
    event->behind = in_front ? line->first : 0;
    *(event->before ? &repair->pool[event->before].behind : &line->first) = at;
    *(event->behind ? &repair->pool[event->behind].before : &line->last) = at;
    line->count++;
    return 0;
}

/* Removes an event from its line. The event stays in the list of its stream, or in the list of
 * ended windows, until ag_ledger_expire recycles it. */
static void waiting_settle(struct ag_repair *repair, uint32_t at) {
    struct ag_waiting *event = &repair->pool[at];
    struct ag_waiting_line *line = &repair->lines[event->line];
    *(event->before ? &repair->pool[event->before].behind : &line->first) = event->behind;
    *(event->behind ? &repair->pool[event->behind].before : &line->last) = event->before;
    if (--line->count == 0) {
        remove_line(repair, event->line);
    }
    event->kind = 0;
    repair->n_waiting--;
}

bool ag_ledger_is_waiting(const struct ag_ledger *ledger, uint64_t address) {
    return ag_address_lists_first(&ledger->repair.line_lists, address) != 0;
}

/* ---- applying ---- */
static uint64_t live_slot(const struct ag_ledger *ledger, uint64_t address, bool *ret_is_live) {
    const uint64_t at = ag_live_table_seek(&ledger->live, address);
    *ret_is_live = ledger->live.blocks[at].address != 0;
    return at;
}

static void notify_bounds(struct ag_ledger *ledger, uint32_t stream, uint64_t bytes,
                          bool is_alloc) {
    const int64_t change = (int64_t)(is_alloc ? bytes : -bytes);
    if (stream != ledger->applying) {
        ag_order_bounds_late(&ledger->bounds, stream, change);
    } else if (is_alloc) {
        ledger->late_plus += change;
    } else {
        ledger->late_minus += change;
    }
}

/* Applies a waiting event that fits the state of its address, and removes it from its line. */
static int apply_waiting(struct ag_ledger *ledger, uint32_t at) {
    const struct ag_waiting event = ledger->repair.pool[at];
    waiting_settle(&ledger->repair, at);
    bool is_live;
    const uint64_t slot = live_slot(ledger, event.address, &is_live);
    if (event.kind == AG_RECORD_ALLOC) {
        notify_bounds(ledger, event.stream, event.size, /* is_alloc= */ true);
        const struct ag_live_block block = {.address = event.address,
                                            .size = event.size,
                                            .serial = event.serial,
                                            .sum = event.sum,
                                            .stream = event.stream};
        return ag_ledger_birth(ledger, &block, event.time_ns);
    }
    notify_bounds(ledger, event.stream, ledger->live.blocks[slot].size, /* is_alloc= */ false);
    ag_ledger_count_collected(ledger, event.kind, event.address);
    struct ag_death death;
    const struct ag_freeing freeing = {.stream = event.stream,
                                       .serial = event.serial,
                                       .time_ns = event.time_ns,
                                       .free_stack = event.free_stack};
    const int r = ag_ledger_death(ledger, slot, &freeing, &death);
    struct ag_stream *stream = &ledger->streams[event.stream];
    if (event.kind == AG_RECORD_REALLOC_FREE && stream->realloc_waits_at == event.address) {
        stream->undo = death;
        stream->undo_kind = AG_UNDO_DEATH;
        stream->undo_serial = event.serial;
    }
    return r;
}

/* Is EVENT followed, in its line, by a waiting event of the other kind (alloc or free)? Together
 * the two events leave the state of the address unchanged. */
static bool has_partner_behind(const struct ag_repair *repair, const struct ag_waiting *event) {
    return event->behind && (repair->pool[event->behind].kind == AG_RECORD_ALLOC) !=
                                (event->kind == AG_RECORD_ALLOC);
}

/* Does A come before B (section 2)? Each of them is the first event of its line. */
static bool goes_first(const struct ag_repair *repair, const struct ag_waiting *a,
                       const struct ag_waiting *b) {
    const bool a_has = has_partner_behind(repair, a), b_has = has_partner_behind(repair, b);
    if (a_has != b_has) {
        return a_has;
    }
    const uint64_t a_ns = a->deadline_ns ? a->deadline_ns : UINT64_MAX;
    const uint64_t b_ns = b->deadline_ns ? b->deadline_ns : UINT64_MAX;
    return !a_has && a_ns != b_ns ? a_ns < b_ns : a->order < b->order;
}

/* Returns the waiting event at ADDRESS that comes next (section 2); 0: none fits. */
static uint32_t waiting_choose(const struct ag_ledger *ledger, uint64_t address) {
    const struct ag_repair *repair = &ledger->repair;
    bool is_live;
    live_slot(ledger, address, &is_live);
    uint32_t best = 0;
    unsigned n = 0;
    for (uint32_t line = ag_address_lists_first(&repair->line_lists, address);
         line && n < LINES_LOOKED_AT;
         line = ag_address_lists_next(&repair->line_lists, line), n++) {
        const uint32_t at = repair->lines[line].first;
        const struct ag_waiting *event = &repair->pool[at];
        const bool fits = is_live != (event->kind == AG_RECORD_ALLOC);
        if (fits && (!best || goes_first(repair, event, &repair->pool[best]))) {
            best = at;
        }
    }
    return best;
}

int ag_ledger_drain(struct ag_ledger *ledger, uint64_t address) {
    for (uint32_t at; (at = waiting_choose(ledger, address)) != 0;) {
        const int r = apply_waiting(ledger, at);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

/* ---- pairs that came too late (section 3) ---- */
/* Applies two events that wait at a dead address: FIRST, a free, and SECOND, the alloc after it. */
static int insert_between(struct ag_ledger *ledger, uint32_t first, uint32_t second) {
    const struct ag_waiting event = ledger->repair.pool[first];
    uint32_t freed_by;
    const struct ag_death *found;
    int r = ag_ledger_first_open_death(ledger, event.address, event.stream, &found, &freed_by);
    if (r < 0 || !found) {
        return r;
    }
    const struct ag_death death = *found;
    const uint64_t serial = ledger->streams[freed_by].allocated_blocks;
    r = ag_ledger_restore(ledger, &death, freed_by);
    r = r < 0 ? r : apply_waiting(ledger, first);
    r = r < 0 ? r : apply_waiting(ledger, second);
    if (r < 0) {
        return r;
    }
    bool is_live;
    const uint64_t at = live_slot(ledger, event.address, &is_live);
    struct ag_death again;
    notify_bounds(ledger, freed_by, ledger->live.blocks[at].size, /* is_alloc= */ false);
    notify_bounds(ledger, freed_by, death.block.size, /* is_alloc= */ true);
    const struct ag_freeing freeing = {.stream = freed_by,
                                       .serial = serial,
                                       .time_ns = death.freed_ns,
                                       .free_stack = death.free_stack};
    r = ag_ledger_death(ledger, at, &freeing, &again);
    struct ag_stream *stream = &ledger->streams[freed_by];
    if (stream->undo_kind == AG_UNDO_DEATH && stream->undo.number == death.number) {
        stream->undo = again; /* if the realloc that caused the death fails, this block lives on */
    }
    return r;
}

/* Applies two events that wait at a live address: FIRST, an alloc, and SECOND, the free after
 * it. */
static int insert_before(struct ag_ledger *ledger, uint32_t first, uint32_t second) {
    bool is_live;
    const uint64_t at = live_slot(ledger, ledger->repair.pool[first].address, &is_live);
    const struct ag_live_block block = ledger->live.blocks[at];
    if (!ag_ledger_can_give_way(ledger, at, ledger->repair.pool[first].stream)) {
        /* the birth of the live block cannot be moved, so the free of this block must come first */
        return 0;
    }
    const struct ag_live_past past = ag_live_table_past(&ledger->live, at);
    ag_live_table_remove(&ledger->live, at); /* set aside without changing the totals */
    int r = apply_waiting(ledger, first);
    r = r < 0 ? r : apply_waiting(ledger, second);
    return r < 0 ? r : ag_ledger_put_back(ledger, &block, past);
}

/* LAST has just been appended to the line of its stream. If LAST and the event before it are a pair
 * that comes too late (section 3), applies both. */
static int insert_pair(struct ag_ledger *ledger, uint32_t last) {
    const struct ag_repair *repair = &ledger->repair;
    const struct ag_waiting *event = &repair->pool[last];
    const uint32_t first = event->before;
    if (repair->lines[event->line].count > 2) {
        return 0; /* an event before the pair is in the line, and must go first */
    }
    const bool is_alloc = event->kind == AG_RECORD_ALLOC;
    if (!first || is_alloc == (repair->pool[first].kind == AG_RECORD_ALLOC)) {
        return 0;
    }
    return is_alloc ? insert_between(ledger, first, last) : insert_before(ledger, first, last);
}

/* ---- arrival and expiry ---- */
/* Puts an event into the list of its stream's window and into its line, in front or at the end. */
static int waiting_enlist(struct ag_ledger *ledger, const struct ag_waiting *event, bool in_front,
                          uint32_t *ret_at) {
    struct ag_repair *repair = &ledger->repair;
    struct ag_stream *stream = &ledger->streams[event->stream];
    uint32_t at;
    if (take_from_pool(repair, &at) < 0) {
        return -ENOMEM;
    }
    repair->pool[at] = *event;
    if (link_by_address(repair, at, in_front) < 0) {
        return -ENOMEM;
    }
    repair->n_waiting++;
    if (stream->last_waiting) {
        repair->pool[stream->last_waiting].next_of_expiry = at;
    } else {
        stream->first_waiting = at;
    }
    stream->last_waiting = at;
    *ret_at = at;
    return 0;
}

/* Applies or forces all waiting events. */
static int end_all_waiting(struct ag_ledger *ledger) {
    for (size_t i = 0; i < ledger->n_streams; i++) {
        ag_ledger_end_waiting(ledger, &ledger->streams[i], ledger->tally.now_ns);
    }
    return ag_ledger_expire(ledger, UINT64_MAX);
}

int ag_ledger_defer(struct ag_ledger *ledger, uint32_t index, const struct ag_event *event) {
    struct ag_stream *stream = &ledger->streams[index];
    uint32_t at, sum = 0;
    const int r_room = ledger->repair.n_taken >= TAKEN_MOST ? end_all_waiting(ledger) : 0;
    if (r_room < 0) {
        return r_room;
    }
    if (event->kind == AG_RECORD_ALLOC) {
        sum = ag_ledger_sum(ledger, event->stack, event->via);
        stream->allocated_blocks++;
        stream->allocated_bytes += event->size;
    }
    if (event->kind == AG_RECORD_REALLOC_FREE) {
        stream->undo_kind = AG_UNDO_NONE;
        stream->realloc_waits_at = event->address;
    }
    const struct ag_waiting waiting = {.address = event->address,
                                       .size = event->size,
                                       .time_ns = ledger->tally.now_ns,
                                       .serial = stream->allocated_blocks,
                                       .stream = index,
                                       .sum = sum,
                                       .free_stack =
                                           event->kind == AG_RECORD_ALLOC ? 0 : event->stack,
                                       .kind = event->kind};
    if (sum == AG_INDEX_NONE || waiting_enlist(ledger, &waiting, /* in_front= */ false, &at) < 0) {
        return -ENOMEM;
    }
    int r = ag_ledger_drain(ledger, event->address);
    if (r == 0 && ledger->repair.pool[at].kind != 0) {
        r = insert_pair(ledger, at);
        r = r < 0 ? r : ag_ledger_drain(ledger, event->address);
        ledger->repair.repairs++;
    }
    return r;
}

bool ag_ledger_cancel_waiting(struct ag_ledger *ledger, uint32_t stream, uint64_t address) {
    struct ag_repair *repair = &ledger->repair;
    const uint32_t line = find_line(repair, address, stream);
    const uint32_t last = line ? repair->lines[line].last : 0;
    if (!last || repair->pool[last].kind != AG_RECORD_REALLOC_FREE) {
        return false;
    }
    waiting_settle(repair, last);
    return true;
}

void ag_ledger_end_waiting(struct ag_ledger *ledger, struct ag_stream *stream,
                           uint64_t deadline_ns) {
    struct ag_repair *repair = &ledger->repair;
    if (!stream->first_waiting) {
        return;
    }
    for (uint32_t at = stream->first_waiting; at; at = repair->pool[at].next_of_expiry) {
        repair->pool[at].deadline_ns = deadline_ns;
    }
    if (repair->last_expiry) {
        repair->pool[repair->last_expiry].next_of_expiry = stream->first_waiting;
    } else {
        repair->first_expiry = stream->first_waiting;
    }
    repair->last_expiry = stream->last_waiting;
    stream->first_waiting = stream->last_waiting = 0;
}

/* If several threads used an address in turn, a free without a block and a buried block (a block
 * whose address was allocated again without a free) may belong together. Returns 1 if there is an
 * item of the other kind at ADDRESS (*ret_partner); 0 if EVENT now waits for such an item; or
 * -ENOMEM. */
static int meet_odd(struct ag_repair *repair, uint64_t address, const struct ag_odd *event,
                    struct ag_odd *ret_partner) {
    uint32_t at;
    int r = ag_index_map_number(&repair->odd_index, address, &at);
    r = r > 0 ? AG_ARRAY_ADD(repair->odd_newest, repair->n_odd_newest, 0) : r;
    if (r < 0) {
        return r;
    }
    uint32_t *newest = &repair->odd_newest[at];
    if (*newest && repair->odd[*newest - 1].is_free != event->is_free) {
        *ret_partner = repair->odd[*newest - 1];
        *newest = ret_partner->next;
        return 1;
    }
    struct ag_odd odd = *event;
    odd.next = *newest;
    r = AG_ARRAY_ADD(repair->odd, repair->n_odd, odd);
    *newest = r == 0 ? (uint32_t)repair->n_odd : *newest;
    return r;
}

/* The free and the burial that met were one death. The block's sums counted this death when the
 * block was buried; this function counts it for the freeing thread. */
static int credit_free(struct ag_ledger *ledger, const struct ag_odd *freed,
                       const struct ag_odd *buried) {
    struct ag_stream *stream = &ledger->streams[freed->stream];
    stream->freed_blocks++;
    stream->freed_bytes += buried->bytes;
    return buried->stream != freed->stream
               ? ag_ledger_count_pair(ledger, buried->stream, freed->stream, buried->bytes)
               : 0;
}

/* A free at a dead address has expired. If another free, which has not expired, has taken the
 * block, that other free is displaced. */
static int force_free(struct ag_ledger *ledger, uint32_t at) {
    const struct ag_waiting event = ledger->repair.pool[at];
    uint32_t freed_by = AG_INDEX_NONE, later;
    const struct ag_death *found = NULL;
    int r = event.n_passed_on < PASSED_ON_MOST
                ? ag_ledger_last_open_death(ledger, event.address, event.stream, &found, &freed_by)
                : 0;
    if (r < 0) {
        return r;
    }
    if (!found) {
        const struct ag_odd freed = {.is_free = true, .stream = event.stream};
        struct ag_odd buried;
        waiting_settle(&ledger->repair, at);
        r = meet_odd(&ledger->repair, event.address, &freed, &buried);
        const bool is_known = r > 0;
        ledger->repair.buried -= is_known;
        r = is_known ? credit_free(ledger, &freed, &buried) : r;
        if (!is_known) {
            const struct ag_ghost ghost = {.address = event.address,
                                           .time_ns = event.time_ns,
                                           .stream = ledger->streams[event.stream].number,
                                           .free_stack = event.free_stack};
            ag_ledger_count_ghost(ledger, &ghost);
        }
        ledger->repair.repairs -= !is_known; /* no alloc came for the free: nothing was repaired */
        struct ag_stream *stream = &ledger->streams[event.stream];
        if (event.kind == AG_RECORD_REALLOC_FREE && stream->realloc_waits_at == event.address &&
            !is_known) {
            stream->undo_kind = AG_UNDO_GHOST;
            stream->undo.block.address = event.address;
        }
        return r;
    }
    const struct ag_death death = *found;
    struct ag_stream *stream = &ledger->streams[freed_by];
    const bool can_be_undone =
        stream->undo_kind == AG_UNDO_DEATH && stream->undo.block.address == event.address;
    if (can_be_undone) {
        stream->undo_kind = AG_UNDO_NONE;
        stream->realloc_waits_at = event.address;
    }
    const struct ag_waiting other = {.address = event.address,
                                     .time_ns = death.freed_ns,
                                     .serial = stream->allocated_blocks,
                                     .stream = freed_by,
                                     .free_stack = death.free_stack,
                                     .kind =
                                         can_be_undone ? AG_RECORD_REALLOC_FREE : AG_RECORD_FREE,
                                     .n_passed_on = event.n_passed_on + 1};
    r = ag_ledger_restore(ledger, &death, freed_by);
    notify_bounds(ledger, freed_by, death.block.size, /* is_alloc= */ true);
    r = r < 0 ? r : apply_waiting(ledger, at);
    return r < 0 ? r : waiting_enlist(ledger, &other, /* in_front= */ true, &later);
}

bool ag_ledger_can_give_way(const struct ag_ledger *ledger, uint64_t slot, uint32_t stream) {
    const struct ag_live_block *block = &ledger->live.blocks[slot];
    return ledger->is_concurrent && block->stream != stream &&
           block->serial > ledger->streams[block->stream].window_serial;
}

int ag_ledger_give_way(struct ag_ledger *ledger, uint64_t slot, uint8_t n_passed_on) {
    const struct ag_live_block block = ledger->live.blocks[slot];
    const struct ag_waiting later = {.address = block.address,
                                     .size = block.size,
                                     .time_ns = ag_live_table_past(&ledger->live, slot).born_ns,
                                     .serial = block.serial,
                                     .stream = block.stream,
                                     .sum = block.sum,
                                     .kind = AG_RECORD_ALLOC,
                                     .n_passed_on = n_passed_on + 1};
    uint32_t at;
    notify_bounds(ledger, block.stream, block.size, /* is_alloc= */ false);
    ag_ledger_unbirth(ledger, slot);
    return waiting_enlist(ledger, &later, /* in_front= */ true, &at);
}

/* An alloc of a live address has expired. If the alloc of the block that lives there has not
 * expired, that alloc is displaced; otherwise the free of that block was lost. */
static int force_alloc(struct ag_ledger *ledger, uint32_t at, uint64_t slot) {
    const struct ag_waiting event = ledger->repair.pool[at];
    int r;
    if (event.n_passed_on < PASSED_ON_MOST && ag_ledger_can_give_way(ledger, slot, event.stream)) {
        r = ag_ledger_give_way(ledger, slot, event.n_passed_on);
    } else {
        const struct ag_live_block *block = &ledger->live.blocks[slot];
        const struct ag_odd buried = {.stream = block->stream, .bytes = block->size};
        struct ag_odd freed;
        r = meet_odd(&ledger->repair, event.address, &buried, &freed);
        ledger->repair.buried += r == 0;
        if (r > 0) {
            ag_ledger_uncount_ghost(ledger, event.address);
            r = credit_free(ledger, &freed, &buried);
        }
        if (r < 0) {
            return r;
        }
        struct ag_death death;
        notify_bounds(ledger, event.stream, ledger->live.blocks[slot].size, /* is_alloc= */ false);
        const struct ag_freeing unseen = {.stream = AG_INDEX_NONE, .time_ns = event.time_ns};
        r = ag_ledger_death(ledger, slot, &unseen, &death);
    }
    return r < 0 ? r : apply_waiting(ledger, at);
}

static int force_waiting(struct ag_ledger *ledger, uint32_t at) {
    const bool is_alloc = ledger->repair.pool[at].kind == AG_RECORD_ALLOC;
    bool is_live;
    const uint64_t slot = live_slot(ledger, ledger->repair.pool[at].address, &is_live);
    if (is_live != is_alloc) {
        return apply_waiting(ledger, at);
    }
    return is_alloc ? force_alloc(ledger, at, slot) : force_free(ledger, at);
}

int ag_ledger_expire(struct ag_ledger *ledger, uint64_t now_ns) {
    struct ag_repair *repair = &ledger->repair;
    while (repair->first_expiry) {
        const uint32_t at = repair->first_expiry;
        const uint64_t address = repair->pool[at].address;
        if (repair->pool[at].kind != 0 && repair->pool[at].deadline_ns >= now_ns &&
            now_ns != UINT64_MAX) {
            break;
        }
        if (repair->pool[at].kind != 0) {
            int r = force_waiting(ledger, at);
            r = r < 0 ? r : ag_ledger_drain(ledger, address);
            if (r < 0) {
                return r;
            }
        }
        repair->first_expiry = repair->pool[at].next_of_expiry;
        repair->last_expiry = repair->first_expiry ? repair->last_expiry : 0;
        repair->pool[at].next_of_expiry = repair->first_free;
        repair->first_free = at;
        repair->n_taken--;
    }
    return 0;
}

void ag_ledger_take_waiting_along(struct ag_ledger *ledger) {
    const struct ag_repair *repair = &ledger->repair;
    for (uint32_t at = 1; at <= repair->n_pool; at++) {
        struct ag_waiting *waiting = &repair->pool[at];
        if (waiting->kind == AG_RECORD_ALLOC) {
            struct ag_thread_sum *base = &ledger->streams[waiting->stream].base;
            base->allocated_blocks--;
            base->allocated_bytes -= waiting->size;
        }
        waiting->time_ns = ledger->now_ns;
    }
}
