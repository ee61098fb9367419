%% allogram_built_in.erl: counts by the emulator's own counters if the tracer (allogram.erl) cannot be used. These counters count by
%% function, without callers: calls and time (call_time) in all releases, and words (call_memory) from OTP 26 on.
-module(allogram_built_in).

-export([begin_run/4, abandon_run/0, start/2, stop/0]).

counters() ->
    case list_to_integer(erlang:system_info(otp_release)) >= 26 of
        true -> [call_memory, call_time];
        false -> [call_time]
    end.

line(Why) ->
    "not traced: " ++ allogram:text(Why) ++
        case counters() of
            [call_memory | _] -> "; words and time by call_memory and call_time, without callers";
            _ -> "; time by call_time, words are not counted"
        end.

%% For allogram:run: begins to count the process. Returns a function that ends the counting and returns the table.
begin_run(Why, Worker, Patterns, Options) ->
    allogram:complain(line(Why)),
    begin_counting(Patterns),
    erlang:trace(Worker, true, [call | [set_on_spawn || maps:get(spawned, Options, false)]]),
    fun() ->
            _ = (catch erlang:trace(Worker, false, [all])),
            Counts = read_counts(Patterns),
            end_counting(Patterns),
            [{Node, 0, MFA, Calls, Words, Ns} || {Node, {MFA, {Calls, Words, Ns}}} <- lists:zip(lists:seq(1, length(Counts)), Counts)]
    end.

%% For allogram:run, if the process that began to count was killed before it could return the function that ends the counting.
abandon_run() ->
    end_counting([{'_', '_', '_'}]).

begin_counting(Patterns) ->
    _ = [erlang:trace_pattern(Pattern, true, counters()) || Pattern <- Patterns],
    _ = [catch erlang:trace_pattern(on_load, true, counters()) || {'_', '_', '_'} <- Patterns],
    _ = [erlang:trace_pattern({Own, '_', '_'}, false, counters()) || Own <- [?MODULE, allogram], Patterns =/= []].

end_counting(Patterns) ->
    _ = [catch erlang:trace_pattern(Pattern, false, counters()) || Pattern <- [on_load | Patterns]],
    ok.

%% Returns [{MFA, {Calls, Words, Ns}}] of all functions that were called.
read_counts(Patterns) ->
    [{MFA, Counts}
     || {Module, _} <- code:all_loaded(), Module =/= ?MODULE, Module =/= allogram,
        lists:any(fun({M, _, _}) -> M =:= '_' orelse M =:= Module end, Patterns),
        {Function, Arity} <- functions_of(Module),
        MFA <- [{Module, Function, Arity}],
        {Calls, _, _} = Counts <- [counts_of(MFA)],
        Calls > 0].

functions_of(Module) ->
    try Module:module_info(functions)
    catch _:_ -> [] % it was purged meanwhile
    end.

counts_of(MFA) ->
    Times = case erlang:trace_info(MFA, call_time) of
                {call_time, Some} when is_list(Some) -> Some;
                _ -> []
            end,
    {lists:sum([Calls || {_, Calls, _, _} <- Times]), words_of(MFA, counters()),
     1000 * lists:sum([1000000 * Seconds + Microseconds || {_, _, Seconds, Microseconds} <- Times])}.

words_of(MFA, [call_memory | _]) ->
    case erlang:trace_info(MFA, call_memory) of
        {call_memory, Some} when is_list(Some) -> lists:sum([Words || {_, _, Words} <- Some]);
        _ -> 0
    end;
words_of(_, _) ->
    undefined.

%% Counts a whole node: a process reads the counters each second and adds their growth to the trace. Calls after its last reading are not
%% in the trace, because a node that halts does not wait for another reading.
start(Why, Options) ->
    Line = line(Why),
    allogram:complain(Line),
    _ = [erlang:error("nothing can be written without the native half") || allogram:native() =/= ok],
    _ = case maps:get(output, Options, none) of
            none -> ok;
            File -> allogram:session(File)
        end,
    ok = allogram:report_runtime(erlang:system_info(otp_release), false, lists:sublist(Line ++ "; read each second", 250)),
    Patterns = maps:get(trace, Options, [{'_', '_', '_'}]),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           begin_counting(Patterns),
                                           _ = [catch erlang:trace(Process, true, [call, set_on_spawn])
                                                || Process <- case maps:get(processes, Options, all) of
                                                                  all -> [all];
                                                                  Some -> Some
                                                              end],
                                           erlang:trace(self(), false, [all]),
                                           Self ! {self(), begun},
                                           tell(Patterns, #{})
                                   end),
    receive
        {Pid, begun} -> erlang:demonitor(Monitor, [flush]);
        {'DOWN', Monitor, process, Pid, Reason} -> erlang:error(Reason)
    end,
    persistent_term:put(?MODULE, Pid),
    ok.

tell(Patterns, Before) ->
    Stop = receive {stop, From} -> From after 1000 -> none end,
    Now = maps:from_list(read_counts(Patterns)),
    _ = [allogram:count_calls(MFA, Calls - C, grown(Words, W), max(0, Ns - T))
         || {MFA, {Calls, Words, Ns}} <- maps:to_list(Now), {C, W, T} <- [maps:get(MFA, Before, {0, 0, 0})], Calls > C],
    case Stop of
        none ->
            tell(Patterns, Now);
        _ ->
            _ = erlang:trace(all, false, [call, set_on_spawn]),
            end_counting(Patterns),
            Stop ! {self(), stopped}
    end.

grown(undefined, _) -> 0;
grown(Words, Before) -> max(0, Words - Before).

stop() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            ok;
        Pid ->
            Pid ! {stop, self()},
            receive {Pid, stopped} -> ok after 60000 -> ok end,
            persistent_term:erase(?MODULE)
    end.
