/* registered_functions.c: stores the functions that a program registered, for host_heaps.c. Entries
 * lie in pages that never move, and are complete before their number is published, so readers need
 * no lock. */
#include "registered_functions.h"

#include "base/own_memory.h"
#include "defined_names.h"

const struct ag_registered_function *ag_registered_functions_get(
    const struct ag_registered_functions *functions, uint32_t number) {
    const struct ag_registered_function *page = atomic_load_explicit(
        &functions->pages[number / AG_REGISTERED_FUNCTION_PAGE], memory_order_relaxed);
    return &page[number % AG_REGISTERED_FUNCTION_PAGE];
}

static bool is_same(const struct ag_registered_function *kept,
                    const struct ag_registered_function *given) {
    return kept->line == given->line && kept->column == given->column &&
           kept->end_column == given->end_column && ag_reported_text_is(kept->name, given->name) &&
           ag_reported_text_is(kept->file, given->file) &&
           ag_reported_text_is(kept->runtime, given->runtime);
}

static struct ag_registered_function *new_place(struct ag_registered_functions *functions,
                                                uint32_t number) {
    struct ag_registered_function *_Atomic *at =
        &functions->pages[number / AG_REGISTERED_FUNCTION_PAGE];
    struct ag_registered_function *page = atomic_load_explicit(at, memory_order_relaxed);
    if (!page) {
        page = ag_own_memory_take(AG_REGISTERED_FUNCTION_PAGE * sizeof(*page));
        atomic_store_explicit(at, page, memory_order_relaxed);
    }
    return page ? &page[number % AG_REGISTERED_FUNCTION_PAGE] : NULL;
}

uint32_t ag_registered_functions_intern(struct ag_registered_functions *functions,
                                        const struct ag_registered_function *wanted,
                                        bool *ret_is_new) {
    const uint32_t hash =
        ag_reported_text_hash(ag_reported_text_hash(wanted->line, wanted->name), wanted->file);
    uint32_t *head = &functions->heads[hash % AG_ARRAY_SIZE(functions->heads)];
    *ret_is_new = false;
    for (uint32_t number = *head; number != 0;) {
        const struct ag_registered_function *known = ag_registered_functions_get(functions, number);
        if (is_same(known, wanted)) {
            return number;
        }
        number = known->next;
    }
    const uint32_t number = atomic_load_explicit(&functions->count, memory_order_relaxed) + 1;
    struct ag_registered_function *made =
        number <= AG_REGISTERED_FUNCTIONS_MOST ? new_place(functions, number) : NULL;
    if (!made) {
        return 0;
    }
    *made = (struct ag_registered_function){.name = ag_reported_text_copy(wanted->name),
                                            .file = ag_reported_text_copy(wanted->file),
                                            .runtime = ag_reported_text_copy(wanted->runtime),
                                            .line = wanted->line,
                                            .column = wanted->column,
                                            .end_column = wanted->end_column,
                                            .next = *head};
    if (!made->name || !made->file || !made->runtime) {
        return 0;
    }
    *head = number;
    /* publishes the complete entry */
    atomic_store_explicit(&functions->count, number, memory_order_release);
    *ret_is_new = true;
    return number;
}
