/* between_stubs.c: the C functions of between.ml. */
#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/mlvalues.h>
#include <stdlib.h>

value between_caller(value function, value number);
value between_make(value words);
value between_take(value number);

value between_caller(value function, value number) {
    return caml_callback(function, number);
}

value between_make(value words) {
    return caml_alloc(Long_val(words), 0);
}

value between_take(value number) {
    void *volatile block = malloc(100 + (size_t)Long_val(number));
    free(block);
    return Val_unit;
}
