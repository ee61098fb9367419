/* fake_runtimes.c: the part of the fake profile (fake_profile.c) about runtimes, always the same.
 * The trace forum has the function counters of a transfer over TLS 1.3 (the totals include
 * functions that are not listed) and a few collections; all other traces have nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/answers/collections.h"
#include "model/answers/functions.h"
#include "model/profile.h"

enum { FRAME_ENCODE = 13, FRAME_SETELEMENT, FRAME_CONNECTION, FRAME_NONCE };
#define NONE UINT32_MAX

static struct ag_function_row rows[] = {
    {FRAME_ENCODE,
     {1199900, 49195900, 393567200, 4100000000, 169868124, 1358944992, 5600000000},
     false,
     0,
     NULL},
    {FRAME_SETELEMENT,
     {9637069, 120672224, 965377792, 1500000000, 120672224, 965377792, 1500000000},
     false,
     0,
     NULL},
    {FRAME_CONNECTION,
     {1199900, 0, 0, 900000000, 169868124, 1358944992, 6500000000},
     false,
     0,
     NULL},
    {FRAME_NONCE, {3, 9, 72, 0, 9, 72, 0}, false, 0, NULL},
};
static struct ag_function_node nodes[] = {
    {NONE, NONE, 1, NONE, {0, 0, 0, 0, 169868133, 1358945064, 6500000000}},
    {2, 0, 2, 4, {1199900, 0, 0, 900000000, 169868124, 1358944992, 6500000000}},
    {0, 1, 3, NONE, {1199900, 49195900, 393567200, 4100000000, 169868124, 1358944992, 5600000000}},
    {1,
     2,
     NONE,
     NONE,
     {9637069, 120672224, 965377792, 1500000000, 120672224, 965377792, 1500000000}},
    {3, 0, NONE, NONE, {3, 9, 72, 0, 9, 72, 0}},
};
static const struct ag_functions forum = {
    .rows = rows,
    .n_rows = AG_ARRAY_SIZE(rows),
    .nodes = nodes,
    .n_nodes = AG_ARRAY_SIZE(nodes),
    .total = {307692609, 877580394, 7020643152, 60000000000, 877580394, 7020643152, 60000000000},
    .messages = {900000, 12100000, 96800000},
    .spawn_arguments = {12, 3120, 24960},
    .profiler = {600000000, 1200000000, 9600000000},
    .n_trees = 40,
    .n_partial_trees = 1,
};
static const struct ag_functions nothing;

static bool is_forum(const struct ag_profile *profile) {
    return strstr(ag_profile_identity(profile)->file, "forum") != NULL;
}

int ag_profile_functions(struct ag_profile *profile, const struct ag_functions **ret_functions) {
    *ret_functions = is_forum(profile) ? &forum : &nothing;
    return 0;
}

/* Only setelement/3 has callers. */
int ag_profile_callers(struct ag_profile *profile, const char *name,
                       struct ag_caller_row **ret_rows, size_t *ret_count) {
    if (!is_forum(profile) || strcmp(name, "erlang:setelement/3") != 0) {
        return -ENOENT;
    }
    static const struct ag_caller_row callers[] = {
        {0, 8400000, 109200000, 873600000, 1300000000},
        {2, 1237068, 11472223, 91777784, 200000000},
        {NONE, 1, 1, 8, 10},
    };
    *ret_rows = malloc(sizeof callers);
    memcpy(*ret_rows, callers, sizeof callers);
    *ret_count = AG_ARRAY_SIZE(callers);
    return 0;
}

#define MS UINT64_C(1000000)
enum { ALL = AG_GC_KNOWN_END | AG_GC_KNOWN_HEAP | AG_GC_KNOWN_NEED };

int ag_profile_collections(struct ag_profile *profile,
                           const struct ag_collections **ret_collections) {
    static struct ag_collection_row collected[] = {
        {"beam", "minor", "tls_sender\x1b[1m", 100 * MS, 2 * MS, 1 << 20, 1 << 19, 4096,
         ALL | AG_GC_KNOWN_PROMOTED, FRAME_SETELEMENT, 0, 0, 1 << 18},
        {"beam", "major", NULL, 300 * MS, 30 * MS, 3 << 20, 1 << 20, 1 << 16, ALL, FRAME_SETELEMENT,
         0, 0, 0},
        {"beam", "minor", "<0.80.0>", 1500 * MS, 0, 0, 0, 800, AG_GC_KNOWN_NEED, UINT32_MAX, 0, 0,
         0},
    };
    static struct ag_collection_sum runtimes[] = {{"beam", UINT32_MAX, 3, 1, 32 * MS, 30 * MS,
                                                   70432, (1 << 19) + (2 << 20), NULL, 1 << 18,
                                                   true, 0}};
    static struct ag_collection_sum causes[] = {
        {"beam", FRAME_SETELEMENT, 2, 0, 32 * MS, 30 * MS, 69632, (1 << 19) + (2 << 20), NULL,
         1 << 18, true, 0},
        {NULL, UINT32_MAX, 1, 1, 0, 0, 800, 0, NULL, 0, false, 0}};
    static const struct ag_collections all = {.rows = collected,
                                              .runtimes = runtimes,
                                              .causes = causes,
                                              .n_rows = AG_ARRAY_SIZE(collected),
                                              .n_runtimes = AG_ARRAY_SIZE(runtimes),
                                              .n_causes = AG_ARRAY_SIZE(causes)};
    static const struct ag_collections none;
    *ret_collections = is_forum(profile) ? &all : &none;
    return 0;
}
