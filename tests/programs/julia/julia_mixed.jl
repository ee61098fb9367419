# julia_mixed.jl LIBRARY: Julia calls C code that calls malloc, and C code that calls Julia, which allocates.
const library = ARGS[1]
mutable struct FromC
    number::Int
end
const kept = FromC[]

@noinline function take(n)
    for i in 1:n
        block = ccall(("mixed_take", library), Ptr{Cvoid}, (Csize_t,), 12_345) # line 10
        i % 2 == 0 && ccall(("mixed_give", library), Cvoid, (Ptr{Cvoid},), block)
    end
end

@noinline function called(i::Cint)::Cvoid
    push!(kept, FromC(i)) # line 16
    nothing
end
@noinline function around(n)
    ccall(("mixed_back", library), Cvoid, (Ptr{Cvoid}, Cint), @cfunction(called, Cvoid, (Cint,)), n) # line 20
end

take(100)
around(50)
# Memory of malloc that Julia frees, because an array takes it over.
block = Libc.malloc(8_000)
array = unsafe_wrap(Array, convert(Ptr{Int}, block), 1_000; own=true)
array[1] = 7
println("kept ", length(kept), " ", array[1])
array = nothing
block = nothing
GC.gc()
