%% observed_node.erl: an Erlang node that runs commands and counts its own work. Each line of its input is a command, which the node answers
%% by one line. The tests compare the answers with the results of `allogram observe`.
-module(observed_node).
-export([main/0, red/1, blue/1, spin/1, big/1, medium/1, small/1, wait_deep/1, hold/0, append/2, down/1, build/1]).

main() ->
    io:format("pid ~s~n", [os:getpid()]),
    serve(#{}).

serve(State) ->
    case io:get_line("") of
        eof -> halt(0);
        Line ->
            {Answer, Next} = do(string:lexemes(Line, " \n"), State),
            io:format("~s~n", [Answer]),
            serve(Next)
    end.

do(["processes"], State) -> {lists:join(" ", [describe(P) || P <- processes()]), State};
do(["sizes"], State) -> {sizes(), State};
do(["collections"], State) -> {integer_to_list(element(1, erlang:statistics(garbage_collection))), State};
do(["hold"], State) ->
    %% starts three processes: the first has a deep stack; the second has a name, 37 messages in its queue, an old heap and binaries; the
    %% third has built a binary of 50,000 bytes by appending
    Deep = spawn(fun() -> wait_deep(40) end),
    Named = spawn(fun hold/0),
    Writer = spawn(fun() -> append(5000, <<>>) end),
    register(observed_holder, Named),
    [Named ! {message, I} || I <- lists:seq(1, 37)],
    settle([Deep, Named, Writer]),
    {io_lib:format("~p ~p ~p", [Deep, Named, Writer]), State};
do(["spin", Rounds], State) -> {"ok", State#{pid => spawn_counted(fun() -> paint(list_to_integer(Rounds)) end)}};
do(["allocate", Rounds], State) -> {"ok", State#{pid => spawn_counted(fun() -> feed(list_to_integer(Rounds)) end)}};
do(["allocate_large", Rounds], State) -> {"ok", State#{pid => spawn_counted(fun() -> grow(list_to_integer(Rounds)) end)}};
do(["allocate_periodic", Rounds], State) ->
    Self = self(),
    Work = fun() -> Self ! {self(), feed_periodically(list_to_integer(Rounds))} end,
    {"ok", State#{pid => spawn_opt(Work, [{min_heap_size, 10958}])}};
do(["recurse", Rounds], State) -> {"ok", State#{pid => spawn_counted(fun() -> dive(list_to_integer(Rounds)) end)}};
do(["result"], #{pid := Pid} = State) ->
    receive {Pid, Result} -> {io_lib:format("~p ~s", [Pid, Result]), State} end.

spawn_counted(Work) ->
    Self = self(),
    spawn(fun() -> Self ! {self(), Work()} end).

settle(Pids) ->
    case [P || P <- Pids, process_info(P, status) =/= {status, waiting}] of
        [] -> ok;
        _ -> erlang:yield(), settle(Pids)
    end.

%% describes a process: <0.80.0>,name or -,function,heap words,stack words,queue,number of binaries,their bytes
describe(Pid) ->
    case process_info(Pid, [registered_name, current_function, total_heap_size, stack_size, message_queue_len, binary]) of
        undefined -> "";
        [{_, Name}, {_, {M, F, A}}, {_, Heap}, {_, Stack}, {_, Queue}, {_, Binaries}] ->
            io_lib:format("~p,~s,~s:~s/~p,~p,~p,~p,~p,~p", [Pid, if Name =:= [] -> "-"; true -> atom_to_list(Name) end, M, F, A, Heap, Stack, Queue,
                                                        length(Binaries), lists:sum([Bytes || {_, Bytes, _} <- Binaries])])
    end.

%% describes the allocators: allocator,instance,bytes of its carriers (large pieces of memory),bytes of its blocks
sizes() ->
    lists:join(" ", [io_lib:format("~s,~p,~p,~p", [A, I, carriers(Parts), blocks(Parts)]) ||
        A <- erlang:system_info(alloc_util_allocators), {instance, I, Parts} <- erlang:system_info({allocator_sizes, A})]).

kinds(Parts) -> [Sizes || {Kind, Sizes} <- Parts, lists:member(Kind, [mbcs, sbcs, mbcs_pool])].
carriers(Parts) -> lists:sum([element(2, S) || Sizes <- kinds(Parts), S <- Sizes, element(1, S) =:= carriers_size]).
blocks(Parts) -> lists:sum([element(2, S) || Sizes <- kinds(Parts), {blocks, Of} <- Sizes, {_, [S]} <- Of]).

wait_deep(0) -> receive never -> 0 end;
wait_deep(N) -> 1 + wait_deep(N - 1).

hold() ->
    put(kept, lists:seq(1, 3000)),
    Old = [binary:copy(<<N>>, 100 + N) || N <- lists:seq(1, 200)],
    put(old, {Old, binary:part(hd(Old), 0, 80)}),
    erlang:garbage_collect(self(), [{type, minor}]),
    erlang:garbage_collect(self(), [{type, minor}]),
    put(young, [binary:copy(<<N>>, 1000 * N) || N <- lists:seq(1, 20)]),
    receive never -> ok end.

append(0, Binary) -> receive never -> Binary end;
append(N, Binary) -> append(N - 1, <<Binary/binary, "0123456789">>).

%% red/1 calls spin/1 with three times as many rounds as blue/1 does.
paint(0) -> "ok";
paint(N) -> red(30), blue(10), paint(N - 1).
red(N) -> spin(N * 2000), red.
blue(N) -> spin(N * 2000), blue.
spin(0) -> ok;
spin(N) -> spin(N - 1).

%% Makes lists of small integers, two words for each integer, in big/2, medium/2 and small/2. The function and the length are random, so
%% that the collections are not periodic. Returns the words of each function.
feed(Rounds) ->
    rand:seed(exsss, 7),
    feed(Rounds, 0, 0, 0).
feed(0, Big, Medium, Small) -> io_lib:format("big/2=~p medium/2=~p small/2=~p", [Big, Medium, Small]);
feed(N, Big, Medium, Small) ->
    Length = 100 + rand:uniform(900),
    case rand:uniform(10) of
        W when W =< 6 -> big(Length), feed(N - 1, Big + 2 * Length, Medium, Small);
        W when W =< 9 -> medium(Length), feed(N - 1, Big, Medium + 2 * Length, Small);
        _ -> small(Length), feed(N - 1, Big, Medium, Small + 2 * Length)
    end.
%% Makes 10,000 words in each round: 70 % in big/2, 20 % in medium/2, 10 % in small/2. In a heap of 10,958 words, of which some are in use,
%% every collection finds the heap full at the same place of the round.
feed_periodically(Rounds) -> feed_periodically(Rounds, Rounds).
feed_periodically(0, Rounds) -> io_lib:format("big/2=~p medium/2=~p small/2=~p", [Rounds * 7000, Rounds * 2000, Rounds * 1000]);
feed_periodically(N, Rounds) -> big(3500), medium(1000), small(500), feed_periodically(N - 1, Rounds).

big(N) -> big(N, []).
big(0, List) -> List;
big(N, List) -> big(N - 1, [N | List]).
medium(N) -> medium(N, []).
medium(0, List) -> List;
medium(N, List) -> medium(N - 1, [N | List]).
small(N) -> small(N, []).
small(0, List) -> List;
small(N, List) -> small(N - 1, [N | List]).

%% Recursions whose stacks have some 4,000 words.
dive(0) -> "ok";
dive(N) -> 1500 = length(down(1500)), 1500 = length(build(1500)), dive(N - 1).
down(0) -> [];
down(N) -> [N | down(N - 1)].
build(0) -> [];
build(N) -> [{N, N} | build(N - 1)].

%% Makes a heap that is so large that the emulator collects it on a dirty scheduler (a thread for long work).
grow(Rounds) ->
    Kept = big(400000),
    grow(Rounds, Kept, 800000).
grow(0, Kept, Words) -> io_lib:format("big/2=~p kept ~p", [Words, length(Kept)]);
grow(N, Kept, Words) ->
    _ = big(100000 + N rem 7 * 1000),
    grow(N - 1, Kept, Words + 200000 + N rem 7 * 2000).
