/* block_filter.c: parses and applies the filters that select the blocks of a recording. It uses no
 * stdio, because the agent (the library inside the profiled process) calls it. */
#include "block_filter.h"

#include <errno.h>
#include <string.h>

#include "compiler.h"

static const char *const domains[] = {"cpu", "gpu", "external"};
static const struct {
    const char *text;
    enum ag_block_filter_key key;
} keys[] = {{"domain=", AG_FILTER_BY_DOMAIN},
            {"allocator=", AG_FILTER_BY_ALLOCATOR},
            {"heap=", AG_FILTER_BY_HEAP},
            {"size=", AG_FILTER_BY_SIZE},
            {"type=", AG_FILTER_BY_TYPE}};

static const char not_a_term[] =
    ": not a term of a filter; terms are domain=cpu|gpu|external, allocator=NAME, heap=NAME, "
    "size=LOW..HIGH and type=GLOB, joined by commas; \"!\" before a term negates it";
static const char too_many[] = ": one term too many; a filter has at most 8";
static const char too_long[] = "...: the filter is too long; it may have 639 bytes";
_Static_assert(AG_BLOCK_FILTER_TERMS == 8 && AG_BLOCK_FILTER_TEXT_BYTES == 640, "as in the texts");

/* WHY: one of the texts above. */
static int filter_refuse(const char *term, size_t length, const char *why, char message[512]) {
    const size_t kept = length < 100 ? length : 100;
    memcpy(message, term, kept);
    memcpy(message + kept, why, strlen(why) + 1);
    return -EINVAL;
}

/* Reads digits, optionally followed by K, M or G (powers of 1024). Returns the end of the number;
 * NULL: there is no digit, or the number is too large. */
static const char *read_bytes(const char *at, uint64_t *ret_bytes) {
    static const char units[] = "KMG";
    uint64_t bytes = 0;
    const char *start = at;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (bytes >> 56 != 0) {
            return NULL;
        }
        bytes = bytes * 10 + (uint64_t)(*at - '0');
    }
    const char *unit = *at ? strchr(units, *at) : NULL;
    const uint32_t shift = unit ? 10 * (uint32_t)(unit - units + 1) : 0;
    if (at == start || bytes << shift >> shift != bytes) {
        return NULL;
    }
    *ret_bytes = bytes << shift;
    return at + (unit != NULL);
}

/* Reads LOW..HIGH, of which one may be missing. */
static bool read_sizes(const char *text, uint64_t *ret_low, uint64_t *ret_high) {
    *ret_low = 0;
    *ret_high = UINT64_MAX;
    const char *at = text[0] == '.' ? text : read_bytes(text, ret_low);
    if (!at || at[0] != '.' || at[1] != '.') {
        return false;
    }
    at += 2;
    if (at[0] != '\0') {
        at = read_bytes(at, ret_high);
    } else if (text[0] == '.') {
        return false; /* every size matches: not a valid term */
    }
    return at && at[0] == '\0' && *ret_low <= *ret_high;
}

static bool read_domain(const char *text, uint32_t *ret_domain) {
    for (uint32_t i = 0; i < AG_ARRAY_SIZE(domains); i++) {
        if (strcmp(text, domains[i]) == 0) {
            *ret_domain = i;
            return true;
        }
    }
    return false;
}

static bool read_term(const char *term, size_t length, struct ag_block_filter *filter) {
    const uint32_t at = filter->n_terms++;
    char *name = filter->terms[at].name;
    filter->terms[at].is_negated = length > 0 && term[0] == '!';
    term += filter->terms[at].is_negated;
    length -= filter->terms[at].is_negated;
    size_t i = 0, key_length = 0;
    for (; i < AG_ARRAY_SIZE(keys); i++) {
        key_length = strlen(keys[i].text);
        if (length > key_length && memcmp(term, keys[i].text, key_length) == 0) {
            break;
        }
    }
    if (i == AG_ARRAY_SIZE(keys) || length - key_length >= AG_BLOCK_FILTER_NAME_BYTES) {
        return false;
    }
    filter->terms[at].key = keys[i].key;
    memcpy(name, term + key_length, length - key_length);
    name[length - key_length] = '\0';
    switch (keys[i].key) {
    case AG_FILTER_BY_DOMAIN:
        return read_domain(name, &filter->terms[at].domain);
    case AG_FILTER_BY_SIZE:
        filter->has_sizes = true;
        return read_sizes(name, &filter->terms[at].low, &filter->terms[at].high);
    case AG_FILTER_BY_TYPE:
        filter->has_types = true;
        return true;
    case AG_FILTER_BY_ALLOCATOR:
    case AG_FILTER_BY_HEAP:
        return true;
    }
    return false;
}

static bool names_type(const char *term) {
    static const char key[] = "type=";
    return strncmp(term + (*term == '!'), key, strlen(key)) == 0;
}

/* Returns the comma that ends the term; NULL: the term is the last one. A comma between brackets
 * belongs to the name of a type, such as Array{Float64,1}. If the brackets of the name are not
 * balanced, the first comma ends the term. */
static const char *find_comma(const char *term) {
    size_t depth = 0;
    for (const char *at = term; names_type(term) && *at; at++) {
        const bool is_arrow = *at == '>' && at[-1] == '-';
        depth += strchr("([{<", *at) != NULL;
        depth -= depth > 0 && !is_arrow && strchr(")]}>", *at) != NULL;
        if (*at == ',' && depth == 0) {
            return at;
        }
    }
    return depth == 0 && names_type(term) ? NULL : strchr(term, ',');
}

int ag_block_filter_parse(const char *expression, struct ag_block_filter *ret_filter,
                          char ret_message[512]) {
    struct ag_block_filter filter;
    memset(&filter, 0, sizeof(filter));
    const char *at = expression ? expression : "";
    const size_t whole = strnlen(at, AG_BLOCK_FILTER_TEXT_BYTES);
    if (whole == AG_BLOCK_FILTER_TEXT_BYTES) {
        return filter_refuse(at, whole, too_long, ret_message);
    }
    while (at[0] != '\0') {
        const char *comma = find_comma(at);
        const size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (filter.n_terms == AG_BLOCK_FILTER_TERMS) {
            return filter_refuse(at, length, too_many, ret_message);
        }
        if (!read_term(at, length, &filter)) {
            return filter_refuse(at, length, not_a_term, ret_message);
        }
        at += length + (comma != NULL);
        if (comma && at[0] == '\0') {
            return filter_refuse(comma, 1, not_a_term, ret_message);
        }
    }
    *ret_filter = filter;
    return 0;
}

/* ---- matching ---- */

bool ag_block_filter_takes_heap(const struct ag_block_filter *filter, uint32_t domain,
                                const char *allocator, const char *heap) {
    for (uint32_t i = 0; i < filter->n_terms; i++) {
        const char *name = filter->terms[i].name;
        bool holds = false;
        switch (filter->terms[i].key) {
        case AG_FILTER_BY_DOMAIN:
            holds = filter->terms[i].domain == domain;
            break;
        case AG_FILTER_BY_ALLOCATOR:
            holds = strcmp(name, allocator) == 0;
            break;
        case AG_FILTER_BY_HEAP:
            holds = strcmp(name, heap) == 0;
            break;
        case AG_FILTER_BY_SIZE:
        case AG_FILTER_BY_TYPE:
            continue;
        }
        if (holds == filter->terms[i].is_negated) {
            return false;
        }
    }
    return true;
}

bool ag_block_filter_takes_size(const struct ag_block_filter *filter, uint64_t bytes) {
    for (uint32_t i = 0; i < filter->n_terms; i++) {
        const bool holds = bytes >= filter->terms[i].low && bytes <= filter->terms[i].high;
        if (filter->terms[i].key == AG_FILTER_BY_SIZE && holds == filter->terms[i].is_negated) {
            return false;
        }
    }
    return true;
}

enum blanks { BLANKS_COMPARED, BLANKS_SKIPPED };

/* After a mismatch, the last star matches one character more. So the loop takes at most (length of
 * the text) * (length of the glob) steps. */
static bool matches(const char *text, const char *glob, enum blanks blanks) {
    const char *star = NULL, *behind_star = NULL;
    while (*text) {
        if (*text == ' ' && blanks == BLANKS_SKIPPED) {
            text++;
        } else if (*glob == ' ' && blanks == BLANKS_SKIPPED) {
            glob++;
        } else if (*glob == '*') {
            star = ++glob;
            behind_star = text;
        } else if (*glob && (*glob == '?' || *glob == *text)) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = ++behind_star;
        } else {
            return false;
        }
    }
    while (*glob == '*' || (*glob == ' ' && blanks == BLANKS_SKIPPED)) {
        glob++;
    }
    return *glob == '\0';
}

/* Languages and their runtimes print the same type with different blanks. So if the glob does not
 * match, blanks are skipped in both texts; then "?" matches no blank. */
static bool is_like(const char *text, const char *glob) {
    return matches(text, glob, BLANKS_COMPARED) || matches(text, glob, BLANKS_SKIPPED);
}

bool ag_block_filter_takes_type(const struct ag_block_filter *filter, const char *type) {
    for (uint32_t i = 0; i < filter->n_terms; i++) {
        if (filter->terms[i].key != AG_FILTER_BY_TYPE) {
            continue;
        }
        if ((type && is_like(type, filter->terms[i].name)) == filter->terms[i].is_negated) {
            return false;
        }
    }
    return true;
}
