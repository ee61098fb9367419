%% The Erlang node of bench/parts/observe.py. Each line of its standard input contains two numbers: how many lists (of 100 elements each) to
%% make, and a heap size in words. The node makes these lists in a process with that initial heap size, and prints how many garbage collections
%% happened meanwhile.
-module(collecting).
-export([main/0]).

main() ->
    io:format("~s~n", [os:getpid()]),
    loop().

loop() ->
    case io:get_line("") of
        eof -> halt(0);
        Line ->
            [Lists, Words] = [list_to_integer(Text) || Text <- string:lexemes(Line, " \n")],
            Before = element(1, erlang:statistics(garbage_collection)),
            {Pid, Reference} = spawn_opt(fun() -> make(Lists) end, [monitor, {min_heap_size, Words}]),
            receive {'DOWN', Reference, process, Pid, _} -> ok end,
            io:format("~b~n", [element(1, erlang:statistics(garbage_collection)) - Before]),
            loop()
    end.

make(0) -> ok;
make(Lists) -> _ = list(100, []), make(Lists - 1).

list(0, List) -> List;
list(N, List) -> list(N - 1, [N | List]).
