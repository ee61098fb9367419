/* quantity.c: formats numbers for people, see quantity.h. */
#include "report/quantity.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

struct scale {
    const char *name;
    double size;
};
static const struct scale byte_scales[] = {{"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                           {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"PiB", 0x1p50}};
static const struct scale time_scales[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
static const struct scale count_scales[] = {
    {"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};

/* The largest scale in which the value is at least 1. */
static struct scale scale_of(double value, const struct scale *scales, size_t n_scales) {
    size_t i = n_scales - 1;
    while (i > 0 && value < scales[i].size) {
        i--;
    }
    return scales[i];
}

/* The decimals that show three significant digits: 1.02, 10.2, 102. A number that rounds up to one
 * more digit gets the decimals of the rounded number: 9.996 becomes 10.0. */
static int decimals_of(double number) {
    return number < 9.995 ? 2 : number < 99.95 ? 1 : 0;
}

static const char *with_scale(struct ag_quantity *buffer, double value, const struct scale *scales,
                              size_t n_scales) {
    struct scale scale = scale_of(value, scales, n_scales);
    double number = value / scale.size;
    snprintf(buffer->text, sizeof buffer->text, "%.*f %s", scale.size > 1 ? decimals_of(number) : 0,
             number, scale.name);
    return buffer->text;
}

const char *ag_quantity_bytes(struct ag_quantity *buffer, uint64_t bytes) {
    return with_scale(buffer, (double)bytes, byte_scales, AG_ARRAY_SIZE(byte_scales));
}

const char *ag_quantity_time(struct ag_quantity *buffer, uint64_t time_ns) {
    if (time_ns == 0) {
        return strcpy(buffer->text, "0 s");
    }
    if (time_ns < UINT64_C(120000000000)) {
        return with_scale(buffer, (double)time_ns, time_scales, AG_ARRAY_SIZE(time_scales));
    }
    uint64_t seconds = time_ns / UINT64_C(1000000000);
    if (seconds < 7200) {
        snprintf(buffer->text, sizeof buffer->text, "%" PRIu64 " m %02" PRIu64 " s", seconds / 60,
                 seconds % 60);
    } else {
        snprintf(buffer->text, sizeof buffer->text, "%" PRIu64 " h %02" PRIu64 " m", seconds / 3600,
                 seconds / 60 % 60);
    }
    return buffer->text;
}

const char *ag_quantity_count(struct ag_quantity *buffer, uint64_t count) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    char *to = buffer->text;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            *to++ = ',';
        }
        *to++ = digits[i];
    }
    *to = '\0';
    return buffer->text;
}

const char *ag_quantity_short(struct ag_quantity *buffer, uint64_t count) {
    if (count < 100000) {
        return ag_quantity_count(buffer, count);
    }
    return with_scale(buffer, (double)count, count_scales, AG_ARRAY_SIZE(count_scales));
}

const char *ag_quantity_share(struct ag_quantity *buffer, uint64_t part, uint64_t whole) {
    if (whole == 0) {
        return strcpy(buffer->text, "0 %");
    }
    double percent = 100.0 * (double)part / (double)whole;
    if (part != 0 && percent <= 0.5) {
        return strcpy(buffer->text, "<1 %");
    }
    snprintf(buffer->text, sizeof buffer->text, "%.0f %%", percent);
    return buffer->text;
}

/* A column uses a unit only if the column's largest number is at least ten of that unit: 412 and
 * 1,032 KiB are easier to compare than 0.40 and 1.01 MiB. */
static struct ag_unit unit_of(uint64_t largest, const struct scale *scales, size_t n_scales) {
    struct scale scale = scale_of((double)largest / 10, scales, n_scales);
    double number = (double)largest / scale.size;
    return (struct ag_unit){
        .name = scale.name,
        .size = scale.size,
        .decimals = scale.size <= 1 || number >= 999.5 ? 0
                    : number < 99.95                   ? 2
                                                       : 1,
    };
}

struct ag_unit ag_unit_of_bytes(uint64_t largest) {
    return unit_of(largest, byte_scales, AG_ARRAY_SIZE(byte_scales));
}

/* A column of times uses the largest unit that its largest time reaches: 1.60 s. */
struct ag_unit ag_unit_of_time(uint64_t largest_ns) {
    struct scale scale = scale_of((double)largest_ns, time_scales, AG_ARRAY_SIZE(time_scales));
    return (struct ag_unit){
        .name = scale.name, .size = scale.size, .decimals = scale.size > 1 ? 2 : 0};
}

struct ag_unit ag_unit_of_blocks(uint64_t largest) {
    /* Below ten million all digits are shown, so that a reader sees that 7,000,001 is one more than
     * expected. */
    if (largest < 10000000) {
        return (struct ag_unit){.name = "", .size = 1, .decimals = 0};
    }
    return (struct ag_unit){.name = "M", .size = 1e6, .decimals = largest < 1000000000 ? 1 : 0};
}

const char *ag_quantity_in(struct ag_quantity *buffer, uint64_t value, struct ag_unit unit) {
    static const double least[] = {1, 0.1, 0.01}; /* index: number of decimals; the smallest number
                                                   * above 0 with these decimals */
    double number = (double)value / unit.size;
    if (value == 0) {
        return strcpy(buffer->text, "0");
    }
    if (number < least[unit.decimals] / 2) {
        snprintf(buffer->text, sizeof buffer->text, "<%.*f", unit.decimals, least[unit.decimals]);
        return buffer->text;
    }
    if (unit.decimals == 0) {
        return ag_quantity_count(buffer, unit.size <= 1 ? value : (uint64_t)(number + 0.5));
    }
    snprintf(buffer->text, sizeof buffer->text, "%.*f", unit.decimals, number);
    return buffer->text;
}
