%% binary_makers.erl: functions that make binaries outside of the processes' heaps, and processes that refer to them. Commands on standard
%% input tell the node what to make; each is answered by one line:
%%
%%     keep N BYTES     N binaries of BYTES bytes, made by kept/2, which the worker keeps
%%     grow N           a binary of 10 N bytes, made by grown/2 by appending, which the worker keeps
%%     drop N BYTES     N binaries made by dropped/1; nothing refers to them when the answer comes
%%     share BYTES      one binary made by shared/1, which the processes "first_holder" and "second_holder" refer to
%%     storm N          N processes at the same time make 400 binaries each by stormy/1, and further ones by appending; each process
%%                      puts 57 binaries into a table and sends 80 to three processes, one of which is killed afterwards
%%     forget           the worker forgets all that it keeps
%%     binary           answers erlang:memory(binary)
%%     processes        answers, for each process that refers to binaries, its name or pid, their number and their bytes, from process_info
-module(binary_makers).
-export([main/0, kept/2, grown/2, dropped/1, shared/1, stormy/1]).

main() ->
    First = spawn(fun holder/0),
    Second = spawn(fun holder/0),
    Worker = spawn(fun() -> worker([], [First, Second]) end),
    true = register(first_holder, First),
    true = register(second_holder, Second),
    true = register(binary_worker, Worker),
    serve(Worker).

serve(Worker) ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            io:put_chars([answer(Worker, string:tokens(Line, " \n")), "\n"]),
            serve(Worker)
    end.

answer(_, ["binary"]) ->
    settle(),
    integer_to_list(erlang:memory(binary));
answer(_, ["processes"]) ->
    settle(),
    lists:join($\s, [[name(P), "=", integer_to_list(length(Binaries)), ":", integer_to_list(lists:sum([Bytes || {_, Bytes, _} <- Binaries]))]
                     || P <- processes(), {binary, [_ | _] = Binaries} <- [process_info(P, binary)]]);
answer(Worker, Command) ->
    Worker ! {self(), Command},
    receive {Worker, Answer} -> Answer end.

%% Waits until all requested frees are done: a block that another scheduler frees is freed a little later, by the scheduler that owns it.
settle() ->
    erlang:garbage_collect(),
    timer:sleep(200).

name(P) ->
    case process_info(P, registered_name) of
        {registered_name, Name} -> atom_to_list(Name);
        _ -> pid_to_list(P)
    end.

holder() ->
    receive {hold, From, Binary} -> put(held, Binary), From ! held, holder() end.

worker(Kept, Holders) ->
    receive
        {From, ["keep", N, Bytes]} -> reply(From, Holders, [kept(list_to_integer(N), list_to_integer(Bytes)) | Kept]);
        {From, ["grow", N]} -> reply(From, Holders, [grown(list_to_integer(N), <<>>) | Kept]);
        {From, ["drop", N, Bytes]} ->
            _ = [dropped(list_to_integer(Bytes)) || _ <- lists:seq(1, list_to_integer(N))],
            reply(From, Holders, Kept);
        {From, ["share", Bytes]} ->
            hold(shared(list_to_integer(Bytes)), Holders),
            reply(From, Holders, Kept);
        {From, ["storm", N]} ->
            storm(list_to_integer(N)),
            reply(From, Holders, Kept);
        {From, ["forget"]} -> reply(From, Holders, [])
    end.

hold(Binary, Holders) ->
    [begin Holder ! {hold, self(), Binary}, receive held -> ok end end || Holder <- Holders].

reply(From, Holders, Kept) ->
    erlang:garbage_collect(),
    From ! {self(), "ok"},
    worker(Kept, Holders).

kept(0, _) -> [];
kept(N, Bytes) -> [binary:copy(<<N>>, Bytes) | kept(N - 1, Bytes)].

grown(0, Binary) -> Binary;
grown(N, Binary) -> grown(N - 1, <<Binary/binary, "0123456789">>).

dropped(Bytes) -> byte_size(binary:copy(<<"d">>, Bytes)).

shared(Bytes) -> binary:copy(<<"s">>, Bytes).

storm(N) ->
    Table = ets:new(storm, [public]),
    Sinks = [spawn(fun() -> sink([]) end) || _ <- [1, 2, 3]],
    Makers = [spawn_monitor(fun() -> storm(I, 400, Table, Sinks, []) end) || I <- lists:seq(1, N)],
    _ = [receive {'DOWN', Monitor, process, _, _} -> ok end || {_, Monitor} <- Makers],
    exit(hd(Sinks), kill).

storm(_, 0, _, _, Kept) -> exit(length(Kept));
storm(I, K, Table, Sinks, Kept) ->
    Binary = stormy(65 + (I * 7919 + K * 104729) rem 5000),
    _ = [ets:insert(Table, {{I, K}, Binary}) || K rem 7 =:= 0],
    _ = [lists:nth(1 + K rem 3, Sinks) ! Binary || K rem 5 =:= 0],
    storm(I, K - 1, Table, Sinks, [<<Binary/binary, "more">> | case K rem 10 of 0 -> []; _ -> Kept end]).

stormy(Bytes) -> binary:copy(<<"w">>, Bytes).

sink(Received) -> receive Binary -> sink([Binary | Received]) end.
