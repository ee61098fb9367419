"""
    Allogram

Records what an expression allocates in Julia's heaps: each block with its type, its stack and its death.

    include("/usr/share/allogram/julia/Allogram.jl")    # or: push!(LOAD_PATH, its folder); using Allogram
    trace = Allogram.@profile sort(rand(10^6))

    Allogram.types()    # tables of the latest expression: types,
    Allogram.flat()     # lines of the program,
    Allogram.tree()     # and the tree of calls

and in a shell: `allogram report TRACE`, `--view=types`, `--view=blocks --state=open` ...

If Julia was started without allogram, the recording has Julia's own heaps. Under `allogram run -- julia ...` the expressions are
recorded in the trace of `run`, together with C's blocks of malloc, and the recording pauses outside of the expressions.
"""
module Allogram

export @profile, @profiled

# Folders of liballogram-julia.so, relative to this file's folder: as installed, and in a build.
const PLACES = ("../../../lib/allogram", "../../../lib/x86_64-linux-gnu/allogram", "../../../lib64/allogram", "../../build/adapters/julia")
const MESSAGE_BYTES = 512

# The functions of julia_profile.h.
struct Doors
    prepare::Ptr{Cvoid}
    start::Ptr{Cvoid}
    finish::Ptr{Cvoid}
    trace::Ptr{Cvoid}
    times::Ptr{Cvoid}
end
const doors = Ref(Doors(C_NULL, C_NULL, C_NULL, C_NULL, C_NULL))

find(handle, name) = ccall(:dlsym, Ptr{Cvoid}, (Ptr{Cvoid}, Cstring), handle, name)
doors_of(handle) = Doors(find(handle, "allogram_julia_prepare"), find(handle, "allogram_julia_begin"),
                         find(handle, "allogram_julia_end"), find(handle, "allogram_julia_trace"), find(handle, "allogram_julia_times"))

function library()
    given = get(ENV, "ALLOGRAM_JULIA_LIBRARY", "")
    isempty(given) || return given
    for place in PLACES
        path = joinpath(@__DIR__, place, "liballogram-julia.so")
        isfile(path) && return path
    end
    error("Allogram: liballogram-julia.so is not where it was installed; set ALLOGRAM_JULIA_LIBRARY to its path")
end

# Finds the functions: those of the agent, under `allogram run`; else those of the library, which the first call loads.
function find_doors()
    found = doors_of(C_NULL) # RTLD_DEFAULT
    if found.prepare == C_NULL
        path, now = library(), 2 # RTLD_NOW
        handle = ccall(:dlopen, Ptr{Cvoid}, (Cstring, Cint), path, now)
        handle == C_NULL && error("Allogram: ", unsafe_string(ccall(:dlerror, Cstring, ())))
        found = doors_of(handle)
    end
    doors[] = found
end

function check(result, message)
    result >= 0 || error("Allogram: ", unsafe_string(pointer(message)))
    result
end

"""
Runs a garbage collection, and begins to record. `output`: the name of the trace, as in `allogram run --output`; `nothing`:
allogram.julia.PID.allogram.
"""
function start(output::Union{AbstractString,Nothing})
    doors[].prepare == C_NULL && find_doors()
    message = zeros(UInt8, MESSAGE_BYTES)
    pattern = output === nothing ? C_NULL : Base.cconvert(Cstring, String(output))
    precompile(finish, ()) # so that its compilation is not recorded
    while check(ccall(doors[].prepare, Cint, (Ptr{UInt8},), message), message) > 0
        GC.gc()
    end
    GC.@preserve pattern begin
        name = output === nothing ? Cstring(C_NULL) : Base.unsafe_convert(Cstring, pattern)
        check(ccall(doors[].start, Cint, (Cstring, Ptr{UInt8}), name, message), message)
    end
    nothing
end

const message_of_finish = zeros(UInt8, MESSAGE_BYTES)

"Runs a garbage collection, so that the deaths of blocks are recorded, and ends the recording."
function finish()
    GC.gc()
    check(ccall(doors[].finish, Cint, (Ptr{UInt8},), message_of_finish), message_of_finish)
    nothing
end

"The path of the latest trace."
function trace()
    doors[].trace == C_NULL && return ""
    unsafe_string(ccall(doors[].trace, Cstring, ()))
end

function parts(arguments)
    length(arguments) in (1, 2) || error("@profile [output] expression")
    length(arguments) == 1 ? (nothing, arguments[1]) : arguments
end

# An Expr is used instead of try ... finally, which would make the expression's variables local to it.
recorded(output, expression) = quote
    start($(esc(output)))
    $(Expr(:tryfinally, esc(expression), :(finish())))
end

"""
    Allogram.@profile [output] expression

Runs a garbage collection, records the expression, runs another collection, and returns the path of the trace. The blocks in use at the
end of the trace are those that survived the second collection. The expression's value does not survive, because nothing refers to it. If
the expression throws, the exception is passed on and the trace is complete (`Allogram.trace()` has its path).
"""
macro profile(arguments...)
    output, expression = parts(arguments)
    quote
        $(recorded(output, expression))
        trace()
    end
end

"""
    Allogram.@profiled [output] expression

The same as `@profile`, but keeps the expression's value and returns it: `(value = ..., trace = path)`.
"""
macro profiled(arguments...)
    output, expression = parts(arguments)
    quote
        local value = $(recorded(output, expression))
        (value = value, trace = trace())
    end
end

# ---- tables ----

# The program `allogram`, relative to this file's folder: as installed, and in a build.
const PROGRAMS = ("../../../bin/allogram", "../../build/allogram")

function program()
    given = get(ENV, "ALLOGRAM_PROGRAM", "")
    isempty(given) || return given
    for place in PROGRAMS
        path = joinpath(@__DIR__, place)
        isfile(path) && return path
    end
    "allogram"
end

# Prints a report. Under `allogram run` the trace has all expressions, and the report has only the time of the latest one. `allogram report`
# is not recorded itself.
function report(path, options)
    isempty(path) && error("Allogram: no expression was recorded")
    times = zeros(UInt64, 2)
    path == trace() && ccall(doors[].times, Cvoid, (Ptr{UInt64},), times)
    period = times[2] == 0 ? [] : ["--from=$(times[1])ns", "--to=$(times[2])ns"]
    environment = [name => value for (name, value) in ENV if name != "LD_PRELOAD" && !startswith(name, "ALLOGRAM")]
    run(setenv(`$(program()) report $path $options $period`, environment...))
    nothing
end

"Prints the types of the blocks that the latest expression allocated, or of a trace."
types(path=trace(); limit=20) = report(path, ["--view=types", "--limit=$limit"])
"Prints the summary: the lines of the program that allocated the blocks, themselves or through Julia's library."
flat(path=trace(); limit=20) = report(path, ["--limit=$limit"])
"Prints the tree of calls that lead to the allocations."
tree(path=trace()) = report(path, ["--view=tree", "--runtime=julia"])

end
