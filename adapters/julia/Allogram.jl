"""
    Allogram

Records what an expression allocates in Julia's heaps: each block with its type, its stack and its death.

    include("/usr/share/allogram/julia/Allogram.jl")    # or: push!(LOAD_PATH, its folder); using Allogram
    trace = Allogram.@profile sort(rand(10^6))

and in a shell: `allogram report TRACE`, `--view=types`, `--view=blocks --state=open` ...

Alone, Julia is recorded from within: its own heaps. Under `allogram run -- julia ...` the recording is that one, with what C
takes from malloc, and outside of the expressions it pauses.
"""
module Allogram

export @profile, @profiled

# Beside this file's folder, as installed, and in the folders of a build.
const PLACES = ("../../../lib/allogram", "../../../lib/x86_64-linux-gnu/allogram", "../../../lib64/allogram", "../../build/adapters/julia")
const MESSAGE_BYTES = 512

struct Doors
    prepare::Ptr{Cvoid}
    start::Ptr{Cvoid}
    finish::Ptr{Cvoid}
    trace::Ptr{Cvoid}
end
const doors = Ref(Doors(C_NULL, C_NULL, C_NULL, C_NULL))

find(handle, name) = ccall(:dlsym, Ptr{Cvoid}, (Ptr{Cvoid}, Cstring), handle, name)
doors_of(handle) = Doors(find(handle, "allogram_julia_prepare"), find(handle, "allogram_julia_begin"),
                         find(handle, "allogram_julia_end"), find(handle, "allogram_julia_trace"))

function library()
    given = get(ENV, "ALLOGRAM_JULIA_LIBRARY", "")
    isempty(given) || return given
    for place in PLACES
        path = joinpath(@__DIR__, place, "liballogram-julia.so")
        isfile(path) && return path
    end
    error("Allogram: liballogram-julia.so is not where it was installed; set ALLOGRAM_JULIA_LIBRARY to its path")
end

# Of the agent, where `allogram run` has put it into this process; else of the library, which is loaded the first time.
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

"Collects, and begins to record. `output`: the trace's name as `allogram run --output` has it; `nothing`: allogram.julia.PID.allogram."
function start(output::Union{AbstractString,Nothing})
    doors[].prepare == C_NULL && find_doors()
    message = zeros(UInt8, MESSAGE_BYTES)
    pattern = output === nothing ? C_NULL : Base.cconvert(Cstring, String(output))
    precompile(finish, ()) # not while it records
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

"Collects, so that what died is known, and ends the recording."
function finish()
    GC.gc()
    check(ccall(doors[].finish, Cint, (Ptr{UInt8},), message_of_finish), message_of_finish)
    nothing
end

"The path of the trace that was recorded last."
function trace()
    doors[].trace == C_NULL && return ""
    unsafe_string(ccall(doors[].trace, Cstring, ()))
end

function parts(arguments)
    length(arguments) in (1, 2) || error("@profile [output] expression")
    length(arguments) == 1 ? (nothing, arguments[1]) : arguments
end

# Not try ... finally, which would make the expression's variables its own.
recorded(output, expression) = quote
    start($(esc(output)))
    $(Expr(:tryfinally, esc(expression), :(finish())))
end

"""
    Allogram.@profile [output] expression

Collects, records the expression, collects, and returns the path of the trace. What is in use in the trace lived then: the
expression's value does not, since nobody has it. An exception goes on its way; the trace is whole (`Allogram.trace()`).
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

The same, with the expression's value, which lives: `(value = ..., trace = path)`.
"""
macro profiled(arguments...)
    output, expression = parts(arguments)
    quote
        local value = $(recorded(output, expression))
        (value = value, trace = trace())
    end
end

end
