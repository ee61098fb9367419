# late_crystal.cr: a Crystal program, to which allogram attaches and from which it detaches. The program prints "ready". Each line of its
# input is a command, which the program answers with the same line: `make N` allocates N points, and keeps no reference to them. `keep N`
# allocates N points, and keeps references to them. `drop` removes these references, and runs a collection.
class Point
  def initialize(@x : Int32, @y : Int32)
  end
end

class Keeper
  KEPT = [] of Point
end

def make(n)
  n.times { |i| Point.new(i, i) }
end

def keep(n)
  n.times { |i| Keeper::KEPT << Point.new(i, i) }
end

puts "ready"
STDOUT.flush
while line = gets
  word, n = (line + " 0").split(' ')
  case word
  when "make" then make(n.to_i)
  when "keep" then keep(n.to_i)
  when "drop"
    Keeper::KEPT.clear
    GC.collect
    GC.collect
  end
  puts line
  STDOUT.flush
end
