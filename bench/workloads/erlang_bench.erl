%% erlang_bench.erl: runs a program under one of the emulator's profilers, or under allogram, in a node that does nothing else, for
%% bench/parts/erlang.py.
%% measure(Method, Program, Size) prints three numbers: microseconds of the program by its own clock; microseconds of the whole run, including the
%% time in which the method starts and stops tracing; and bytes of the file that the method wrote (0: none).
-module(erlang_bench).
-export([measure/3, work/2, calls/1, build/1, sum/2, compile/1, timed/2, server/1, serve/1, parser/1, recursion/1]).

measure(Method, Program, Size) ->
    Work = prepared(Program, Size),
    _ = work(Program, element(1, Work)), % a first run, so that all code is loaded
    Begin = erlang:monotonic_time(),
    {Own, Bytes} = under(Method, Program, element(2, Work)),
    Whole = erlang:monotonic_time() - Begin,
    io:format("~w ~w ~w~n", [us(Own), us(Whole), Bytes]).

us(Time) -> erlang:convert_time_unit(Time, native, microsecond).

%% {argument of the first run, argument of the measured run}
prepared(calls, Size) -> {100, Size};
prepared(parser, Size) ->
    Text = list_to_binary(lists:duplicate(Size, "abc=123, key=4567; name=89\n")),
    {Text, Text};
prepared(Program, Size) when Program =:= server; Program =:= recursion ->
    {10, Size};
prepared(compile, File) ->
    {ok, Forms} = epp:parse_file(File, []),
    {Forms, Forms}.

%% The time of the program, by its own clock.
timed(Program, Argument) ->
    Begin = erlang:monotonic_time(),
    work(Program, Argument),
    erlang:monotonic_time() - Begin.

work(calls, Size) -> calls(Size);
work(server, Size) -> server(Size);
work(parser, Text) -> parser(Text);
work(recursion, Size) -> recursion(Size);
work(compile, Forms) -> compile(Forms).

%% Many calls of small functions: lists, tuples, maps, recursion with and without tail calls.
calls(0) -> ok;
calls(N) ->
    List = build(10),
    55 = sum(List, 0),
    _ = lists:map(fun(X) -> {X, N} end, List),
    _ = maps:from_list([{X, X} || X <- List]),
    _ = setelement(2, {N, N, N}, x),
    calls(N - 1).

build(0) -> [];
build(N) -> [N | build(N - 1)].

sum([], Sum) -> Sum;
sum([X | More], Sum) -> sum(More, Sum + X).

compile(Forms) ->
    {ok, _, _} = compile:forms(Forms, [binary, no_spawn_compiler_process]),
    ok.

%% A server that answers requests, in a process of its own.
server(N) ->
    {Pid, Monitor} = spawn_monitor(?MODULE, serve, [#{}]),
    _ = [ask(Pid, {put, I rem 100, {I, I}}) || I <- lists:seq(1, N)],
    Pid ! stop,
    receive {'DOWN', Monitor, process, _, _} -> ok end.

ask(Pid, Request) ->
    Reference = make_ref(),
    Pid ! {self(), Reference, Request},
    receive {Reference, Answer} -> Answer end.

serve(Map) ->
    receive
        {From, Reference, Request} ->
            {Answer, More} = handle(Request, Map),
            From ! {Reference, Answer},
            serve(More);
        stop ->
            ok
    end.

handle({put, Key, Value}, Map) -> {ok, maps:put(Key, Value, Map)}.

%% A parser of lines, which passes a match context from call to call.
parser(Text) -> length(pairs(Text, [])).

pairs(<<>>, Out) -> Out;
pairs(Text, Out) ->
    {Pair, Rest} = pair(Text, [], []),
    pairs(Rest, [Pair | Out]).

pair(<<$=, More/binary>>, Word, Seen) -> pair(More, [], [Word | Seen]);
pair(<<C, More/binary>>, Word, Seen) when C =:= $\n; C =:= $;; C =:= $, -> {{Seen, Word}, blanks(More)};
pair(<<C, More/binary>>, Word, Seen) -> pair(More, [C | Word], Seen).

blanks(<<$ , More/binary>>) -> blanks(More);
blanks(More) -> More.

%% Calls and returns, and nothing else.
recursion(N) when N < 2 -> N;
recursion(N) -> recursion(N - 1) + recursion(N - 2).

%% ---- methods ----

under(none, Program, Argument) ->
    {in_process(Program, Argument, fun(_) -> ok end), 0};
under(Counted, Program, Argument) when Counted =:= call_count; Counted =:= call_time; Counted =:= call_memory ->
    Flags = [Counted], % not `local`: then each call would also send a message
    _ = erlang:trace_pattern({'_', '_', '_'}, true, Flags),
    Own = in_process(Program, Argument, fun(Pid) -> erlang:trace(Pid, true, [call]) end),
    Loaded = [{M, F, A} || {M, _} <- code:all_loaded(), {F, A} <- M:module_info(functions)],
    Rows = [Row || MFA <- Loaded, {_, [_ | _] = Row} <- [erlang:trace_info(MFA, Counted)]],
    true = Rows =/= [] orelse Counted =:= call_count,
    _ = erlang:trace_pattern({'_', '_', '_'}, false, Flags),
    {Own, 0};
under(eprof, Program, Argument) ->
    {ok, Own} = eprof:profile([], ?MODULE, timed, [Program, Argument]),
    {Own, 0};
under(fprof, Program, Argument) ->
    Own = fprof:apply(?MODULE, timed, [Program, Argument], [{file, "fprof.trace"}]),
    {Own, filelib:file_size("fprof.trace")};
under(tprof, Program, Argument) ->
    {Own, {call_memory, Rows}} =
        tprof:profile(?MODULE, timed, [Program, Argument], #{type => call_memory, report => return, timeout => infinity}),
    true = Rows =/= [] orelse Program =:= recursion, % tprof leaves out functions without words
    {Own, 0};
under(empty_tracer, Program, Argument) ->
    {module, _} = code:ensure_loaded(empty_tracer),
    _ = erlang:trace_pattern({'_', '_', '_'}, [], [local]),
    _ = erlang:trace_pattern({empty_tracer, '_', '_'}, false, [local]),
    Flags = [call, return_to, arity, garbage_collection, running, procs, 'receive', set_on_spawn, {tracer, empty_tracer, []}],
    Own = in_process(Program, Argument, fun(Pid) -> erlang:trace(Pid, true, Flags) end),
    _ = erlang:trace_pattern({'_', '_', '_'}, false, [local]),
    {Own, 0};
under(without_callers, Program, Argument) ->
    {Own, [_ | _]} = allogram:run(?MODULE, timed, [Program, Argument], #{callers => false, spawned => true}),
    {Own, 0};
under(allogram, Program, Argument) ->
    {Own, [_ | _]} = allogram:run(?MODULE, timed, [Program, Argument], #{output => "bench.allogram", spawned => true}),
    {Own, filelib:file_size("bench.allogram")}.

in_process(Program, Argument, Trace) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           receive go -> ok end,
                                           Self ! {self(), timed(Program, Argument)}
                                   end),
    _ = Trace(Pid),
    Pid ! go,
    Own = receive {Pid, Time} -> Time end,
    receive {'DOWN', Monitor, process, Pid, normal} -> Own end.
