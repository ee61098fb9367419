%% phases.erl: commands on standard input say how often a function is called, in a process that lives as long as the node. So the test
%% knows how often the function was called in each phase of a recording.
%%
%%     calls N    N calls of kept/1, two words each; answers "ok"
%%     work N     the same; answers the milliseconds of CPU time that the node took
%%     endless    calls of kept/1 until the node ends; prints the number of calls so far after each 1000
-module(phases).
-export([main/0, time/1, kept/1]).

main() ->
    Worker = spawn(fun worker/0),
    serve(Worker).

serve(Worker) ->
    case io:get_line("") of
        eof -> ok;
        Line ->
            Worker ! {self(), string:lexemes(Line, " \n")},
            receive Answer -> io:put_chars([Answer, "\n"]) end,
            serve(Worker)
    end.

worker() ->
    receive
        {From, ["calls", N]} -> repeat(list_to_integer(N)), From ! "ok";
        {From, ["work", N]} -> From ! integer_to_list(time(list_to_integer(N)));
        {_, ["endless"]} -> endless(1)
    end,
    worker().

time(N) ->
    statistics(runtime),
    repeat(N),
    element(2, statistics(runtime)).

repeat(0) -> ok;
repeat(N) -> _ = kept(N), repeat(N - 1).

endless(N) ->
    _ = kept(N),
    _ = [io:put_chars([integer_to_list(N), "\n"]) || N rem 1000 =:= 0],
    endless(N + 1).

kept(N) -> [N | 1].
