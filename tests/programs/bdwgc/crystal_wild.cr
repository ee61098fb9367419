# Does what Crystal programs do besides allocating objects of their classes. Each part prints how many objects of its types it allocated, as
# lines "Type count". A part prints no line for a type if the number depends on Crystal's library. The first argument scales the numbers.
#
# With "track" as the second argument, callbacks of the program are called for allocations and deaths of objects
# (share/allogram/crystal/allogram.cr).
require "allogram"
require "set"

module Named
  property name : String = "n"
end

class Shape
  include Named
end

class Circle < Shape
  def initialize(@radius : Float64)
  end
end

class Pair(A, B)
  def initialize(@a : A, @b : B)
  end
end

struct Flat # a struct is a value, not an object on the heap
  def initialize(@a : Int64, @b : Int64)
  end
end

class Reused # `new` returns objects that were kept
  @@kept = [] of Reused

  def self.new(n : Int32) : self
    return @@kept[n % 3] if @@kept.size == 3
    made = new(made: n)
    @@kept << made
    made
  end

  def initialize(*, @made : Int32)
  end
end

class Finished
  class_property count = 0

  def initialize(@n : Int32)
  end

  def finalize
    Finished.count += 1
  end
end

class Failing
  def initialize(n : Int32)
    raise Refused.new("no") if n >= 0
  end
end

class Refused < Exception
end

class Deep
  @list = [] of Int32
  @inner : Inner = Inner.new
end

class Inner
  @text = IO::Memory.new
end

class Said
  class_getter lines = {} of String => Int32

  def self.that(type, count)
    lines[type.to_s] = count
  end
end

def generics(n)
  kept = [] of Pair(Int32, String) | Pair(String, Nil) | Circle
  n.times { |i| kept << Pair.new(i, "s") << Pair.new("t", nil) << Circle.new(1.5) }
  Said.that(Pair(Int32, String), n)
  Said.that(Pair(String, Nil), n)
  Said.that(Circle, n)
  kept
end

def structs(n)
  sum = 0_i64
  n.times { |i| flat = Flat.new(i.to_i64, 2_i64); sum &+= flat.hash.to_i64! }
  sum
end

def closures(n)
  kept = [] of Proc(Int32)
  n.times { |i| j = i; kept << -> { j += 1 } }
  kept.sum(&.call)
end

def reused(n)
  n.times { |i| Reused.new(i) }
  Said.that(Reused, 3)
end

def failing(n)
  n.times { |i| begin; Failing.new(i); rescue Refused; end }
  Said.that(Failing, n)
  Said.that(Refused, n)
end

def deep(n)
  kept = Array(Deep).new(n) { Deep.new }
  Said.that(Deep, n)
  Said.that(Inner, n)
  kept
end

def library(n)
  sets = Array(Set(Int32)).new(n) { |i| Set{i, i + 1} }
  memory = Array(IO::Memory).new(n) { IO::Memory.new(64) }
  channels = Array(Channel(Int32)).new(n) { Channel(Int32).new(1) }
  n.times { |i| spawn { channels[i].send(sets[i].size) } }
  Fiber.yield
  Said.that(Channel(Int32), n)
  Said.that(Hash(Int32, Nil), n) # a Set is a struct around a Hash
  {sets.size, memory.size, channels.sum(&.receive)}
end

def by_hand(n)
  n.times do |i|
    block = GC.malloc_atomic(48).as(UInt8*)
    block = GC.realloc(block.as(Void*), 480)
    GC.free(block) if i.even?
    Pointer(UInt64).malloc(3)
  end
end

def finished(n)
  n.times { |i| Finished.new(i) }
  Said.that(Finished, n)
  4.times { GC.collect }
end

def everything(n)
  kept = {generics(n), deep(n), library(n)}
  structs(n)
  closures(n)
  reused(n)
  failing(n // 10)
  by_hand(n)
  finished(n)
  GC.collect
  Said.lines.each { |type, count| puts "#{type} #{count}" }
  STDERR.puts "finalized too few" if Finished.count < n * 9 // 10
  kept
end

def tracked(n)
  circles = shapes = died = any = wrong = 0
  ok = Allogram.track do |on|
    on.created(Circle) do |address|
      circles += 1
      wrong += 1 if Pointer(Int32).new(address).value != Circle.crystal_instance_type_id
      [address.to_s] # allocates
    end
    on.died(Circle) do |address|
      died += 1
      GC.collect if died % 997 == 0
      Array(Int64).new(100, 0)
    end
    on.created { |address, number| any += 1 }
  end
  kept = Array(Circle).new(n) { Circle.new(2.5) }
  (20 * n).times { Circle.new(3.5) }
  n.times { Shape.new }
  GC.collect
  "x" * 100
  Allogram.stop
  after = circles
  Circle.new(4.5)
  (20 * n).times { "y" * 100 }
  puts "#{ok} #{circles} #{died} #{any} #{wrong} #{circles - after} #{kept.size}"
end

n = (ARGV[0]? || "100").to_i
ARGV[1]? == "track" ? tracked(n) : everything(n)
