# julia_various.jl: small pieces of common code, to be run by the interpreter and by the compiler at its highest and lowest levels.
using Base.Threads

struct Point{T,N}
    at::NTuple{N,T}
end
mutable struct Ended
    number::Int
end
@generated doubled(x::NTuple{N,T}) where {N,T} = :(($([:(2x[$i]) for i in 1:N]...),))

function tables(n)
    table = Dict(string("key", i) => (i, i / 2) for i in 1:n)
    groups = Dict{Symbol,Vector{Int}}()
    for i in 1:n
        push!(get!(() -> Int[], groups, Symbol("group", i % 7)), i)
    end
    length(table) + length(groups) + length(Set(values(table)))
end

function texts(n)
    buffer = IOBuffer()
    foreach(i -> print(buffer, i, ' ', i / 8, '\n'), 1:n)
    lines = split(String(take!(buffer)), '\n')
    length(replace(join(reverse(lines), ","), "1" => "one")) + length(string(big(3)^n)) + length(string(BigFloat(2)^0.5))
end

function matrices(n)
    a = reshape(collect(1.0:n^2), n, n)
    b = [x + y for x in 1:n, y in 1:n] .* a
    sum(permutedims(b) * a) + sum(view(b, 1, :)) + sum(x^2 for x in a if x > 2) + sum(zeros(n * 500))
end

function failures(n)
    caught = 0
    for i in 1:n
        try
            try
                i % 2 == 0 ? throw(DomainError(i, "even")) : error("odd ", i)
            catch error
                caught += length(sprint(showerror, error))
                i % 4 == 0 && rethrow()
            finally
                caught += length([i])
            end
        catch
            caught += 1
        end
    end
    caught
end

function ends(n)
    n_ended = Ref(0)
    foreach(i -> finalizer(ended -> (n_ended[] += length(string(ended.number)) > 0), Ended(i)), 1:n)
    references = [WeakRef(Ended(i)) for i in 1:n]
    GC.gc()
    GC.gc(false)
    (n_ended[] > 0) + any(reference -> reference.value === nothing, references)
end

function tasks(n)
    numbers, words = Channel{Int}(4), Channel{String}(0)
    @async (foreach(i -> put!(numbers, i), 1:n); close(numbers))
    @async (foreach(i -> put!(words, string(i)), numbers); close(words))
    parts = Vector{Any}(undef, n)
    @threads for i in 1:n
        parts[i] = [Point(doubled((i, j))).at for j in 1:3]
    end
    sum(length, words) + length(parts) + sum(fetch, [Threads.@spawn sum([i, i]) for i in 1:n])
end

function made(n)
    total = 0
    for i in 1:n
        total += length(Base.invokelatest(eval(:(x -> [x, $i, string(x)])), i))
    end
    total
end

deep(n) = n == 0 ? Ref(0) : (deep(n - 1); Ref(n))
println((tables(100), texts(100), matrices(20), failures(20), ends(50), tasks(40), made(3), deep(1_000)[]))
