/* fuzz_json.c: reads any bytes as a JSON text, as `allogram mcp` reads its messages, and uses each
 * value in every way. */
#include <stdlib.h>
#include <string.h>

#include "text/json_reader.h"

enum { VALUES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes) {
    static struct ag_json_value values[VALUES];
    struct ag_json_document document = {
        .text = (const char *)bytes, .length = n_bytes, .values = values, .capacity = VALUES};
    if (ag_json_read(&document) < 0) {
        return 0;
    }
    for (size_t i = 0; i < document.count; i++) {
        char text[256];
        int64_t number;
        if (values[i].after <= i || values[i].after > document.count) {
            abort();
        }
        if (ag_json_copy_text(&document, &values[i], text, sizeof text) &&
            strlen(text) >= sizeof text) {
            abort();
        }
        (void)ag_json_copy_integer(&document, &values[i], &number); /* not a number: false */
    }
    (void)ag_json_member(&document, values, "method"); /* not an object: NULL */
    return 0;
}
