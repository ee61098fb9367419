%% empty_tracer.erl: a tracer that does nothing. bench/parts/erlang.py measures with it the emulator's own time per event, which is the lower
%% bound for every tracer.
-module(empty_tracer).
-export([enabled/3, trace/5, enabled_call/3, trace_call/5]).
-on_load(load/0).
-nifs([enabled/3, trace/5, enabled_call/3, trace_call/5]).

load() -> erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "empty_tracer"), 0).

enabled(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
enabled_call(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace_call(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
