/* ranking.h: sorts the rows of a view: the largest first, and equal ones in their order in the
 * profile. */
#ifndef AG_RANKING_H
#define AG_RANKING_H

#include <stddef.h>
#include <stdint.h>

struct ag_page;
struct ag_table;

struct ag_rank {
    uint64_t first, second; /* sort keys: second decides between ranks with equal first */
    uint32_t row;           /* the index of the row in the table that the caller sorts */
};
struct ag_ranking {
    struct ag_rank *ranks;
    size_t count, capacity;
};
int ag_ranking_start(struct ag_ranking *ranking, size_t capacity); /* 0 or -ENOMEM */
/* Ranks beyond the capacity are ignored. */
void ag_ranking_add(struct ag_ranking *ranking, struct ag_rank rank);
void ag_ranking_sort(struct ag_ranking *ranking);
void ag_ranking_sort_part(struct ag_rank *ranks, size_t count);
void ag_ranking_end(struct ag_ranking *ranking);

/* Writes a line such as "  312 more stacks, 4 %; --limit=0 shows all", or nothing if N_HIDDEN is 0.
 * Here N_HIDDEN is 312, WHAT is "more stack", and PART is 4 % of WHOLE. WHAT is a singular with a
 * regular plural; NULL: the line has "312 more". */
void ag_ranking_write_rest(struct ag_page *page, size_t n_hidden, const char *what, uint64_t part,
                           uint64_t whole);
/* Writes TABLE, which has the first LIMIT rows, then the line of ag_ranking_write_rest for the
 * other rows, whose values add up to HIDDEN of WHOLE. Frees the table and the ranking. 0 or
 * -ENOMEM. */
int ag_ranking_write_table(struct ag_ranking *ranking, uint64_t limit, struct ag_table *table,
                           struct ag_page *page, const char *what, uint64_t hidden, uint64_t whole);
/* The sum of the member `first` over all sorted ranks except the FROM largest. */
uint64_t ag_ranking_sum(const struct ag_ranking *ranking, uint64_t from);

#endif
