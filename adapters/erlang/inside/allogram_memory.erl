%% allogram_memory.erl: divides the memory of a node among its owners, for `allogram observe NODE`. The command loads this module, calls
%% look/0 and removes the module. Nothing is traced, and nothing of the node is changed.
%%
%% This module has no binary syntax, because OTP 29 does not load such code if an older compiler made it.
-module(allogram_memory).

-export([look/0]).

-define(MOST, 1000). % entries of a part whose entries have names that are expensive to find

%% Returns {Release, Parts}. A part is {Name, Bytes, Count, Limit, CountName, IsWhole, Entries}: a part of erlang:memory(total), or, if
%% Bytes is -1, a list that is no part of it. IsWhole is 1 if no owner is missing from Entries because it is small. An entry is
%% {Name, Owner, Bytes, Count}; CountName says what Count counts. A number that is not known is -1. Bytes that no entry has belong to no
%% owner that could be found.
look() ->
    Memory = erlang:memory(), % first, so that the work of this function is not included
    Literals = blocks(literal_alloc),
    #{memory := Terms, count := NTerms} = persistent_term:info(),
    Of = fun(Key) -> proplists:get_value(Key, Memory, 0) end,
    Others = Of(total) - Of(processes) - Of(binary) - Of(ets) - Of(atom) - Of(code) - Literals,
    Processes = [P || Pid <- processes(), Pid =/= self(), P <- process(Pid)],
    Sizes = [{Pid, Bytes, Queue} || {Pid, Bytes, Queue, _} <- Processes],
    Queues = [Size || {_, _, Queue} = Size <- Sizes, Queue > 0],
    Binaries = binaries(Processes),
    Tables = ets:all(),
    Modules = modules(),
    {erlang:system_info(otp_release),
     [{"processes", Of(processes), length(Sizes), erlang:system_info(process_limit), "queue", is_whole(Sizes), named(Sizes, 2)},
      {"binaries", Of(binary), -1, -1, "binaries", is_whole(Binaries), Binaries},
      {"ETS tables", Of(ets), length(Tables), erlang:system_info(ets_limit), "objects", is_whole(Tables), tables(Tables)},
      {"atoms", Of(atom), erlang:system_info(atom_count), erlang:system_info(atom_limit), "", 1, [{"in use", "", Of(atom_used), -1}]},
      {"code and literals", Of(code) + Literals - Terms, length(Modules), -1, "", 1, Modules},
      {"persistent terms", Terms, NTerms, -1, "", 1, []},
      {"the emulator's other data", Others, -1, -1, "", 1, [{atom_to_list(A), "", blocks(A), -1} || A <- [driver_alloc, sl_alloc, std_alloc, temp_alloc]]},
      {"message queues", -1, -1, -1, "queue", is_whole(Queues), named(Queues, 3)}]}.

is_whole(Rows) when length(Rows) > ?MOST -> 0;
is_whole(_) -> 1.

%% ---- processes ----

process(Pid) ->
    case process_info(Pid, [memory, message_queue_len, binary]) of
        [{_, Bytes}, {_, Queue}, {_, Binaries}] -> [{Pid, Bytes, Queue, [{Id, Size} || {Id, Size, _} <- Binaries]}];
        undefined -> []
    end.

%% Each binary counts once: for the only process that refers to it, or for all processes with a common binary together.
binaries(Processes) ->
    References = lists:sort([{Id, Size, Pid} || {Pid, _, _, Binaries} <- Processes, {Id, Size} <- lists:usort(Binaries)]),
    {Common, N, Owned} = owned(References, 0, 0, #{}),
    [{"of several processes", "", Common, N} || N > 0] ++ named([{Pid, Bytes, Count} || {Pid, {Bytes, Count}} <- maps:to_list(Owned)], 2).

owned([{Id, Size, _}, {Id, _, _} | _] = [_ | More], Common, N, Owned) ->
    owned(lists:dropwhile(fun({Other, _, _}) -> Other =:= Id end, More), Common + Size, N + 1, Owned);
owned([{_, Size, Pid} | More], Common, N, Owned) ->
    {Bytes, Count} = maps:get(Pid, Owned, {0, 0}),
    owned(More, Common, N, Owned#{Pid => {Bytes + Size, Count + 1}});
owned([], Common, N, Owned) ->
    {Common, N, Owned}.

%% The entries of the rows {Pid, Bytes, Count} with the largest elements number Key.
named(Rows, Key) ->
    {Largest, Others} = largest(Rows, Key),
    [{pid_to_list(Pid), name(Pid), Bytes, Count} || {Pid, Bytes, Count} <- Largest] ++ Others.

%% The rows with the largest elements number Key, and an entry for the other rows. The second element of a row is its bytes.
largest(Rows, Key) ->
    Sorted = lists:reverse(lists:keysort(Key, Rows)),
    Others = lists:nthtail(min(?MOST, length(Sorted)), Sorted),
    {lists:sublist(Sorted, ?MOST),
     [{text("~w others", [length(Others)]), "", lists:sum([element(2, Row) || Row <- Others]), -1} || Others =/= []]}.

%% The registered name, else the function with which the process began.
name(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> atom_to_list(Name);
        [] -> first_function(Pid, proc_lib:translate_initial_call(Pid));
        undefined -> ""
    end.

%% A process that began with a fun has the initial call erlang:apply/2. The outermost function of its stack then says more.
first_function(Pid, {erlang, apply, 2} = Call) ->
    case process_info(Pid, current_stacktrace) of
        {current_stacktrace, [_ | _] = Stack} -> {M, F, A, _} = lists:last(Stack), function({M, F, A});
        _ -> function(Call)
    end;
first_function(_, Call) ->
    function(Call).

function({Module, Function, Arity}) ->
    text("~w:~w/~w", [Module, Function, Arity]).

text(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).

%% ---- tables ----

tables(Tables) ->
    {Largest, Others} = largest([{Table, Words * erlang:system_info(wordsize)} ||
                                    Table <- Tables, Words <- [ets:info(Table, memory)], is_integer(Words)], 2),
    [Entry || {Table, _} <- Largest, Entry <- table(Table)] ++ Others.

table(Table) ->
    case [ets:info(Table, Item) || Item <- [name, named_table, owner, memory, size]] of
        [Name, IsNamed, Owner, Words, Size] when is_pid(Owner), is_integer(Words), is_integer(Size) ->
            Label = if IsNamed -> text("~ts", [Name]); true -> text("~ts ~w", [Name, Table]) end,
            [{Label, text("~w ~ts", [Owner, name(Owner)]), Words * erlang:system_info(wordsize), Size}];
        _ -> [] % it was deleted meanwhile
    end.

%% ---- modules ----

%% The lines of the emulator's own list are "module bytes", or "module bytes old bytes". The bytes are those of the code and its literals.
%% They are in memory(code) and in the allocator of literals, where persistent terms are, too.
modules() ->
    [{Module, "", list_to_integer(Bytes), -1} ||
        Line <- string:lexemes(binary_to_list(erlang:system_info(loaded)), "\n"),
        [Module, Bytes | _] <- [string:lexemes(Line, " ")],
        lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Bytes)].

%% ---- allocators ----

%% The bytes of the blocks of an allocator; 0 if it is switched off.
blocks(Allocator) ->
    lists:sum([element(2, Size) || {instance, _, Carriers} <- instances(erlang:system_info({allocator_sizes, Allocator})),
                                   {_, Parts} <- Carriers, {blocks, Types} <- Parts, {Type, Sizes} <- Types, Type =:= Allocator,
                                   Size <- Sizes, element(1, Size) =:= size]).

instances(List) when is_list(List) -> List;
instances(false) -> [].
