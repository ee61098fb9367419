/* node_probes.c: attaches the programs of node.bpf.c that watch collections: breakpoints (uprobes)
 * at the start and at the return of the emulator's functions that collect.
 *
 * The kernel executes the instruction at a breakpoint itself. It emulates a push, which takes 0.6
 * us in a virtual machine. It may have to execute other instructions out of line, which takes 20
 * us. So a function is only probed if its first instruction (after an endbr64) is a push. A build
 * whose functions begin differently is refused rather than slowed.
 *
 * A uprobe session runs one program at the entry and at the return of a function. The program's
 * result at the entry decides whether it also runs at the return, so the returns of collections
 * that are not reported (each costs half as much as an entry) are skipped. Linux 6.13 has sessions;
 * libbpf 1.1 does not, so the link is made by the system call. */
#include "node_probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The functions that collect, and whether their second argument is the number of needed words. */
static const struct {
    const char *name;
    bool needs_words;
} collecting[] = {
    {"erts_garbage_collect", true},
    {"erts_garbage_collect_nobump", true},
    {"erts_gc_after_bif_call_lhf", false},
    {"erts_garbage_collect_hibernate", false},
};
enum { N_COLLECTING = sizeof collecting / sizeof *collecting };
_Static_assert(2 * N_COLLECTING <= NODE_PROBES_MOST, "each function has room for two probes");

struct place {
    char path[PATH_MAX];
    uint64_t offset; /* offset of the push in the file */
};

/* Returns the offset of the push with which the function begins, behind endbr64 if that is there;
 * -ENOTSUP: the function begins differently. */
static int leading_push_offset(const uint8_t *code, size_t n_bytes) {
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    const int at = n_bytes > sizeof endbr64 && memcmp(code, endbr64, sizeof endbr64) == 0 ? 4 : 0;
    const int prefix = code[at] == 0x41; /* r8 to r15 */
    return (code[at + prefix] & 0xf8) == 0x50 ? at : -ENOTSUP;
}

static int find_place(struct node *node, const char *name, struct place *ret_place) {
    struct allogram_target_symbol symbol;
    uint8_t code[16];
    int r = allogram_target_symbol(node->target, name, &symbol);
    r = r < 0 ? r : allogram_target_read(node->target, symbol.address, code, sizeof code);
    r = r < 0 ? r
              : allogram_target_file(node->target, symbol.address, ret_place->path,
                                     sizeof ret_place->path, &ret_place->offset);
    const int push = r < 0 ? r : leading_push_offset(code, sizeof code);
    if (push < 0) {
        return push;
    }
    ret_place->offset += (uint64_t)push;
    return 0;
}

/* ---- one program for both ends -------------------------------------------------------------- */

/* The part of union bpf_attr that BPF_LINK_CREATE reads for several uprobes, since Linux 6.6. */
struct session_link {
    uint32_t program, target, attach_type, flags;
    uint64_t path, offsets, reference_offsets, cookies;
    uint32_t count, probe_flags, pid, unused;
};

static int attach_session(struct node *node, struct bpf_object *object,
                          const struct place places[N_COLLECTING]) {
    uint64_t offsets[N_COLLECTING], cookies[N_COLLECTING];
    for (size_t i = 0; i < N_COLLECTING; i++) {
        offsets[i] = places[i].offset;
        cookies[i] = collecting[i].needs_words;
        if (strcmp(places[i].path, places[0].path) != 0) {
            return -ENOTSUP;
        }
    }
    struct session_link link = {
        .program =
            (uint32_t)bpf_program__fd(bpf_object__find_program_by_name(object, "node_collection")),
        .attach_type = NODE_PROBES_SESSION,
        .path = (uint64_t)(uintptr_t)places[0].path,
        .offsets = (uint64_t)(uintptr_t)offsets,
        .cookies = (uint64_t)(uintptr_t)cookies,
        .count = N_COLLECTING,
        .pid = (uint32_t)allogram_target_pid(node->target),
    };
    const long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &link, sizeof link);
    return fd < 0 ? -errno : (int)fd;
}

/* ---- a program for each end ------------------------------------------------------------------ */

static int attach_end(struct node *node, struct bpf_object *object, struct node_probes *probes,
                      const struct place *place, bool is_return, bool needs_words) {
    const char *program = is_return ? "node_collection_ends" : "node_collection_begins";
    LIBBPF_OPTS(bpf_uprobe_opts, options, .retprobe = is_return, .bpf_cookie = needs_words);
    struct bpf_link *link = bpf_program__attach_uprobe_opts(
        bpf_object__find_program_by_name(object, program), allogram_target_pid(node->target),
        place->path, place->offset, &options);
    if (link == NULL) {
        return -errno;
    }
    probes->links[probes->n++] = link;
    return 0;
}

int node_probes_attach(struct node *node, struct bpf_object *object, bool has_sessions,
                       struct node_probes *probes, char *ret_problem, size_t problem_bytes) {
    struct place places[N_COLLECTING];
    size_t i = 0;
    int r = 0;
    for (; i < N_COLLECTING && r == 0; i++) {
        r = find_place(node, collecting[i].name, &places[i]);
    }
    const int session = r == 0 && has_sessions ? attach_session(node, object, places) : -ENOTSUP;
    if (session >= 0) {
        *probes = (struct node_probes){.n = N_COLLECTING, .session = session + 1};
        return 0;
    }
    for (i = r == 0 ? 0 : i; i < N_COLLECTING && r == 0; i++) {
        r = attach_end(node, object, probes, &places[i], /* is_return= */ true, false);
        r = r < 0 ? r
                  : attach_end(node, object, probes, &places[i], /* is_return= */ false,
                               collecting[i].needs_words);
    }
    if (r < 0) {
        node_probes_detach(probes);
        snprintf(ret_problem, problem_bytes, "cannot watch %s: %s%s", collecting[i - 1].name,
                 r == -ENOTSUP
                     ? "its first instruction is not a push, so a breakpoint there would be slow"
                     : strerror(-r),
                 r == -EPERM || r == -EACCES ? "; run as root" : "");
    }
    return r;
}

void node_probes_detach(struct node_probes *probes) {
    for (size_t i = 0; probes->session == 0 && i < probes->n; i++) {
        (void)bpf_link__destroy(probes->links[i]); // an error has no remedy
    }
    if (probes->session != 0) {
        close(probes->session - 1);
    }
    *probes = (struct node_probes){0};
}
