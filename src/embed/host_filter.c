/* host_filter.c: see host_filter.h. No stdio: the agent has it in it, too. */
#include "host_filter.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"

static const char *const domains[] = {"cpu", "gpu", "external"};
static const struct {
    const char *text;
    enum ag_host_filter_key key;
} keys[] = {{"domain=", AG_HOST_BY_DOMAIN},
            {"allocator=", AG_HOST_BY_ALLOCATOR},
            {"heap=", AG_HOST_BY_HEAP},
            {"size=", AG_HOST_BY_SIZE}};

static int refuse(const char *term, size_t length, char message[512]) {
    static const char why[] =
        ": a filter has terms domain=cpu|gpu|external, allocator=NAME, heap=NAME, size=LOW..HIGH, "
        "joined by commas";
    const size_t kept = length < 100 ? length : 100;
    memcpy(message, term, kept);
    memcpy(message + kept, why, sizeof(why));
    return -EINVAL;
}

/* Digits, with K, M or G behind them. Returns where they end; NULL: there are none, or too many. */
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

/* LOW..HIGH, of which one may be missing. */
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
        return false; /* of all sizes: then it is no term */
    }
    return at && at[0] == '\0' && *ret_low <= *ret_high;
}

static bool read_term(const char *term, size_t length, struct ag_host_filter *filter) {
    const uint32_t at = filter->n_terms++;
    filter->terms[at].is_negated = length > 0 && term[0] == '!';
    term += filter->terms[at].is_negated;
    length -= filter->terms[at].is_negated;
    for (size_t i = 0; i < AG_ARRAY_SIZE(keys); i++) {
        const size_t key_length = strlen(keys[i].text);
        if (length <= key_length || length - key_length >= AG_HOST_FILTER_BYTES ||
            memcmp(term, keys[i].text, key_length) != 0) {
            continue;
        }
        filter->terms[at].key = keys[i].key;
        memcpy(filter->terms[at].name, term + key_length, length - key_length);
        filter->terms[at].name[length - key_length] = '\0';
        filter->has_sizes |= keys[i].key == AG_HOST_BY_SIZE;
        if (keys[i].key == AG_HOST_BY_SIZE) {
            return read_sizes(filter->terms[at].name, &filter->terms[at].low,
                              &filter->terms[at].high);
        }
        for (uint32_t d = 0; keys[i].key == AG_HOST_BY_DOMAIN; d++) {
            if (d == AG_ARRAY_SIZE(domains)) {
                return false;
            }
            if (strcmp(filter->terms[at].name, domains[d]) == 0) {
                filter->terms[at].domain = d;
                break;
            }
        }
        return true;
    }
    return false;
}

int ag_host_filter_parse(const char *expression, struct ag_host_filter *ret_filter,
                         char ret_message[512]) {
    struct ag_host_filter filter;
    memset(&filter, 0, sizeof(filter));
    const char *at = expression ? expression : "";
    while (at[0] != '\0') {
        const char *comma = strchr(at, ',');
        const size_t length = comma ? (size_t)(comma - at) : strlen(at);
        if (filter.n_terms == AG_HOST_FILTER_TERMS || !read_term(at, length, &filter)) {
            return refuse(at, length, ret_message);
        }
        at += length + (comma != NULL);
    }
    *ret_filter = filter;
    return 0;
}

bool ag_host_filter_passes(const struct ag_host_filter *filter, uint32_t domain,
                           const char *allocator, const char *heap) {
    for (uint32_t i = 0; i < filter->n_terms; i++) {
        const char *name = filter->terms[i].name;
        bool holds = false;
        switch (filter->terms[i].key) {
        case AG_HOST_BY_DOMAIN:
            holds = filter->terms[i].domain == domain;
            break;
        case AG_HOST_BY_ALLOCATOR:
            holds = strcmp(name, allocator) == 0;
            break;
        case AG_HOST_BY_HEAP:
            holds = strcmp(name, heap) == 0;
            break;
        case AG_HOST_BY_SIZE:
            continue;
        }
        if (holds == filter->terms[i].is_negated) {
            return false;
        }
    }
    return true;
}

bool ag_host_filter_takes(const struct ag_host_filter *filter, uint64_t bytes) {
    for (uint32_t i = 0; i < filter->n_terms; i++) {
        const bool holds = bytes >= filter->terms[i].low && bytes <= filter->terms[i].high;
        if (filter->terms[i].key == AG_HOST_BY_SIZE && holds == filter->terms[i].is_negated) {
            return false;
        }
    }
    return true;
}
