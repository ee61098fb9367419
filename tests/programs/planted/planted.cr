# planted.cr: small programs with one memory bug each, as in planted.c.
#
#   cache  results are remembered in a class variable that is never cleaned
#   peak   all rows are made before the first is used
PLANTED = ARGV.size > 1

class Route
  getter steps : Array(Int32)

  # The compiler gives the code that makes the array the lines of its library. The nearest line of the program is that of `def`.
  def initialize(number : Int32) # PLANTED cache
    @steps = Array.new(40) { |i| number + i }
  end
end

class Planner
  @@routes = {} of Int32 => Route

  def self.route(number : Int32) : Route
    @@routes.shift if !PLANTED && @@routes.size >= 40
    @@routes[number] ||= Route.new(number)
  end
end

def cache
  (0...12000).sum(0_i64) { |i| Planner.route(i).steps.last.to_i64 }
end

def row(i : Int32) : String
  "row #{i} of the table, with a few words that make it longer" # PLANTED peak
end

def peak
  if PLANTED
    rows = (0...40000).map { |i| row(i) }
    rows.sum(0_i64) { |row| row.bytesize.to_i64 }
  else
    (0...40000).sum(0_i64) { |i| row(i).bytesize.to_i64 }
  end
end

result = ARGV[0] == "cache" ? cache : peak
GC.collect
puts result
