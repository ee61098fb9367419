%% allogram_boot.erl: begins the counting of a node that `allogram run` starts, before the node's first process of its own is started.
%%
%% An instruction in the boot script (boot_script.c) loads this module and calls start/1. At that moment only the modules of the boot script's first
%% part are loaded, and no process of the kernel exists: no code server, no application controller, no logger. A call to one of these would
%% never be answered. So this module reads the tracer's modules by erl_prim_loader, which exists, and calls only built-in functions.
-module(allogram_boot).

-export([start/1]).

%% An error leaves the node as it is: in that case the counting begins when the boot script has ended (erlexec.c).
start(Folder) ->
    try
        persistent_term:put({allogram, folder}, Folder),
        _ = [ok = load(Folder ++ "/", Module) || Module <- [allogram_selection, allogram_built_in, allogram]],
        _ = [ok = load("", trace) || not erlang:module_loaded(trace), allogram:has_sessions()],
        allogram:inject_early()
    catch
        _:_ -> ok
    end.

load(Folder, Module) ->
    {ok, Code, File} = erl_prim_loader:get_file(Folder ++ atom_to_list(Module) ++ ".beam"),
    case erlang:load_module(Module, Code) of
        {module, Module} ->
            ok;
        {error, on_load} ->
            ok = erlang:call_on_load_function(Module),
            true = erlang:finish_after_on_load(Module, true),
            ok
    end,
    %% init collects these messages, and later reports the loaded modules to the code server
    init ! {self(), loaded, [{Module, File}]},
    ok.
