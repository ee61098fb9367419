# trees.jl ROUNDS: the workload of bench/parts/julia.py. It only allocates: many trees that become garbage immediately, some trees that stay live,
# strings, and arrays.
mutable struct Tree
    left::Union{Tree,Nothing}
    right::Union{Tree,Nothing}
end

grow(depth) = depth == 0 ? Tree(nothing, nothing) : Tree(grow(depth - 1), grow(depth - 1))
count_nodes(tree::Tree) = 1 + count_nodes(tree.left) + count_nodes(tree.right)
count_nodes(::Nothing) = 0

function words(n)
    total = 0
    for i in 1:n
        total += length(string(i, '-', i + 1))
    end
    total
end

function vectors(n)
    total = 0
    for i in 1:n
        total += sum([i, i + 1, i + 2]) + length(fill(i, 300))
    end
    total
end

function work(rounds)
    old, total = Tree[], 0
    for round in 1:rounds
        for _ in 1:20
            total += count_nodes(grow(14))
        end
        push!(old, grow(10))
        total += words(40_000) + vectors(40_000)
    end
    total + sum(count_nodes, old)
end

println(work(parse(Int, ARGS[1])))
