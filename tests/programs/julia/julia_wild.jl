# julia_wild.jl: features that a profiler must not disturb: exceptions, a stack overflow, child processes, a channel, Julia's own profiler.
deep(n) = deep(n + 1) + 1
overflows = try
    deep(0)
catch error
    error isa StackOverflowError
end
caught = 0
for i in 1:2_000
    try
        i % 3 == 0 && throw(ArgumentError(string(i)))
        parse(Int, i % 5 == 0 ? "x" : "1")
    catch
        global caught += 1
    end
end
child = read(`/bin/echo from a child`, String)
channel = Channel{Vector{Int}}(4) do out
    for i in 1:100
        put!(out, fill(i, i))
    end
end
total = sum(sum, channel)
big_numbers = sum(BigInt(i)^50 for i in 1:200)
println(stdout, overflows, " ", caught, " ", strip(child), " ", total, " ", big_numbers % 1_000_007)
println(stderr, "to standard error")
finalizer(_ -> ccall(:jl_safe_printf, Cvoid, (Cstring, Cstring), "%s\n", "a finalizer at the end"), Ref(1))
exit(7)
