# allogram.cr: a Crystal program's own callbacks on the objects it makes, when it runs under `allogram run`; else nothing happens.
#
#     require "allogram"
#
#     Allogram.track do |on|
#       on.created(Point) { |address| ... }       # a Point was made: each one
#       on.died(Point) { |address| ... }          # a collection found it dead, or it was freed
#       on.created { |address, number| ... }      # any object, with the number of its type
#     end
#     ...
#     Allogram.stop
#
#     CRYSTAL_PATH=/usr/share/allogram/crystal:$(crystal env CRYSTAL_PATH) crystal build program.cr
#
# Nothing is linked: the functions are looked up in the process, where the agent has them. It is the tracker of allogram.h, whose
# rules hold.
#
# When. An object is told as soon as its number stands in it and its thread comes to the collector again: its `initialize` may be
# running still, so a callback looks at the address, and not at the object. A death is told when the collection is over and the
# collector's lock was given back, by a thread that allocates then: the memory may be another object's by now.
#
# What a callback may do: allocate (that is not told), take locks that no allocating code of the program holds, stop tracking. It
# runs in the middle of an allocation of whatever fiber that was, so it may not wait: no IO that blocks, no channel, no sleep.
# An exception in it is dropped.
#
# Types are told exactly: an object of a subclass is one of that class. Structs are no objects.
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
  # What `Allogram.track` is told to watch.
  class Watch
    # Types by their numbers.
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

  # Addresses are numbers here, so that none of this keeps an object alive.
  @@watch = Watch.new
  @@alive = {} of UInt64 => Int32
  @@lock = Crystal::SpinLock.new

  # Whether somebody records this process.
  def self.recorded? : Bool
    !LibC.dlsym(Pointer(Void).null, "allogram_start_tracker").null?
  end

  # Calls back from here on; once, before the objects are made. *interval_bytes*: the mean distance of two samples, one object each;
  # by default every object is told. False: nobody records, or somebody tracks already.
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

  # No more objects are told; the deaths of those that were are.
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
