%% allogram.erl: the Erlang half of the tracer of Erlang nodes, which counts the words that each function allocates. This module
%% starts and stops the tracing; the native half, tracer.c, handles the events.
%%
%% This module uses no binary syntax, so that it can be compiled by an old compiler and loaded by a new emulator.
-module(allogram).

%% for users
-export([run/1, run/2, run/3, run/4, table/0]).
%% for `allogram run` and `allogram attach`
-export([inject/0, inject_early/0, start/1, stop/0]).
-export([prepare/0, is_counted/0, flags/0, name/1, trace_processes/3, trace_processes/4, trace_new_processes/1,
         trace_process/1, take_collections/0, trace_functions/1, untrace/0, others/0, has_sessions/0, release/0, join_session/1,
         report_session/0, end_session/0, forget_all/0, report_runtime/3, wait_for_dirty/0, allow_unmapping/0]).
%% for allogram_built_in
-export([native/0, session/1, text/1, complain/1, count_calls/4]).
%% for init and the emulator
-export([load/0, enabled/3, trace/5, enabled_call/3, trace_call/5, enabled_garbage_collection/3,
         trace_garbage_collection/5, enabled_running_procs/3, trace_running_procs/5, enabled_procs/3,
         trace_procs/5, enabled_receive/3, trace_receive/5]).
%% for measuring the tracer (check/0)
-export([check_tail/1, check_leaf/1, check_body/2]).

-on_load(load/0).
-nifs([enabled/3, trace/5, enabled_call/3, trace_call/5, enabled_garbage_collection/3,
       trace_garbage_collection/5, enabled_running_procs/3, trace_running_procs/5, enabled_procs/3,
       trace_procs/5, enabled_receive/3, trace_receive/5, find_layout/1, learn/1, learned/0,
       name_process/3, keep_process/1, select_counted/2, forget_all/0, table/1, first_begin/1, is_paused/0, rest/1, lose_track/0, forget_dead/0, is_recording/0, begin_session/1, join_session/1, report_session/0,
       end_session/0, take_collections/0, begin_meeting/0, meet_cpu/1, meet_io/1, allow_unmapping/0, report_runtime/3, count_calls/4,
       say/1]).

%% Loads the native library, which is in this module's folder. If the module was sent as bytes (adapters/erlang/link), the sender has set
%% the library's folder as a variable of the application, and load/0 returns the error if the library does not load. In a node that was
%% started with this module, load/0 always succeeds, since a module that does not load would end the node; native/0 returns the error later.
load() ->
    case persistent_term:get({?MODULE, folder}, none) of
        none -> load_by_code_server();
        Folder -> keep_loaded(load_from(Folder)) % while the node boots (allogram_boot)
    end.

load_by_code_server() ->
    case {application:get_env(?MODULE, folder), code:which(?MODULE)} of
        {{ok, Folder}, _} -> load_from(Folder);
        {undefined, File} when is_list(File) -> keep_loaded(load_from(filename:dirname(File)));
        _ -> keep_loaded({error, {load_failed, "allogram.beam was not loaded from a file"}})
    end.

keep_loaded(Loaded) -> persistent_term:put({?MODULE, native}, Loaded).

%% Returns ok, or the reason why the native half is not loaded.
native() -> persistent_term:get({?MODULE, native}, ok).

load_from(Folder) -> erlang:load_nif(Folder ++ "/allogram_beam", 0).

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

find_layout(_Literal) -> erlang:nif_error(not_loaded).
learn(_Pid) -> erlang:nif_error(not_loaded).
learned() -> erlang:nif_error(not_loaded).
name_process(_Pid, _Name, _InitialCall) -> erlang:nif_error(not_loaded).
keep_process(_Pid) -> erlang:nif_error(not_loaded).
select_counted(_Functions, _Processes) -> erlang:nif_error(not_loaded).
forget_all() -> erlang:nif_error(not_loaded).
first_begin(_Text) -> erlang:nif_error(not_loaded).
is_paused() -> erlang:nif_error(not_loaded).
rest(_IsResting) -> erlang:nif_error(not_loaded).
lose_track() -> erlang:nif_error(not_loaded).
forget_dead() -> erlang:nif_error(not_loaded).
is_recording() -> erlang:nif_error(not_loaded).
table(_Pid) -> erlang:nif_error(not_loaded).
begin_session(_Options) -> erlang:nif_error(not_loaded).
join_session(_Live) -> erlang:nif_error(not_loaded).
report_session() -> erlang:nif_error(not_loaded).
end_session() -> erlang:nif_error(not_loaded).
take_collections() -> erlang:nif_error(not_loaded).
begin_meeting() -> erlang:nif_error(not_loaded).
meet_cpu(_N) -> erlang:nif_error(not_loaded).
meet_io(_N) -> erlang:nif_error(not_loaded).
allow_unmapping() -> erlang:nif_error(not_loaded).
report_runtime(_Release, _IsCounted, _Note) -> erlang:nif_error(not_loaded).
count_calls(_Mfa, _Calls, _Words, _Ns) -> erlang:nif_error(not_loaded).
say(_Text) -> erlang:nif_error(not_loaded).

%% ---- for users ----

%% run(Fun[, Options]) and run(Module, Function, Arguments[, Options]) call the function in a process of its own, count the calls, words
%% and time of that process, and return {Result, Table}. A row of the table is {Node, Parent, {M, F, A}, Calls, Words, Nanoseconds}: the
%% function {M, F, A} as it is called on one call path. Node is the number of the path, Parent that of the caller's path (0: it has no
%% caller). A row with undefined in place of {M, F, A} has the words that were allocated outside of traced functions.
%%
%% If the function raises an exception, run raises the same one, and table/0 returns the table. If the calling process ends before run
%% returns, the function's process is killed. In each case nothing on the node is traced afterwards.
%%
%% Options: output => the file name of a trace, which is kept; trace => patterns as in start/1; spawned => true: the processes that
%% the function starts are counted as well, in the trace; callers => false: the emulator's own counters (call_memory) are used, which cost
%% less. Then each function has Parent 0, Nanoseconds is undefined, words of received messages count in the receiving function, and no trace
%% is written; with spawned => true, the processes that the function starts are counted in the table. callers => false
%% needs OTP 26.
%%
%% If the tracer does not know the emulator's memory layout, or the native half cannot be loaded, a line on standard error says so, and the
%% table has the emulator's own counters. Then each function has Parent 0, and Words is undefined before OTP 26.
run(Fun) ->
    run(Fun, #{}).

run(Module, Function, Arguments) ->
    run(Module, Function, Arguments, #{}).

run(Module, Function, Arguments, Options) when is_atom(Module), is_atom(Function), is_list(Arguments) ->
    run(fun() -> apply(Module, Function, Arguments) end, Options).

-define(KEEPER_ENDED, "the process that kept the run ended: ").

run(Fun, Options) when is_function(Fun, 0), is_map(Options) ->
    _ = [erlang:error({allogram, "this node is counted already"}) || is_counted() orelse whereis(allogram_attached) =/= undefined],
    Caller = self(),
    {Keeper, Tag} = spawn_monitor(fun() -> receive {Caller, Tag} -> keep_run(Fun, Options, Caller, Tag) end end),
    Keeper ! {Caller, Tag},
    receive
        {Tag, worker, Worker} -> follow(Tag, Worker, fun abandon/0);
        {Tag, refused, Why} -> forget_keeper(Tag), erlang:error({allogram, Why});
        {'DOWN', Tag, process, _, Why} -> erlang:error({allogram, ?KEEPER_ENDED ++ text(Why)})
    end.

%% Returns the table of the last run on this node if its function raised an exception or was killed; otherwise undefined.
table() -> persistent_term:get({?MODULE, table}, undefined).

%% Waits for the messages of the keeper (keep_run/4) and returns or raises the result of the run. End: a function that ends the counting,
%% called if the keeper is killed.
follow(Tag, Worker, End) ->
    receive
        {Tag, begun, EndOfRun} ->
            follow(Tag, Worker, EndOfRun);
        {Tag, refused, Why} ->
            forget_keeper(Tag),
            exit(Worker, kill),
            erlang:error({allogram, Why});
        {Tag, ended, Table} ->
            forget_keeper(Tag),
            receive
                {Worker, returned, Value} -> {Value, Table};
                {Worker, raised, Class, Reason, Stack} -> erlang:raise(Class, Reason, Stack)
            end;
        {Tag, killed, Reason} ->
            forget_keeper(Tag),
            exit(Reason);
        {'DOWN', Tag, process, _, Why} ->
            exit(Worker, kill),
            _ = End(),
            erlang:error({allogram, ?KEEPER_ENDED ++ text(Why)})
    end.

%% Ends the counting if the keeper was killed before it had begun to count.
abandon() ->
    allogram_built_in:abandon_run(),
    case native() of
        ok -> untrace(), forget_all(), end_session();
        _ -> ok
    end.

forget_keeper(Monitor) -> erlang:demonitor(Monitor, [flush]).

%% The keeper of a run, a process that is not traced. It starts the function's process (the worker) and ends the tracing when that process
%% or the caller has ended. Its registered name shows that a run is active.
keep_run(Fun, Options, Caller, Tag) ->
    CallerMonitor = erlang:monitor(process, Caller),
    Keeper = self(),
    try
        _ = [throw("another allogram:run is active") || true =/= (catch register(allogram_run, Keeper))],
        _ = persistent_term:erase({?MODULE, table}),
        {Worker, Monitor} = spawn_monitor(fun() -> receive {Keeper, go} -> work(Fun, Caller, Keeper) end end),
        Caller ! {Tag, worker, Worker},
        {Worker, Monitor, begin_run(Worker, Options)}
    of
        {Worker, Monitor, End} ->
            Caller ! {Tag, begun, End},
            Worker ! {Keeper, go},
            Outcome = receive
                          {Worker, Ended} -> Ended;
                          {'DOWN', Monitor, process, _, Reason} -> {killed, Reason};
                          {'DOWN', CallerMonitor, process, _, _} -> exit(Worker, kill), abandoned
                      end,
            Table = End(),
            Worker ! {Keeper, go},
            _ = [persistent_term:put({?MODULE, table}, Table) || Outcome =/= returned, Outcome =/= abandoned],
            true = unregister(allogram_run),
            Caller ! case Outcome of
                         {killed, Why} -> {Tag, killed, Why};
                         _ -> {Tag, ended, Table}
                     end
    catch
        throw:Why -> Caller ! {Tag, refused, Why};
        error:{allogram, Why} -> Caller ! {Tag, refused, Why}
    end.

%% Runs in the worker. Sends the function's result directly to the caller, so that it is copied only once. The worker lives until its table
%% has been read.
work(Fun, Caller, Keeper) ->
    Ended = try
                Value = Fun(),
                Caller ! {self(), returned, Value},
                returned
            catch
                Class:Reason:Stack ->
                    Caller ! {self(), raised, Class, Reason, Stack},
                    raised
            end,
    Keeper ! {self(), Ended},
    receive {Keeper, go} -> ok end.

%% Begins to count the process. Returns a function that ends the counting and returns the table.
begin_run(Worker, Options) ->
    Patterns = maps:get(trace, Options, [{'_', '_', '_'}]),
    case maps:get(callers, Options, true) of
        true ->
            case ready() of
                ok -> begin_traced_run(Worker, Patterns, Options);
                Why -> allogram_built_in:begin_run(Why, Worker, Patterns, Options)
            end;
        false ->
            _ = [erlang:error({allogram, "callers => false needs OTP 26"}) || not allogram_built_in:counts_words()],
            _ = [erlang:error({allogram, "callers => false writes no trace, so it excludes output"}) || maps:is_key(output, Options)],
            allogram_built_in:begin_run_without_callers(Worker, Patterns, Options)
    end.

begin_traced_run(Worker, Patterns, Options) ->
    Session = session(maps:get(output, Options, temporary())),
    ok = report_runtime(erlang:system_info(otp_release), true, ""),
    ok = keep_process(Worker),
    trace_processes([Worker], Patterns,
                    case maps:get(spawned, Options, false) of
                        true -> flags();
                        false -> flags() -- [set_on_spawn]
                    end),
    fun() ->
            untrace(),
            Table = table(Worker),
            forget_all(),
            Trace = case Session of ok -> end_session(); joined -> none end,
            _ = [file:delete(Trace) || Trace =/= none, not maps:is_key(output, Options)],
            Table
    end.

temporary() ->
    filename:join(os:getenv("TMPDIR", "/tmp"), "allogram.run.%p.allogram").

%% Returns ok if it began a session, and joined if a session runs already, for example that of `allogram run`.
session(Output) ->
    case begin_session(Output) of
        Begun when is_atom(Begun) -> Begun;
        Why -> erlang:error({allogram, Why})
    end.

%% ---- for the command ----

%% Called by the argument that `allogram run` puts into the node's environment (erlexec.c). Must not disturb the program. The process that
%% calls inject/0 continues with the program and is counted, so another process does the work.
inject() ->
    Keeper = persistent_term:get({?MODULE, keeper}, none),
    case is_pid(Keeper) andalso is_process_alive(Keeper) of
        true -> load_selected(); % it was started by inject_early/0
        false -> inject_by(fun inject_here/1)
    end.

%% Called by an instruction in the boot script, see allogram_boot. May call only built-in functions and functions of lists.
inject_early() -> inject_by(fun inject_here_early/1).

inject_by(Inject) ->
    Caller = self(),
    {Pid, Monitor} = spawn_monitor(fun() -> Inject(Caller) end),
    receive
        {Pid, begun} -> erlang:demonitor(Monitor, [flush]), ok;
        {'DOWN', Monitor, process, Pid, _} -> ok
    end.

%% If anything fails, nothing is traced and nothing is reported: inject/0 tries again.
inject_here_early(Caller) ->
    try
        ok = native(),
        true = is_recording(),
        ok = ready(),
        start_selected(allogram_selection:of_run(), "before the first application")
    of
        _ -> keep(Caller)
    catch
        _:_ -> catch untrace()
    end.

%% The process that started the tracing runs this function until the node ends.
keep(Caller) ->
    persistent_term:put({?MODULE, keeper}, self()),
    Caller ! {self(), begun},
    group_leader(whereis(init), self()),
    follow_pauses().

inject_here(Caller) ->
    try
        _ = [start_selected(allogram_selection:of_run(), "when the boot script has ended") || native() =/= ok orelse is_recording()],
        case native() =:= ok andalso persistent_term:get({?MODULE, is_traced}, false) of
            true -> keep(Caller);
            false -> Caller ! {self(), begun}
        end
    catch
        _:Thrown ->
            Why = case Thrown of {error, Line0} -> Line0; _ -> Thrown end,
            Line = "Erlang is not counted: " ++ text(Why),
            _ = (catch report_runtime(erlang:system_info(otp_release), false, lists:sublist(Line, 250))),
            complain(Line)
    end.

%% Starts with what --trace and --process of `allogram run` select. After init:restart() the node boots again, and this function is called again.
start_selected({Patterns, Processes} = Selected, When) ->
    _ = persistent_term:put({?MODULE, selected}, Selected),
    load_selected(),
    start(#{note => begin_note(Patterns, Processes, begin_text(seconds(), When)), selected => Selected}).

%% Loads the selected modules, if the code server exists, so that not all code that is loaded later has to be traced (with_later_code/1).
load_selected() ->
    {Patterns, _} = persistent_term:get({?MODULE, selected}, {[], []}),
    _ = [code:ensure_loaded(Module) || whereis(code_server) =/= undefined, {Module, _, _} <- Patterns, Module =/= '_'],
    ok.

%% The text is made without io_lib, which is not loaded while the node boots.
begin_note(Patterns, Processes, Begin) ->
    lists:append(["only the functions that --trace names are counted; what other functions allocate is added to their callers; " || Patterns =/= []] ++
                     ["only the processes that --process names are counted; " || Processes =/= []] ++
                     ["calls are counted from ", Begin, "; tracing makes calls up to fifty times slower"]).

%% Only the native half outlives init:restart(), which erases all persistent terms. So the native half keeps the text that describes the first begin
%% of the counting.
begin_text(Seconds, When) ->
    This = Seconds ++ " s after the emulator's start, " ++ When,
    case native() =:= ok andalso first_begin(This) of
        First when is_list(First), First =/= This -> lists:append([First, ", and again from ", Seconds, " s on, after a restart"]);
        _ -> This
    end.

%% The time since the emulator's start, in seconds.
seconds() ->
    Ms = erlang:convert_time_unit(erlang:monotonic_time() - erlang:system_info(start_time), native, millisecond),
    lists:append([integer_to_list(Ms div 1000), ".", tl(integer_to_list(1000 + Ms rem 1000))]).

%% The loop of a process that removes all trace flags and patterns while the recording is paused, so that the node runs as fast as an
%% untraced one. Counting stops exactly when the pause begins, because the native counters check the session's state at each event.
-define(LOOK_MS, 100).
-define(LOOK_IN_PAUSE_MS, 10).

follow_pauses() ->
    case is_paused() of
        true -> pause();
        false -> receive after ?LOOK_MS -> look_for_later_code() end
    end,
    follow_pauses().

pause() ->
    rest(true),
    case is_paused() of
        true ->
            untrace(),
            _ = wait_for_dirty() orelse wait_for_dirty(),
            lose_track(),
            wait_for_resume(),
            forget_dead(),
            trace_node(erlang:processes());
        false ->
            ok
    end,
    rest(false).

wait_for_resume() ->
    case is_paused() of
        true -> receive after ?LOOK_IN_PAUSE_MS -> wait_for_resume() end;
        false -> ok
    end.

trace_node(Processes) ->
    {Patterns, Selected} = persistent_term:get({?MODULE, selected}, {[], []}),
    name_selected(Processes, Selected),
    trace_processes([all], with_later_code(Patterns), flags()),
    name_selected(erlang:processes(), Selected).

%% Gives the processes their names, and selects those that --process names. This is done also after the tracing has begun, for processes that were
%% registered in between.
name_selected(Processes, []) -> [name(Pid) || Pid <- Processes];
name_selected(Processes, Selected) -> [name(Pid) || Pid <- Processes, Pid =/= self(), allogram_selection:is_process(Pid, Selected)].

%% ---- selected functions of modules that are not loaded yet ----
%%
%% A pattern has no effect on a module that is loaded later. So if a selected module is not loaded yet, all functions of all modules that are
%% loaded from now on are traced (on_load), and the native half ignores those that are not selected (ag_function_is_selected). The keeper
%% (follow_pauses/0) removes their trace patterns soon after the module was loaded.

with_later_code([]) ->
    [{'_', '_', '_'}];
with_later_code(Patterns) ->
    case lists:member({'_', '_', '_'}, Patterns) orelse lists:all(fun has_code/1, Patterns) of
        true -> Patterns;
        false -> persistent_term:put({?MODULE, clean}, erlang:loaded()), Patterns ++ [on_load]
    end.

has_code({'_', _, _}) -> false;
has_code({Module, _, _}) -> erlang:module_loaded(Module).

%% Removes the patterns of functions that are not selected from the modules that were loaded since the last call of this function.
look_for_later_code() ->
    {Patterns, _} = persistent_term:get({?MODULE, selected}, {[], []}),
    case persistent_term:get({?MODULE, clean}, none) of
        none ->
            ok;
        Clean ->
            Loaded = erlang:loaded(),
            case Loaded -- Clean of
                [] -> ok;
                Later ->
                    _ = [set_pattern(on_load, false) || lists:all(fun has_code/1, Patterns)],
                    _ = [clean(Module, Patterns) || Module <- Later],
                    case lists:all(fun has_code/1, Patterns) of
                        true -> persistent_term:erase({?MODULE, clean});
                        false -> persistent_term:put({?MODULE, clean}, Loaded)
                    end
            end
    end.

clean(Module, Patterns) ->
    case [Pattern || {M, _, _} = Pattern <- Patterns, M =:= Module orelse M =:= '_'] of
        [] -> set_pattern({Module, '_', '_'}, false);
        Of -> [set_pattern(Function, false) || Function <- functions(Module),
                                               not lists:any(fun(Pattern) -> allogram_selection:fits(Function, Pattern) end, Of)]
    end.

text(Why) ->
    case io_lib:printable_list(Why) of
        true -> Why;
        false -> lists:flatten(io_lib:format("~0p", [Why]))
    end.

%% Prints one line on standard error.
complain(Line) ->
    case native() of
        ok -> say(Line);
        _ -> io:put_chars(standard_error, ["allogram: ", Line, "\n"])
    end.

%% Begins to count the node. Options: output => the file name of a trace; processes => all, or a list of processes; trace => a list of
%% {Module, Function, Arity}, in which '_' stands for any value. start_selected/2 sets note and selected.
start(Options) ->
    case ready() of
        ok -> start_traced(Options);
        Why ->
            Selected = case maps:get(selected, Options, {[], []}) of {[_ | _] = Patterns, _} -> #{trace => Patterns}; _ -> #{} end,
            allogram_built_in:start(Why, maps:merge(Options, Selected)), persistent_term:put({?MODULE, is_counted}, true)
    end.

start_traced(Options) ->
    persistent_term:put({?MODULE, is_counted}, true),
    persistent_term:put({?MODULE, is_traced}, true),
    _ = case maps:get(output, Options, none) of
            none -> ok;
            File -> session(File)
        end,
    Processes = case maps:get(processes, Options, all) of
                    all -> erlang:processes();
                    Some -> Some
                end,
    {Functions, Selected} = maps:get(selected, Options, {[], []}),
    ok = report_runtime(erlang:system_info(otp_release), true, maps:get(note, Options, "")),
    ok = select_counted(Functions, Selected),
    name_selected(Processes, Selected),
    trace_processes(case maps:get(processes, Options, all) of
                        all -> [all];
                        _ -> Processes
                    end,
                    case Functions of
                        [] -> maps:get(trace, Options, [{'_', '_', '_'}]);
                        _ -> with_later_code(Functions)
                    end, flags()),
    _ = [name_selected(erlang:processes(), Selected) || Selected =/= []],
    ok.

%% Whether `allogram run`, start/1 or run/1,2,3,4 counts this node or a process of it.
is_counted() -> persistent_term:get({?MODULE, is_counted}, false) orelse whereis(allogram_run) =/= undefined.

stop() ->
    allogram_built_in:stop(),
    untrace(),
    _ = [persistent_term:erase({?MODULE, Key}) || Key <- [is_counted, is_traced]],
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

%% The number of the OTP release.
release() ->
    list_to_integer(erlang:system_info(otp_release)).

%% Whether the emulator has trace sessions, in which this tracer works beside other tracers: from OTP 27 on. The release decides, because
%% the module `trace` may not be loaded yet.
has_sessions() ->
    release() >= 27.

trace_processes(Processes, Patterns, Flags) ->
    trace_processes(Processes, Patterns, Flags, []).

%% Given: the state of the tracer if the only flag is garbage_collection: collections or some_collections (see tracer.c); otherwise [].
trace_processes(Processes, Patterns, Flags, Given) ->
    State = case Given =:= [] andalso not lists:member({'_', '_', '_'}, Patterns) of
                true -> some_functions;
                false -> Given
            end,
    case has_sessions() of
        true ->
            Session = trace:session_create(?MODULE, {?MODULE, State}, []),
            persistent_term:put(?MODULE, Session),
            trace_functions(Patterns),
            [catch trace:process(Session, Process, true, Flags) || Process <- Processes],
            catch trace:process(Session, self(), false, [all]);
        false ->
            trace_functions(Patterns),
            [catch erlang:trace(without_ports(Process), true, [{tracer, ?MODULE, State} | Flags]) || Process <- Processes],
            catch erlang:trace(self(), false, [all])
    end,
    ok.

without_ports(all) -> processes;
without_ports(existing) -> existing_processes;
without_ports(Process) -> Process.

%% For the state some_collections. If IsOn is true, processes that are spawned from now on are traced, too, unless another tracer traces them.
trace_new_processes(IsOn) ->
    case has_sessions() of
        true ->
            trace:process(persistent_term:get(?MODULE), new_processes, IsOn, [garbage_collection]);
        false ->
            _ = [erlang:trace(new_processes, IsOn, [{tracer, ?MODULE, some_collections}, garbage_collection])
                 || not has_another(new_processes)]
    end.

trace_process(Pid) ->
    _ = case has_sessions() of
            true -> catch trace:process(persistent_term:get(?MODULE), Pid, true, [garbage_collection]);
            false -> catch erlang:trace(Pid, true, [{tracer, ?MODULE, some_collections}, garbage_collection])
        end,
    ok.

%% Sets the trace patterns. Called by trace_processes/4, and again when traced code was loaded again.
trace_functions(Patterns) ->
    case has_sessions() of
        true ->
            set_patterns(Patterns, []);
        false ->
            Theirs = their_patterns(),
            Match = match(),
            persistent_term:put({?MODULE, patterns}, {Theirs, Match}), % stored first, because this process may be killed
            set_patterns(Patterns, Match),
            restore(Theirs),
            watch_patterns()
    end.

set_patterns(Patterns, Match) ->
    [set_pattern(Pattern, Match) || Pattern <- Patterns],
    _ = [set_pattern(on_load, Match) || {'_', '_', '_'} <- Patterns],
    [set_pattern({Own, '_', '_'}, false) || Own <- [?MODULE, allogram_attached, allogram_boot, allogram_selection], Patterns =/= []].

set_pattern(Pattern, Match) ->
    case has_sessions() of
        true -> trace:function(persistent_term:get(?MODULE), Pattern, Match, [local]);
        false -> erlang:trace_pattern(Pattern, Match, [local])
    end.

%% When untrace/0 returns, this tracer traces nothing, and no scheduler that runs Erlang code is inside of an event.
untrace() ->
    case has_sessions() of
        true ->
            case persistent_term:get(?MODULE, none) of
                none ->
                    ok;
                Session ->
                    %% these calls fail if another process destroyed the session and was killed before it erased the term
                    catch trace:process(Session, all, false, [all]),
                    catch trace:session_destroy(Session),
                    persistent_term:erase(?MODULE)
            end;
        false ->
            untrace_ours(),
            Theirs = their_patterns(),
            erlang:trace_pattern({'_', '_', '_'}, false, [local]),
            erlang:trace_pattern(on_load, false, [local]),
            restore(Theirs),
            persistent_term:erase({?MODULE, patterns})
    end,
    ok.

%% After untrace/0: returns true if no dirty scheduler is inside of an event any more, or false if some were too busy to answer.
wait_for_dirty() ->
    meet(fun meet_cpu/1, erlang:system_info(dirty_cpu_schedulers_online)) andalso
        meet(fun meet_io/1, erlang:system_info(dirty_io_schedulers)).

meet(Meet, N) ->
    ok = begin_meeting(),
    Processes = [spawn_opt(fun() -> exit({met, Meet(N)}) end, [monitor, {priority, high}]) || _ <- lists:seq(1, N)],
    [] =:= [Answer || {_, Monitor} <- Processes, Answer <- [receive {'DOWN', Monitor, process, _, Why} -> Why end], Answer =/= {met, true}].

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

%% Repeats until no process is traced: a process that is spawned during the loop inherits the tracer of its parent.
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

%% ---- together with other tracers, on OTP 25 and 26, which have no trace sessions ----

%% The processes that another tracer traces. This tracer does not trace them.
others() ->
    [Pid || not has_sessions(), Pid <- erlang:processes(), has_another(Pid)].

%% The match specification of this tracer's patterns. Without sessions, trace patterns hold for the whole node. So the specification
%% excludes the processes of other tracers, because those tracers would otherwise get events of the functions that this tracer traces.
match() ->
    case others() of
        [] -> [];
        Others -> [{'_', [{'=/=', {self}, {const, Pid}} || Pid <- Others], []}]
    end.

%% The trace patterns that are set, as {Function, Match, local or global}, so that restore/1 can set them again. Takes 2 ms for 7,000
%% functions.
all_patterns() ->
    [Pattern || Module <- erlang:loaded(), erlang:module_loaded(Module), Function <- functions(Module), Pattern <- pattern(Function)] ++ pattern(on_load).

%% The patterns of other tracers are those that existed before this tracer set its own, those that differ from this tracer's patterns, and
%% those that other tracers have set since then. Patterns that were set later may equal this tracer's own, so this process is notified of
%% each call that sets patterns. A special match specification could also mark this tracer's patterns, but would make each traced call
%% cost a third more.
-define(SETS_PATTERNS, {erts_internal, trace_pattern, 3}).

watch_patterns() ->
    case erlang:trace_info(?SETS_PATTERNS, meta) of
        {meta, Free} when Free =:= false; Free =:= [] -> erlang:trace_pattern(?SETS_PATTERNS, true, [{meta, self()}]);
        _ -> ok % another tracer is notified of these calls
    end.

their_patterns() ->
    {Before, Match} = persistent_term:get({?MODULE, patterns}, {[], none}), % none: this tracer has set none
    _ = [erlang:trace_pattern(?SETS_PATTERNS, false, [meta]) || {meta, self()} =:= erlang:trace_info(?SETS_PATTERNS, meta)],
    Since = patterns_set(),
    [Pattern || {Function, Specification, Scope} = Pattern <- all_patterns(),
                {Specification, Scope} =/= {Match, local} orelse lists:member(Pattern, Before) orelse
                    lists:any(fun(Set) -> is_for(Function, Set) end, Since)].

%% The functions for which others have set patterns, from the messages to this process.
patterns_set() ->
    receive {trace_ts, _, call, {erts_internal, trace_pattern, [Set | _]}, _} -> [Set | patterns_set()]
    after 0 -> []
    end.

is_for(Function, Function) -> true;
is_for({M, F, A}, {SetM, SetF, SetA}) ->
    (SetM =:= M orelse SetM =:= '_') andalso (SetF =:= F orelse SetF =:= '_') andalso (SetA =:= A orelse SetA =:= '_');
is_for(_, _) -> false.

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

%% ---- measurements before the counting ----

%% Returns ok, or the reason why this emulator cannot be traced.
ready() ->
    case native() of
        ok ->
            try prepare()
            catch error:Why -> Why
            end;
        {error, {_, Why}} ->
            "allogram's native library was not loaded: " ++ text(Why)
    end.

prepare() ->
    case find_layout({a, literal, 1}) of
        known -> ok;
        found -> check();
        Why -> erlang:error(Why)
    end.

%% Traces many tail calls and body calls, to measure the number of words that return_to puts on the stack, and the time of an event.
check() ->
    Self = self(),
    {Pid, Monitor} =
        spawn_opt(fun() ->
                          receive {Self, go} -> ok end,
                          check_tail(300),
                          _ = [check_body(30, 30) || _ <- lists:seq(1, 60)],
                          ok
                  end,
                  [link, monitor]), % link: it ends with this process
    ok = learn(Pid),
    trace_processes([Pid], [{?MODULE, check_tail, 1}, {?MODULE, check_leaf, 1}, {?MODULE, check_body, 2}],
                    [call, return_to, arity, garbage_collection]),
    _ = [set_pattern(Check, []) || Check <- [{?MODULE, check_tail, 1}, {?MODULE, check_leaf, 1}, {?MODULE, check_body, 2}]],
    Pid ! {Self, go},
    receive {'DOWN', Monitor, process, Pid, _} -> ok end,
    untrace(),
    case learned() of
        ok -> ok;
        Why -> erlang:error(Why)
    end.

check_tail(0) -> check_leaf(0);
check_tail(N) -> check_tail(N - 1).

check_leaf(N) -> N.

check_body(0, _) -> 0;
check_body(N, M) -> check_leaf(M) + check_body(N - 1, M).
