# julia_counted.jl: a program that counts what it allocates and prints one line "name=value ..." for each part.
# The line numbers in the comments are those that tests/roots/julia_in_root.py expects.

mark(name) = ccall(:allogram_session_mark, Cvoid, (Cstring,), name)

mutable struct Leaf
    value::Int
    twin::Int
end
struct Pair3{T,N}
    first::T
    second::NTuple{N,Int}
end
mutable struct Holder{T}
    content::T
end

const kept = Any[]
const dead = Ref(0)

# Leaf objects with finalizers, of which one in ten stays in use.
function make_leaves(n)
    for i in 1:n
        leaf = Leaf(i, i) # line 24
        finalizer(_ -> (dead[] += 1), leaf)
        i % 10 == 0 && push!(kept, leaf)
    end
end

# Parametric types, which must be reported with their full names.
function make_holders(n)
    holders = Vector{Any}(undef, n)
    for i in 1:n
        holders[i] = Holder{Pair3{Union{Nothing,Int},2}}(Pair3{Union{Nothing,Int},2}(i, (i, i))) # line 34
    end
    holders
end

# A function that is inlined into its caller: the allocation is in the caller's code.
@inline innermost(x) = Holder{Float64}(x) # line 40
@inline inner(x) = innermost(x + 1.0) # line 41
@noinline function outer(n)
    list = Holder{Float64}[]
    for i in 1:n
        push!(list, inner(Float64(i))) # line 45
    end
    list
end

# Blocks of pools, big objects, arrays in malloc's memory that grow, strings that move.
function work(n)
    total = 0
    for i in 1:n
        total += length(string(i, "abc"))
        total += length(zeros(Int, 400))
        i % 50 == 0 && (total += length(zeros(Float64, 200_000)))
        if i % 25 == 0
            grown = UInt8[]
            for size in (10_000, 900_000, 1_500_000, 3_000_000)
                resize!(grown, size)
            end
            io = IOBuffer(sizehint=100_000)
            for _ in 1:300
                write(io, "0123456789"^100)
            end
            total += length(String(take!(io))) + length(grown)
        end
    end
    total
end

function parallel(n)
    counts = zeros(Int, Threads.nthreads())
    Threads.@threads for i in 1:n
        boxes = [Ref(j) for j in 1:10]
        counts[Threads.threadid()] += boxes[1][] + length(string(i))
    end
    sum(counts)
end

function tasks(n)
    started = [@async (total = 0; for j in 1:50; total += length(string(i, j)); yield(); end; total) for i in 1:n]
    sum(map(fetch, started))
end

function counted(before, after)
    diff = Base.GC_Diff(after, before)
    println("pool=$(diff.poolalloc) big=$(diff.bigalloc) malloc=$(diff.malloc) realloc=$(diff.realloc)")
end

# What the collector counted between two marks of the recording; nothing else allocates between them.
function measured(n)
    mark("begin")
    before = Base.gc_num()
    work(n)
    after = Base.gc_num()
    mark("end")
    before, after
end

measured(60)
make_leaves(10)
empty!(kept)
GC.gc()
GC.gc()
dead[] = 0
counted(measured(400)...)

scale = parse(Int, ARGS[1])
make_leaves(100_000 ÷ scale)
const holders = make_holders(1_000)
const outers = outer(1_000)
println("parallel=$(parallel(20_000 ÷ scale)) tasks=$(tasks(20))")
for _ in 1:3
    GC.gc()
end
println("threads=$(Threads.nthreads()) dead=$(dead[]) alive=$(length(kept)) pauses=$(Base.gc_num().pause)")
