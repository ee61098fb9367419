# allogram.cr: calls back into a Crystal program when the program makes objects and when these objects die. This works when the program runs
# under `allogram run`; otherwise nothing happens.
#
#     require "allogram"
#
#     Allogram.track do |on|
#       on.created(Point) { |address| ... }       # called for each Point that is made
#       on.died(Point) { |address| ... }          # called for each Point that a collection finds dead, or that is freed
#       on.created { |address, number| ... }      # called for each object of any type, with the number of its type
#     end
#     ...
#     Allogram.stop
#
#     CRYSTAL_PATH=/usr/share/allogram/crystal:$(crystal env CRYSTAL_PATH) crystal build program.cr
#
# The program is not linked with allogram: this file looks the functions up in the process, where allogram's agent defines them. These functions are
# the tracker interface of allogram.h, and the rules of allogram.h apply to the callbacks.
#
# When callbacks run. For a new object, a callback runs after the object's type number has been written, when the thread that made the object
# calls the garbage collector again. The object's `initialize` may still be running, so a callback may use the address, but must
# not read the object. For a death, a callback runs after the collection has released the collector's lock, in the next thread that
# calls the collector. At that time the memory may already belong to another object.
#
# What a callback may do. It may allocate (its own objects cause no callbacks), take locks that no allocating code of the program
# holds, and stop tracking. It runs in the middle of an allocation, in any fiber, so it may not wait: no IO that blocks, no channel, no
# sleep. An exception that it raises is dropped.
#
# Types are exact: an object of a subclass is reported for the subclass only. Structs are no objects.
require "c/dlfcn"

lib LibAllogram
  EVERY_BLOCK = 1_u64

  struct Sample
    heap : UInt32
    type : UInt32
    address : UInt64
    bytes : LibC::SizeT
    n_samples : UInt64
  end

  struct TrackerOptions
    size : LibC::SizeT
    interval_bytes : UInt64
    seed : UInt64
    on_alloc : (Void*, Sample*) -> Void*
    on_promote : (Void*, Void*) -> Void
    on_complete : (Void*, Void*) -> Void
    on_free : (Void*, Void*) -> Void
    context : Void*
  end
end

module Allogram
  # The callbacks that a program gives to `Allogram.track`.
  class Watch
    # Callbacks by the number of the type.
    getter on_created = {} of Int32 => UInt64 -> Nil
    getter on_died = {} of Int32 => UInt64 -> Nil
    getter on_any : (UInt64, Int32) -> Nil = ->(address : UInt64, number : Int32) { }
    getter? watches_all = false

    def created(type : T.class, &callback : UInt64 -> Nil) : Nil forall T
      @on_created[type.crystal_instance_type_id] = callback
    end

    def created(&callback : (UInt64, Int32) -> Nil) : Nil
      @on_any = callback
      @watches_all = true
    end

    def died(type : T.class, &callback : UInt64 -> Nil) : Nil forall T
      @on_died[type.crystal_instance_type_id] = callback
    end
  end

  # Addresses are kept as numbers, so that no object is kept alive.
  @@watch = Watch.new
  @@alive = {} of UInt64 => Int32
  @@lock = Crystal::SpinLock.new

  # Whether allogram records this process.
  def self.recorded? : Bool
    !LibC.dlsym(Pointer(Void).null, "allogram_start_tracker").null?
  end

  # Starts the tracking: from now on the callbacks are called. Call this method once, before the objects are made. *interval_bytes*: the mean number
  # of allocated bytes between two objects that are reported; by default every object is reported. Returns false if allogram does not record, or if a
  # tracker runs already.
  def self.track(interval_bytes : UInt64 = LibAllogram::EVERY_BLOCK, & : Watch ->) : Bool
    found = LibC.dlsym(Pointer(Void).null, "allogram_start_tracker")
    return false if found.null?
    watch = Watch.new
    yield watch
    @@watch = watch
    options = LibAllogram::TrackerOptions.new
    options.size = sizeof(LibAllogram::TrackerOptions)
    options.interval_bytes = interval_bytes
    options.on_alloc = ->(context : Void*, sample : LibAllogram::Sample*) { Pointer(Void).new(sample.value.address) }
    options.on_complete = ->(context : Void*, value : Void*) { Allogram.complete(value) }
    options.on_free = ->(context : Void*, value : Void*) { Allogram.free(value) }
    Proc(LibAllogram::TrackerOptions*, Int32).new(found, Pointer(Void).null).call(pointerof(options)) > 0
  end

  # From now on no new objects are reported. The deaths of objects that were reported before are still reported.
  def self.stop : Bool
    found = LibC.dlsym(Pointer(Void).null, "allogram_stop_tracker")
    !found.null? && Proc(Int32).new(found, Pointer(Void).null).call == 0
  end

  # :nodoc:
  def self.complete(value : Void*) : Nil
    address = value.address
    number = value.as(Int32*).value
    if @@watch.on_died.has_key?(number)
      @@lock.sync { @@alive[address] = number }
    end
    @@watch.on_created[number]?.try &.call(address)
    @@watch.on_any.call(address, number) if @@watch.watches_all?
  rescue
  end

  # :nodoc:
  def self.free(value : Void*) : Nil
    return if @@watch.on_died.empty?
    number = @@lock.sync { @@alive.delete(value.address) }
    @@watch.on_died[number]?.try &.call(value.address) if number
  rescue
  end
end
