/* ranking.c: sorts the rows of a view, and writes how many rows a limit hides. See ranking.h. */
#include "report/ranking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report/page.h"
#include "report/quantity.h"
#include "report/table.h"

int ag_ranking_start(struct ag_ranking *ranking, size_t capacity) {
    *ranking = (struct ag_ranking){.ranks = calloc(capacity + 1, sizeof *ranking->ranks),
                                   .capacity = capacity};
    return ranking->ranks != NULL ? 0 : -ENOMEM;
}

void ag_ranking_add(struct ag_ranking *ranking, struct ag_rank rank) {
    if (ranking->count < ranking->capacity) {
        ranking->ranks[ranking->count++] = rank;
    }
}

static int compare(const void *left, const void *right) {
    const struct ag_rank *a = left, *b = right;
    if (a->first != b->first) {
        return a->first > b->first ? -1 : 1;
    }
    if (a->second != b->second) {
        return a->second > b->second ? -1 : 1;
    }
    return (a->row > b->row) - (a->row < b->row);
}

void ag_ranking_sort_part(struct ag_rank *ranks, size_t count) {
    qsort(ranks, count, sizeof *ranks, compare);
}

void ag_ranking_sort(struct ag_ranking *ranking) {
    ag_ranking_sort_part(ranking->ranks, ranking->count);
}

void ag_ranking_end(struct ag_ranking *ranking) {
    free(ranking->ranks);
    *ranking = (struct ag_ranking){0};
}

void ag_ranking_write_rest(struct ag_page *page, size_t n_hidden, const char *what, uint64_t part,
                           uint64_t whole) {
    if (n_hidden == 0) {
        return;
    }
    struct ag_quantity count, share;
    const bool has_plural = what != NULL && n_hidden != 1;
    const bool ends_in_s = has_plural && what[strlen(what) - 1] == 's';
    ag_page_print(page, AG_STYLE_DIM, "  %s %s%s, %s%s\n", ag_quantity_count(&count, n_hidden),
                  what != NULL ? what : "more",
                  ends_in_s    ? "es"
                  : has_plural ? "s"
                               : "",
                  ag_quantity_share(&share, part, whole),
                  page->has_no_limit_option ? "" : "; --limit=0 shows all");
}

uint64_t ag_ranking_sum(const struct ag_ranking *ranking, uint64_t from) {
    uint64_t sum = 0;
    for (uint64_t i = from; i < ranking->count; i++) {
        sum += ranking->ranks[i].first;
    }
    return sum;
}

int ag_ranking_write_table(struct ag_ranking *ranking, uint64_t limit, struct ag_table *table,
                           struct ag_page *page, const char *what, uint64_t hidden,
                           uint64_t whole) {
    const int r = ag_table_write(table, page);
    if (r == 0 && ranking->count > limit) {
        ag_ranking_write_rest(page, ranking->count - limit, what, hidden, whole);
    }
    ag_table_free(table);
    ag_ranking_end(ranking);
    return r;
}
