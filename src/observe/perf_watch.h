/* perf_watch.h: reads the kernel's perf events of all threads of a process, including threads that
 * start later. Each event contains the registers and the top of the stack of its thread.
 *
 * The process is never stopped. A sample costs the process an interrupt (about 20 us in a virtual
 * machine, 2 us on bare metal). */
#ifndef AG_PERF_WATCH_H
#define AG_PERF_WATCH_H

#include <allogram/inspector.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/remote_process.h"

enum { AG_PERF_SOURCES = 8 };
/* Size of a word that a source watches (ag_perf_watch_add_word). */
enum { AG_PERF_WORD_BYTES = 8 };
struct ag_perf_source {
    uint32_t type;   /* PERF_TYPE_* */
    uint64_t config; /* the event of that type, as in perf_event_attr */
    uint64_t rate;   /* samples per second of CPU time; 0: `period` is used */
    uint64_t period; /* events per sample, if rate is 0 */
    uint32_t stack_bytes;
};
struct ag_perf_sample {
    size_t source; /* index in the array of sources */
    uint32_t thread;
    uint64_t time_ns;  /* CLOCK_MONOTONIC */
    uint64_t address;  /* for a page fault: the accessed address; for a word: its address */
    uint64_t delay_ns; /* for a word: how long the thread's writes to the word had been watched */
    bool has_registers;
    struct allogram_registers registers;
    uint64_t arguments[3]; /* for a system call at its exit: its first three arguments */
    uint64_t result;       /* for a system call at its exit: its result */
    const uint8_t *stack;  /* the bytes of the stack from the address registers.value[ALLOGRAM_RSP]
                            * on */
    size_t stack_bytes;
};
struct ag_perf_sink {
    void (*sample)(void *context, const struct ag_perf_sample *sample);
    /* a file with code was mapped: the list of mapped files has to be read again */
    void (*code_mapped)(void *context);
    void *context;
};

/* Reads the number in a file of the kernel, such as the setting that permits perf events. Returns
 * false if it cannot be read. */
bool ag_kernel_number(const char *path, long *ret_number);
#define AG_PERF_PARANOID "/proc/sys/kernel/perf_event_paranoid"

struct ag_perf_watch;
/* Opens all sources; they record nothing before ag_perf_watch_start. wakes_at_once:
 * ag_perf_watch_wait returns at each sample; otherwise it returns when 256 KiB were written to a
 * buffer. Returns 0, or a negative errno with a message that names the cause and the remedy. */
int ag_perf_watch_open(const struct ag_remote_process *process,
                       const struct ag_perf_source *sources, size_t n_sources, bool wakes_at_once,
                       struct ag_perf_watch **ret_watch, char ret_message[512]);
struct ag_perf_watch *ag_perf_watch_close(struct ag_perf_watch *watch);
/* PROGRAM: descriptor of a BPF program, which the kernel runs at each event of SOURCE before it
 * writes the event. Returns 0 or a negative errno. */
int ag_perf_watch_set_program(struct ag_perf_watch *watch, size_t source, int program);
/* Adds a source that samples the first write of each thread to one word of the target's memory,
 * with the CPU's debug registers. Only threads that exist now are included. The source samples
 * nothing before ag_perf_watch_set_word, and is not started by ag_perf_watch_start. Returns the
 * index of the source, or a negative errno, for example if the CPU or kernel has no debug
 * registers, a debugger uses them, or (-EOPNOTSUPP) they do not notice a write, as on some virtual
 * machines. */
int ag_perf_watch_add_word(struct ag_perf_watch *watch, uint32_t stack_bytes);
/* Watches the word at ADDRESS, a multiple of AG_PERF_WORD_BYTES, instead of the previous one.
 * Each thread writes one sample per CPU at most, with `address` in it. Returns 0 or a negative
 * errno; after a failure no word is watched. */
int ag_perf_watch_set_word(struct ag_perf_watch *watch, size_t source, uint64_t address);
int ag_perf_watch_start(struct ag_perf_watch *watch);
void ag_perf_watch_stop(struct ag_perf_watch *watch);
/* Waits until there is something to read, `other` (a descriptor, -1: none) is readable, a signal
 * arrives or the time is over. Returns true if `other` is readable. */
bool ag_perf_watch_wait(struct ag_perf_watch *watch, int timeout_ms, int other);
/* Passes all events that were written since the last call to the callbacks. */
void ag_perf_watch_drain(struct ag_perf_watch *watch, const struct ag_perf_sink *sink);
/* The number of samples that the kernel could not write. */
uint64_t ag_perf_watch_lost(const struct ag_perf_watch *watch);
/* Whether time that threads spend in the kernel is included. */
bool ag_perf_watch_sees_kernel(const struct ag_perf_watch *watch);

#endif
