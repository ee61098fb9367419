# Allocates known numbers of objects, hashes and JSON values; the argument scales the numbers. Each class is allocated at one place of the
# code, except for Point, which is allocated at two places, and for Left and Right, which are allocated at the same place. A C library is
# called by one function of Crystal and calls another.
#
# -Dwith_json: JSON as well. -Dwithout_traces: an exception ends the program without printing a stack; the code that prints stacks is
# most of the compile time of a release build.
{% if flag?(:with_json) %}
  require "json"
{% end %}

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

lib LibBinding
  fun kept_and_called(bytes : Int32, callback : Int32 ->) : Void*
end

class Point
  property x : Int32
  property name : String

  def initialize(@x, @name)
  end
end

class Node(T)
  property value : T
  property following : Node(T)?

  def initialize(@value : T, @following)
  end
end

class Left
  property number : Int32 = 1
end

class Right
  property number : Int32 = 2
end

class Called
  property bytes : Int32

  def initialize(@bytes)
  end
end

@[NoInline]
def parsed(n)
  {% if flag?(:with_json) %}
    text = JSON.build do |json|
      json.array { n.times { |i| json.object { json.field "id", i } } }
    end
    JSON.parse(text).as_a
  {% else %}
    [n]
  {% end %}
end

@[NoInline]
def points(n)
  hash = {} of Int32 => Point
  n.times { |i| hash[i] = Point.new(i, "p") }
  hash
end

@[NoInline]
def nodes(n)
  head = nil.as(Node(Int64)?)
  n.times { |i| head = Node(Int64).new(i.to_i64, head) }
  head
end

@[NoInline]
def either(n)
  kept = [] of Left | Right
  n.times { |i| kept << (i % 3 == 0 ? Left.new : Right.new) }
  kept
end

@[NoInline]
def forgotten(n)
  n.times { |i| Node(Int32).new(i, nil).value }
end

class Latest
  class_property called = [] of Called
end

@[NoInline]
def bound
  LibBinding.kept_and_called(12345, ->(bytes : Int32) { Latest.called << Called.new(bytes); nil })
end

n = (ARGV[0]? || "100").to_i
puts "objects"
a = parsed(n)
b = points(2 * n)
c = nodes(5 * n)
d = either(3 * n)
forgotten(n)
10.times { bound }
done = Channel(Int32).new
4.times do |f|
  spawn do
    sum = 0
    n.times { |i| sum &+= Point.new(i, "fiber").x }
    done.send sum
  end
end
4.times { done.receive }
GC.collect
puts a.size + b.size + d.size + Latest.called.size + (c ? 1 : 0)
