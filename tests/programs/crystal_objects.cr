# Objects, hashes and JSON whose numbers are known: the argument says how many; a class for each place that makes objects, and one
# place that makes two kinds. `puts` comes first, so that the program begins as the shortest one does.
{% if flag?(:with_json) %}
  require "json"
{% end %}

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

n = (ARGV[0]? || "100").to_i
puts "objects"
a = parsed(n)
b = points(2 * n)
c = nodes(5 * n)
d = either(3 * n)
forgotten(n)
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
puts a.size + b.size + d.size + (c ? 1 : 0)
