/* host_heaps.c: registers a program's heaps, types, labels and functions (allogram.h). Each
 * registration is recorded at once if there is a recording, and again when a later recording
 * starts. */
#include "host_heaps.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/join_text.h"
#include "host_lock.h"
#include "record/block_choice.h"
#include "record/recorder.h"

struct ag_host ag_host = {.types = {.image = AG_IMAGE_TYPE}, .labels = {.image = AG_IMAGE_LABEL}};

static struct ag_host_lock registering;

/* ---- reporting ---- */

static struct ag_bytes name_of(const char *text) {
    return ag_bytes_of(text, AG_DEFINED_NAME_BYTES - 1);
}

/* Records the heap, and applies the recording's filter, which may differ from the filter of the
 * last recording. */
static void report_heap(uint32_t index) {
    struct ag_host_heap *heap = &ag_host.heaps[index];
    const bool is_shut = !ag_block_choice_takes_heap(heap->domain, heap->allocator, heap->name);
    atomic_store_explicit(&heap->is_shut, is_shut, memory_order_relaxed);
    const struct ag_record heap_record = {.kind = AG_RECORD_HEAP,
                                          .u.heap = {.heap = AG_VIA_HOST + index,
                                                     .domain = heap->domain,
                                                     .is_backing = heap->is_backing,
                                                     .name = name_of(heap->name),
                                                     .allocator = name_of(heap->allocator),
                                                     .runtime = name_of(heap->runtime),
                                                     .kind = heap->kind,
                                                     .unit = name_of(heap->unit)}};
    ag_recorder_append(&heap_record);
    const struct ag_record via_record = {.kind = AG_RECORD_VIA,
                                         .u.via = {.via = AG_VIA_HOST + index,
                                                   .heap = AG_VIA_HOST + index,
                                                   .name = name_of(heap->name)}};
    ag_recorder_append(&via_record);
}

static void report_type(uint32_t number) {
    struct ag_defined_name *type = ag_defined_names_get(&ag_host.types, number);
    atomic_store_explicit(&type->is_shut, !ag_block_choice_takes_type(type->name),
                          memory_order_relaxed);
    const struct ag_record record = {
        .kind = AG_RECORD_TYPE,
        .u.type = {.type = number, .name = name_of(type->name), .runtime = name_of(type->runtime)}};
    ag_recorder_append(&record);
}

static void report_label(uint32_t number) {
    struct ag_defined_name *label = ag_defined_names_get(&ag_host.labels, number);
    atomic_store_explicit(&label->is_shut, false, memory_order_relaxed);
    const struct ag_record record = {.kind = AG_RECORD_LABEL,
                                     .u.label = {.label = number, .name = name_of(label->name)}};
    ag_recorder_append(&record);
}

static void report_frame(uint32_t frame, const struct ag_registered_function *function) {
    const struct ag_record record = {.kind = AG_RECORD_FRAME,
                                     .u.frame = {.frame = frame,
                                                 .line = function->line,
                                                 .runtime = name_of(function->runtime),
                                                 .function = name_of(function->name),
                                                 .file = name_of(function->file),
                                                 .column = function->column,
                                                 .end_column = function->end_column}};
    ag_recorder_append(&record);
}

static void report_functions(void) {
    static const struct ag_registered_function none = {
        .name = "[no registered function]", .file = "", .runtime = "c"};
    const uint32_t count = atomic_load_explicit(&ag_host.functions.count, memory_order_acquire);
    report_frame(AG_NO_FUNCTION_FRAME, &none);
    for (uint32_t number = 1; number <= count; number++) {
        report_frame(number, ag_registered_functions_get(&ag_host.functions, number));
    }
}

static void report_all(void) {
    const uint32_t n_heaps = atomic_load_explicit(&ag_host.n_heaps, memory_order_acquire);
    for (uint32_t i = 0; i < n_heaps; i++) {
        report_heap(i);
    }
    const uint32_t n_types = atomic_load_explicit(&ag_host.types.count, memory_order_acquire);
    for (uint32_t number = 1; number <= n_types; number++) {
        report_type(number);
    }
    const uint32_t n_labels = atomic_load_explicit(&ag_host.labels.count, memory_order_acquire);
    for (uint32_t number = 1; number <= n_labels; number++) {
        report_label(number);
    }
    report_functions();
}

void ag_host_announce(void) {
    static const struct ag_announcement announcement = {.report_more = report_all};
    ag_recorder_announce(&announcement);
}

/* ---- heaps ---- */

void ag_host_text_copy(char *to, size_t n_bytes, const char *text, const char *otherwise) {
    ag_copy_text(to, n_bytes, text && text[0] ? text : otherwise);
}

static bool is_same(const struct ag_host_heap *one, const struct ag_host_heap *other) {
    return strcmp(one->name, other->name) == 0 && strcmp(one->allocator, other->allocator) == 0 &&
           strcmp(one->runtime, other->runtime) == 0 && one->domain == other->domain;
}

static allogram_heap register_locked(const struct ag_host_heap *wanted) {
    const uint32_t count = atomic_load_explicit(&ag_host.n_heaps, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        if (is_same(&ag_host.heaps[i], wanted)) {
            return AG_VIA_HOST + i;
        }
    }
    if (count == AG_HOST_HEAPS_MOST) {
        return 0;
    }
    ag_host.heaps[count] = *wanted;
    report_heap(count);
    atomic_store_explicit(&ag_host.n_heaps, count + 1, memory_order_release);
    return AG_VIA_HOST + count;
}

/* Reads the fields that the options of an older program do not have. */
static void read_newer_options(struct ag_host_heap *wanted,
                               const struct allogram_heap_options *options) {
    wanted->kind = options->kind <= ALLOGRAM_NON_MOVING_COLLECTOR ? options->kind : 0;
    wanted->has_late_types = options->has_late_types != 0;
    ag_host_text_copy(wanted->unit, sizeof(wanted->unit), options->unit, "");
}

allogram_heap allogram_register_heap(const struct allogram_heap_options *options) {
    enum { OLDEST_BYTES = offsetof(struct allogram_heap_options, kind) };
    struct ag_host_heap wanted = {.domain = ALLOGRAM_EXTERNAL};
    allogram_heap heap = 0;
    if (!options || options->size < OLDEST_BYTES) {
        return 0;
    }
    ag_host_text_copy(wanted.allocator, sizeof(wanted.allocator), options->allocator, "host");
    ag_host_text_copy(wanted.name, sizeof(wanted.name), options->name, wanted.allocator);
    ag_host_text_copy(wanted.runtime, sizeof(wanted.runtime), options->runtime, "");
    if (options->size >= sizeof(*options)) {
        read_newer_options(&wanted, options);
    }
    wanted.domain =
        options->domain <= ALLOGRAM_EXTERNAL ? options->domain : (uint32_t)ALLOGRAM_EXTERNAL;
    wanted.is_backing = options->is_backing != 0;
    if (ag_host_lock_take(&registering)) {
        heap = register_locked(&wanted);
        ag_host_lock_give(&registering);
    }
    return heap;
}

/* ---- types and labels ---- */

static uint32_t register_name(struct ag_defined_names *names, void report(uint32_t number),
                              const char *name, const char *runtime) {
    int is_new = 0;
    uint32_t number = 0;
    if (name && name[0] && ag_host_lock_take(&registering)) {
        number = ag_defined_names_intern(names, name, runtime ? runtime : "", &is_new);
        if (is_new) {
            report(number);
        }
        ag_host_lock_give(&registering);
    }
    return number;
}

allogram_type allogram_register_type(const char *name, const char *runtime) {
    return register_name(&ag_host.types, report_type, name, runtime);
}

allogram_label allogram_register_label(const char *name) {
    return register_name(&ag_host.labels, report_label, name, NULL);
}

/* ---- functions ---- */

allogram_function allogram_register_function(const struct allogram_function_options *options) {
    bool is_new = false;
    uint32_t number = 0;
    /* programs compiled with an older header pass no columns */
    enum { LEAST_BYTES = offsetof(struct allogram_function_options, end_column) };
    if (!options || options->size < LEAST_BYTES || !options->name || !options->name[0] ||
        !ag_host_lock_take(&registering)) {
        return 0;
    }
    const bool has_columns = options->size >= sizeof(*options);
    const struct ag_registered_function wanted = {
        .name = options->name,
        .file = options->file ? options->file : "",
        .runtime = options->runtime && options->runtime[0] ? options->runtime : "c",
        .line = options->line,
        .column = has_columns ? options->column : 0,
        .end_column = has_columns ? options->end_column : 0};
    number = ag_registered_functions_intern(&ag_host.functions, &wanted, &is_new);
    if (is_new) {
        report_frame(number, ag_registered_functions_get(&ag_host.functions, number));
    }
    ag_host_lock_give(&registering);
    return number;
}

/* ---- the filter ---- */

bool ag_host_takes_type(uint32_t type) {
    const struct ag_defined_name *entry = ag_defined_names_get(&ag_host.types, type);
    return !entry || !atomic_load_explicit(&entry->is_shut, memory_order_relaxed);
}
