# Allocates objects of four types, and counts them. Between them it allocates many buffers whose first
# elements look like the type numbers of objects. The elements are computed, so the code does not
# contain them. -Dwithout_traces: an exception ends the program without printing a stack.
{% if flag?(:without_traces) %}
  struct Exception::CallStack
    def self.load_debug_info : Nil
    end

    def self.setup_crash_handler
    end

    def self.print_backtrace : Nil
    end

    def printable_backtrace : Array(String)
      [] of String
    end
  end

  def raise(exception : Exception) : NoReturn
    LibC._exit(1)
  end
{% end %}

class Point
  class_property made = 0
  property x : Int32

  def initialize(@x)
    @@made += 1
  end
end

class Tree
  class_property made = 0
  property left : Tree?, right : Tree?, items : Array(Int32)

  def initialize(@left, @right)
    @@made += 1
    @items = [1, 2, 3]
  end
end

class Late # its type number is written after the objects of its instance variables are allocated
  class_property made = 0
  @points = Array(Point).new(20) { |i| Point.new(i) }
  @text : String = "x" * 20
  property x : Int32

  def initialize(@x)
    @@made += 1
  end
end

class Counts
  class_property arrays = 0
end

def tree(depth)
  depth == 0 ? nil : Tree.new(tree(depth - 1), tree(depth - 1))
end

@[NoInline]
def ints(n)
  Array(Array(Int32)).new(n) { |i| Counts.arrays += 1; Array(Int32).new(4) { |k| (i + k) % 300 } }
end

@[NoInline]
def slices(n)
  Array(Slice(UInt32)).new(n) { |i| Slice(UInt32).new(5) { |k| (i &* 7 + k).to_u32 } }
end

@[NoInline]
def wide(n)
  Array(Slice(Int64)).new(n) { |i| Slice(Int64).new(2 + i % 3) { |k| i.to_i64 % 200 } }
end

@[NoInline]
def hashes(n)
  Array(Hash(Int32, Int32)).new(n) do |i|
    hash = {} of Int32 => Int32
    10.times { |k| hash[k + i % 100] = k }
    hash
  end
end

@[NoInline]
def closures(n)
  kept = [] of Proc(Int32)
  n.times { |i| j = i % 1000; kept << -> { j += 1 } }
  kept.sum(&.call)
end

@[NoInline]
def texts(n)
  kept = [] of Tuple(Int32, Int32) | String
  n.times { |i| kept << {i, i}; kept << "t#{i}" }
  String.build { |text| kept.each { |one| text << one } }
end

n = (ARGV[0]? || "1000").to_i
kept = {tree(12), ints(n), slices(n), wide(n), hashes(n), Array(Late).new(n // 100) { |i| Late.new(i) }}
STDERR.puts closures(n), texts(n).size
puts "Point #{Point.made}"
puts "Tree #{Tree.made}"
puts "Late #{Late.made}"
puts "Array(Int32) #{Counts.arrays + Tree.made}"
