/* empty_tracer.c: the native functions of empty_tracer.erl, the tracer of bench/parts/erlang.py
 * that requests every event and does nothing with it. */
#include <erl_nif.h>

static ERL_NIF_TERM wanted, done;

static ERL_NIF_TERM is_wanted(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return wanted;
}

static ERL_NIF_TERM nothing(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return done;
}

static int load(ErlNifEnv *env, void **private_data, ERL_NIF_TERM info) {
    (void)private_data;
    (void)info;
    wanted = enif_make_atom(env, "trace");
    done = enif_make_atom(env, "ok");
    return 0;
}

static ErlNifFunc functions[] = {
    {"enabled", 3, is_wanted, 0},
    {"trace", 5, nothing, 0},
    {"enabled_call", 3, is_wanted, 0},
    {"trace_call", 5, nothing, 0},
};

ERL_NIF_INIT(empty_tracer, functions, load, NULL, NULL, NULL)
