/* work_meter.c: measures the cost of reading an image's files (work_meter.h). The clock is read at
 * the beginning and the end of a piece of work, and once every STEPS calls of ag_work_meter_step,
 * by a system call that takes 0.2 us. Resident memory is read only in work that calls
 * ag_work_meter_look or makes STEPS steps, because short look-ups use no memory except for names,
 * whose bytes are counted. */
#include "work_meter.h"

#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"

enum {
    STEPS = 256, /* number of steps between two readings of the clock and the memory */
    /* allowed time per byte of the files, which is 20 MB of files per second */
    NS_PER_BYTE = 50,
    /* allowed memory per byte of the files; normal files need at most 7 bytes and 25 ns per byte */
    BYTES_PER_BYTE = 16,
    SHARE = 4,      /* one image may use 1/SHARE of the reserve */
    NS_TO_FILL = 4, /* time to fill a byte of memory by decompressing */
};
static const uint64_t reserve_ns = UINT64_C(1200000000), reserve_bytes = UINT64_C(160) << 20;

void ag_work_reserve_init(struct ag_work_reserve *reserve) {
    reserve->left_ns = reserve_ns;
    reserve->left_bytes = reserve_bytes;
}

/* Returns the peak of the resident memory of the process. (getrusage also returns the CPU time, but
 * not more exactly than the kernel's clock tick.) */
static uint64_t resident_bytes(void) {
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_THREAD, &usage); /* cannot fail with these arguments */
    return (uint64_t)usage.ru_maxrss * 1024u;
}

static uint64_t limit_of(uint64_t own, uint64_t left, uint64_t lent) {
    return own + (left + lent) / SHARE;
}

/* USED is what the image has used; OWN is its own amount. If USED is more than OWN, the difference
 * is taken from the reserve: LENT, what the image has taken so far, rises to the difference, and
 * LEFT, the rest of the reserve, falls by as much as LENT rises. */
static void lend(uint64_t used, uint64_t own, uint64_t *lent, uint64_t *left) {
    const uint64_t wanted = used > own ? used - own : 0;
    if (wanted > *lent) {
        const uint64_t more = wanted - *lent < *left ? wanted - *lent : *left;
        *lent += more;
        *left -= more;
    }
}

/* Adds the CPU time since the last reading, and sets is_spent if the image's share is spent. */
static void judge(struct ag_work_meter *meter) {
    struct ag_work_reserve *reserve = meter->reserve;
    const uint64_t own_ns = NS_PER_BYTE * meter->stored_bytes;
    const uint64_t own_bytes = BYTES_PER_BYTE * meter->stored_bytes;
    const uint64_t now_ns = ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    meter->used_ns += now_ns - meter->from_ns;
    meter->from_ns = now_ns;
    meter->is_spent |=
        meter->used_ns > limit_of(own_ns, reserve->left_ns, meter->lent_ns) ||
        meter->used_bytes > limit_of(own_bytes, reserve->left_bytes, meter->lent_bytes) ||
        (reserve->is_hurried != NULL && reserve->is_hurried());
    lend(meter->used_ns, own_ns, &meter->lent_ns, &reserve->left_ns);
    lend(meter->used_bytes, own_bytes, &meter->lent_bytes, &reserve->left_bytes);
}

bool ag_work_meter_look(struct ag_work_meter *meter) {
    if (meter == NULL || !meter->is_running) {
        return true;
    }
    const uint64_t now_bytes = resident_bytes();
    if (meter->from_bytes != 0 && now_bytes > meter->from_bytes) {
        meter->used_bytes += now_bytes - meter->from_bytes;
    }
    meter->from_bytes = now_bytes;
    judge(meter);
    return !meter->is_spent;
}

void ag_work_meter_begin(struct ag_work_meter *meter) {
    if (meter->reserve != NULL) {
        meter->from_ns = ag_kernel_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        meter->from_bytes = 0;
        meter->is_running = true;
    }
}

void ag_work_meter_end(struct ag_work_meter *meter, size_t n_bytes) {
    if (meter->is_running) {
        if (meter->from_bytes != 0) {
            (void)ag_work_meter_look(meter); /* the result is in is_spent */
        } else {
            meter->used_bytes += n_bytes;
            judge(meter);
        }
        meter->is_running = false;
    }
}

bool ag_work_meter_step(struct ag_work_meter *meter) {
    if (meter == NULL || !meter->is_running) {
        return true;
    }
    if (++meter->n_steps % STEPS == 0) {
        (void)ag_work_meter_look(meter); /* the result is in is_spent */
    }
    return !meter->is_spent;
}

bool ag_work_meter_borrow(struct ag_work_meter *meter, uint64_t n_bytes) {
    struct ag_work_reserve *reserve = meter->reserve;
    if (reserve == NULL) {
        return true;
    }
    if (n_bytes > reserve->left_bytes / SHARE || n_bytes * NS_TO_FILL > reserve->left_ns / SHARE) {
        return false;
    }
    reserve->left_bytes -= n_bytes;
    meter->lent_bytes += n_bytes;
    reserve->left_ns -= n_bytes * NS_TO_FILL;
    meter->lent_ns += n_bytes * NS_TO_FILL;
    return true;
}
