%% allogram_memory.erl: divides the memory of a node among its owners, for `allogram observe NODE`. The command loads this module and calls
%% look/1 twice. A process, the keeper, knows the commands that use this module. When the last of these commands ends or is killed, the
%% keeper removes this module. Nothing is traced, and nothing else of the node is changed.
%%
%% This module has no binary syntax, because OTP 29 does not load such code if an older compiler made it.
-module(allogram_memory).

-export([look/1, leave/1]).

-define(MOST, 1000). % the maximum number of processes or tables that are listed one by one; their names are expensive to find
-define(DICTIONARY_BYTES, 1024 * 1024).
-define(BINARIES_WORDS, 16 * 1024 * 1024). % 128 MiB

%% ---- what the command calls ----

%% Owner is a pid of the command's node. If the command ends, the process that works for it ends, too.
look(Owner) ->
    Keeper = keeper(),
    Monitor = monitor(process, Keeper),
    Keeper ! {look, node(Owner), self(), Monitor},
    receive
        {Monitor, Worker} -> demonitor(Monitor, [flush]), result(monitor(process, Worker));
        {'DOWN', Monitor, process, _, _} -> error(undef) % the keeper removes this module; the command loads it again
    end.

result(Monitor) ->
    receive
        {'DOWN', Monitor, process, _, {allogram_look, Answer}} -> Answer;
        {'DOWN', Monitor, process, _, Why} -> error(Why)
    end.

%% Called when the command does not need this module any more.
leave(Owner) ->
    case whereis(?MODULE) of
        undefined -> ok;
        Keeper -> Keeper ! {leave, node(Owner), self()}, ok
    end.

%% ---- the keeper ----

keeper() ->
    case whereis(?MODULE) of
        undefined ->
            Keeper = spawn(fun() -> receive start -> keep(#{}) end end),
            try register(?MODULE, Keeper) of
                true -> Keeper ! start, Keeper
            catch
                error:badarg -> exit(Keeper, kill), keeper() % another look registered its keeper first
            end;
        Keeper -> Keeper
    end.

%% Nodes: a map from the node of each command to two processes of its last look: the process that makes the list, and the process that called look/1.
keep(Nodes) ->
    receive
        {look, Node, From, Tag} ->
            _ = [monitor_node(Node, true) || not is_map_key(Node, Nodes)],
            Worker = spawn(fun() -> process_flag(trap_exit, true), exit({allogram_look, parts()}) end),
            From ! {Tag, Worker},
            keep(Nodes#{Node => [Worker, From]});
        {leave, Node, From} ->
            forget(Node, [From], Nodes);
        {nodedown, Node} ->
            forget(Node, [], Nodes)
    end.

%% Removes this module if no command is left. The module cannot be purged while a process runs its code, so the processes end first, and a new
%% process, which runs only code of OTP, removes the module.
forget(Node, Callers, Nodes) ->
    Processes = maps:get(Node, Nodes, []),
    _ = [begin monitor_node(Node, false), exit(Worker, kill) end || [Worker, _] <- [Processes]],
    _ = [wait_for_end(Pid) || Pid <- Processes ++ Callers],
    case maps:remove(Node, Nodes) of
        Others when map_size(Others) > 0 ->
            keep(Others);
        _ ->
            unregister(?MODULE),
            spawn(lists, zipwith, [fun erlang:apply/2, [fun code:delete/1, fun code:soft_purge/1], [[?MODULE], [?MODULE]]])
    end.

wait_for_end(Pid) ->
    Monitor = monitor(process, Pid),
    receive {'DOWN', Monitor, process, _, _} -> ok after 10000 -> demonitor(Monitor, [flush]) end.

%% ---- the parts ----

%% Returns {Release, Parts}. A part is {Name, Bytes, Count, Limit, CountName, IsWhole, Entries}: a part of erlang:memory(total), or, if
%% Bytes is -1, a list that is no part of it. IsWhole is 0 if Entries does not list small owners one by one, else 1. An entry is
%% {Name, Owner, Bytes, Count}; CountName says what Count counts. A number that is not known is -1. Bytes of a part that no entry contains belong to
%% owners that could not be found.
parts() ->
    Memory = erlang:memory(), % first, so that the work of this function is not included
    Literals = blocks(literal_alloc),
    #{memory := Terms, count := NTerms} = persistent_term:info(),
    Of = fun(Key) -> proplists:get_value(Key, Memory, 0) end,
    Others = Of(total) - Of(processes) - Of(binary) - Of(ets) - Of(atom) - Of(code) - Literals,
    Processes = [P || Pid <- processes(), Pid =/= self(), P <- process(Pid)],
    Queues = [Process || {_, _, Queue} = Process <- Processes, Queue > 0],
    {AllBinaries, Binaries} = binaries([Pid || {Pid, _, _} <- Processes], Of(binary)),
    Tables = ets:all(),
    Modules = modules(),
    {erlang:system_info(otp_release),
     [{"processes", Of(processes), length(Processes), erlang:system_info(process_limit), "queue", is_whole(Processes), named(Processes, 2)},
      {"binaries", Of(binary), -1, -1, "binaries", AllBinaries, Binaries},
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
    case process_info(Pid, [memory, message_queue_len]) of
        [{_, Bytes}, {_, Queue}] -> [{Pid, Bytes, Queue}];
        undefined -> []
    end.

%% Returns {IsWhole, Entries}. A node may have so many references to binaries that their list needs more memory than the rest of the node. So
%% a process with a limited heap makes the list, and the emulator ends this process if it needs more.
binaries(Pids, All) ->
    Limit = #{size => ?BINARIES_WORDS, kill => true, error_logger => false},
    Self = self(),
    Pid = spawn_opt(fun() -> Self ! {self(), owned_binaries(Pids)} end, [link, {max_heap_size, Limit}]),
    receive
        {Pid, {Common, N, Owned}} ->
            {is_whole(Owned), [{"of several processes", "", Common, N} || N > 0] ++ named(Owned, 2)};
        {'EXIT', Pid, _} ->
            {0, [{"too many references to binaries to list", "", All, -1}]}
    end.

%% Each binary counts once: for its process if only one process refers to it, otherwise in the sum for all binaries that several processes share.
%% Returns {Bytes, Count, Rows}: bytes and number of the shared binaries, and a row {Pid, Bytes, Count} for each process that has binaries alone.
owned_binaries(Pids) ->
    References = lists:sort([{Id, Size, Pid} || Pid <- Pids, {binary, List} <- [process_info(Pid, binary)],
                                                {Id, Size} <- lists:usort([{Id, Size} || {Id, Size, _} <- List])]),
    {Common, N, Owned} = owned(References, 0, 0, #{}),
    {Common, N, [{Pid, Bytes, Count} || {Pid, {Bytes, Count}} <- maps:to_list(Owned)]}.

owned([{Id, Size, _}, {Id, _, _} | _] = [_ | More], Common, N, Owned) ->
    owned(lists:dropwhile(fun({Other, _, _}) -> Other =:= Id end, More), Common + Size, N + 1, Owned);
owned([{_, Size, Pid} | More], Common, N, Owned) ->
    {Bytes, Count} = maps:get(Pid, Owned, {0, 0}),
    owned(More, Common, N, Owned#{Pid => {Bytes + Size, Count + 1}});
owned([], Common, N, Owned) ->
    {Common, N, Owned}.

%% Returns entries for rows {Pid, Bytes, Count}: one for each of the rows whose element number Key is largest, and one for all others.
named(Rows, Key) ->
    {Largest, Others} = largest(Rows, Key),
    [{pid_to_list(Pid), name(Pid), Bytes, Count} || {Pid, Bytes, Count} <- Largest] ++ Others.

%% Returns the ?MOST rows whose element number Key is largest, and a list with one entry for all other rows. Element 2 of a row is its bytes.
largest(Rows, Key) ->
    Sorted = lists:reverse(lists:keysort(Key, Rows)),
    Others = lists:nthtail(min(?MOST, length(Sorted)), Sorted),
    {lists:sublist(Sorted, ?MOST),
     [{text("~w others", [length(Others)]), "", lists:sum([element(2, Row) || Row <- Others]), -1} || Others =/= []]}.

%% The registered name, else the function with which the process began.
name(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> atom_to_list(Name);
        [] -> first_function(Pid, initial_call(Pid));
        undefined -> ""
    end.

%% The function with which the process began. A process of proc_lib has this function in its dictionary. The dictionary may be large, so only
%% this value is fetched, which needs OTP 26.2. With an older release the whole dictionary is fetched, but only of a small process.
initial_call(Pid) ->
    Value = try process_info(Pid, {dictionary, '$initial_call'})
            catch
                error:badarg ->
                    case process_info(Pid, memory) of
                        {memory, Bytes} when Bytes < ?DICTIONARY_BYTES -> process_info(Pid, dictionary);
                        _ -> undefined
                    end
            end,
    case {Value, process_info(Pid, initial_call)} of
        {_, undefined} -> {erlang, apply, 2}; % it has ended
        {{dictionary, Dictionary}, Call} -> proc_lib:translate_initial_call([{dictionary, Dictionary}, Call]);
        {{{dictionary, Key}, First}, Call} when First =/= undefined -> proc_lib:translate_initial_call([{dictionary, [{Key, First}]}, Call]);
        {_, Call} -> proc_lib:translate_initial_call([{dictionary, []}, Call])
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
