/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
 *
 * node.bpf.c: the programs that run in the kernel while `allogram observe` observes an Erlang node.
 * They copy the state of an Erlang process at the moment of a sample or of a collection, because
 * the state would have changed if allogram read it later.
 *
 * If a sample is in generated code, r13 has the address of the process and rsp the stack's address.
 * If the sample is in native code, a word in the scheduler's structure has the address of the
 * process that the scheduler runs. node_kernel.c writes the address of that word for each thread
 * into the map `current_of`.
 *
 * A collection is noticed at the entry of the emulator's function that collects. Most collections
 * are not reported if there are many (node_pace.h decides by the bytes allocated), so the code up
 * to that decision is kept short: three lookups, one copy of the process. A reported collection is
 * captured at the entry, and becomes a record when its function returns; until then it is kept in
 * the map `watched`, by thread. If the kernel has uprobe sessions (Linux 6.13), `node_collection`
 * is called at the entry and at the return, and its result at the entry decides whether it is
 * called at the return. Otherwise there are two programs, and the program at the return always
 * runs.
 *
 * Collections do not nest, but the functions that collect call each other. So a call inside of a
 * reported collection increments the collection's depth. If a call finds the heap in the same state
 * as the thread's previous call, both belong to the same collection.
 *
 * No value that is read is trusted: the length of a stack is limited to the size of a record, and a
 * read that fails leaves an empty stack. Records that find no room in the ring are counted in
 * `lost`. */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <linux/bpf_perf_event.h>

#include <stddef.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "node_events.h"
#include "node_pace.h"

char node_license[] SEC("license") = "Dual BSD/GPL";

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 25);
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
    __type(value, __u64); /* address of the word that points to the process it runs */
} current_of SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32); /* thread */
    __type(value, struct node_watched);
} watched SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct node_watched);
} nothing_watched SEC(".maps"); /* zeros for a new thread; the stack has no room for them */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH); /* LRU: a process may end without a collection */
    __uint(max_entries, 1024);
    __type(key, __u64); /* address of a process */
    __type(value, struct node_written);
} written SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct node_process_copy);
} sampled SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* node_kernel.c sets the number of CPUs */
    __type(key, __u32);     /* CPU */
    __type(value, struct node_event);
} sample_events SEC(".maps");
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

/* Waking the reader takes as long as the rest of the program. So the reader is woken only if much
 * data is waiting, or if it was woken long ago. A race between two threads does no harm. */
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

/* Copies the process by one read, because a dozen reads would take as long as the breakpoint. */
static __always_inline int copy_process(struct node_process_copy *copy, __u64 process,
                                        const struct node_bpf_settings *at) {
    const __u32 n_bytes = at->process_bytes & (8 * NODE_PROCESS_WORDS - 1); /* for the verifier */
    return (int)bpf_probe_read_user(copy->words, n_bytes, (void *)process);
}

/* The word at OFFSET of the process. The kernel's verifier needs the bound. */
static __always_inline __u64 word_of(const struct node_process_copy *copy, __u32 offset) {
    return copy->words[(offset & (8 * NODE_PROCESS_WORDS - 1)) / 8];
}

static __always_inline __u64 minor_count_of(const struct node_process_copy *copy,
                                            const struct node_bpf_settings *at) {
    return word_of(copy, at->minor_count) >> (at->minor_count & 7u) * 8 & 0xffff;
}

static __always_inline void look_at_heap(const struct node_process_copy *copy,
                                         const struct node_bpf_settings *at,
                                         struct node_heap_state *state) {
    state->heap = word_of(copy, at->heap);
    state->heap_top = word_of(copy, at->heap_top);
    state->stack_top = word_of(copy, at->stack_top);
    state->heap_end = word_of(copy, at->heap_end);
    state->high_water = word_of(copy, at->high_water);
    state->old_heap = word_of(copy, at->old_heap);
    state->old_top = word_of(copy, at->old_top);
    state->fragment_words = word_of(copy, at->fragment_words);
    state->abandoned_heap = word_of(copy, at->abandoned_heap);
    state->minor_count = minor_count_of(copy, at);
}

/* Copies the stack from TOP on, as far as the record has room. While a collection changes from one
 * heap to the other, TOP may be outside of the heap; then NODE_EVENT_FEW_WORDS are copied, and
 * node_stacks.c finds the end of the stack. */
static __always_inline void copy_stack(struct node_event *event, __u64 top) {
    __u64 n_bytes = event->before.heap_end - top;
    const __u64 few_bytes = NODE_EVENT_FEW_WORDS * 8, most_bytes = NODE_EVENT_WORDS * 8;
    event->top = top;
    event->n_words = 0;
    if (top < event->before.heap || top > event->before.heap_end) {
        n_bytes = few_bytes;
    } else if (n_bytes > most_bytes) {
        n_bytes = most_bytes;
    }
    n_bytes &= 2 * NODE_EVENT_WORDS * 8 - 1; /* a bound that the verifier sees */
    if (n_bytes <= most_bytes && bpf_probe_read_user(event->words, n_bytes, (void *)top) == 0) {
        event->n_words = n_bytes / 8;
    } else if (bpf_probe_read_user(event->words, few_bytes, (void *)top) == 0) {
        event->n_words = NODE_EVENT_FEW_WORDS;
    }
}

/* Writes the part of the event that has contents to the ring. */
static __always_inline void put_event(const struct node_event *event, __u64 wake) {
    __u64 n_bytes = event->n_words * 8 & (2 * NODE_EVENT_WORDS * 8 - 1); /* as in copy_stack */
    n_bytes = n_bytes > NODE_EVENT_WORDS * 8 ? NODE_EVENT_WORDS * 8 : n_bytes;
    if (bpf_ringbuf_output(&ring, (void *)event, offsetof(struct node_event, words) + n_bytes,
                           wake) != 0) {
        count_lost();
    }
}

static __always_inline void look_at_process(struct node_event *event, __u64 process,
                                            const struct node_process_copy *copy,
                                            const struct node_bpf_settings *at) {
    event->thread = (__u32)bpf_get_current_pid_tgid();
    event->start_ns = bpf_ktime_get_ns();
    event->end_ns = event->start_ns;
    event->process = process;
    event->id = copy->words[0];
    event->instruction = word_of(copy, at->instruction);
    event->state = word_of(copy, at->state);
    look_at_heap(copy, at, &event->before);
}

static __always_inline int is_generated(const struct node_bpf_settings *at, __u64 pc) {
    for (__u32 i = 0; i < NODE_CODE_AREAS; i++) {
        if (i < at->n_areas && pc >= at->areas[i].low && pc < at->areas[i].high) {
            return 1;
        }
    }
    return 0;
}

/* Whether the watched word was written because a new object was made there, and not by a write to
 * the stack or to an older object, nor by a collection. Generated code has the top of the heap in
 * r15, and writes an object before or after it moves the top. */
static __always_inline int is_new_word(const struct bpf_perf_event_data *sample,
                                       const struct node_event *event,
                                       const struct node_bpf_settings *at) {
    const __u64 address = sample->addr;
    if (address < event->before.heap || address >= event->before.heap_end) {
        return 0;
    }
    if (is_generated(at, sample->regs.rip)) {
        return address + NODE_FRESH_BYTES >= sample->regs.r15 && address < sample->regs.rsp;
    }
    return address < event->before.stack_top;
}

/* Notes the time of a write to a watched word. The process's next collection is then reported in
 * any case. */
static __always_inline void note_write(const struct node_event *event) {
    const __u64 process = event->process;
    struct node_written *now = bpf_map_lookup_elem(&written, &process);
    if (!now || now->id != event->id) {
        const struct node_written first = {.id = event->id, .n = 1, .ns = {event->start_ns}};
        bpf_map_update_elem(&written, &process, &first, BPF_ANY);
    } else if (now->n < NODE_WRITES) {
        now->ns[now->n & (NODE_WRITES - 1)] = event->start_ns;
        now->n++;
    }
}

/* Moves the times of the process's writes to the event of its collection. */
static __always_inline void take_writes(struct node_watched *now, __u64 process) {
    const struct node_written *writes = bpf_map_lookup_elem(&written, &process);
    now->event.n_written = 0;
    if (writes) {
        if (writes->id == now->copy.words[0]) {
            now->event.n_written = writes->n;
            __builtin_memcpy(now->event.written_ns, writes->ns, sizeof writes->ns);
        }
        bpf_map_delete_elem(&written, &process);
    }
}

SEC("perf_event")
int node_sample(struct bpf_perf_event_data *sample) {
    const __u32 zero = 0, thread = (__u32)bpf_get_current_pid_tgid();
    const struct node_bpf_settings *at = bpf_map_lookup_elem(&settings, &zero);
    struct node_process_copy *copy = bpf_map_lookup_elem(&sampled, &zero);
    if (!at || !copy) {
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
    const __u32 cpu = bpf_get_smp_processor_id();
    struct node_event *event = bpf_map_lookup_elem(&sample_events, &cpu);
    if (!event) {
        return 1;
    }
    event->kind = NODE_EVENT_SAMPLE;
    event->needed_words = event->weight_bytes = event->n_written = 0;
    if (copy_process(copy, process, at) != 0) {
        return 1;
    }
    look_at_process(event, process, copy, at);
    if (sample->addr != 0 && is_new_word(sample, event, at)) {
        note_write(event);
    }
    __u64 top = event->before.stack_top;
    if (sample->regs.rsp >= event->before.heap && sample->regs.rsp <= event->before.heap_end) {
        top = sample->regs.rsp;
    } else if (top - event->before.heap >= NODE_EVENT_MARGIN * 8) {
        top -= NODE_EVENT_MARGIN * 8;
    }
    copy_stack(event, top);
    put_event(event, BPF_RB_NO_WAKEUP); /* the observer reads the ring at each sample */
    return 1;                           /* the sample itself is kept as well */
}

static __always_inline struct node_watched *watch_thread(void) {
    const __u32 zero = 0, thread = (__u32)bpf_get_current_pid_tgid();
    struct node_watched *now = bpf_map_lookup_elem(&watched, &thread);
    if (!now) {
        const struct node_watched *nothing = bpf_map_lookup_elem(&nothing_watched, &zero);
        if (!nothing || bpf_map_update_elem(&watched, &thread, nothing, BPF_NOEXIST) != 0) {
            count_lost();
            return NULL;
        }
        now = bpf_map_lookup_elem(&watched, &thread);
    }
    return now;
}

/* The bytes allocated since the previous collection: those above the survivors of that
 * collection. */
static __always_inline __u64 allocated_bytes(const struct node_process_copy *copy,
                                             const struct node_bpf_settings *at) {
    const __u64 heap = word_of(copy, at->heap), top = word_of(copy, at->heap_top),
                high_water = word_of(copy, at->high_water);
    const __u64 low = high_water >= heap && high_water <= top ? high_water : heap;
    const __u64 n_bytes = (top > low ? top - low : 0) + word_of(copy, at->fragment_words) * 8;
    return n_bytes < 1ull << 46 ? n_bytes : 0; /* else the copy is not that of a process */
}

/* Whether the thread's previous call had the same process, with its heap in the same state. If so,
 * this call is part of the same collection. */
static __always_inline int is_same_call(struct node_watched *now,
                                        const struct node_bpf_settings *at) {
    const __u64 id = now->copy.words[0], heap = word_of(&now->copy, at->heap),
                top = word_of(&now->copy, at->heap_top),
                minor_count = minor_count_of(&now->copy, at);
    const int is_same = now->id == id && now->heap == heap && now->heap_top == top &&
                        now->minor_count == minor_count;
    now->id = id;
    now->heap = heap;
    now->heap_top = top;
    now->minor_count = minor_count;
    return is_same;
}

/* Returns 1 if the function's return need not be probed. */
static __always_inline int begin_collection(struct pt_regs *registers) {
    const __u32 zero = 0;
    const __u64 process = PT_REGS_PARM1(registers);
    const struct node_bpf_settings *at = bpf_map_lookup_elem(&settings, &zero);
    struct node_watched *now = watch_thread();
    if (!at || !now) {
        return 1;
    }
    if (now->depth > 0) {
        now->depth++;
        return 0;
    }
    if (copy_process(&now->copy, process, at) != 0) {
        return 1;
    }
    __u64 weight = 0;
    now->event.n_written = 0;
    if (word_of(&now->copy, at->abandoned_heap) == 0) { /* else this call continues a collection
                                                         * that an earlier call began */
        const __u64 bytes = allocated_bytes(&now->copy, at), period = at->period_bytes;
        if (is_same_call(now, at)) {
            return 1;
        }
        now->n_seen++;
        take_writes(now, process);
        if (now->event.n_written == 0 && node_pace_passes(&now->pace, bytes, period)) {
            return 1;
        }
        weight = node_pace_weight(&now->pace, bytes, period, bpf_get_prandom_u32(),
                                  bpf_get_prandom_u32());
        if (weight == 0 && period != 0 && now->event.n_written == 0) {
            return 1;
        }
    }
    now->depth = 1;
    now->event.kind = NODE_EVENT_COLLECTION;
    now->event.needed_words = bpf_get_attach_cookie(registers) ? PT_REGS_PARM2(registers) : 0;
    now->event.weight_bytes = weight;
    look_at_process(&now->event, process, &now->copy, at);
    copy_stack(&now->event, now->event.before.stack_top);
    return 0;
}

static __always_inline void end_collection(void) {
    const __u32 zero = 0, thread = (__u32)bpf_get_current_pid_tgid();
    const struct node_bpf_settings *at = bpf_map_lookup_elem(&settings, &zero);
    struct node_watched *now = bpf_map_lookup_elem(&watched, &thread);
    if (!at || !now || now->depth == 0) {
        return; /* the collection began before the probes were attached, or is not reported */
    }
    now->depth--;
    if (now->depth > 0) {
        return;
    }
    if (copy_process(&now->copy, now->event.process, at) != 0) {
        count_lost();
        return;
    }
    look_at_heap(&now->copy, at, &now->event.after);
    now->event.end_ns = bpf_ktime_get_ns();
    put_event(&now->event, wake_flags(now->event.end_ns));
}

/* Called at the entry and at the return of the function. At the entry the instruction pointer is in
 * the function, at the return in its caller. Result 1 at the entry: no call at the return. */
SEC("uprobe")
int node_collection(struct pt_regs *registers) {
    if (PT_REGS_IP(registers) == bpf_get_func_ip(registers)) {
        return begin_collection(registers);
    }
    end_collection();
    return 0;
}

SEC("uprobe")
int node_collection_begins(struct pt_regs *registers) {
    (void)begin_collection(registers); /* node_collection_ends is called in any case */
    return 0;
}

SEC("uretprobe")
int node_collection_ends(struct pt_regs *registers) {
    (void)registers;
    end_collection();
    return 0;
}
