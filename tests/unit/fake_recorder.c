/* fake_recorder.c: see fake_recorder.h. A recorder writes events into chunks (buffers in the
 * live file). It chooses a chunk as the real recorder does, with simpler limits: it takes a free
 * chunk that was used before; if there is none, it takes a chunk that was never used, but only if
 * fewer than soft_chunks are in use. Otherwise it waits for a free chunk. If the tick (a counter
 * that the writer process increments every millisecond) does not change during 1000 polls, no
 * writer lives, and the recorder takes a chunk that was never used. */
#include "fake_recorder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/populate.h"
#include "writer/session_clock.h"

enum { CHUNK_RESERVE_WORDS = 8 };

static bool tree_is_in_use(struct ag_session *session, uint32_t tree) {
    for (uint32_t i = 0; i < session->n_slots; i++) {
        const struct ag_process_slot *slot = ag_session_slot(session, i);
        if (i != tree && slot->tree == tree && atomic_load(&slot->state) != AG_SLOT_FREE) {
            return true;
        }
    }
    return false;
}

static void announce(struct ag_session *session, uint32_t slot) {
    _Atomic uint32_t *used = &session->header->n_slots_used;
    uint32_t found = atomic_load(used);
    while (found <= slot && !atomic_compare_exchange_weak(used, &found, slot + 1)) {
    }
}

int fake_process_join(struct ag_session *session) {
    static const char text[] = "/work\0/bin/fake\0fake\0an argument";
    for (uint32_t i = 0; i < session->n_slots; i++) {
        struct ag_process_slot *slot = ag_session_slot(session, i);
        announce(session, i); /* like the recorder, before it takes the slot */
        uint32_t expected = AG_SLOT_FREE;
        if (tree_is_in_use(session, i) ||
            !atomic_compare_exchange_strong(&slot->state, &expected, AG_SLOT_CLAIMED)) {
            continue;
        }
        slot->pid = (uint32_t)getpid();
        slot->pid_namespace = session->pid_namespace;
        slot->parent_pid = (uint32_t)getppid();
        slot->tree = i;
        slot->start_raw = ag_session_clock_raw(session->clock_kind);
        atomic_store(&slot->n_streams, 0);
        atomic_store(&slot->exiting, 1);
        atomic_store(&slot->wait_status_known, 0);
        memset((void *)slot->lost, 0, sizeof(slot->lost));
        memcpy(slot->text, text, sizeof(text));
        slot->text_bytes = sizeof(text);
        slot->cwd_offset = 0;
        slot->exe_offset = 6;
        slot->command_offset = 16;
        slot->n_arguments = 2;
        atomic_store(&slot->state, AG_SLOT_LIVE);
        return (int)i;
    }
    return -1;
}

uint32_t fake_node(struct ag_session *session, uint32_t tree, uint32_t n, uint32_t parent) {
    struct ag_site *sites = (struct ag_site *)(void *)ag_session_tree(session, tree);
    struct ag_linked_node *node =
        (struct ag_linked_node *)(void *)((uint8_t *)sites +
                                          ag_tree_node_offset(AG_NODE_FIRST + n));
    if (!ag_populate(&sites[n], sizeof(*sites)) || !ag_populate(node, sizeof(*node))) {
        abort();
    }
    atomic_store(&sites[n].pc, 0x400000 + n);
    atomic_store(&node->word, (uint64_t)parent << 32 | (n + 1));
    return AG_NODE_FIRST + n;
}

/* ---- chunks ---- */

static int64_t pop_free(struct ag_session *session) {
    uint64_t head = atomic_load(&session->header->free_head);
    while ((uint32_t)head != 0) {
        const struct ag_chunk_control *control = ag_session_control(session, (uint32_t)head - 1);
        const uint64_t next = ((head >> 32) + 1) << 32 | atomic_load(&control->next_free);
        if (atomic_compare_exchange_weak(&session->header->free_head, &head, next)) {
            return (uint32_t)head - 1;
        }
    }
    return -1;
}

static uint32_t take_chunk(struct ag_session *session) {
    struct ag_segment_header *header = session->header;
    const struct timespec poll = {.tv_nsec = 50 * 1000};
    uint64_t tick = 0;
    for (int still = 0; still < 1000; still++) {
        const int64_t index = pop_free(session);
        if (index >= 0) {
            return (uint32_t)index;
        }
        if (atomic_load(&header->n_chunks_in_use) < header->soft_chunks) {
            break;
        }
        (void)nanosleep(&poll, NULL); /* waking early does no harm */
        still = atomic_load(&header->tick) == tick ? still : 0;
        tick = atomic_load(&header->tick);
    }
    const uint32_t index = atomic_fetch_add(&header->n_chunks_touched, 1);
    if (index >= session->n_chunks ||
        !ag_populate((void *)(uintptr_t)ag_session_chunk_words(session, index), AG_CHUNK_BYTES)) {
        abort();
    }
    return index;
}

static void hand_over(struct fake_stream *stream) {
    if (stream->control) {
        atomic_store(&stream->control->state, AG_CHUNK_FULL);
        stream->control = NULL;
    }
}

static void take(struct fake_stream *stream) {
    hand_over(stream);
    const uint32_t index = take_chunk(stream->session);
    atomic_fetch_add(&stream->session->header->n_chunks_in_use, 1);
    stream->control = ag_session_control(stream->session, index);
    stream->words = (uint64_t *)(uintptr_t)ag_session_chunk_words(stream->session, index);
    stream->used = 0;
    stream->control->slot = stream->slot_index;
    stream->control->slot_generation = atomic_load(&stream->slot->generation);
    stream->control->stream = stream->stream;
    stream->control->thread_id = (uint32_t)getpid() + stream->stream;
    stream->control->sequence = stream->sequence++;
    atomic_store(&stream->control->used_words, 0);
    atomic_store(&stream->control->state, AG_CHUNK_ACTIVE);
}

static void commit(struct fake_stream *stream, uint32_t count) {
    stream->used += count;
    atomic_store(&stream->control->used_words, stream->used);
}

static void stamp(struct fake_stream *stream) {
    const uint64_t raw =
        ag_session_clock_raw(stream->session->clock_kind) - stream->session->clock_origin;
    stream->tick = atomic_load(&stream->session->header->tick);
    stream->words[stream->used] = raw << 8 | AG_WORD_STAMP;
    commit(stream, 1);
}

/* Makes room for `count` words in the current chunk or a new one. Adds a stamp (a record of the
 * time) at the start of a chunk, and whenever the tick has changed. */
static void make_room(struct fake_stream *stream, uint32_t count) {
    if (!stream->control || stream->used + count + CHUNK_RESERVE_WORDS > AG_CHUNK_WORDS) {
        take(stream);
        stamp(stream);
    } else if (atomic_load(&stream->session->header->tick) != stream->tick) {
        stamp(stream);
    }
}

void fake_stream_begin(struct fake_stream *stream, struct ag_session *session, int slot) {
    *stream = (struct fake_stream){.session = session,
                                   .slot = ag_session_slot(session, (uint32_t)slot),
                                   .slot_index = (uint32_t)slot};
    stream->stream = atomic_fetch_add(&stream->slot->n_streams, 1);
}

void fake_words(struct fake_stream *stream, const uint64_t *words, uint32_t count) {
    make_room(stream, count);
    memcpy(stream->words + stream->used, words, count * sizeof(*words));
    commit(stream, count);
}

void fake_alloc(struct fake_stream *stream, uint64_t address, uint64_t bytes, uint32_t stack) {
    const uint64_t words[] = {address << 16 | AG_WORD_ALLOC, (uint64_t)stack << 32 | bytes};
    fake_words(stream, words, 2);
}

void fake_free(struct fake_stream *stream, uint64_t address) {
    const uint64_t word = address << 16 | AG_WORD_FREE;
    fake_words(stream, &word, 1);
}

void fake_stream_end(struct fake_stream *stream) {
    hand_over(stream);
}

/* ---- a session in its own folder ---- */

int fake_session_begin(uint64_t max_bytes, char ret_folder[64], struct ag_session **ret_session) {
    char pattern[128], message[512];
    (void)snprintf(ret_folder, 64, "/dev/shm/test_writer_XXXXXX");
    if (!mkdtemp(ret_folder)) {
        (void)snprintf(ret_folder, 64, "/tmp/test_writer_XXXXXX");
        if (!mkdtemp(ret_folder)) {
            return -1;
        }
    }
    (void)snprintf(pattern, sizeof(pattern), "%s/%%e.%%p.allogram", ret_folder);
    const struct ag_session_options options = {.size = sizeof(options),
                                               .output_pattern = pattern,
                                               .live_directory = ret_folder,
                                               .max_bytes = max_bytes};
    return ag_session_create(&options, ret_session, message);
}

void fake_session_files(const char *folder, void (*visit)(const char *path, void *context),
                        void *context) {
    DIR *listing = opendir(folder);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (entry->d_type == DT_REG || strncmp(entry->d_name, ".allogram-live.", 15) == 0) {
            visit(path, context);
        }
    }
    if (listing) {
        closedir(listing);
    }
}

/* Removes a trace; or a live file and its folder. */
static void remove_file(const char *path, void *unused) {
    (void)unused;
    DIR *listing = strstr(path, "/.allogram-live.") ? opendir(path) : NULL;
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        /* fails for . and .., which does no harm */
        (void)unlinkat(dirfd(listing), entry->d_name, 0);
    }
    if (listing) {
        closedir(listing);
        rmdir(path);
    }
    unlink(path);
}

int fake_session_end(const char *folder, struct ag_session **session) {
    *session = ag_session_close(*session);
    fake_session_files(folder, remove_file, NULL);
    return rmdir(folder);
}

/* ---- reading ---- */

int fake_trace_read(const char *path, void (*on_event)(const struct ag_event *event, void *context),
                    void (*on_record)(const struct ag_record *record, void *context),
                    void *context) {
    struct ag_trace_file *file = NULL;
    struct ag_decode_error error;
    const struct ag_chunk_entry *entries = NULL;
    int r = ag_trace_file_open(path, &file, &error);
    if (r < 0) {
        return r;
    }
    const int has_index = ag_trace_file_has_index(file);
    const size_t count = ag_trace_file_chunks(file, &entries);
    struct ag_chunk_decoder *decoder = ag_chunk_decoder_new();
    for (size_t i = 0; r >= 0 && i < count; i++) {
        struct ag_event events[256];
        struct ag_record record = {.kind = 0};
        r = ag_chunk_decoder_start(decoder, file, &entries[i], &error);
        for (int n = 1; r >= 0 && (n > 0 || record.kind != 0);) {
            record.kind = 0;
            n = ag_chunk_decoder_next(decoder, events, 256, &record, &error);
            for (int k = 0; k < n; k++) {
                on_event(&events[k], context);
            }
            if (record.kind != 0) {
                on_record(&record, context);
            }
            r = n < 0 ? n : 0;
        }
    }
    (void)ag_chunk_decoder_free(decoder);
    (void)ag_trace_file_close(file);
    return r < 0 ? r : has_index;
}
