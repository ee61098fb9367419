%% varied_node.erl: an Erlang node that does one kind of work at a time, for `allogram observe`. A line of its input names the kind of work;
%% the next line ends this work. The processes that work start in begin_work/1.
-module(varied_node).
-export([main/0, begin_work/1, work/1, waked/1]).

main() ->
    io:format("pid ~s~n", [os:getpid()]),
    serve().

serve() ->
    case io:get_line("") of
        eof -> halt(0);
        Line ->
            [Name] = string:lexemes(Line, " \n"),
            Pids = [spawn(?MODULE, begin_work, [list_to_atom(Name)]) || _ <- lists:seq(1, 2)],
            io:format("working~n"),
            _ = io:get_line(""),
            [exit(Pid, kill) || Pid <- Pids],
            io:format("done~n"),
            serve()
    end.

begin_work(Name) ->
    _ = work(Name),
    begin_work(Name).

work(recursion) -> deep(1500);
work(maps) ->
    Map = lists:foldl(fun(N, M) -> M#{N rem 500 => {N, [N]}} end, #{}, lists:seq(1, 3000)),
    maps:fold(fun(K, {V, _}, Sum) -> K + V + Sum end, 0, maps:map(fun(_, V) -> V end, Map));
work(binaries) ->
    Text = lists:foldl(fun(N, B) -> <<B/binary, (integer_to_binary(N))/binary, $,>> end, <<>>, lists:seq(1, 400)),
    length(binary:split(Text, <<",">>, [global]));
work(ets) ->
    Table = ets:new(table, [ordered_set]),
    [ets:insert(Table, {N, {N, N}}) || N <- lists:seq(1, 400)],
    Sum = ets:foldl(fun({_, {A, _}}, S) -> A + S end, 0, Table),
    ets:select(Table, [{{'$1', {'$2', '_'}}, [{'>', '$1', 200}], ['$2']}]),
    ets:delete(Table),
    Sum;
work(messages) ->
    Self = self(),
    Pid = spawn_link(fun() -> echo() end),
    [begin Pid ! {Self, lists:seq(1, 50)}, receive {Pid, _} -> ok end end || _ <- lists:seq(1, 300)],
    Pid ! stop;
work(spawning) ->
    Self = self(),
    [spawn(fun() -> Self ! lists:sum(lists:seq(1, 200)) end) || _ <- lists:seq(1, 300)],
    [receive N when is_integer(N) -> ok end || _ <- lists:seq(1, 300)];
work(natives) ->
    Bytes = binary:copy(<<"allogram ">>, 3000),
    _ = zlib:uncompress(zlib:compress(Bytes)),
    _ = erlang:md5(Bytes), _ = erlang:crc32(Bytes), _ = erlang:phash2(Bytes),
    _ = binary_to_term(term_to_binary(lists:seq(1, 3000))),
    lists:sort([erlang:phash2(N) || N <- lists:seq(1, 1000)]);
work(reloading) ->
    Forms = [{attribute, 1, module, made_up}, {attribute, 1, export, [{turn, 1}]},
             {function, 1, turn, 1, [{clause, 1, [{integer, 1, 0}], [], [{atom, 1, ok}]},
                                     {clause, 1, [{var, 1, 'N'}], [], [{call, 1, {atom, 1, turn}, [{op, 1, '-', {var, 1, 'N'}, {integer, 1, 1}}]}]}]}],
    {ok, Module, Code} = compile:forms(Forms),
    code:purge(Module),
    _ = code:load_binary(Module, "made_up.erl", Code),
    [Module:turn(20000) || _ <- lists:seq(1, 20)];
work(hibernating) ->
    Self = self(),
    Pids = [spawn_link(fun() -> proc_lib:hibernate(?MODULE, waked, [Self]) end) || _ <- lists:seq(1, 20)],
    [Pid ! wake || Pid <- Pids],
    [receive {Pid, _} -> ok end || Pid <- Pids];
work(exceptions) ->
    [try throw_deep(30) catch throw:{up, X} -> X end || _ <- lists:seq(1, 200)];
work(large) ->
    Kept = lists:seq(1, 300000),
    lists:foldl(fun(X, Sum) -> X + Sum end, 0, Kept) + length(lists:reverse(Kept)).

deep(0) -> 0;
deep(N) -> 1 + deep(N - 1).

throw_deep(0) -> throw({up, self()});
throw_deep(N) -> [throw_deep(N - 1)].

echo() ->
    receive
        {Pid, List} -> Pid ! {self(), [X + 1 || X <- List]}, echo();
        stop -> ok
    end.

waked(Parent) ->
    receive wake -> Parent ! {self(), lists:sum(lists:seq(1, 300))} end.
