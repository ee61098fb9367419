%% hand_counted.erl: an Erlang program that makes (allocates) a known number of words (64-bit emulator): a cons has 2, a tuple of N elements N
%% + 1, a float 2, a small map 3 and its values, a heap binary 2 and its bytes rounded up to words. The keys of a map in the source are a
%% literal and count as 0 words. tests/conformance/erlang_counted.py has the same numbers.
-module(hand_counted).
-export([main/0, main/1, sequences/1, cons/1, tuples/1, set_one/1, set_two/1, floats/1, maps_of_two/1, binaries/1,
         closures/1, to_tuple/1, thrown/1, tail_first/1, tail_second/1, loop_a/1, loop_b/1, receiver/2, busy/2,
         tiny/1, long/1, timed/1, tinies/1, in_fun/1, make/1, odd/1, even/1, begun/1, init/1, matched/1, bytes/2]).

main() ->
    main(1000).

main(N) ->
    _ = sequences(N),
    _ = cons(N),
    _ = tuples(N),
    _ = set_one(N),
    _ = set_two(N),
    _ = floats(N),
    _ = maps_of_two(N),
    _ = binaries(N),
    _ = closures(N),
    _ = matched(N),
    _ = to_tuple(N),
    _ = thrown(N),
    _ = tail_first(N),
    _ = loop_a(N),
    _ = odd(N),
    messages(N div 10),
    spawn_busy(8, N),
    _ = [tiny(I) || I <- lists:seq(1, 500)],
    List = lists:duplicate(20000, x),
    _ = [long({List, List}) || _ <- [a, b, c]],
    ok.

sequences(N) -> length(lists:seq(1, N)).

cons(0) -> [];
cons(N) -> [N | cons(N - 1)].

tuples(0) -> ok;
tuples(N) -> _ = make({N, N, N}), tuples(N - 1).

make(Tuple) -> Tuple.

%% setelement/3 copies the tuple: 5 words for four elements; the compiler knows the arity of none of these tuples
set_one(N) -> repeat(N, list_to_tuple([a, b, c, d])).

set_two(N) -> Result = repeat(N, list_to_tuple([1, 2, 3, 4, 5, 6, 7, 8, 9])), {Result, N}.

repeat(0, Tuple) -> Tuple;
repeat(N, Tuple) -> repeat(N - 1, setelement(2, Tuple, N)).

floats(N) -> floats(N, 1.0).

floats(0, Float) -> Float;
floats(N, Float) -> floats(N - 1, make(Float) * 1.0000001).

maps_of_two(0) -> ok;
maps_of_two(N) -> _ = make(#{one => N, two => N}), maps_of_two(N - 1).

%% a cons, and then a binary of sixteen bytes
binaries(0) -> ok;
binaries(N) -> _ = list_to_binary([N rem 256 | "123456789abcdef"]), binaries(N - 1).

%% one match context (a position in a binary) is passed from call to call
matched(N) -> bytes(binary:copy(<<$x>>, N), 0).

bytes(<<_, More/binary>>, Count) -> bytes(More, Count + 1);
bytes(<<>>, Count) -> Count.

closures(0) -> ok;
closures(N) -> _ = make(fun() -> N end), closures(N - 1).

to_tuple(N) -> tuple_size(list_to_tuple(lists:duplicate(N, x))).

%% the words that the catcher makes count for the catcher
thrown(N) ->
    try throw_deep(N)
    catch throw:Caught -> {Caught, cons(2)}
    end.

throw_deep(0) -> throw(thrown);
throw_deep(N) -> [x | throw_deep(N - 1)].

tail_first(N) -> tail_second(N).

tail_second(N) -> cons(N).

loop_a(0) -> done;
loop_a(N) -> loop_b(N).

loop_b(N) -> loop_a(N - 1).

odd(0) -> [];
odd(N) -> [N | even(N - 1)].

even(0) -> [];
even(N) -> [N | odd(N - 1)].

%% N messages {data, List}: 3 words for the tuple and 100 for the list; literals count nothing
messages(N) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(?MODULE, receiver, [Self, N]),
    List = lists:seq(1, 50),
    _ = [Pid ! {data, List} || _ <- lists:seq(1, N)],
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end.

receiver(_, 0) -> ok;
receiver(From, N) ->
    receive {data, List} -> _ = length(List) end,
    receiver(From, N - 1).

spawn_busy(Processes, N) ->
    All = [spawn_monitor(?MODULE, busy, [Id, N]) || Id <- lists:seq(1, Processes)],
    _ = [receive {'DOWN', Monitor, process, Pid, normal} -> ok end || {Pid, Monitor} <- All],
    ok.

busy(_, 0) -> ok;
busy(Id, N) -> _ = length(lists:seq(1, 30)), busy(Id, N - 1).

%% started by proc_lib:start/3
begun(N) ->
    _ = cons(N),
    proc_lib:init_ack(ok).

%% the init callback of a server that refuses to start
init(N) ->
    _ = cons(N),
    ignore.

tiny(N) -> N.

%% runs long without a call: the emulator does not interrupt the comparison of two lists
long({List, Other}) -> List == Other.

%% returns the nanoseconds of a call of long/1, by the program's own clock
timed(Lists) ->
    Begin = erlang:monotonic_time(nanosecond),
    true = long(Lists),
    erlang:monotonic_time(nanosecond) - Begin.

%% returns the nanoseconds of N calls of tiny/1 and of what the tracer does in them, by the program's own clock
tinies(N) ->
    Numbers = lists:seq(1, N),
    Begin = erlang:monotonic_time(nanosecond),
    _ = [tiny(I) || I <- Numbers],
    erlang:monotonic_time(nanosecond) - Begin.

%% a process that is started with a fun, and a process of spawn_request
in_fun(N) ->
    {Pid, Monitor} = spawn_monitor(fun() -> cons(N) end),
    receive {'DOWN', Monitor, process, Pid, normal} -> ok end,
    Request = spawn_request(?MODULE, cons, [N], [monitor]),
    receive {'DOWN', Request, process, _, normal} -> ok end.
