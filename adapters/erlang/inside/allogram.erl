%% allogram.erl: who allocates, from the inside of a node. The tracer's native half is tracer.c; this
%% module starts and stops it.
%%
%% No binary syntax in here: then what an old compiler made of it loads on a new emulator.
-module(allogram).

%% for users
-export([run/3, run/4]).
%% for `allogram run` and `allogram attach`
-export([inject/0, start/1, stop/0]).
-export([prepare/0, is_counted/0, flags/0, name/1, trace_processes/3, untrace/0, others/0, has_sessions/0, join_session/1,
         report_session/0, end_session/0, forget_all/0, report_runtime/2]).
%% for allogram_built_in
-export([native/0, session/1, text/1, complain/1, count_calls/4]).
%% for init and the emulator
-export([load/0, enabled/3, trace/5, enabled_call/3, trace_call/5, enabled_garbage_collection/3,
         trace_garbage_collection/5, enabled_running_procs/3, trace_running_procs/5, enabled_procs/3,
         trace_procs/5, enabled_receive/3, trace_receive/5]).
%% what the tracer is measured with
-export([check_tail/1, check_leaf/1, check_body/2]).

-on_load(load/0).
-nifs([enabled/3, trace/5, enabled_call/3, trace_call/5, enabled_garbage_collection/3,
       trace_garbage_collection/5, enabled_running_procs/3, trace_running_procs/5, enabled_procs/3,
       trace_procs/5, enabled_receive/3, trace_receive/5, find_layout/0, learn/1, learned/0,
       name_process/3, forget_all/0, table/1, is_recording/0, begin_session/1, join_session/1, report_session/0,
       end_session/0, report_runtime/2, count_calls/4, say/1]).

%% The native library is in this module's folder. If the module's bytes were sent (adapters/erlang/link), the sender says where the
%% library is, and gets the reason if it does not load. In a node that was started with this module, the module always loads, since a
%% module that does not load ends such a node; the reason is then reported later (native/0).
load() ->
    case {application:get_env(?MODULE, folder), code:which(?MODULE)} of
        {{ok, Folder}, _} -> load_from(Folder);
        {undefined, File} when is_list(File) -> keep_loaded(load_from(filename:dirname(File)));
        _ -> keep_loaded({error, {load_failed, "allogram.beam was not loaded from a file"}})
    end.

keep_loaded(Loaded) -> persistent_term:put({?MODULE, native}, Loaded).

%% ok, or why the native half is not there.
native() -> persistent_term:get({?MODULE, native}, ok).

load_from(Folder) -> erlang:load_nif(filename:join(Folder, "allogram_beam"), 0).

enabled(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
enabled_call(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace_call(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
enabled_garbage_collection(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace_garbage_collection(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
enabled_running_procs(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace_running_procs(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
enabled_procs(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace_procs(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).
enabled_receive(_Tag, _State, _Tracee) -> erlang:nif_error(not_loaded).
trace_receive(_Tag, _State, _Tracee, _Term, _Options) -> erlang:nif_error(not_loaded).

find_layout() -> erlang:nif_error(not_loaded).
learn(_Pid) -> erlang:nif_error(not_loaded).
learned() -> erlang:nif_error(not_loaded).
name_process(_Pid, _Name, _InitialCall) -> erlang:nif_error(not_loaded).
forget_all() -> erlang:nif_error(not_loaded).
is_recording() -> erlang:nif_error(not_loaded).
table(_Pid) -> erlang:nif_error(not_loaded).
begin_session(_Options) -> erlang:nif_error(not_loaded).
join_session(_Live) -> erlang:nif_error(not_loaded).
report_session() -> erlang:nif_error(not_loaded).
end_session() -> erlang:nif_error(not_loaded).
report_runtime(_Release, _Note) -> erlang:nif_error(not_loaded).
count_calls(_Mfa, _Calls, _Words, _Ns) -> erlang:nif_error(not_loaded).
say(_Text) -> erlang:nif_error(not_loaded).

%% ---- for users ----

%% Applies the function in a process of its own and counts all that it does there. Returns {Result, Table}, a row of which is
%% {Node, Parent, {M, F, A}, Calls, Words, Nanoseconds}: a function as it is called on one path, Parent is the node of its
%% caller (0: the first); undefined is what was allocated outside of traced functions.
%%
%% Where the emulator is not known, or the native half cannot be loaded, a line on standard error says so, and the emulator's
%% own counters are the table: all functions below 0, from OTP 26 on with words, before with undefined for them.
run(Module, Function, Arguments) ->
    run(Module, Function, Arguments, #{}).

%% Options: output => name of a trace that stays (as that of `allogram run`); trace => patterns as those of start/1;
%% spawned => true: the processes that it starts are counted as well, into the trace.
run(Module, Function, Arguments, Options) ->
    _ = [erlang:error({allogram, "this node is counted already, as a whole"}) || is_counted()],
    case ready() of
        ok -> run_traced(Module, Function, Arguments, Options);
        Why -> allogram_built_in:run(Why, Module, Function, Arguments, Options)
    end.

run_traced(Module, Function, Arguments, Options) ->
    Session = session(maps:get(output, Options, temporary())),
    Self = self(),
    ok = report_runtime(erlang:system_info(otp_release), ""),
    {Pid, Monitor} =
        spawn_monitor(fun() ->
                              receive {Self, go} -> ok end,
                              Self ! {self(), result, apply(Module, Function, Arguments)},
                              receive {Self, go} -> ok end
                      end),
    trace_processes([Pid], maps:get(trace, Options, [{'_', '_', '_'}]),
                    case maps:get(spawned, Options, false) of
                        true -> flags();
                        false -> flags() -- [set_on_spawn]
                    end),
    Pid ! {Self, go},
    Outcome = receive
                  {Pid, result, Result} -> {ok, Result};
                  {'DOWN', Monitor, process, Pid, Reason} -> {failed, Reason}
              end,
    untrace(),
    Table = table(Pid),
    erlang:demonitor(Monitor, [flush]),
    Pid ! {Self, go},
    forget_all(),
    _ = [end_run(Options) || Session =:= ok],
    case Outcome of
        {ok, Value} -> {Value, Table};
        {failed, Why} -> erlang:error({allogram, Why, Table})
    end.

end_run(Options) ->
    Trace = end_session(),
    _ = [file:delete(Trace) || not maps:is_key(output, Options)].

temporary() ->
    filename:join(os:getenv("TMPDIR", "/tmp"), "allogram.run.%p.allogram").

%% ok: it is ours; joined: one runs already, for instance that of `allogram run`.
session(Output) ->
    case begin_session(Output) of
        Begun when is_atom(Begun) -> Begun;
        Why -> erlang:error({allogram, Why})
    end.

%% ---- for the command ----

%% By `allogram run`, from the environment: nothing of it may disturb the program. The process that calls it goes on with
%% the program and is counted, so another one does the work.
inject() ->
    {Pid, Monitor} = spawn_monitor(fun inject_here/0),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

inject_here() ->
    try
        _ = [start(#{}) || native() =/= ok orelse is_recording()],
        ok
    catch
        _:Why ->
            Line = "Erlang is not counted: " ++ text(Why),
            _ = (catch report_runtime(erlang:system_info(otp_release), lists:sublist(Line, 250))),
            complain(Line)
    end.

text(Why) ->
    case io_lib:printable_list(Why) of
        true -> Why;
        false -> lists:flatten(io_lib:format("~0p", [Why]))
    end.

%% One line on standard error.
complain(Line) ->
    case native() of
        ok -> say(Line);
        _ -> io:put_chars(standard_error, ["allogram: ", Line, "\n"])
    end.

%% processes => all or a list of them; trace => list of {Module, Function, Arity}, each of the three '_' for any.
start(Options) ->
    case ready() of
        ok -> start_traced(Options);
        Why -> allogram_built_in:start(Why, Options), persistent_term:put({?MODULE, is_counted}, true)
    end.

start_traced(Options) ->
    persistent_term:put({?MODULE, is_counted}, true),
    _ = case maps:get(output, Options, none) of
            none -> ok;
            File -> session(File)
        end,
    Processes = case maps:get(processes, Options, all) of
                    all -> erlang:processes();
                    Some -> Some
                end,
    ok = report_runtime(erlang:system_info(otp_release), ""),
    [name(Pid) || Pid <- Processes],
    trace_processes(case maps:get(processes, Options, all) of
                        all -> [all];
                        _ -> Processes
                    end,
                    maps:get(trace, Options, [{'_', '_', '_'}]), flags()).

is_counted() -> persistent_term:get({?MODULE, is_counted}, false).

stop() ->
    allogram_built_in:stop(),
    untrace(),
    persistent_term:erase({?MODULE, is_counted}),
    forget_all(),
    end_session().

name(Pid) ->
    case erlang:process_info(Pid, [registered_name, initial_call, dictionary]) of
        [{registered_name, Name}, {initial_call, Call}, {dictionary, Dictionary}] ->
            Shown = case Name of
                        [] -> pid_to_list(Pid);
                        _ -> atom_to_list(Name)
                    end,
            name_process(Pid, Shown,
                         case lists:keyfind('$initial_call', 1, Dictionary) of
                             {_, {_, _, Arity} = Other} when is_integer(Arity) -> Other;
                             _ -> Call
                         end);
        _ ->
            ok
    end.

%% ---- tracing ----

flags() ->
    [call, return_to, arity, garbage_collection, running, procs, 'receive', set_on_spawn].

%% From OTP 27 on tracing goes on beside other tracers, in a session of its own. By the release: the module for them is loaded when
%% it is first called.
has_sessions() ->
    list_to_integer(erlang:system_info(otp_release)) >= 27.

trace_processes(Processes, Patterns, Flags) ->
    case has_sessions() of
        true ->
            Session = trace:session_create(?MODULE, {?MODULE, []}, []),
            persistent_term:put(?MODULE, Session),
            set_patterns(fun(Pattern, Match) -> trace:function(Session, Pattern, Match, [local]) end, Patterns, []),
            [catch trace:process(Session, Process, true, Flags) || Process <- Processes],
            catch trace:process(Session, self(), false, [all]);
        false ->
            Theirs = their_patterns(),
            _ = [persistent_term:put({?MODULE, their_patterns}, Theirs) || Theirs =/= []],
            set_patterns(fun(Pattern, Match) -> erlang:trace_pattern(Pattern, Match, [local]) end, Patterns, match_but(others())),
            restore(Theirs),
            [catch erlang:trace(Process, true, [{tracer, ?MODULE, []} | Flags]) || Process <- Processes],
            catch erlang:trace(self(), false, [all])
    end,
    ok.

set_patterns(Set, Patterns, Match) ->
    [Set(Pattern, Match) || Pattern <- Patterns],
    _ = [Set(on_load, Match) || {'_', '_', '_'} <- Patterns],
    [Set({Own, '_', '_'}, false) || Own <- [?MODULE, allogram_attached], Patterns =/= []].

%% Nothing is traced when it returns, and no event is under way in a scheduler that runs Erlang code.
untrace() ->
    case has_sessions() of
        true ->
            case persistent_term:get(?MODULE, none) of
                none ->
                    ok;
                Session ->
                    trace:process(Session, all, false, [all]),
                    trace:session_destroy(Session),
                    persistent_term:erase(?MODULE)
            end;
        false ->
            untrace_ours(),
            erlang:trace_pattern({'_', '_', '_'}, false, [local]),
            erlang:trace_pattern(on_load, false, [local]),
            restore(persistent_term:get({?MODULE, their_patterns}, [])),
            persistent_term:erase({?MODULE, their_patterns})
    end,
    ok.

untrace_ours() ->
    case is_alone() of
        true -> erlang:trace(all, false, [all]);
        false -> untrace_each()
    end.

is_alone() ->
    [] =:= [Other || Other <- others() ++ [new_processes, new_ports | erlang:ports()], has_another(Other)].

has_another(Traced) ->
    case catch erlang:trace_info(Traced, tracer) of
        {tracer, []} -> false;
        {tracer, {?MODULE, _}} -> false;
        {tracer, _} -> true;
        _ -> false
    end.

%% Until there is none: who is born while the others are gone through inherits the tracer of its parent.
untrace_each() ->
    case [Pid || Pid <- [new_processes | erlang:processes()], is_ours(Pid)] of
        [] -> ok;
        Ours -> [catch erlang:trace(Pid, false, [all]) || Pid <- Ours], untrace_each()
    end.

is_ours(Pid) ->
    case catch erlang:trace_info(Pid, tracer) of
        {tracer, {?MODULE, _}} -> true;
        _ -> false
    end.

%% ---- beside other tracers, where there are no sessions (OTP 25, 26) ----

%% Processes that another tracer has: they are left to it.
others() ->
    [Pid || not has_sessions(), Pid <- erlang:processes(), has_another(Pid)].

%% Patterns are the node's: the others' tracers would be told of each function that is ours.
match_but([]) -> [];
match_but(Others) -> [{'_', [{'=/=', {self}, {const, Pid}} || Pid <- Others], []}].

%% What others want to know of functions, so that it can be had again: {Function, Match, local or global}. 2 ms for 7,000
%% functions.
their_patterns() ->
    [Pattern || {Module, _} <- code:all_loaded(), Function <- functions(Module), Pattern <- pattern(Function)] ++ pattern(on_load).

functions(Module) ->
    try
        [{Module, Name, Arity} || {Name, Arity} <- lists:usort(Module:module_info(exports) ++ Module:module_info(functions))]
    catch
        _:_ -> []
    end.

pattern(Function) ->
    case erlang:trace_info(Function, traced) of
        {traced, Scope} when Scope =:= local; Scope =:= global ->
            {match_spec, Match} = erlang:trace_info(Function, match_spec),
            [{Function, Match, Scope}];
        _ ->
            []
    end.

restore(Theirs) ->
    [catch erlang:trace_pattern(Function, Match, [Scope]) || {Function, Match, Scope} <- Theirs].

%% ---- what is measured before anything is counted ----

%% ok, or why this emulator cannot be traced.
ready() ->
    case native() of
        ok ->
            try prepare()
            catch error:Why -> Why
            end;
        {error, {_, Why}} ->
            "the native half was not loaded: " ++ text(Why)
    end.

prepare() ->
    case find_layout() of
        known -> ok;
        found -> check();
        Why -> erlang:error(Why)
    end.

%% A tail call and a body call, many times: how many words a return_to takes on the stack, and what an event costs.
check() ->
    Self = self(),
    {Pid, Monitor} =
        spawn_monitor(fun() ->
                              receive {Self, go} -> ok end,
                              check_tail(300),
                              _ = [check_body(30, 30) || _ <- lists:seq(1, 10)],
                              ok
                      end),
    ok = learn(Pid),
    trace_processes([Pid], [{?MODULE, check_tail, 1}, {?MODULE, check_leaf, 1}, {?MODULE, check_body, 2}],
                    [call, return_to, arity]),
    _ = [trace_check(Check) || Check <- [{?MODULE, check_tail, 1}, {?MODULE, check_leaf, 1}, {?MODULE, check_body, 2}]],
    Pid ! {Self, go},
    receive {'DOWN', Monitor, process, Pid, _} -> ok end,
    untrace(),
    case learned() of
        ok -> ok;
        Why -> erlang:error(Why)
    end.

trace_check(Pattern) ->
    case has_sessions() of
        true -> trace:function(persistent_term:get(?MODULE), Pattern, [], [local]);
        false -> erlang:trace_pattern(Pattern, [], [local])
    end.

check_tail(0) -> check_leaf(0);
check_tail(N) -> check_tail(N - 1).

check_leaf(N) -> N.

check_body(0, _) -> 0;
check_body(N, M) -> check_leaf(M) + check_body(N - 1, M).
