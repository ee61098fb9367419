/* gate_files.c: writes the results of `report --fail-if` for CI systems, as JUnit XML and as SARIF
 * 2.1.0.
 *
 * JUnit has one test case for each trace and expression. A condition that holds is a failure; one
 * that could not be computed is an error. SARIF has one rule for each expression, and one result
 * for each trace in which the expression's condition holds. The result points to the source line
 * that contributes most to the first compared value that can have such a line. A condition that
 * could not be computed is written as a notification, and the invocation is marked as not
 * successful.
 *
 * Names come from traces, so they are escaped. XML cannot represent most control characters, so the
 * XML has U+FFFD instead; JSON escapes them; URIs are percent-encoded byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "report/gate.h"
#include "text/json_writer.h"
#include "text/utf8.h"

/* ---- JUnit ---- */

static void write_xml(FILE *out, const char *text) {
    for (uint32_t c; (c = ag_utf8_next(&text)) != 0;) {
        char bytes[AG_UTF8_BYTES];
        const bool is_outside = ag_utf8_is_control(c) || c == 0xfffe || c == 0xffff;
        switch (c) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fwrite(bytes, 1, ag_utf8_put(bytes, is_outside ? AG_UTF8_REPLACEMENT : c), out);
        }
    }
}

static void write_attribute(FILE *out, const char *name, const char *value) {
    fprintf(out, " %s=\"", name);
    write_xml(out, value);
    putc('"', out);
}

static void write_case(const struct ag_gate *gate, const struct ag_gate_result *result, FILE *out) {
    fputs("    <testcase", out);
    write_attribute(out, "classname", result->trace);
    write_attribute(out, "name", ag_gate_text(gate, result->expression));
    const char *values = result->values != NULL ? result->values : "";
    if (result->outcome == AG_GATE_PASSED) {
        fputs("/>\n", out);
        return;
    }
    const char *element = result->outcome == AG_GATE_HOLDS ? "failure" : "error";
    fprintf(out, ">\n      <%s", element);
    write_attribute(out, "message", values);
    putc('>', out);
    if (result->place.function != NULL) {
        write_xml(out, result->place.function);
    }
    if (result->place.file != NULL) {
        fputs(" at ", out);
        write_xml(out, result->place.file);
        fprintf(out, ":%u", result->place.line);
    }
    fprintf(out, "</%s>\n    </testcase>\n", element);
}

static size_t count_outcome(const struct ag_gate *gate, enum ag_gate_outcome outcome) {
    const struct ag_gate_result *results;
    const size_t n_results = ag_gate_results(gate, &results);
    size_t count = 0;
    for (size_t i = 0; i < n_results; i++) {
        count += results[i].outcome == outcome;
    }
    return count;
}

void ag_gate_write_junit(const struct ag_gate *gate, FILE *out) {
    const struct ag_gate_result *results;
    const size_t n_results = ag_gate_results(gate, &results);
    char counts[128];
    snprintf(counts, sizeof counts, "tests=\"%zu\" failures=\"%zu\" errors=\"%zu\"", n_results,
             count_outcome(gate, AG_GATE_HOLDS), count_outcome(gate, AG_GATE_FAILED));
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"allogram\" %s>\n"
            "  <testsuite name=\"allogram report --fail-if\" %s>\n",
            counts, counts);
    for (size_t i = 0; i < n_results; i++) {
        write_case(gate, &results[i], out);
    }
    fputs("  </testsuite>\n</testsuites>\n", out);
}

/* ---- SARIF ---- */

static void write_message(struct ag_json *json, const char *key, const char *text) {
    ag_json_open(json, key, '{');
    ag_json_string(json, "text", text);
    ag_json_close(json, '}');
}

/* Writes PATH as a URI. A path below ROOT becomes relative to ROOT, another absolute path becomes
 * file://..., and a relative path counts as relative to ROOT. */
static void write_artifact(struct ag_json *json, const char *path, const char *root) {
    static const char unreserved[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789-._~/";
    const size_t root_length = strlen(root);
    const bool is_below =
        root_length > 1 && strncmp(path, root, root_length) == 0 && path[root_length] == '/';
    const char *rest = is_below ? path + root_length + 1 : path;
    const bool is_absolute = rest[0] == '/';
    char *uri = malloc(3 * strlen(rest) + sizeof "file://");
    if (uri == NULL) {
        return;
    }
    char *end = stpcpy(uri, is_absolute ? "file://" : "");
    for (; *rest != '\0'; rest++) {
        if (strchr(unreserved, *rest) != NULL) {
            *end++ = *rest;
        } else {
            end += sprintf(end, "%%%02X", (unsigned char)*rest);
        }
    }
    *end = '\0';
    ag_json_open(json, "artifactLocation", '{');
    ag_json_string(json, "uri", uri);
    if (!is_absolute) {
        ag_json_string(json, "uriBaseId", "%SRCROOT%");
    }
    ag_json_close(json, '}');
    free(uri);
}

static void write_location(struct ag_json *json, const struct ag_gate_place *place,
                           const char *root) {
    ag_json_open(json, NULL, '{');
    if (place->file != NULL) {
        ag_json_open(json, "physicalLocation", '{');
        write_artifact(json, place->file, root);
        if (place->line != 0) {
            ag_json_open(json, "region", '{');
            ag_json_integer(json, "startLine", place->line);
            ag_json_close(json, '}');
        }
        ag_json_close(json, '}');
    }
    if (place->function != NULL) {
        ag_json_open(json, "logicalLocations", '[');
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "fullyQualifiedName", place->function);
        ag_json_string(json, "kind", "function");
        ag_json_close(json, '}');
        ag_json_close(json, ']');
    }
    ag_json_close(json, '}');
}

static const char *rule_id(char id[32], size_t expression) {
    snprintf(id, 32, "fail-if-%zu", expression + 1);
    return id;
}

static void write_tool(struct ag_json *json, const struct ag_gate *gate, const char *version) {
    char id[32];
    ag_json_open(json, "tool", '{');
    ag_json_open(json, "driver", '{');
    ag_json_string(json, "name", "allogram");
    ag_json_string(json, "version", version);
    ag_json_open(json, "rules", '[');
    for (size_t i = 0; i < ag_gate_count(gate); i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "id", rule_id(id, i));
        write_message(json, "shortDescription", ag_gate_text(gate, i));
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    ag_json_close(json, '}');
}

/* Writes the message "EXPRESSION: VALUES (TRACE)". */
static void write_words(struct ag_json *json, const struct ag_gate *gate,
                        const struct ag_gate_result *result) {
    char *words = NULL;
    size_t length;
    FILE *stream = open_memstream(&words, &length);
    if (stream != NULL) {
        fprintf(stream, "%s: %s (%s)", ag_gate_text(gate, result->expression),
                result->values != NULL ? result->values : "", result->trace);
        fclose(stream);
    }
    write_message(json, "message", words != NULL ? words : "");
    free(words);
}

static void write_invocation(struct ag_json *json, const struct ag_gate *gate) {
    const struct ag_gate_result *results;
    const size_t n_results = ag_gate_results(gate, &results);
    ag_json_open(json, "invocations", '[');
    ag_json_open(json, NULL, '{');
    ag_json_bool(json, "executionSuccessful", count_outcome(gate, AG_GATE_FAILED) == 0);
    ag_json_open(json, "toolExecutionNotifications", '[');
    for (size_t i = 0; i < n_results; i++) {
        if (results[i].outcome == AG_GATE_FAILED) {
            ag_json_open(json, NULL, '{');
            ag_json_string(json, "level", "error");
            write_words(json, gate, &results[i]);
            ag_json_close(json, '}');
        }
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    ag_json_close(json, ']');
}

void ag_gate_write_sarif(const struct ag_gate *gate, FILE *out, const char *version,
                         const char *root) {
    struct ag_json json = {.out = out, .line_depth = 4};
    const struct ag_gate_result *results;
    const size_t n_results = ag_gate_results(gate, &results);
    char id[32];
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "$schema", "https://json.schemastore.org/sarif-2.1.0.json");
    ag_json_string(&json, "version", "2.1.0");
    ag_json_open(&json, "runs", '[');
    ag_json_open(&json, NULL, '{');
    write_tool(&json, gate, version);
    write_invocation(&json, gate);
    ag_json_open(&json, "results", '[');
    for (size_t i = 0; i < n_results; i++) {
        const struct ag_gate_place *place = &results[i].place;
        if (results[i].outcome != AG_GATE_HOLDS) {
            continue;
        }
        ag_json_open(&json, NULL, '{');
        ag_json_string(&json, "ruleId", rule_id(id, results[i].expression));
        ag_json_integer(&json, "ruleIndex", results[i].expression);
        ag_json_string(&json, "level", "error");
        write_words(&json, gate, &results[i]);
        if (place->file != NULL || place->function != NULL) {
            ag_json_open(&json, "locations", '[');
            write_location(&json, place, root);
            ag_json_close(&json, ']');
        }
        ag_json_close(&json, '}');
    }
    ag_json_close(&json, ']');
    ag_json_close(&json, '}');
    ag_json_close(&json, ']');
    ag_json_close(&json, '}');
}
