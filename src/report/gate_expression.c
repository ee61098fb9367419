/* gate_expression.c: parses an expression of --fail-if by precedence climbing into an array of
 * nodes, and computes it from that array.
 *
 * 1. Nodes. Operands come before their operator in the array (the order of a stack machine), so one
 *    loop without recursion computes the expression. Each node keeps its position in the text for
 *    messages.
 *
 * 2. Kinds. A node is a number or a condition, and its kind is known as soon as it is parsed. So
 *    `1 + (a > b)` is rejected at its `(` before a trace is opened.
 *
 * 3. Limits. The text may come from an untrusted source. It has at most TEXT_MOST bytes, and at
 *    most DEPTH_MOST levels of nesting: by parentheses, `not`, minus, and the right operands of
 *    operators. A valid text has at least as many bytes as nodes.
 *
 * 4. Numbers are long doubles, which hold every 64-bit count exactly; doubles do not.
 *
 * 5. Quantities of a sampled trace are intervals. Expressions are computed with both bounds. A
 *    condition is true, false, or uncertain, which means that it is true for only some values in
 *    the intervals. A quantity that occurs twice counts as two independent ones, so a result may be
 *    uncertain although it could be decided, but it is never wrong. */
#include "report/gate_expression.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

enum {
    TEXT_MOST = 4096,
    DEPTH_MOST = 64,
    MESSAGE_BYTES = 1024,
    QUOTED_MOST = 40,
    DIGITS_MOST = 40
};

enum operator_kind {
    OPERATOR_NONE,
    OPERATOR_OR,
    OPERATOR_AND,
    OPERATOR_ABOVE,
    OPERATOR_AT_LEAST,
    OPERATOR_BELOW,
    OPERATOR_AT_MOST,
    OPERATOR_EQUAL,
    OPERATOR_UNEQUAL,
    OPERATOR_PLUS,
    OPERATOR_MINUS,
    OPERATOR_TIMES,
    OPERATOR_OVER,
    OPERATOR_NOT,
    OPERATOR_NEGATE,
};
/* how tightly an operator binds its operands: a higher number binds more tightly */
enum {
    BINDS_OR = 1,
    BINDS_AND,
    BINDS_NOT,
    BINDS_COMPARISON,
    BINDS_SUM,
    BINDS_PRODUCT,
    BINDS_MINUS
};

/* The longer of two operators with the same beginning comes first, so that ">=" is not read as
 * ">". */
static const struct operator_row {
    const char *word;
    enum operator_kind kind;
    unsigned binds;
} operators[] = {
    {"or", OPERATOR_OR, BINDS_OR},
    {"||", OPERATOR_OR, BINDS_OR},
    {"and", OPERATOR_AND, BINDS_AND},
    {"&&", OPERATOR_AND, BINDS_AND},
    {">=", OPERATOR_AT_LEAST, BINDS_COMPARISON},
    {"<=", OPERATOR_AT_MOST, BINDS_COMPARISON},
    {"==", OPERATOR_EQUAL, BINDS_COMPARISON},
    {"!=", OPERATOR_UNEQUAL, BINDS_COMPARISON},
    {">", OPERATOR_ABOVE, BINDS_COMPARISON},
    {"<", OPERATOR_BELOW, BINDS_COMPARISON},
    {"+", OPERATOR_PLUS, BINDS_SUM},
    {"-", OPERATOR_MINUS, BINDS_SUM},
    {"*", OPERATOR_TIMES, BINDS_PRODUCT},
    {"/", OPERATOR_OVER, BINDS_PRODUCT},
};

struct node {
    enum { NODE_NUMBER, NODE_TERM, NODE_OPERATOR } what;
    enum operator_kind kind;
    long double number;
    bool is_percent; /* the number was written with % */
    size_t term;
    size_t place; /* offset in the text */
};
struct ag_gate_expression {
    char *text;
    struct node *nodes;
    size_t n_nodes;
    struct ag_gate_term *terms;
    size_t n_terms;
};

static const char *const key_names[] = {[AG_GATE_SITE] = NULL,
#define KEY_NAME(NAME, name, METRIC, value) [AG_GATE_##NAME] = #name,
                                        AG_GATE_KEY_TABLE(KEY_NAME)
#undef KEY_NAME
};
static const enum ag_metric key_metrics[] = {[AG_GATE_SITE] = AG_METRIC_DEFAULT,
#define KEY_METRIC(NAME, name, METRIC, value) [AG_GATE_##NAME] = AG_METRIC_##METRIC,
                                             AG_GATE_KEY_TABLE(KEY_METRIC)
#undef KEY_METRIC
};

/* ---- parsing ---- */

struct reader {
    struct ag_gate_expression *expression;
    size_t at; /* offset in the text */
    unsigned depth;
    char *message;
};
enum value_kind { VALUE_NUMBER, VALUE_CONDITION };

/* The position in characters, from 1; a character can have several bytes. */
static size_t character_of(const char *text, size_t place) {
    size_t count = 1;
    for (size_t i = 0; i < place; i++) {
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    }
    return count;
}

/* Writes a message such as "at character 8, 'foo > 1': not a key". */
AG_PRINTF(3, 4)
static int refuse(struct reader *reader, size_t place, const char *format, ...) {
    const char *rest = reader->expression->text + place;
    const bool is_cut = strlen(rest) > QUOTED_MOST;
    int used = rest[0] == '\0'
                   ? snprintf(reader->message, MESSAGE_BYTES, "at the end of the expression: ")
                   : snprintf(reader->message, MESSAGE_BYTES, "at character %zu, '%.*s%s': ",
                              character_of(reader->expression->text, place), (int)QUOTED_MOST, rest,
                              is_cut ? "..." : "");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reader->message + used, MESSAGE_BYTES - (size_t)used, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* Writes all keys into LIST, with a space before each. */
static const char *list_keys(char list[MESSAGE_BYTES]) {
    size_t used = 0;
    for (enum ag_gate_key key = AG_GATE_FUNCTION + 1; key < AG_GATE_KEY_END; key++) {
        used += (size_t)snprintf(list + used, MESSAGE_BYTES - used, " %s", key_names[key]);
    }
    return list;
}

static const char *list_metrics(char list[MESSAGE_BYTES]) {
    size_t used = 0;
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        used += (size_t)snprintf(list + used, MESSAGE_BYTES - used, " %s", ag_metric_name(metric));
    }
    return list;
}

static const char *list_counters(char list[MESSAGE_BYTES]) {
    size_t used = 0;
    for (enum ag_call_metric metric = AG_CALL_METRIC_CALLS; metric < AG_CALL_METRIC_END; metric++) {
        used +=
            (size_t)snprintf(list + used, MESSAGE_BYTES - used, " %s", ag_call_metric_name(metric));
    }
    return list;
}

static const char *rest_of(struct reader *reader) {
    const char *text = reader->expression->text;
    while (text[reader->at] == ' ' || text[reader->at] == '\t' || text[reader->at] == '\n') {
        reader->at++;
    }
    return text + reader->at;
}

static bool is_of_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

/* The length of the word that TEXT begins with. */
static size_t word_length(const char *text) {
    size_t length = 0;
    while (is_of_word(text[length])) {
        length++;
    }
    return length;
}

static bool takes_word(struct reader *reader, const char *word) {
    const char *rest = rest_of(reader);
    const size_t length = strlen(word);
    if (strncmp(rest, word, length) != 0 || (is_of_word(word[0]) && is_of_word(rest[length]))) {
        return false;
    }
    reader->at += length;
    return true;
}

static void add_node(struct reader *reader, struct node node) {
    struct ag_gate_expression *expression = reader->expression;
    /* Cannot overflow, see ag_gate_expression_new. */
    expression->nodes[expression->n_nodes++] = node;
}

static int read_number(struct reader *reader) {
    static const struct {
        char suffix;
        long double factor;
    } suffixes[] = {{'k', 1e3L}, {'K', 0x1p10L}, {'M', 0x1p20L}, {'G', 0x1p30L}, {'%', 0.01L}};
    const char *start = rest_of(reader);
    const size_t place = reader->at;
    size_t length = strspn(start, "0123456789.");
    char digits[DIGITS_MOST + 1];
    const char *point = memchr(start, '.', length);
    if (length > DIGITS_MOST || length == (point != NULL) ||
        (point != NULL && memchr(point + 1, '.', length - (size_t)(point + 1 - start)) != NULL)) {
        return refuse(reader, place, "not a number such as 20, 1.5M or 5%%");
    }
    /* strtold is not used, because the locale decides which decimal point it accepts. */
    long double number = 0, unit = 1;
    memcpy(digits, start, length);
    for (size_t i = 0; i < length; i++) {
        if (digits[i] != '.') {
            number = number * 10 + (digits[i] - '0');
            unit = point != NULL && start + i > point ? unit * 10 : unit;
        }
    }
    number /= unit;
    const bool is_percent = start[length] == '%';
    for (size_t i = 0; i < AG_ARRAY_SIZE(suffixes); i++) {
        if (start[length] == suffixes[i].suffix) {
            number = suffixes[i].suffix == '%' ? number / 100 : number * suffixes[i].factor;
            length++;
            break;
        }
    }
    if (is_of_word(start[length]) || start[length] == '.' || start[length] == '%') {
        return refuse(reader, place,
                      "a number may end in k (1000), K, M, G (powers of 1024) or %%");
    }
    reader->at += length;
    add_node(reader,
             (struct node){
                 .what = NODE_NUMBER, .number = number, .is_percent = is_percent, .place = place});
    return 0;
}

static int read_metric(struct reader *reader, struct ag_gate_term *term) {
    char list[MESSAGE_BYTES], name[64];
    if (!takes_word(reader, ".")) {
        return refuse(reader, reader->at, "sites[\"NAME\"] must be followed by .METRIC, one of%s",
                      list_metrics(list));
    }
    if (takes_word(reader, "total")) {
        term->is_total = true;
    } else if (!takes_word(reader, "own")) {
        goto metric;
    }
    if (!takes_word(reader, ".")) {
        return refuse(reader, reader->at, "own and total must be followed by .METRIC, one of%s",
                      list_metrics(list));
    }
metric:;
    const char *start = rest_of(reader);
    const size_t length = word_length(start);
    snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, start);
    if (!ag_metric_parse(name, &term->metric)) {
        return refuse(reader, reader->at, "not a metric of a site; the metrics are%s",
                      list_metrics(list));
    }
    reader->at += length;
    return 0;
}

/* Parses ["NAME OF A FUNCTION"] after WORD. A name begins and ends with the same kind of quote, so
 * it can contain the other kind. */
static int read_name(struct reader *reader, const char *word, struct ag_gate_term *term) {
    if (!takes_word(reader, "[")) {
        return refuse(reader, reader->at, "%s must be followed by [\"NAME OF A FUNCTION\"]", word);
    }
    const char *start = rest_of(reader);
    const char *end = *start == '"' || *start == '\'' ? strchr(start + 1, *start) : NULL;
    if (end == NULL || end == start + 1) {
        return refuse(reader, reader->at, "expected the name of a function, in quotes");
    }
    char *name = strndup(start + 1, (size_t)(end - start) - 1);
    if (name == NULL) {
        return -ENOMEM;
    }
    term->site = name;
    reader->at += (size_t)(end - start) + 1;
    return takes_word(reader, "]")
               ? 0
               : refuse(reader, reader->at, "expected ] after the name of a function");
}

/* Parses what follows "sites". */
static int read_site(struct reader *reader, struct ag_gate_term *term) {
    const int r = read_name(reader, "sites", term);
    return r < 0 ? r : read_metric(reader, term);
}

/* If the text goes on with a metric of function counters, reads it into TERM and returns true. */
static bool takes_counter(struct reader *reader, struct ag_gate_term *term) {
    char name[64];
    const char *start = rest_of(reader);
    const size_t length = word_length(start);
    snprintf(name, sizeof name, "%.*s", length < sizeof name ? (int)length : 0, start);
    if (!ag_call_metric_parse(name, &term->call_metric)) {
        return false;
    }
    term->key = AG_GATE_FUNCTION;
    reader->at += length;
    return true;
}

/* Parses what follows "functions". */
static int read_function(struct reader *reader, struct ag_gate_term *term) {
    char list[MESSAGE_BYTES];
    const int r = read_name(reader, "functions", term);
    if (r < 0) {
        return r;
    }
    if (!takes_word(reader, ".")) {
        return refuse(reader, reader->at,
                      "functions[\"NAME\"] must be followed by .METRIC, one of%s",
                      list_counters(list));
    }
    return takes_counter(reader, term)
               ? 0
               : refuse(reader, reader->at, "not a metric of a function; the metrics are%s",
                        list_counters(list));
}

static int read_key(struct reader *reader, struct ag_gate_term *term) {
    const char *start = rest_of(reader);
    const size_t length = word_length(start);
    for (enum ag_gate_key key = AG_GATE_FUNCTION + 1; key < AG_GATE_KEY_END; key++) {
        if (strlen(key_names[key]) == length && strncmp(key_names[key], start, length) == 0) {
            term->key = key;
            term->metric = key_metrics[key];
            reader->at += length;
            return 0;
        }
    }
    if (takes_counter(reader, term)) {
        return 0;
    }
    char keys[MESSAGE_BYTES], counters[MESSAGE_BYTES];
    return refuse(reader, reader->at,
                  "not a key; the keys are%s, sites[\"NAME\"].METRIC, for function counters%s and "
                  "functions[\"NAME\"].METRIC, and base.KEY or growth.KEY with --base",
                  list_keys(keys), list_counters(counters));
}

static int read_term(struct reader *reader) {
    struct ag_gate_expression *expression = reader->expression;
    (void)rest_of(reader);
    const size_t place = reader->at;
    /* The term is counted before it is complete, so that freeing the expression frees its name. */
    struct ag_gate_term *term = &expression->terms[expression->n_terms++];
    *term = (struct ag_gate_term){.of = AG_GATE_OF_TRACE, .text = expression->text + place};
    if (takes_word(reader, "base")) {
        term->of = AG_GATE_OF_BASE;
    } else if (takes_word(reader, "growth")) {
        term->of = AG_GATE_OF_GROWTH;
    }
    if (term->of != AG_GATE_OF_TRACE && !takes_word(reader, ".")) {
        return refuse(reader, reader->at, "base and growth must be followed by .KEY");
    }
    const int r = takes_word(reader, "sites")       ? read_site(reader, term)
                  : takes_word(reader, "functions") ? read_function(reader, term)
                                                    : read_key(reader, term);
    term->text_len = reader->at - place;
    add_node(reader,
             (struct node){.what = NODE_TERM, .term = expression->n_terms - 1, .place = place});
    return r;
}

static int want(struct reader *reader, size_t place, enum value_kind kind, enum value_kind wanted) {
    if (kind == wanted) {
        return 0;
    }
    return wanted == VALUE_NUMBER
               ? refuse(reader, place, "a number is expected here, not a condition")
               : refuse(reader, place, "expected a condition such as in_use_bytes_at_end > 1M");
}

static int read_binary(struct reader *reader, unsigned least, enum value_kind *ret_kind);

static int read_prefix(struct reader *reader, const struct operator_row *row,
                       enum value_kind wanted) {
    (void)rest_of(reader);
    const size_t place = reader->at;
    enum value_kind kind;
    const int r = read_binary(reader, row->binds, &kind);
    if (r < 0) {
        return r;
    }
    add_node(reader, (struct node){.what = NODE_OPERATOR, .kind = row->kind, .place = place});
    return want(reader, place, kind, wanted);
}

static int read_operand(struct reader *reader, enum value_kind *ret_kind) {
    static const struct operator_row not_row = {"not", OPERATOR_NOT, BINDS_NOT},
                                     minus_row = {"-", OPERATOR_NEGATE, BINDS_MINUS};
    const char *rest = rest_of(reader);
    const size_t place = reader->at;
    if (takes_word(reader, "(")) {
        const int r = read_binary(reader, BINDS_OR, ret_kind);
        if (r == 0 && !takes_word(reader, ")")) {
            return refuse(reader, reader->at, "the ( at character %zu is not closed",
                          character_of(reader->expression->text, place));
        }
        return r;
    }
    if (takes_word(reader, "not") || (rest[0] == '!' && takes_word(reader, "!"))) {
        *ret_kind = VALUE_CONDITION;
        return read_prefix(reader, &not_row, VALUE_CONDITION);
    }
    *ret_kind = VALUE_NUMBER;
    if (takes_word(reader, "-")) {
        return read_prefix(reader, &minus_row, VALUE_NUMBER);
    }
    if (isdigit((unsigned char)rest[0]) || rest[0] == '.') {
        return read_number(reader);
    }
    return read_term(reader);
}

static const struct operator_row *next_operator(struct reader *reader, unsigned least) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(operators); i++) {
        const size_t before = reader->at;
        if (takes_word(reader, operators[i].word)) {
            if (operators[i].binds >= least) {
                return &operators[i];
            }
            reader->at = before;
            return NULL;
        }
    }
    return NULL;
}

/* Whether the nodes from FROM up to END (not included) compute an amount of blocks, bytes or calls.
 * False if they contain a quotient of amounts; a growth is a quotient, too. */
static bool is_amount(const struct ag_gate_expression *expression, size_t from, size_t end) {
    bool has_amount = false;
    for (size_t i = from; i < end; i++) {
        const struct node *node = &expression->nodes[i];
        if (node->what == NODE_OPERATOR && node->kind == OPERATOR_OVER) {
            return false;
        }
        if (node->what == NODE_TERM) {
            if (expression->terms[node->term].of == AG_GATE_OF_GROWTH) {
                return false;
            }
            has_amount = true;
        }
    }
    return has_amount;
}

/* Refuses a comparison of an amount with a percentage, such as temporary_blocks > 30%. The left
 * side is the nodes from LEFT, the right side those from RIGHT. PLACE: where the comparison begins.
 * Without this check, 30% would be 0.3, and nearly every amount is larger. */
static int refuse_percent_of_amount(struct reader *reader, size_t left, size_t right,
                                    size_t place) {
    const struct ag_gate_expression *expression = reader->expression;
    const size_t end = expression->n_nodes;
    const struct node *nodes = expression->nodes;
    const bool is_wrong =
        (right - left == 1 && nodes[left].is_percent && is_amount(expression, right, end)) ||
        (end - right == 1 && nodes[right].is_percent && is_amount(expression, left, right));
    return is_wrong
               ? refuse(reader, place,
                        "a percentage needs a total: divide by one, such as temporary_blocks / "
                        "allocated_blocks > 30%%, or compare with another trace, such as "
                        "growth.temporary_blocks > 30%% with --base=TRACE")
               : 0;
}

/* Parses an operand, and all operators after it that bind at least as tightly as LEAST. */
static int read_binary(struct reader *reader, unsigned least, enum value_kind *ret_kind) {
    (void)rest_of(reader);
    const size_t place = reader->at;
    if (++reader->depth > DEPTH_MOST) {
        return refuse(reader, place, "more than %d levels deep", DEPTH_MOST);
    }
    const size_t left = reader->expression->n_nodes;
    int r = read_operand(reader, ret_kind);
    const struct operator_row *row;
    while (r == 0 && (row = next_operator(reader, least)) != NULL) {
        const bool joins = row->binds <= BINDS_AND;
        const enum value_kind wanted = joins ? VALUE_CONDITION : VALUE_NUMBER;
        (void)rest_of(reader);
        const size_t behind = reader->at;
        const size_t right = reader->expression->n_nodes;
        enum value_kind kind = wanted;
        r = want(reader, place, *ret_kind, wanted);
        r = r < 0 ? r : read_binary(reader, row->binds + 1, &kind);
        r = r < 0 ? r : want(reader, behind, kind, wanted);
        if (r == 0 && row->binds == BINDS_COMPARISON) {
            r = refuse_percent_of_amount(reader, left, right, place);
        }
        add_node(reader, (struct node){.what = NODE_OPERATOR, .kind = row->kind, .place = behind});
        *ret_kind = row->binds <= BINDS_COMPARISON ? VALUE_CONDITION : VALUE_NUMBER;
    }
    reader->depth--;
    return r;
}

static int read_all(struct reader *reader) {
    enum value_kind kind;
    int r = read_binary(reader, BINDS_OR, &kind);
    if (r < 0) {
        return r;
    }
    if (*rest_of(reader) != '\0') {
        return refuse(
            reader, reader->at,
            "there is text after the end of the condition; only 'and', 'or' or a comparison may follow");
    }
    return want(reader, 0, kind, VALUE_CONDITION);
}

int ag_gate_expression_new(const char *text, struct ag_gate_expression **ret_expression,
                           char ret_message[1024]) {
    const size_t length = strlen(text);
    if (length > TEXT_MOST) {
        snprintf(ret_message, MESSAGE_BYTES, "the expression has %zu bytes; the limit is %d",
                 length, TEXT_MOST);
        return -EINVAL;
    }
    struct ag_gate_expression *expression = calloc(1, sizeof *expression);
    int r = expression != NULL ? 0 : -ENOMEM;
    if (r == 0) {
        /* Each node and each term takes at least one byte of the text. After an error, each
         * level of the recursion may still add a node. */
        expression->text = strdup(text);
        expression->nodes = calloc(length + 2 + DEPTH_MOST, sizeof *expression->nodes);
        expression->terms = calloc(length + 2, sizeof *expression->terms);
        r = expression->text && expression->nodes && expression->terms ? 0 : -ENOMEM;
    }
    struct reader reader = {.expression = expression, .message = ret_message};
    r = r < 0 ? r : read_all(&reader);
    if (r < 0) {
        if (r == -ENOMEM) {
            snprintf(ret_message, MESSAGE_BYTES, "%s", strerror(ENOMEM));
        }
        (void)ag_gate_expression_free(expression);
        return r;
    }
    *ret_expression = expression;
    return 0;
}

struct ag_gate_expression *ag_gate_expression_free(struct ag_gate_expression *expression) {
    if (expression != NULL) {
        for (size_t i = 0; i < expression->n_terms; i++) {
            free((char *)(uintptr_t)expression->terms[i].site);
        }
        free(expression->terms);
        free(expression->nodes);
        free(expression->text);
        free(expression);
    }
    return NULL;
}

const char *ag_gate_expression_text(const struct ag_gate_expression *expression) {
    return expression->text;
}

size_t ag_gate_expression_terms(const struct ag_gate_expression *expression,
                                const struct ag_gate_term **ret_terms) {
    *ret_terms = expression->terms;
    return expression->n_terms;
}

/* ---- computing ---- */

/* A condition as a range of truth values: {0, 0} is false, {1, 1} is true, {0, 1} is uncertain. */
static struct ag_gate_range condition(bool always, bool ever) {
    return (struct ag_gate_range){always, ever};
}

static struct ag_gate_range product(struct ag_gate_range left, struct ag_gate_range right) {
    const long double corners[] = {left.low * right.low, left.low * right.high,
                                   left.high * right.low, left.high * right.high};
    struct ag_gate_range range = {corners[0], corners[0]};
    for (size_t i = 1; i < AG_ARRAY_SIZE(corners); i++) {
        range.low = corners[i] < range.low ? corners[i] : range.low;
        range.high = corners[i] > range.high ? corners[i] : range.high;
        if (corners[i] != corners[i]) {
            return (struct ag_gate_range){corners[i], corners[i]}; /* NaN */
        }
    }
    return range;
}

/* If the divisor may be 0, the result may be any number. */
static struct ag_gate_range quotient(struct ag_gate_range left, struct ag_gate_range right) {
    if (right.low <= 0 && right.high >= 0) {
        return (struct ag_gate_range){-(long double)INFINITY, (long double)INFINITY};
    }
    const long double corners[] = {left.low / right.low, left.low / right.high,
                                   left.high / right.low, left.high / right.high};
    struct ag_gate_range range = {corners[0], corners[0]};
    for (size_t i = 1; i < AG_ARRAY_SIZE(corners); i++) {
        range.low = corners[i] < range.low ? corners[i] : range.low;
        range.high = corners[i] > range.high ? corners[i] : range.high;
    }
    return range;
}

static bool is_one_number(struct ag_gate_range left, struct ag_gate_range right) {
    return left.low == left.high && right.low == right.high && left.low == right.low;
}

static bool overlaps(struct ag_gate_range left, struct ag_gate_range right) {
    return left.low <= right.high && right.low <= left.high;
}

static struct ag_gate_range apply(enum operator_kind kind, struct ag_gate_range left,
                                  struct ag_gate_range right) {
    switch (kind) {
    case OPERATOR_OR:
        return condition(left.low != 0 || right.low != 0, left.high != 0 || right.high != 0);
    case OPERATOR_AND:
        return condition(left.low != 0 && right.low != 0, left.high != 0 && right.high != 0);
    case OPERATOR_ABOVE:
        return condition(left.low > right.high, left.high > right.low);
    case OPERATOR_AT_LEAST:
        return condition(left.low >= right.high, left.high >= right.low);
    case OPERATOR_BELOW:
        return condition(left.high < right.low, left.low < right.high);
    case OPERATOR_AT_MOST:
        return condition(left.high <= right.low, left.low <= right.high);
    case OPERATOR_EQUAL:
        return condition(is_one_number(left, right), overlaps(left, right));
    case OPERATOR_UNEQUAL:
        return condition(!overlaps(left, right), !is_one_number(left, right));
    case OPERATOR_PLUS:
        return (struct ag_gate_range){left.low + right.low, left.high + right.high};
    case OPERATOR_MINUS:
        return (struct ag_gate_range){left.low - right.high, left.high - right.low};
    case OPERATOR_TIMES:
        return product(left, right);
    case OPERATOR_OVER:
        return quotient(left, right);
    case OPERATOR_NOT:
        return condition(right.high == 0, right.low == 0);
    case OPERATOR_NEGATE:
        return (struct ag_gate_range){-right.high, -right.low};
    case OPERATOR_NONE:
        break;
    }
    return condition(false, false);
}

/* A result that is not a number (such as infinite growth minus infinite growth) would make every
 * comparison false, so it is an error. */
static int check_number(const struct ag_gate_expression *expression, const struct node *node,
                        struct ag_gate_range range, char ret_message[1024]) {
    if (range.low == range.low && range.high == range.high) {
        return 0;
    }
    snprintf(ret_message, MESSAGE_BYTES, "at character %zu, '%.*s': the result is not a number",
             character_of(expression->text, node->place), (int)QUOTED_MOST,
             expression->text + node->place);
    return -EDOM;
}

int ag_gate_expression_compute(const struct ag_gate_expression *expression,
                               const struct ag_gate_range *values, enum ag_gate_answer *ret_answer,
                               char ret_message[1024]) {
    struct ag_gate_range *stack = calloc(expression->n_nodes + 1, sizeof *stack);
    size_t count = 0;
    int r = stack != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; i < expression->n_nodes && r == 0; i++) {
        const struct node *node = &expression->nodes[i];
        if (node->what != NODE_OPERATOR) {
            stack[count++] = node->what == NODE_NUMBER
                                 ? (struct ag_gate_range){node->number, node->number}
                                 : values[node->term];
            continue;
        }
        const struct ag_gate_range right = stack[--count];
        const bool has_left = node->kind != OPERATOR_NOT && node->kind != OPERATOR_NEGATE;
        const struct ag_gate_range left = has_left ? stack[--count] : condition(false, false);
        if (node->kind == OPERATOR_OVER && right.low == 0 && right.high == 0) {
            snprintf(ret_message, MESSAGE_BYTES, "at character %zu, '%.*s': a division by 0",
                     character_of(expression->text, node->place), (int)QUOTED_MOST,
                     expression->text + node->place);
            r = -EDOM;
            break;
        }
        stack[count++] = apply(node->kind, left, right);
        r = check_number(expression, node, stack[count - 1], ret_message);
    }
    if (r == 0) {
        *ret_answer = stack[0].low != 0    ? AG_GATE_YES
                      : stack[0].high != 0 ? AG_GATE_UNSURE
                                           : AG_GATE_NO;
    } else if (r == -ENOMEM) {
        snprintf(ret_message, MESSAGE_BYTES, "%s", strerror(ENOMEM));
    }
    free(stack);
    return r;
}
