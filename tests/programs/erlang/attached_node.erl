%% attached_node.erl: a node for tests of `allogram attach` and `allogram observe`. It evaluates each line that it reads and prints the result.
%% Some functions of this module start processes with known results or known memory; others list what a tracer has left in the node.
-module(attached_node).
-export([main/0, load/1, results/1, work/1, serve/0, left/0, spin/1, request_rate/1, many/1, accept/0, answer/2, plant/0, grow/1, keep_binaries/0, ask_memory/0]).

main() ->
    case io:get_line("") of
        Line when is_list(Line) ->
            {ok, Tokens, _} = erl_scan:string(Line),
            {ok, Expressions} = erl_parse:parse_exprs(Tokens),
            Printed = try erl_eval:exprs(Expressions, []) of
                          {value, Value, _} -> Value
                      catch
                          _:Why -> {failed, Why}
                      end,
            io:format("~0p~n", [Printed]),
            main();
        _ ->
            halt()
    end.

%% Starts N processes that work until they are asked for their results.
load(N) -> [spawn(?MODULE, spin, [0]) || _ <- lists:seq(1, N)].

spin(Rounds) ->
    ok = work(100),
    receive
        {result, To} -> To ! {self(), Rounds + 1}
    after 0 ->
        spin(Rounds + 1)
    end.

%% Fails if a computation does not have its known result.
work(N) ->
    List = lists:seq(1, N),
    Sum = N * (N + 1),
    Sum = lists:sum([X * 2 || X <- List]),
    Map = maps:from_list([{X, {X, X}} || X <- List]),
    {N, N} = maps:get(N, Map),
    Process = spawn(?MODULE, serve, []),
    Process ! {self(), List},
    receive {Process, Answer} -> List = Answer end,
    Tuple = setelement(1, list_to_tuple(List), last),
    last = element(1, Tuple),
    {caught, N} = (catch throw({caught, N})),
    ok.

serve() ->
    receive {From, List} -> From ! {self(), lists:reverse(lists:reverse(List))} end.

%% For each process: `true` if it has worked, `{dead, Why}` if it ended because a result was wrong, `silent` if it does not answer.
results(Processes) ->
    [begin
         Monitor = monitor(process, Process),
         Process ! {result, self()},
         receive
             {Process, Rounds} -> Rounds > 0;
             {'DOWN', Monitor, process, Process, Why} -> {dead, Why}
         after 20000 ->
             silent
         end
     end || Process <- Processes].

%% Returns how many requests a server handles in a second of CPU time, measured for Ms milliseconds. The server starts a process for each
%% request.
request_rate(Ms) ->
    Server = spawn(?MODULE, accept, []),
    Self = self(),
    statistics(runtime),
    Until = erlang:monotonic_time(millisecond) + Ms,
    Clients = [spawn(fun() -> client(Server, Self, Until, 1) end) || _ <- lists:seq(1, 8)],
    Requests = lists:sum([receive {Client, N} -> N end || Client <- Clients]),
    {_, Cpu} = statistics(runtime),
    exit(Server, kill),
    Requests * 1000 div max(1, Cpu).

client(Server, To, Until, N) ->
    Server ! {self(), <<"GET /items/17?page=3 HTTP/1.1">>},
    receive {reply, _} -> ok end,
    case erlang:monotonic_time(millisecond) > Until of
        true -> To ! {self(), N};
        false -> client(Server, To, Until, N + 1)
    end.

accept() -> receive {From, Line} -> spawn(?MODULE, answer, [From, Line]), accept() end.

answer(From, Line) ->
    Parts = binary:split(Line, [<<" ">>, <<"/">>, <<"?">>], [global]),
    Items = [{I, integer_to_binary(I), length(Parts)} || I <- lists:seq(1, 30)],
    Map = maps:from_list([{A, B} || {A, B, _} <- Items]),
    From ! {reply, iolist_to_binary([[B, $,] || {A, B, _} <- Items, maps:is_key(A, Map)])}.

%% Starts N processes that wait, and returns when they do.
many(N) ->
    Self = self(),
    Processes = [spawn(fun() -> Self ! self(), receive stop -> ok end end) || _ <- lists:seq(1, N)],
    [receive Process -> ok end || Process <- Processes],
    [erlang:garbage_collect(Process) || Process <- Processes],
    N.

%% What a tracer has left in this node: traced processes, traced functions, the tracing of functions that are loaded, allogram's modules,
%% allogram's processes, OTP's trace sessions.
left() ->
    Tracers = [Pid || Pid <- [new_processes | processes()],
                      case catch erlang:trace_info(Pid, tracer) of {tracer, []} -> false; {tracer, _} -> true; _ -> false end],
    Functions = [Function || {Module, _} <- code:all_loaded(), {Name, Arity} <- Module:module_info(functions),
                             Function <- [{Module, Name, Arity}], {traced, Scope} <- [erlang:trace_info(Function, traced)],
                             Scope =/= false],
    Modules = [Module || Module <- [allogram, allogram_attached, allogram_memory], erlang:module_loaded(Module) orelse erlang:check_old_code(Module)],
    Names = [Name || Name <- [allogram_attached, allogram_memory], whereis(Name) =/= undefined],
    {Tracers, Functions, erlang:trace_info(on_load, all), Modules, Names, sessions()}.

sessions() ->
    case erlang:function_exported(trace, session_info, 1) of
        true -> [Session || Session <- trace:session_info(all), Session =/= {legacy, default}];
        false -> []
    end.

%% Starts the processes whose memory the test of `allogram observe NODE` knows. planted_owner has the table planted_table and inserts 40,000
%% more objects when it gets the message grow. planted_holder refers to 30 binaries of 100,000 bytes, and 7 messages wait in its queue.
plant() ->
    register(planted_owner, spawn(?MODULE, grow, [none])),
    register(planted_holder, spawn(?MODULE, keep_binaries, [])),
    planted_owner ! {grow, self()},
    receive grown -> ok end,
    [planted_holder ! {message, N} || N <- lists:seq(1, 7)],
    ok.

grow(none) ->
    grow(ets:new(planted_table, [named_table, public]));
grow(Table) ->
    receive
        {grow, From} ->
            Size = ets:info(Table, size),
            [ets:insert(Table, {N, N, N}) || N <- lists:seq(Size + 1, Size + 40000)],
            From ! grown,
            grow(Table)
    end.

keep_binaries() ->
    Binaries = [binary:copy(<<N>>, 100000) || N <- lists:seq(1, 30)],
    receive stop -> Binaries end.

%% What the node itself says: {erlang:memory(), bytes of the table, its objects, bytes of planted_holder, persistent terms, atoms, bytes of literals}
ask_memory() ->
    {erlang:memory(), ets:info(planted_table, memory) * erlang:system_info(wordsize), ets:info(planted_table, size),
     element(2, process_info(whereis(planted_holder), memory)), persistent_term:info(), erlang:system_info(atom_count),
     lists:sum([element(2, Size) || {instance, _, Carriers} <- erlang:system_info({allocator_sizes, literal_alloc}), {_, Parts} <- Carriers,
                                    {blocks, [{literal_alloc, Sizes}]} <- Parts, Size <- Sizes, element(1, Size) =:= size])}.
