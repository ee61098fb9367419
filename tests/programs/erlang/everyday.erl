%% everyday.erl: common Erlang code, one function for each kind: the library's collections, binaries, big numbers, exceptions that pass
%% through other frames, tables, files. used/2 measures the words that a case makes (allocates on the heap) without any tracer: the case runs
%% in a process whose heap has room for all words, so there is no collection, and the heap grows by exactly this number. The words of a server
%% are computed by hand, because its messages would be on this heap, too. tests/conformance/erlang_everyday.py has the expected numbers.
-module(everyday).
-behaviour(gen_server).
-export([cases/0, used/2, main/1]).
-export([nothing/1, comprehensions/1, bits/1, maps/1, yielding/1, iterators/1, binaries/1, appends/1, terms/1, splits/1, thrown/1, failed/1,
         through/1, cleaned/1, closures/1, applied/1, numbers/1, texts/1, sorted/1, queues/1, trees/1, tables/1, dictionary/1,
         mutual/1, references/1, files/1, waits/1, records/1, starts/1, unicode/1, patterns/1, loaded/1, sized/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, ask/2, middle/2, inner/2, hop/2, skip/2, child/1, slept/1, woken/1,
         told/2, told_of_end/2, told_of_exit/2, told_of_start/2, told_why/0, until_told/1]).
-record(point, {x = 0, y = 0, z = 0}).

%% The cases by name, so that a test can leave one out.
cases() ->
    [comprehensions, maps, yielding, iterators, terms, thrown, failed, through, cleaned, closures, applied, numbers, texts, sorted, queues, trees,
     tables, dictionary, mutual, references, files, waits, records, starts, patterns, loaded, sized, appends, binaries, bits, splits, unicode].

%% The words that the case makes: the growth of the heap of a process that never collects garbage. Another process reads the size of this
%% heap while the first process waits.
used(Case, N) -> grown(Case, N) - grown(nothing, N).

grown(Case, N) ->
    Room = 12000000,
    {Pid, Monitor} =
        spawn_opt(fun() ->
                          ?MODULE:Case(N),
                          receive go -> ok end,
                          ?MODULE:Case(N),
                          receive go -> ok end
                  end, [monitor, {min_heap_size, Room}, {min_bin_vheap_size, Room}]),
    Before = heap(Pid),
    Pid ! go,
    After = heap(Pid),
    Pid ! go,
    receive {'DOWN', Monitor, process, Pid, normal} -> After - Before end.

heap(Pid) ->
    case process_info(Pid, [status, message_queue_len, current_function, garbage_collection_info]) of
        [{status, waiting}, {message_queue_len, 0}, {current_function, {?MODULE, '-grown/2-fun-0-', _}}, {garbage_collection_info, Info}] ->
            0 = proplists:get_value(old_heap_size, Info),
            proplists:get_value(heap_size, Info) + proplists:get_value(mbuf_size, Info);
        [_ | _] ->
            timer:sleep(1),
            heap(Pid)
    end.

nothing(_) -> ok.

comprehensions(N) ->
    List = lists:seq(1, N),
    Even = [X * 2 || X <- List, X rem 2 =:= 0],
    Pairs = [{X, Y} || X <- lists:seq(1, 10), Y <- lists:sublist(List, 10)],
    {length(Even), length(Pairs)}.

bits(N) ->
    Made = << <<X:16>> || X <- lists:seq(1, N) >>,
    Read = [X || <<X:16>> <= Made],
    Again = << <<X:8>> || <<_:8, X:8>> <= Made >>,
    {length(Read), byte_size(Again)}.

maps(N) ->
    Map = maps:from_list([{I, I} || I <- lists:seq(1, N)]),
    Small = lists:foldl(fun(I, M) -> M#{I => I} end, #{}, lists:seq(1, 20)),
    Other = maps:map(fun(_, V) -> {V} end, Map),
    Updated = Other#{1 := one, two => 2},
    Merged = maps:merge(Updated, Small),
    maps:fold(fun(_, _, Sum) -> Sum + 1 end, 0, maps:without([1, 2, 3], maps:filter(fun(K, _) -> is_integer(K) end, Merged))).

%% Built-in functions that use the whole rest of the heap, and yield in the middle.
yielding(N) ->
    [map_size(maps:from_list([{I, I} || I <- lists:seq(1, 20 * N)])) || _ <- lists:seq(1, 5)].

iterators(N) ->
    Map = maps:from_list([{I, I} || I <- lists:seq(1, N)]),
    walk(maps:next(maps:iterator(Map)), 0).

walk(none, Sum) -> Sum;
walk({_, V, Next}, Sum) -> walk(maps:next(Next), Sum + V).

binaries(N) -> [{<<I:32>>, <<I:1024>>, binary:copy(<<I>>, 100)} || I <- lists:seq(1, N)].

appends(N) -> byte_size(lists:foldl(fun(I, Bin) -> <<Bin/binary, I:16>> end, <<>>, lists:seq(1, N))).

terms(N) ->
    Term = [{I, [I, a, "text", 1.5, 1 bsl 70, #{I => <<I:64>>}]} || I <- lists:seq(1, N)],
    Term = binary_to_term(term_to_binary(Term)),
    length(Term).

splits(N) ->
    Line = iolist_to_binary(lists:join(<<",">>, [integer_to_binary(I) || I <- lists:seq(1, N)])),
    Parts = binary:split(Line, <<",">>, [global]),
    {length(Parts), first(Line, []), lists:sum([binary_to_integer(Part) || Part <- Parts])}.

first(<<$,, Rest/binary>>, Digits) -> {lists:reverse(Digits), byte_size(Rest)};
first(<<Digit, Rest/binary>>, Digits) -> first(Rest, [Digit | Digits]).

%% Throws exceptions that pass through functions with work left to do. The words that the catching function makes afterwards count for that
%% function.
thrown(N) -> [caught(fun() -> middle(I, fun() -> throw({thrown, I}) end) end) || I <- lists:seq(1, N)].

failed(N) ->
    [caught(fun() -> middle(I, fun() -> error({bad, I}) end) end) || I <- lists:seq(1, N)] ++
        [caught(fun() -> middle(I, fun() -> hd(integer_to_list(I) -- integer_to_list(I)) end) end) || I <- lists:seq(1, N)] ++
        [caught(fun() -> middle(I, fun() -> exit({gone, I}) end) end) || I <- lists:seq(1, N)].

caught(Fun) ->
    try Fun() of
        Value -> {value, Value}
    catch
        throw:Thrown -> {[x, y], Thrown};
        error:_ -> {[x], error};
        exit:{gone, I} -> {gone, I, I}
    end.

middle(I, Fun) ->
    Held = inner(I, Fun),
    {I, Held}.

inner(I, Fun) ->
    Made = {I, I, I},
    [Fun() | Made].

%% A catcher in the middle throws again: first another exception, then the exception that it caught. The outermost catcher is the old
%% `catch`.
through(N) ->
    [begin
         {'EXIT', {again, I}} = (catch
                                     try middle(I, fun() -> throw(I) end)
                                     catch throw:Caught -> exit({again, Caught})
                                     end),
         I = (catch try middle(I, fun() -> throw(I) end) catch Class:Why:Stack -> erlang:raise(Class, Why, Stack) end)
     end || I <- lists:seq(1, N)].

cleaned(N) ->
    [try
         try middle(I, fun() -> throw(I) end)
         after inner(I, fun() -> {after_all, I} end)
         end
     catch throw:I -> [I]
     end || I <- lists:seq(1, N)].

closures(N) ->
    Adders = [fun(X) -> X + I end || I <- lists:seq(1, N)],
    Twice = fun(F) -> fun(X) -> F(F(X)) end end,
    Loop = fun Self(0, Sum) -> Sum; Self(I, Sum) -> Self(I - 1, [I | Sum]) end,
    {lists:sum([(Twice(Add))(1) || Add <- Adders]), length(Loop(N, []))}.

applied(N) ->
    [apply(lists, reverse, [[I, I]]) || I <- lists:seq(1, N)] ++ [(fun lists:reverse/1)([I]) || I <- lists:seq(1, N)] ++
        [erlang:apply(fun ?MODULE:child/1, [I]) || I <- lists:seq(1, N)].

child(I) -> {I, I}.

numbers(N) ->
    Factorial = lists:foldl(fun(I, F) -> I * F end, 1, lists:seq(1, N)),
    Root = lists:foldl(fun(_, X) -> (X + 2.0 / X) / 2.0 end, 1.0, lists:seq(1, N)),
    {Factorial rem 1000003, Factorial bsr 5, trunc(Root * 1.0e20), math:sqrt(Root), float_to_list(Root)}.

texts(N) ->
    [io_lib:format("~p ~w ~s ~.3f ~n", [{I, [a, b]}, I, "text", I * 1.5]) || I <- lists:seq(1, N)] ++
        [lists:flatten(io_lib:format("~5..0b", [I])) || I <- lists:seq(1, N)] ++ [string:tokens("a b c d", " "), string:to_upper("abc")].

sorted(N) ->
    List = [(I * 7919) rem 1009 || I <- lists:seq(1, N)],
    {lists:sort(List), lists:usort(List), lists:keysort(2, lists:zip(List, lists:seq(1, N))),
     lists:sort(fun(A, B) -> A > B end, List), ordsets:from_list(List), lists:partition(fun(X) -> X > 500 end, List)}.

queues(N) ->
    Queue = lists:foldl(fun queue:in/2, queue:new(), lists:seq(1, N)),
    drained(queue:out(Queue), 0).

drained({empty, _}, Sum) -> Sum;
drained({{value, X}, Queue}, Sum) -> drained(queue:out(Queue), Sum + X).

trees(N) ->
    Tree = lists:foldl(fun(I, T) -> gb_trees:enter(I rem 97, I, T) end, gb_trees:empty(), lists:seq(1, N)),
    Set = sets:from_list(lists:seq(1, N)),
    Dict = lists:foldl(fun(I, D) -> dict:append(I rem 7, I, D) end, dict:new(), lists:seq(1, N)),
    {gb_trees:size(Tree), sets:size(Set), dict:size(Dict), array:to_list(array:from_list(lists:seq(1, 20)))}.

tables(N) ->
    Table = ets:new(table, [ordered_set]),
    [ets:insert(Table, {I, [I, I], "value"}) || I <- lists:seq(1, N)],
    Found = [ets:lookup(Table, I) || I <- lists:seq(1, N)],
    Matched = ets:match_object(Table, {'_', [5, 5], '_'}),
    Selected = ets:select(Table, [{{'$1', '_', '_'}, [{'<', '$1', 10}], ['$1']}]),
    Folded = ets:foldl(fun({_, Values, _}, Sum) -> length(Values) + Sum end, 0, Table),
    [ets:update_element(Table, I, {2, x}) || I <- lists:seq(1, N)],
    All = ets:tab2list(Table),
    true = ets:delete(Table),
    {length(Found), length(Matched), length(Selected), Folded, length(All)}.

dictionary(N) ->
    [put({key, I}, {I, I}) || I <- lists:seq(1, N)],
    Sum = lists:sum([element(1, get({key, I})) || I <- lists:seq(1, N)]),
    [erase({key, I}) || I <- lists:seq(1, N)],
    Sum.

%% Three functions that call each other, by tail calls and otherwise.
mutual(N) -> hop(N, []).

hop(0, Done) -> Done;
hop(N, Done) -> skip(N - 1, [N | Done]).

skip(0, Done) -> Done;
skip(N, Done) when N rem 3 =:= 0 -> [N | hop(N - 1, [])] ++ Done;
skip(N, Done) -> hop(N - 1, Done).

references(N) -> length([{make_ref(), self()} || _ <- lists:seq(1, N)]).

%% File operations run on dirty schedulers (threads for long work), so the process moves to another thread for the call. The words that the
%% native function makes must be counted, too.
files(N) ->
    [begin
         {ok, Binary} = prim_file:read_file("/etc/passwd"),
         {ok, Info} = prim_file:read_file_info("/etc/passwd"),
         {error, enoent} = prim_file:read_file("/nonexistent"),
         {byte_size(Binary), element(1, Info)}
     end || _ <- lists:seq(1, N div 10)].

waits(N) ->
    [receive never -> ok after 0 -> [I] end || I <- lists:seq(1, N)] ++
    [receive never -> ok after 1 -> {I} end || I <- lists:seq(1, 5)].

records(N) ->
    Points = [#point{x = I, y = I} || I <- lists:seq(1, N)],
    [P#point{z = P#point.x + 1} || P <- Points].

starts(N) -> length([spawn(?MODULE, child, [[I]]) || I <- lists:seq(1, N div 10)]).

unicode(N) ->
    Text = lists:duplicate(N, 228),
    Binary = unicode:characters_to_binary(Text),
    Text = unicode:characters_to_list(Binary),
    {string:length(Binary), string:uppercase("straße"), length(string:lexemes(Binary, [$x]))}.

patterns(N) ->
    {ok, Pattern} = re:compile("([a-z]+)([0-9]+)"),
    [re:run("abc" ++ integer_to_list(I), Pattern, [{capture, all, list}]) || I <- lists:seq(1, N)].

%% Code that is scanned, parsed and interpreted.
loaded(N) ->
    {ok, Tokens, _} = erl_scan:string("lists:sum([X * X || X <- lists:seq(1, N), X rem 2 =:= 0])."),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Sum, _} = erl_eval:exprs(Expressions, [{'N', N}]),
    Sum.

%% Heaps that grow from nothing to many times their first size, and shrink again.
sized(N) -> lists:foldl(fun(I, Sum) -> length(lists:seq(1, I * N)) + Sum end, 0, lists:seq(1, 20) ++ lists:seq(20, 1, -1)).

%% ---- processes: counted by hand ----

%% N calls of a server, N casts and N other messages without an answer, N div 10 linked processes that are killed, a process that hibernates,
%% and a port.
main(N) ->
    {ok, Server} = gen_server:start_link(?MODULE, 7, []),
    Sum = lists:sum([ask(Server, I) || I <- lists:seq(1, N)]),
    Sum = 7 * N + N * (N + 1) div 2,
    [gen_server:cast(Server, I) || I <- lists:seq(1, N)],
    [Server ! {info, I} || I <- lists:seq(1, N)],
    {0, N} = gen_server:call(Server, counts),
    ok = gen_server:stop(Server),
    process_flag(trap_exit, true),
    [begin
         Pid = spawn_link(?MODULE, slept, [[I]]),
         exit(Pid, kill),
         receive {'EXIT', Pid, killed} -> ok end
     end || I <- lists:seq(1, N div 10)],
    {Sleeper, Monitor} = spawn_monitor(?MODULE, slept, [[]]),
    [Sleeper ! {wake, self()} || _ <- lists:seq(1, 10)],
    [receive {woken, Sleeper} -> ok end || _ <- lists:seq(1, 10)],
    Sleeper ! stop,
    receive {'DOWN', Monitor, process, Sleeper, normal} -> ok end,
    Port = open_port({spawn_executable, "/bin/cat"}, [binary, exit_status]),
    [begin
         port_command(Port, <<"line\n">>),
         receive {Port, {data, <<"line\n">>}} -> ok end
     end || _ <- lists:seq(1, 10)],
    port_close(Port),
    ok.

ask(Server, I) ->
    Answer = gen_server:call(Server, {add, I}),
    element(2, Answer).

init(First) -> {ok, {First, 0}}.

handle_call({add, I}, _, {First, _} = State) -> {reply, {sum, First + I}, State};
handle_call(counts, _, {_, Infos} = State) -> {reply, {0, Infos}, State}.

handle_cast(_, State) -> {noreply, State}.

handle_info({info, _}, {First, Infos}) -> {noreply, {First, Infos + 1}}.

%% Hibernates between the messages; each hibernation discards the stack.
slept(Held) -> erlang:hibernate(?MODULE, woken, [Held]).

woken(Held) ->
    receive
        {wake, From} -> From ! {woken, self()}, slept(Held);
        stop -> ok
    end.

%% ---- messages that the process makes itself ----

%% N messages of each kind that the emulator makes in the process that receives them. QUEUE says where messages are: on_heap or off_heap. Each
%% message is made while the process runs and does not wait in `receive`.
told(Queue, N) ->
    process_flag(message_queue_data, Queue),
    process_flag(trap_exit, true),
    told_of_end(N, []),
    told_of_exit(N, []),
    told_of_start(N, []).

told_of_end(0, Done) -> Done;
told_of_end(N, Done) ->
    {Pid, Monitor} = spawn_monitor(?MODULE, told_why, []),
    until_told(2000),
    receive {'DOWN', Monitor, process, Pid, ended} -> told_of_end(N - 1, [N | Done]) end.

told_of_exit(0, Done) -> Done;
told_of_exit(N, Done) ->
    Pid = spawn_link(?MODULE, told_why, []),
    until_told(2000),
    receive {'EXIT', Pid, ended} -> told_of_exit(N - 1, [N | Done]) end.

told_of_start(0, Done) -> Done;
told_of_start(N, Done) ->
    Request = spawn_request(?MODULE, child, [[]]),
    receive {spawn_reply, Request, ok, _} -> told_of_start(N - 1, [N | Done]) end.

told_why() -> exit(ended).

%% Takes so long that the other process ends meanwhile.
until_told(0) -> ok;
until_told(N) -> until_told(N - 1).
