%% planted.erl: small programs with one memory bug each, as in planted.c.
%%
%%   leak  a process adds each event to its state, and never removes one
-module(planted).
-export([main/1]).

main(["leak" | Rest]) ->
    io:format("~p~n", [collect(0, [], Rest =/= [])]),
    halt().

collect(20000, Events, _) ->
    length(Events);
collect(I, Events, Planted) ->
    Event = {event, I, lists:seq(1, 20)}, % PLANTED leak
    collect(I + 1, case Planted of true -> [Event | Events]; false -> [Event] end, Planted).
