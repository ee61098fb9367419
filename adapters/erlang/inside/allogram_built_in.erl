%% allogram_built_in.erl: counts by the emulator's own counters if the tracer (allogram.erl) cannot be used, or if no callers are requested.
%% These counters count by function, without callers: calls and time (call_time) in all releases, and words (call_memory) from OTP 26 on.
-module(allogram_built_in).

-export([begin_run/4, begin_run_without_callers/3, abandon_run/0, counts_words/0, start/2, stop/0]).

counters() ->
    case counts_words() of
        true -> [call_memory, call_time];
        false -> [call_time]
    end.

counts_words() ->
    allogram:release() >= 26.

line(Why) ->
    "not traced: " ++ allogram:text(Why) ++
        case counters() of
            [call_memory | _] -> "; words and time by call_memory and call_time, without callers";
            _ -> "; time by call_time, words are not counted"
        end.

%% For allogram:run: begins to count the process. Returns a function that ends the counting and returns the table.
begin_run(Why, Worker, Patterns, Options) ->
    allogram:complain(line(Why)),
    begin_run_by(counters(), Worker, Patterns, Options).

%% Times are not counted, because call_time would double the cost.
begin_run_without_callers(Worker, Patterns, Options) ->
    begin_run_by([call_memory], Worker, Patterns, Options).

begin_run_by(Counters, Worker, Patterns, Options) ->
    begin_counting(Counters, Patterns),
    trace(Worker, true, [call | [set_on_spawn || maps:get(spawned, Options, false)]]),
    fun() ->
            _ = (catch trace(Worker, false, [all])),
            Counts = read_counts(Counters, Patterns),
            end_counting(Counters, Patterns),
            [{Node, 0, MFA, Calls, Words, Ns} || {Node, {MFA, {Calls, Words, Ns}}} <- lists:zip(lists:seq(1, length(Counts)), Counts)]
    end.

%% For allogram:run, if the process that began to count was killed before it could return the function that ends the counting.
abandon_run() ->
    end_counting(counters(), [{'_', '_', '_'}]).

begin_counting(Counters, Patterns) ->
    _ = [persistent_term:put({?MODULE, session}, trace:session_create(?MODULE, self(), [])) || allogram:has_sessions()],
    Flags = Counters ++ quick_counter(),
    _ = [trace_pattern(Pattern, true, Flags) || Pattern <- Patterns],
    _ = [catch trace_pattern(on_load, true, Flags) || {'_', '_', '_'} <- Patterns],
    _ = [trace_pattern({Own, '_', '_'}, false, Flags) || Own <- [?MODULE, allogram], Patterns =/= []].

%% On OTP 29 it takes some 0.5 ms to read call_memory or call_time of a function (on OTP 27 less than 1 us), so 5 s for all functions of a small
%% node. Reading call_count takes less than 1 us. So from OTP 28 on, the other counters are read only for functions whose call_count is not 0.
quick_counter() ->
    [call_count || allogram:release() >= 28].

may_be_called(_, []) -> true;
may_be_called(MFA, [call_count]) -> trace_info(MFA, call_count) =/= {call_count, 0}.

end_counting(Counters, Patterns) ->
    case allogram:has_sessions() of
        true ->
            _ = (catch trace:session_destroy(session())),
            persistent_term:erase({?MODULE, session});
        false ->
            _ = [catch trace_pattern(Pattern, false, Counters ++ quick_counter()) || Pattern <- [on_load | Patterns]]
    end,
    ok.

%% From OTP 27 on the counters belong to a trace session, so that other tracers are not disturbed.
session() -> persistent_term:get({?MODULE, session}, none).

trace_pattern(Pattern, Match, Flags) ->
    case allogram:has_sessions() of
        true -> trace:function(session(), Pattern, Match, Flags);
        false -> erlang:trace_pattern(Pattern, Match, Flags)
    end.

trace(Process, IsOn, Flags) ->
    case allogram:has_sessions() of
        true -> trace:process(session(), Process, IsOn, Flags);
        false -> erlang:trace(Process, IsOn, Flags)
    end.

trace_info(MFA, Counter) ->
    case allogram:has_sessions() of
        true -> trace:info(session(), MFA, Counter);
        false -> erlang:trace_info(MFA, Counter)
    end.

%% Returns [{MFA, {Calls, Words, Ns}}] of all functions that were called.
read_counts(Counters, Patterns) ->
    [{MFA, Counts}
     || {Module, _} <- code:all_loaded(), Module =/= ?MODULE, Module =/= allogram,
        lists:any(fun({M, _, _}) -> M =:= '_' orelse M =:= Module end, Patterns),
        {Function, Arity} <- functions_of(Module),
        MFA <- [{Module, Function, Arity}], may_be_called(MFA, quick_counter()),
        {Calls, _, _} = Counts <- [counts_of(MFA, Counters)],
        Calls > 0].

functions_of(Module) ->
    try Module:module_info(functions)
    catch _:_ -> [] % it was purged meanwhile
    end.

counts_of(MFA, [call_memory]) ->
    Rows = rows_of(MFA, call_memory),
    {lists:sum([Calls || {_, Calls, _} <- Rows]), sum_of_words(Rows), undefined};
counts_of(MFA, Counters) ->
    Times = rows_of(MFA, call_time),
    {lists:sum([Calls || {_, Calls, _, _} <- Times]),
     case Counters of
         [call_memory | _] -> sum_of_words(rows_of(MFA, call_memory));
         _ -> undefined
     end,
     1000 * lists:sum([1000000 * Seconds + Microseconds || {_, _, Seconds, Microseconds} <- Times])}.

sum_of_words(Rows) -> lists:sum([Words || {_, _, Words} <- Rows]).

rows_of(MFA, Counter) ->
    case trace_info(MFA, Counter) of
        {Counter, Some} when is_list(Some) -> Some;
        _ -> []
    end.

%% Counts a whole node: a process reads the counters each second and adds their growth to the trace. Calls after its last reading are not
%% in the trace, because a node that halts does not wait for another reading.
start(Why, Options) ->
    Line = line(Why),
    allogram:complain(Line),
    _ = [erlang:error("no trace can be written without allogram's native library") || allogram:native() =/= ok],
    _ = case maps:get(output, Options, none) of
            none -> ok;
            File -> allogram:session(File)
        end,
    ok = allogram:report_runtime(erlang:system_info(otp_release), false, lists:sublist(Line ++ "; read each second", 250)),
    Patterns = maps:get(trace, Options, [{'_', '_', '_'}]),
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           begin_counting(counters(), Patterns),
                                           _ = [catch trace(Process, true, [call, set_on_spawn])
                                                || Process <- case maps:get(processes, Options, all) of
                                                                  all -> [all];
                                                                  Some -> Some
                                                              end],
                                           trace(self(), false, [all]),
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
    Now = maps:from_list(read_counts(counters(), Patterns)),
    _ = [allogram:count_calls(MFA, Calls - C, grown(Words, W), max(0, Ns - T))
         || {MFA, {Calls, Words, Ns}} <- maps:to_list(Now), {C, W, T} <- [maps:get(MFA, Before, {0, 0, 0})], Calls > C],
    case Stop of
        none ->
            tell(Patterns, Now);
        _ ->
            _ = trace(all, false, [call, set_on_spawn]),
            end_counting(counters(), Patterns),
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
