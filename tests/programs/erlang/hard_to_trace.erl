%% hard_to_trace.erl: what makes a node hard to trace: very many processes, a kill in the middle of a call, code that is loaded again,
%% and very unusual names. tests/conformance/erlang_rough.py has the expected number of calls.
-module(hard_to_trace).
-export([many/1, one/0, killed/1, endless/1, reloaded/1, odd/0, kept/1]).

many(N) ->
    Pids = [spawn(?MODULE, one, []) || _ <- lists:seq(1, N)],
    io:format("~s", [os:cmd("grep -c . /proc/" ++ os:getpid() ++ "/maps")]),
    Monitors = [begin Monitor = monitor(process, Pid), Pid ! go, Monitor end || Pid <- Pids],
    [receive {'DOWN', Monitor, process, _, _} -> ok end || Monitor <- Monitors],
    ok.

one() -> receive go -> kept([go]) end.

kept(Term) -> Term.

%% Kills N processes at any place in an endless loop. The calls that a process made before its end are counted.
killed(N) ->
    Pids = [spawn(?MODULE, endless, [[]]) || _ <- lists:seq(1, N)],
    [kept(I) || I <- lists:seq(1, N)],
    timer:sleep(50),
    [exit(Pid, kill) || Pid <- Pids],
    ok.

endless(List) -> endless(kept([x | lists:sublist(List, 50)])).

%% Loads N versions of a module and calls each ten times, while a process runs in an old version.
reloaded(N) ->
    Old = spawn(fun() -> version(0), versions:wait() end),
    timer:sleep(20),
    [begin version(I), [I = versions:which(x) || _ <- lists:seq(1, 10)] end || I <- lists:seq(1, N)],
    exit(Old, kill),
    ok.

version(I) ->
    Line = erl_anno:new(1),
    Forms = [{attribute, Line, module, versions}, {attribute, Line, export, [{which, 1}, {wait, 0}]},
             {function, Line, which, 1, [{clause, Line, [{var, Line, '_'}], [], [{integer, Line, I}]}]},
             {function, Line, wait, 0, [{clause, Line, [], [], [{'receive', Line, [{clause, Line, [{atom, Line, stop}], [], [{atom, Line, ok}]}]}]}]}],
    {ok, versions, Code} = compile:forms(Forms, []),
    {module, versions} = code:load_binary(versions, "versions.beam", Code).

%% Functions whose names have blanks, quotes, line ends, letters of other alphabets or 255 characters, in a module with such a
%% name.
odd() ->
    Line = erl_anno:new(1),
    Names = ['a b', 'it\'s', 'two\nlines', 'größe', 'имя', '', '\e[31m', '"', 'Elixir.Enum', list_to_atom(lists:duplicate(255, $x))],
    Module = 'odd \'module\'',
    Forms = [{attribute, Line, module, Module}, {attribute, Line, export, [{Name, 0} || Name <- Names]} |
             [{function, Line, Name, 0, [{clause, Line, [], [], [{nil, Line}]}]} || Name <- Names]],
    {ok, Module, Code} = compile:forms(Forms, []),
    {module, Module} = code:load_binary(Module, "odd.beam", Code),
    [[] = Module:Name() || Name <- Names, _ <- [1, 2, 3]],
    length(Names).
