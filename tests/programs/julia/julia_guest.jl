# julia_guest.jl LIBRARY CASE: the Julia program that the tests of adapters record (tests/conformance/adapter_kit.py). CASE is the function to
# run. The program counts the blocks that it allocates, by type; `tell` prints the counts for the test. LIBRARY is built from julia_mixed.c.
const library, case = ARGS

mutable struct Small
    a::Int
end
mutable struct Two
    a::Int
    b::Int
end
mutable struct Wide
    fields::NTuple{10,Int}
end
struct Cell # only arrays have cells; the test counts the memory of these arrays
    a::Int
end
const names = ("Main.Small", "Main.Two", "Main.Wide", "Array{Main.Cell, 1} data")
const bytes = (16, 32, 96, 1_040_000) # objects: with the word of the type, rounded up to a pool's size; an array's memory: as requested
const n_cells = 130_000

const n_made = zeros(Int, 4)
const kept = (sizehint!(Small[], 1000), sizehint!(Two[], 1000), sizehint!(Wide[], 1000), sizehint!(Vector{Cell}[], 1000))

@noinline make(::Val{1}, i) = Small(i)
@noinline make(::Val{2}, i) = Two(i, i)
@noinline make(::Val{3}, i) = Wide(ntuple(identity, 10))
@noinline make(::Val{4}, i) = Vector{Cell}(undef, n_cells)
@noinline function fill_up(kind::Val{K}, n, keeps_each) where {K}
    for i in 1:n
        made = make(kind, i)
        i % keeps_each == 0 && push!(kept[K], made)
    end
    n_made[K] += n
end

# Prints with one write, so that a forked child's line is complete at once.
function tell()
    GC.gc()
    pid = ccall(:getpid, Cint, ())
    rows = ["\"$(names[k])\": [$(n_made[k]), $(n_made[k] * bytes[k]), $(length(kept[k]))]" for k in 1:4 if n_made[k] > 0]
    line = "{\"pid\": $pid, \"types\": {$(join(rows, ", "))}}\n"
    ccall(:write, Cssize_t, (Cint, Ptr{UInt8}, Csize_t), 1, line, sizeof(line))
end

function counts()
    fill_up(Val(1), 500, 5)
    fill_up(Val(2), 300, 3)
    fill_up(Val(3), 200, 2)
    fill_up(Val(4), 40, 4)
end

function deaths()
    counts()
    foreach(empty!, kept)
end

function moves() # an array whose memory moves, and strings that move
    list = sizehint!(UInt8[], 10)
    for i in 1:400_000
        push!(list, i % UInt8)
    end
    io = IOBuffer()
    for i in 1:30_000
        write(io, "0123456789")
    end
    counts()
    length(take!(io)) + length(list)
end

function threads()
    lists = [Two[] for _ in 1:Threads.nthreads()]
    Threads.@threads for i in 1:2000
        push!(lists[Threads.threadid()], Two(i, i))
    end
    n_made[2] += 2000
    foreach(list -> append!(kept[2], list), lists)
end

const leaves = Base.RefValue{Int}[]
@noinline leaf(i) = Ref(Int(i))
@noinline function by_native(i::Cint)::Cvoid
    push!(leaves, leaf(i)) # of by_native
    nothing
end
@noinline function caller(pointer)
    ccall(("mixed_back", library), Cvoid, (Ptr{Cvoid}, Cint), pointer, 3)
end
function frames()
    caller(@cfunction(by_native, Cvoid, (Cint,)))
    global peak = zeros(UInt8, 300_000_000) # makes the peak here, so that the peak view shows the blocks in use here
end

@noinline ask(n) = ccall(("mixed_take", library), Ptr{Cvoid}, (Csize_t,), n)
@noinline function native_memory()
    ask(54_321)
    frames()
end

function forked()
    fill_up(Val(2), 10, 1)
    child = ccall(:fork, Cint, ())
    for i in 1:(child == 0 ? 7 : 3)
        push!(leaves, leaf(i))
    end
    child == 0 || fill_up(Val(1), 10, 2)
    if child == 0
        tell()
        global peak = zeros(UInt8, 300_000_000)
        ccall(:_exit, Cvoid, (Cint,), 3)
    end
    ccall(:waitpid, Cint, (Cint, Ptr{Cvoid}, Cint), child, C_NULL, 0)
end

function end_by(f)
    counts()
    tell()
    f()
end
ends_by_exit() = end_by(() -> exit(3))
ends_by__exit() = end_by(() -> ccall(:_exit, Cvoid, (Cint,), 4))
ends_by_quick_exit() = end_by(() -> ccall(:quick_exit, Cvoid, (Cint,), 5))
ends_by_abort() = end_by(() -> ccall(:abort, Cvoid, ()))
ends_by_kill() = end_by(() -> ccall(:kill, Cint, (Cint, Cint), ccall(:getpid, Cint, ()), 9))

function collections()
    GC.gc()
    GC.gc()
end # tell makes one more collection

getfield(Main, Symbol(case))()
tell()
