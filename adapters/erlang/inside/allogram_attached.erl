%% allogram_attached.erl: records a running node for `allogram attach`, and removes everything at the end.
%%
%% The command loads this module, allogram.erl and allogram_selection.erl, and calls attach/1. A process, the keeper, then runs the recording. The
%% keeper is the only process of allogram on the node, is not traced, and ends with the recording. The keeper ends the recording on request, and when
%% the command's own node is gone for any reason. If the command's node is gone, the keeper also removes the modules that the command loaded.
%%
%% While it runs, the keeper checks whether traced code was loaded again, because the emulator does not trace the new code by itself. A pause
%% removes all trace flags and patterns, so the node runs as it did before the attach.
-module(allogram_attached).

-export([attach/1, control/1, detach/1]).

-define(IS_RECORDED, "it is recorded already, by another allogram attach").
-define(IS_NOT_RECORDED, "no recording by allogram attach runs on this node").
-define(STAYS_MAPPED, "the dirty schedulers are busy, so allogram's library stays in memory; the next attach removes it").
-define(LOOK_MS, 1000).
-define(WINDOW_MS, 5).
-define(BETWEEN_WINDOWS_MS, 195).
-define(NAMES_MOST, 10000).

%% ---- what the command calls ----

%% Options: owner: a pid of the command, which gets the messages stop, reset and dump; live: the file to record into; mode: exact or
%% sample; processes, functions: the values of --process and --trace; removes: the modules that the command loaded, which the keeper
%% removes when the command is gone.
%% Returns {ok, [Note]}, or {error, Line} if nothing was changed.
attach(Options) ->
    case whereis(?MODULE) of
        undefined ->
            {Keeper, Monitor} = spawn_monitor(fun keep/0),
            call(Keeper, Monitor, {attach, Options});
        Keeper ->
            call(Keeper, erlang:monitor(process, Keeper), {attach, Options})
    end.

%% The actions are pause, resume, reset, dump and stop. Returns ok or {error, Line}: after a reset when the next recording has begun, after
%% a stop when the recording is over.
control(stop) ->
    case call(stop) of
        ok -> wait_for_end();
        Error -> Error
    end;
control(Action) ->
    call(Action).

%% Ends the recording and returns {ok, [Note]}. How: the atom again if the command attaches again right away, otherwise over. If the keeper was
%% killed, the calling process ends the recording itself.
detach(How) ->
    case call({detach, How}) of
        {error, _} -> finish(), {ok, ["the process that kept the recording was killed; the tracing was removed nevertheless"]};
        Answer -> Answer
    end.

call(Request) ->
    case whereis(?MODULE) of
        undefined -> {error, ?IS_NOT_RECORDED};
        Keeper -> call(Keeper, erlang:monitor(process, Keeper), Request)
    end.

call(Keeper, Monitor, Request) ->
    Keeper ! {Request, self(), Monitor},
    receive
        {Monitor, Answer} -> erlang:demonitor(Monitor, [flush]), Answer;
        {'DOWN', Monitor, process, _, noproc} -> {error, ?IS_NOT_RECORDED};
        {'DOWN', Monitor, process, _, normal} -> {error, ?IS_NOT_RECORDED};
        {'DOWN', Monitor, process, _, Why} -> {error, line(Why)}
    end.

wait_for_end() ->
    Monitor = erlang:monitor(process, ?MODULE),
    receive {'DOWN', Monitor, process, _, _} -> ok after 30000 -> {error, "the command that attached did not end the recording in 30 s"} end.

%% ---- the keeper ----

keep() ->
    receive
        {{attach, Options}, From, Tag} ->
            case catch begin_first(Options) of
                {ok, State} -> From ! {Tag, {ok, notes(State)}}, loop(State);
                Failure -> From ! {Tag, {error, line(Failure)}}
            end
    end.

begin_first(#{owner := Owner} = Options) ->
    _ = [fail(?IS_RECORDED) || not is_first()],
    _ = [fail("it is counted already, by allogram run, allogram:start or allogram:run") || allogram:is_counted()],
    process_flag(priority, high),
    Processes = processes(Options),
    _ = [ok = allogram:prepare() || patterns(Options) =/= []],
    erlang:monitor_node(node(Owner), true),
    begin_recording(Options, Processes, false).

begin_recording(#{live := Live} = Options, Processes, IsPaused) ->
    Patterns = patterns(Options),
    Others = length(allogram:others()),
    case allogram:join_session(Live) of
        ok -> ok;
        Why -> fail(Why)
    end,
    State = #{options => Options, patterns => Patterns, others => Others, reloaded => [], is_paused => IsPaused, waiting => [],
              named => [], known => [], has_window => false, look => erlang:monotonic_time(millisecond)},
    try
        ok = allogram:report_runtime(erlang:system_info(otp_release), note(Options) =:= "", note(Options)),
        _ = [trace(Processes, State) || not IsPaused],
        {ok, begin_windows(State)}
    catch
        _:Failure -> finish(), {error, line(Failure)}
    end.

is_first() ->
    true =:= (catch register(?MODULE, self())).

note(#{mode := exact, functions := []}) -> "";
note(#{mode := exact}) -> "only the functions that --trace names were counted; what other functions allocate is added to their callers";
note(#{processes := [_ | _]}) -> "only collections of the processes that --process names; calls were not traced (--mode=exact traces calls)";
note(_) -> "some collections of the processes that existed at the attach, and of one in forty that began later; calls were not traced (--mode=exact traces calls)".

%% If the tracer records only some collections, reports how many it has recorded.
report_collections(#{options := #{mode := sample, processes := []} = Options}) ->
    {Seen, Recorded} = allogram:take_collections(),
    allogram:report_runtime(erlang:system_info(otp_release), false, text("~w of ~w collections: ~s", [Recorded, Seen, note(Options)]));
report_collections(_) ->
    ok.

loop(#{options := #{owner := Owner} = Options} = State) ->
    Node = node(Owner),
    receive
        {{detach, How}, From, Tag} ->
            report_collections(State),
            HasEnded = finish(),
            From ! {Tag, {ok, notes(State) ++ [?STAYS_MAPPED || not HasEnded]}},
            _ = [wait_for_command(State) || How =:= again];
        {nodedown, Node} ->
            report_collections(State),
            finish(),
            remove(maps:get(removes, Options));
        {pause, From, Tag} ->
            _ = [untrace() || not maps:get(is_paused, State)],
            From ! {Tag, ok},
            loop(State#{is_paused := true});
        {resume, From, Tag} ->
            _ = [trace(again(Options), State) || maps:get(is_paused, State)],
            From ! {Tag, ok},
            loop(begin_windows(State#{is_paused := false}));
        {reset, From, Tag} ->
            Owner ! {allogram, reset},
            loop(State#{waiting := [{From, Tag} | maps:get(waiting, State)]});
        {{attach, _}, From, Tag} ->
            From ! {Tag, {error, ?IS_RECORDED}},
            loop(State);
        {Action, From, Tag} when Action =:= stop; Action =:= dump ->
            _ = [allogram:report_session() || Action =:= dump],
            Owner ! {allogram, Action},
            From ! {Tag, ok},
            loop(State);
        {window, Change} ->
            loop(change_window(Change, State));
        {_, From, Tag} ->
            From ! {Tag, {error, "the version of allogram on the node does not know this action; use pause, resume, reset, dump or stop"}},
            loop(State)
    after max(0, maps:get(look, State) - erlang:monotonic_time(millisecond)) ->
        Next = erlang:monotonic_time(millisecond) + ?LOOK_MS,
        loop((look_for_processes(look_for_new_code(State)))#{look := Next})
    end.

%% After a reset: waits until the command attaches again, and then answers all that asked for a reset.
wait_for_command(#{options := #{owner := Owner} = Options, waiting := Waiting} = State) ->
    Node = node(Owner),
    receive
        {{attach, #{owner := Owner} = Again}, From, Tag} ->
            Begun = (catch begin_recording(Again, again(Again), maps:get(is_paused, State))),
            Answer = case Begun of
                         {ok, _} -> ok;
                         Failure -> {error, line(Failure)}
                     end,
            [To ! {ToTag, Answer} || {To, ToTag} <- Waiting],
            case Begun of
                {ok, New} -> From ! {Tag, {ok, notes(New)}}, loop(New);
                _ -> From ! {Tag, Answer}
            end;
        {reset, From, Tag} ->
            wait_for_command(State#{waiting := [{From, Tag} | Waiting]});
        {{attach, _}, From, Tag} ->
            From ! {Tag, {error, ?IS_RECORDED}},
            wait_for_command(State);
        {{detach, _}, From, Tag} ->
            From ! {Tag, {ok, []}};
        {nodedown, Node} ->
            remove(maps:get(removes, Options))
    end.

%% ---- beginning and ending ----

trace(Processes, #{options := Options, patterns := Patterns}) ->
    Flags = flags(Options),
    Names = case Processes of
                [all] when Patterns =:= [] -> registered_processes();
                [all] -> erlang:processes();
                _ -> Processes
            end,
    _ = [allogram:name(Pid) || length(Names) =< ?NAMES_MOST, Pid <- Names],
    allogram:trace_processes(case Options of #{mode := sample, processes := []} -> [existing]; _ -> Processes end,
                             Patterns, Flags, tracer_state(Options)).

tracer_state(#{mode := sample, processes := []}) -> some_collections;
tracer_state(#{mode := sample}) -> collections;
tracer_state(_) -> [].

registered_processes() ->
    [Pid || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid)].

%% ---- some collections ----
%%
%% By default a small part of all collections is recorded, so that the cost stays small also for a node that begins a process for each
%% request. If a process that handles one request is traced, it spends 5 % of its time to inherit the tracer, and 12 % to ask the tracer at each
%% collection (seven collections in 20 us). So of new processes only two kinds are traced: those that begin in a window (5 ms long, at random times;
%% windows take one fortieth of the time), and those that still live when the keeper looks for new processes once a second.

change_window(open, #{is_paused := false, options := #{mode := sample, processes := []}} = State) ->
    allogram:trace_new_processes(true),
    erlang:send_after(?WINDOW_MS, self(), {window, shut}),
    State;
change_window(shut, #{is_paused := false} = State) ->
    allogram:trace_new_processes(false),
    open_window_later(State);
change_window(_, State) ->
    State#{has_window := false}.

%% The times between windows are distributed exponentially, so that they do not follow a rhythm of the program.
open_window_later(State) ->
    erlang:send_after(round(-math:log(rand:uniform()) * ?BETWEEN_WINDOWS_MS), self(), {window, open}),
    State#{has_window := true}.

begin_windows(#{has_window := false, options := #{mode := sample, processes := []}} = State) -> open_window_later(State);
begin_windows(State) -> State.

look_for_processes(#{is_paused := false, options := #{mode := sample, processes := []}, known := Known, named := Named} = State) ->
    Now = case erlang:system_info(process_count) =< ?NAMES_MOST of
              true -> ordsets:from_list(erlang:processes());
              false -> Known
          end,
    [allogram:trace_process(Pid) || Known =/= [], Pid <- ordsets:subtract(Now, Known), Pid =/= self()],
    Registered = registered_processes(),
    [allogram:name(Pid) || Registered =/= Named, length(Registered) =< ?NAMES_MOST, Pid <- Registered -- Named],
    State#{known := Now, named := Registered};
look_for_processes(State) ->
    State.


flags(#{mode := sample}) -> [garbage_collection];
flags(#{processes := []}) -> allogram:flags();
flags(_) -> allogram:flags() -- [set_on_spawn].

%% Ends the tracing. Collections also run on dirty schedulers, which may still be inside of their last event when allogram:untrace/0 returns.
%% Returns true if all dirty schedulers have left their last event.
untrace() ->
    allogram:untrace(),
    HasEnded = allogram:wait_for_dirty() orelse allogram:wait_for_dirty(),
    allogram:forget_all(),
    HasEnded.

finish() ->
    HasEnded = untrace(),
    allogram:end_session(),
    _ = [allogram:allow_unmapping() || HasEnded],
    HasEnded.

%% Removes modules of allogram from the node. If this module is one of them, the calling process still runs its old code, and has to end after this
%% call; the spawned processes purge the old code.
remove(Modules) ->
    [begin code:purge(Module), code:delete(Module) end || Module <- Modules],
    [spawn(code, purge, [Module]) || Module <- Modules],
    ok.

notes(#{others := Others, reloaded := Reloaded}) ->
    [text("~w processes already have another tracer, so they are not counted", [Others]) || Others > 0] ++
    [text("~s was loaded again: up to a second of its calls is not counted", [Module]) || Module <- lists:usort(Reloaded)].

%% ---- code that is loaded again ----

%% Sets the patterns again if a traced module was loaded again. If all functions are traced, the emulator does this itself (on_load).
look_for_new_code(#{is_paused := false, patterns := Patterns, reloaded := Reloaded} = State) ->
    Lost = [Pattern || {Module, _, _} = Pattern <- Patterns, Module =/= '_', not is_traced(Pattern)],
    case Lost =/= [] andalso has_code(Lost) of
        true ->
            allogram:trace_functions(Patterns),
            State#{reloaded := [Module || {Module, _, _} <- Lost] ++ Reloaded};
        false ->
            State
    end;
look_for_new_code(State) ->
    State.

has_code(Patterns) ->
    [] =/= [Found || Pattern <- Patterns, Found <- functions(Pattern)].

is_traced(Pattern) ->
    case functions(Pattern) of
        [Function | _] -> {traced, local} =:= information(Function);
        [] -> false
    end.

information(Function) ->
    case allogram:has_sessions() of
        true -> trace:info(persistent_term:get(allogram), Function, traced);
        false -> erlang:trace_info(Function, traced)
    end.

%% ---- the values of --process and --trace ----

processes(#{processes := []}) -> [all];
processes(#{processes := Texts}) -> lists:usort(lists:flatmap(fun process/1, Texts)).

%% The processes to trace after a pause or a reset: some may have ended, and names may belong to other processes.
again(#{processes := []}) -> [all];
again(#{processes := Texts}) -> lists:usort([Pid || Text <- Texts, Pids <- [catch process(Text)], is_list(Pids), Pid <- Pids]).

process("initial:" ++ Text) ->
    Wanted = allogram_selection:function("--process=initial:", Text, fun allogram_selection:existing/3),
    case [Pid || Pid <- erlang:processes(), allogram_selection:is_process(Pid, [{initial, Wanted}])] of
        [] -> fail(text("--process=initial:~s: no process of the node began with this function", [Text]));
        Pids -> Pids
    end;
process("<" ++ _ = Text) ->
    Pid = try list_to_pid(Text) catch _:_ -> none end,
    case is_pid(Pid) andalso node(Pid) =:= node() andalso erlang:is_process_alive(Pid) of
        true -> [Pid];
        false -> fail(text("--process=~s: no process of the node has this number", [Text]))
    end;
process(Text) ->
    case [Pid || Name <- allogram_selection:names(Text), Pid <- [whereis(Name)], is_pid(Pid)] of
        [] -> fail(text("--process=~s: no process has this name", [Text]));
        [Pid | _] -> [Pid]
    end.

patterns(#{mode := sample}) -> [];
patterns(#{functions := []}) -> [{'_', '_', '_'}];
patterns(#{functions := Texts}) -> lists:map(fun pattern/1, Texts).

pattern(Text) ->
    Pattern = allogram_selection:function("--trace=", Text, fun allogram_selection:existing/3),
    case Pattern =:= {'_', '_', '_'} orelse functions(Pattern) =/= [] of
        true -> Pattern;
        false -> fail(text("--trace=~s: no loaded function of the node matches; check its name and arity, or load its module first", [Text]))
    end.

%% The functions of loaded modules that a pattern matches.
functions({Module, _, _} = Pattern) ->
    try Module:module_info(functions) ++ Module:module_info(exports) of
        All -> [Function || {Name, Arity} <- lists:usort(All), Function <- [{Module, Name, Arity}],
                            erlang:module_loaded(Module), allogram_selection:fits(Function, Pattern)]
    catch
        _:_ -> []
    end.

%% ---- texts ----

fail(Line) -> throw({error, Line}).

line({error, Line}) -> line(Line);
line({'EXIT', Why}) -> line(Why);
line({{error, Line}, _}) -> line(Line);
line({Why, [{_, _, _, _} | _]}) -> line(Why);
line({nocatch, Why}) -> line(Why);
line(Line) ->
    case io_lib:printable_list(Line) andalso Line =/= [] of
        true -> Line;
        false -> lists:sublist(text("~0p", [Line]), 250)
    end.

text(Format, Arguments) -> lists:flatten(io_lib:format(Format, Arguments)).
