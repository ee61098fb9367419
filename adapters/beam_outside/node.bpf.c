/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
 *
 * node.bpf.c: the half in the kernel. It copies what a process of the node looks like at the very
 * moment of a sample or of a collection; later it would look different.
 *
 * A sample in generated code has the process in r13 and its stack in rsp. In native code the
 * scheduler's structure says which process it runs; where that word is for each thread, the other
 * half writes into `current_of`. A collection is seen where its function begins and where it
 * returns: what was captured at the beginning waits in `begun`, by thread, and becomes one record
 * at the end. Collections do not nest, but their functions call each other: what begins inside of
 * another counts as that one's depth.
 *
 * Nothing here trusts what it reads: the length of a stack is cut to the record's, a read that
 * fails leaves an empty stack. What finds no room in the ring is counted in `lost`. */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <linux/bpf_perf_event.h>

#include <stddef.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "node_events.h"

char node_license[] SEC("license") = "Dual BSD/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 24);
} ring SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct node_bpf_settings);
} settings SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);   /* thread */
    __type(value, __u64); /* address of the word with its process */
} current_of SEC(".maps");
struct begun {
    __u64 depth;
    struct node_event event;
};
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct begun);
} begun SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct begun);
} scratch SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} lost SEC(".maps");

static __always_inline __u64 word_at(__u64 address) {
    __u64 word = 0;
    bpf_probe_read_user(&word, sizeof word, (void *)address);
    return word;
}

/* Waking the reader takes as long as all the rest: it is woken when much is waiting, or it slept
 * for long. What two threads write at once does no harm. */
static __u64 woken_ns;

static __always_inline __u64 wake_flags(__u64 now_ns) {
    const __u64 much_bytes = 1 << 20, long_ns = 200 * 1000 * 1000;
    if (now_ns - woken_ns < long_ns && bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < much_bytes) {
        return BPF_RB_NO_WAKEUP;
    }
    woken_ns = now_ns;
    return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void count_lost(void) {
    const __u32 zero = 0;
    __u64 *n = bpf_map_lookup_elem(&lost, &zero);
    if (n) {
        __sync_fetch_and_add(n, 1);
    }
}

static __always_inline void look_at_heap(__u64 process, const struct node_bpf_settings *at,
                                         struct node_heap_state *state) {
    state->heap = word_at(process + at->heap);
    state->heap_top = word_at(process + at->heap_top);
    state->stack_top = word_at(process + at->stack_top);
    state->heap_end = word_at(process + at->heap_end);
    state->high_water = word_at(process + at->high_water);
    state->old_heap = word_at(process + at->old_heap);
    state->old_top = word_at(process + at->old_top);
    state->fragment_words = word_at(process + at->fragment_words);
    state->abandoned_heap = word_at(process + at->abandoned_heap);
    state->minor_count = word_at(process + (at->minor_count & ~7u)) >> (at->minor_count & 7u) * 8;
}

/* The stack from TOP on, or as much of it as there is room for. While a collector changes from one
 * heap to the other, TOP is in neither: then too much is copied, the reader finds the end. */
static __always_inline void copy_stack(struct node_event *event, __u64 top) {
    __u64 n_bytes = event->before.heap_end - top;
    event->top = top;
    event->n_words = 0;
    if (top < event->before.heap || n_bytes >= NODE_EVENT_WORDS * 8) {
        n_bytes = NODE_EVENT_WORDS * 8;
    }
    n_bytes &= 0x1fff; /* a bound that the verifier sees */
    if (n_bytes <= NODE_EVENT_WORDS * 8 &&
        bpf_probe_read_user(event->words, n_bytes, (void *)top) == 0) {
        event->n_words = n_bytes / 8;
    }
}

static __always_inline void look_at_process(struct node_event *event, __u64 process,
                                            const struct node_bpf_settings *at) {
    event->thread = (__u32)bpf_get_current_pid_tgid();
    event->start_ns = bpf_ktime_get_ns();
    event->end_ns = event->start_ns;
    event->process = process;
    event->id = word_at(process);
    event->instruction = word_at(process + at->instruction);
    event->state = word_at(process + at->state);
    look_at_heap(process, at, &event->before);
}

static __always_inline int is_generated(const struct node_bpf_settings *at, __u64 pc) {
    for (__u32 i = 0; i < NODE_CODE_AREAS; i++) {
        if (i < at->n_areas && pc >= at->areas[i].low && pc < at->areas[i].high) {
            return 1;
        }
    }
    return 0;
}

SEC("perf_event")
int node_sample(struct bpf_perf_event_data *sample) {
    const __u32 zero = 0, thread = (__u32)bpf_get_current_pid_tgid();
    const struct node_bpf_settings *at = bpf_map_lookup_elem(&settings, &zero);
    if (!at) {
        return 1;
    }
    __u64 process = 0;
    if (is_generated(at, sample->regs.rip)) {
        process = sample->regs.r13;
    } else {
        const __u64 *current = bpf_map_lookup_elem(&current_of, &thread);
        process = current ? word_at(*current) : 0;
    }
    if (process == 0) {
        return 1;
    }
    struct node_event *event = bpf_ringbuf_reserve(&ring, sizeof *event, 0);
    if (!event) {
        count_lost();
        return 1;
    }
    event->kind = NODE_EVENT_SAMPLE;
    event->needed_words = 0;
    look_at_process(event, process, at);
    __u64 top = event->before.stack_top;
    if (sample->regs.rsp >= event->before.heap && sample->regs.rsp <= event->before.heap_end) {
        top = sample->regs.rsp;
    } else if (top - event->before.heap >= NODE_EVENT_MARGIN * 8) {
        top -= NODE_EVENT_MARGIN * 8;
    }
    copy_stack(event, top);
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP); /* read when its sample is */
    return 1;                                    /* the sample itself is wanted as well */
}

SEC("uprobe")
int node_collection_begins(struct pt_regs *registers) {
    const __u32 zero = 0, thread = (__u32)bpf_get_current_pid_tgid();
    const struct node_bpf_settings *at = bpf_map_lookup_elem(&settings, &zero);
    struct begun *outer = bpf_map_lookup_elem(&begun, &thread);
    if (outer && outer->depth > 0) {
        outer->depth++;
        return 0;
    }
    struct begun *now = bpf_map_lookup_elem(&scratch, &zero);
    if (!at || !now) {
        return 0;
    }
    if (!outer) {
        now->depth = 0;
        if (bpf_map_update_elem(&begun, &thread, now, BPF_ANY) != 0) {
            count_lost();
            return 0;
        }
        outer = bpf_map_lookup_elem(&begun, &thread);
        if (!outer) {
            return 0;
        }
    }
    outer->depth = 1;
    outer->event.kind = NODE_EVENT_COLLECTION;
    outer->event.needed_words = bpf_get_attach_cookie(registers) ? PT_REGS_PARM2(registers) : 0;
    look_at_process(&outer->event, PT_REGS_PARM1(registers), at);
    copy_stack(&outer->event, outer->event.before.stack_top);
    return 0;
}

SEC("uretprobe")
int node_collection_ends(struct pt_regs *registers) {
    const __u32 zero = 0, thread = (__u32)bpf_get_current_pid_tgid();
    const struct node_bpf_settings *at = bpf_map_lookup_elem(&settings, &zero);
    struct begun *begin = bpf_map_lookup_elem(&begun, &thread);
    (void)registers;
    if (!at || !begin || begin->depth == 0) {
        return 0; /* began before we looked */
    }
    begin->depth--;
    if (begin->depth > 0) {
        return 0;
    }
    look_at_heap(begin->event.process, at, &begin->event.after);
    begin->event.end_ns = bpf_ktime_get_ns();
    __u64 n_bytes = begin->event.n_words * 8 & 0x1fff; /* a bound that the verifier sees */
    n_bytes = n_bytes > NODE_EVENT_WORDS * 8 ? NODE_EVENT_WORDS * 8 : n_bytes;
    if (bpf_ringbuf_output(&ring, &begin->event, offsetof(struct node_event, words) + n_bytes,
                           wake_flags(begin->event.end_ns)) != 0) {
        count_lost();
    }
    return 0;
}
