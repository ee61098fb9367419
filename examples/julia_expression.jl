# julia_expression.jl [ALLOGRAM.JL]: what one expression of a Julia program allocates, and what of it lives on. It prints the path of the
# trace. By hand: 10,000 entries, of which every tenth is kept; nothing of what the program did before or after.
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
