# tracked_objects.cr: a Crystal program that gets callbacks for its own objects while `allogram run` records it. The program counts how many
# Session objects are alive, and how many objects of each type were created.
#
#     export CRYSTAL_PATH=$(crystal env CRYSTAL_PATH):/usr/share/allogram/crystal
#     crystal build tracked_objects.cr && allogram run ./tracked_objects
require "allogram"

class Session
  def initialize(@user : String)
  end
end

class Request
  @headers = {} of String => String
end

made = Hash(Int32, Int32).new(0)
sessions = 0
is_recorded = Allogram.track do |on|
  on.created { |address, number| made[number] += 1 }
  on.created(Session) { |address| sessions += 1 }
  on.died(Session) { |address| sessions -= 1 }
end

kept = Array(Session).new(10) { |i| Session.new("user #{i}") }
1000.times { |i| Session.new("guest #{i}") }
3000.times { Request.new }
GC.collect
[kept.size] # this allocation lets allogram report the deaths
Allogram.stop

if is_recorded
  puts "#{made[Session.crystal_instance_type_id]} sessions made, #{sessions >= kept.size && sessions < 100 ? "nearly all" : "not all"} of the others dead"
  puts "#{made[Request.crystal_instance_type_id]} requests made"
else
  puts "not recorded"
end
