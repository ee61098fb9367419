# julia_expression.jl [ALLOGRAM.JL]: records what one expression of a Julia program allocates, and which of these objects stay in use.
# It prints the path of the trace. The trace has 10,000 objects of type Entry, of which every tenth stays in use, and no allocation of
# the other two calls of work. ALLOGRAM.JL is the path of Allogram.jl; without it the installed one is used.
#
#     julia julia_expression.jl
#     allogram report TRACE --view=types --type=Main.Entry
include(isempty(ARGS) ? "/usr/share/allogram/julia/Allogram.jl" : ARGS[1])

mutable struct Entry
    number::Int
end
const kept = Entry[]

function work(n)
    for i in 1:n
        entry = Entry(i)
        i % 10 == 0 && push!(kept, entry)
    end
end

work(100)
empty!(kept)
println(Allogram.@profile work(10_000))
work(100)
