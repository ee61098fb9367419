/* all_standing.c: what is done while all threads of the process are stopped: it finds out where
 * they are, and writes code. See attach_state.h. */
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "attach_state.h"
#include "base/error_message.h"
#include "remote/remote_memory.h"

enum { STAND_TRIES = 200 };

void ag_attach_release_all(struct ag_attach *attach, struct ag_attach_times *times) {
    const uint64_t stood_ns = ag_stopped_threads_release(&attach->threads);
    times->others_ns = stood_ns > times->others_ns ? stood_ns : times->others_ns;
}

int ag_attach_stop_all(struct ag_attach *attach, char message[512]) {
    return ag_observed_images_refresh(&attach->images) < 0
               ? ag_error_message(message, -ESRCH, "%d (%s): has ended", attach->process.pid,
                                  attach->process.name)
               : ag_stopped_threads_all(&attach->threads, message);
}

/* The bytes that no thread may be in while they change: all but the first of each site. */
size_t ag_attach_site_ranges(const struct ag_attach *attach,
                             struct ag_code_range ret_ranges[AG_ATTACHMENT_SITES]) {
    const struct ag_attachment *attachment = &attach->attachment;
    for (uint32_t i = 0; i < attachment->n_sites; i++) {
        const uint64_t place = attachment->sites[i].place;
        ret_ranges[i] = (struct ag_code_range){place + 1, place + AG_ATTACHMENT_CODE_BYTES};
    }
    return attachment->n_sites;
}

bool ag_attach_any_thread_in_ranges(struct ag_attach *attach, const struct ag_code_range *ranges,
                                    size_t n_ranges) {
    for (size_t i = 0; i < attach->threads.n; i++) {
        if (ag_thread_is_in_ranges(&attach->ground, &attach->threads.items[i], ranges, n_ranges)) {
            return true;
        }
    }
    return false;
}

/* Writes code by ptrace, which ignores the protection of the pages and leaves it unchanged. */
static int write_code(const struct ag_attach *attach, uint64_t place, const uint8_t *bytes) {
    enum { WORD = sizeof(long) };
    const pid_t tid = attach->threads.items[0].tid;
    for (uint64_t at = place & ~(uint64_t)(WORD - 1); at < place + AG_ATTACHMENT_CODE_BYTES;
         at += WORD) {
        uint8_t word[WORD];
        int r = ag_remote_memory_read(attach->process.pid, at, word, sizeof word);
        if (r < 0) {
            return r;
        }
        for (int i = 0; i < WORD; i++) {
            /* huge if the byte lies before the place */
            const uint64_t offset = at + (uint64_t)i - place;
            if (offset < AG_ATTACHMENT_CODE_BYTES) {
                word[i] = bytes[offset];
            }
        }
        long value;
        memcpy(&value, word, sizeof value);
        if (ptrace(PTRACE_POKETEXT, tid, (void *)(uintptr_t)at, (void *)value) < 0) {
            return -errno;
        }
    }
    return 0;
}

/* Each place has to hold the expected bytes; a place that does not is left unchanged. */
int ag_attach_write_sites(const struct ag_attach *attach, bool is_on, char message[512]) {
    const struct ag_attachment *attachment = &attach->attachment;
    int result = 0;
    for (uint32_t i = 0; i < attachment->n_sites; i++) {
        const struct ag_attachment_site *site = &attachment->sites[i];
        uint8_t now[AG_ATTACHMENT_CODE_BYTES];
        int r = ag_remote_memory_read(attach->process.pid, site->place, now, sizeof now);
        if (r == 0 && memcmp(now, is_on ? site->before : site->after, sizeof now) != 0) {
            r = -EBUSY;
        }
        r = r < 0 ? r : write_code(attach, site->place, is_on ? site->after : site->before);
        if (r < 0) {
            result = ag_error_message(
                message, r, "%d (%s): cannot change its code at 0x%llx: %s", attach->process.pid,
                attach->process.name, (unsigned long long)site->place,
                r == -EBUSY ? "another program has changed it" : strerror(-r));
        }
    }
    return result;
}

/* Stops all threads, again and again until no thread is in the ranges. 0: all are stopped. */
int ag_attach_stop_all_outside(struct ag_attach *attach, const struct ag_code_range *ranges,
                               size_t n_ranges, struct ag_attach_times *times, char message[512]) {
    for (int i = 0; i < STAND_TRIES; i++) {
        const int r = ag_attach_stop_all(attach, message);
        if (r == 0 && !ag_attach_any_thread_in_ranges(attach, ranges, n_ranges)) {
            return 0;
        }
        ag_attach_release_all(attach, times);
        if (r < 0 && r != -EAGAIN) {
            return r;
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, message);
        }
        ag_attach_pause(attach);
    }
    return ag_error_message(message, -EAGAIN,
                            "%d (%s): at each try a thread was at the beginning of an allocation "
                            "function; try again",
                            attach->process.pid, attach->process.name);
}

bool ag_attach_any_thread_is_inside(struct ag_attach *attach) {
    const struct ag_attachment *attachment = &attach->attachment;
    struct ag_code_range ranges[1 + AG_ATTACHMENT_PAGES] = {attach->agent};
    for (uint32_t i = 0; i < attachment->n_pages; i++) {
        ranges[1 + i] = (struct ag_code_range){attachment->pages[i].low, attachment->pages[i].high};
    }
    return ag_attach_any_thread_in_ranges(attach, ranges, 1 + attachment->n_pages);
}
