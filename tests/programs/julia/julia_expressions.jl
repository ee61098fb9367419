# julia_expressions.jl MODULE: records expressions with Allogram.jl; prints for each the path of its trace, and for the first what Julia counted.
include(ARGS[1])

mutable struct Leaf
    value::Int
end
mutable struct Other
    value::Int
end
const kept = sizehint!(Any[], 10_000)
const early = zeros(Float64, 200_000) # memory from malloc, allocated before the recordings

@noinline function make(type, n)
    for i in 1:n
        made = type(i) # line 15
        i % 10 == 0 && push!(kept, made)
    end
end
counted(before, after) = (diff = Base.GC_Diff(after, before); diff.poolalloc + diff.bigalloc + diff.malloc + diff.realloc)
say(name, trace, rest="") = println(name, " trace=", trace, " ", rest)
message(f) = try
    f()
catch error
    sprint(showerror, error)
end

function in_a_function()
    local before, after
    trace = Allogram.@profile begin
        before = Base.gc_num()
        make(Leaf, 1_000)
        append!(early, zeros(Float64, 200_000)) # moves the array's memory
        after = Base.gc_num()
    end
    say("function", trace, "counted=$(counted(before, after))")
end

make(Leaf, 10)
make(Other, 10)
empty!(kept)
GC.enable(false)
println("without collector: ", message(() -> Allogram.@profile make(Leaf, 7)))
GC.enable(true)
in_a_function()

trace = Allogram.@profile (made = 500; make(Other, made))
say("top", trace, "made=$made")

both = Allogram.@profiled [Leaf(i) for i in 1:50]
say("value", both.trace, "length=$(length(both.value))")

println("an error: ", message(() -> Allogram.@profile throw(ArgumentError("its own"))))
say("error", Allogram.trace())
println("twice: ", message(() -> Allogram.@profile Allogram.@profile make(Leaf, 7)))

named = Allogram.@profile "named.%p.allogram" make(Other, 30)
say("named", named)

if haskey(ENV, "ALLOGRAM_PROGRAM") # prints the tables of the last expression
    for (table, print_table) in (("types", Allogram.types), ("flat", Allogram.flat), ("tree", Allogram.tree))
        println("table ", table)
        flush(stdout)
        print_table()
    end
end
