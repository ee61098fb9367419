%% allogram_selection.erl: reads the values of the options --trace and --process.
%%
%% This module calls only lists, os and built-in functions, because `allogram run` may use it while the node boots, before other modules can be
%% loaded.
-module(allogram_selection).

-export([of_run/0, function/3, existing/3, names/1, is_process/2, fits/2]).

%% Returns {Patterns, Processes} from the environment of a node that `allogram run` started; [] in place of either of them means all.
%% Patterns: {Module, Function, Arity}, in which '_' stands for any value. Processes: {name, Atom}, {pid, Pid} or {initial, Pattern}. Throws
%% {error, Line} if a text has no valid form. Modules and names need not exist yet.
of_run() ->
    {[function("--trace=", Text, fun new/3) || Text <- words("ALLOGRAM_TRACE")], [process(Text) || Text <- words("ALLOGRAM_PROCESS")]}.

words(Variable) ->
    case os:getenv(Variable) of
        false -> [];
        Text -> [Word || Word <- split_all(Text, []), Word =/= []]
    end.

split_all(Text, Words) ->
    case lists:splitwith(fun(C) -> C =/= $, end, Text) of
        {Word, [$, | Rest]} -> split_all(Rest, [Word | Words]);
        {Word, []} -> lists:reverse([Word | Words])
    end.

process("initial:" ++ Text) -> {initial, function("--process=initial:", Text, fun new/3)};
process("<" ++ _ = Text) ->
    try list_to_pid(Text) of
        Pid when node(Pid) =:= node() -> {pid, Pid};
        _ -> fail("--process=" ++ Text ++ ": not a process of this node")
    catch
        error:badarg -> fail("--process=" ++ Text ++ ": not of the form <0.N.0>")
    end;
process(Text) -> {name, new(Text, name, Text)}.

%% Whether an existing process is one of PROCESSES.
is_process(Pid, Processes) ->
    case erlang:process_info(Pid, [registered_name, initial_call, dictionary]) of
        [{registered_name, Name}, {initial_call, Call}, {dictionary, Dictionary}] ->
            Other = case lists:keyfind('$initial_call', 1, Dictionary) of
                        {_, Found} -> Found;
                        false -> Call
                    end,
            lists:any(fun({name, Wanted}) -> Wanted =:= Name;
                         ({pid, Wanted}) -> Wanted =:= Pid;
                         ({initial, Wanted}) -> fits(Call, Wanted) orelse fits(Other, Wanted)
                      end, Processes);
        undefined ->
            false
    end.

%% Whether the pattern (second argument) matches a function {Module, Name, Arity}.
fits({M, N, A}, {Module, Name, Arity}) -> fits_part(M, Module) andalso fits_part(N, Name) andalso fits_part(A, Arity);
fits(_, _) -> false.

fits_part(_, '_') -> true;
fits_part(Part, Wanted) -> Part =:= Wanted.

%% Reads "lists:_", "lists:map/2", "lists:map", "_", and Elixir's "Enum.map/2". OPTION: what is before the text on the command line, for error
%% messages. ATOM makes an atom of a part of the text: existing/3 or new/3.
function(_, "_", _) ->
    {'_', '_', '_'};
function(Option, Text, Atom) ->
    Shown = Option ++ Text,
    {Call, Arity} = case split(Text, $/) of
                        {Before, "_"} -> {Before, '_'};
                        {Before, Behind} -> {Before, arity(Shown, Behind)};
                        none -> {Text, '_'}
                    end,
    case split(Call, $:) of
        {[_ | _] = Module, [_ | _] = Name} ->
            {Atom(Shown, module, Module), Atom(Shown, name, Name), Arity};
        _ ->
            case split(Call, $.) of
                {[_ | _] = Module, [_ | _] = Name} -> {Atom(Shown, name, "Elixir." ++ Module), Atom(Shown, name, Name), Arity};
                _ -> fail(Shown ++ ": not of the form module:function/arity, module:function or module:_")
            end
    end.

%% Splits the text at the last character C.
split(Text, C) ->
    case lists:splitwith(fun(Other) -> Other =/= C end, lists:reverse(Text)) of
        {Behind, [C | Before]} -> {lists:reverse(Before), lists:reverse(Behind)};
        _ -> none
    end.

arity(Shown, Word) ->
    try list_to_integer(Word) of
        Arity when Arity >= 0 -> Arity;
        _ -> fail(Shown ++ ": not of the form module:function/arity")
    catch
        error:badarg -> fail(Shown ++ ": not of the form module:function/arity")
    end.

%% For a running node: atoms are never freed, so no new atom is made of a text of the command line.
existing(Shown, _, Word) ->
    case names(unquoted(Word)) of
        [Name | _] -> Name;
        [] -> fail(Shown ++ ": the node has no loaded module or function named " ++ Word)
    end.

names(Word) ->
    [Name || Candidate <- [Word, "Elixir." ++ Word], Name <- [catch list_to_existing_atom(Candidate)], is_atom(Name)].

%% For a node that starts, which has not loaded the module yet: Enum:_ means the Elixir module, 'Enum':_ the Erlang module of that name.
new(_, _, "_") -> '_';
new(_, module, [C | _] = Word) when C >= $A, C =< $Z -> list_to_atom("Elixir." ++ Word);
new(_, _, Word) -> list_to_atom(unquoted(Word)).

unquoted([$' | Rest]) -> lists:takewhile(fun(C) -> C =/= $' end, Rest);
unquoted(Word) -> Word.

fail(Line) -> throw({error, Line}).
