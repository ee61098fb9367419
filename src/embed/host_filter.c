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
            {"heap=", AG_HOST_BY_HEAP}};

static int refuse(const char *term, size_t length, char message[512]) {
    static const char why[] =
        ": a filter has terms domain=cpu|gpu|external, allocator=NAME, heap=NAME, joined by commas";
    const size_t kept = length < 100 ? length : 100;
    memcpy(message, term, kept);
    memcpy(message + kept, why, sizeof(why));
    return -EINVAL;
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
        }
        if (holds == filter->terms[i].is_negated) {
            return false;
        }
    }
    return true;
}
