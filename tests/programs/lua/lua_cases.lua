-- The cases that lua_guest and the interpreter run for the conformance tests of adapters (tests/conformance/adapter_kit.py), one function
-- each. The tests find lines by their text, and contain the expected numbers of blocks.

-- Lua's table of strings grows here, and not in one of the cases. The cases make other strings than these, because Lua would use an existing
-- string again, and then the case would allocate no block.
strings_of_the_script = {}
for i = 1, 1000 do strings_of_the_script[i] = string.char(1 + i % 26, 1 + math.floor(i / 26)) end

-- allocates the Lua stack and the CallInfo structures that the calls of a case need
local function deep(n) return n > 0 and 1 + deep(n - 1) or 0 end

local function tables() for _ = 1, 1000 do local t = {} end end
local function arrays() for i = 1, 10 do local t = { i, i, i } end end
local function closures() for i = 1, 100 do local f = function() return i end end end
local function strings() for i = 2, 101 do local s = ("x"):rep(i) end end
local function threads_of_lua() for _ = 1, 50 do local c = coroutine.create(tables) end end

function hand_counted()
  collectgarbage("stop")
  tables() arrays() closures() strings() threads_of_lua()
  collectgarbage("restart")
end

function counts()
  local kept = {}
  for i = 1, 500 do kept[i] = { name = "n" .. i, f = function() return i end } end
  for i = 1, 500, 2 do kept[i] = nil end
  collectgarbage()
  for i = 1, 200 do kept["k" .. i] = coroutine.wrap(function() coroutine.yield(i) end) kept["k" .. i]() end
end

deaths = counts

function moves()
  local t = {}
  for i = 1, 10000 do t[i] = i end
  local function deep(n) if n > 0 then return 1 + deep(n - 1) end return 0 end
  deep(5000)                       -- the stack moves
  coroutine.wrap(function() deep(3000) end)()
end

-- frames: leaf <- by_native <- call_back <- caller <- frames
local function leaf()
  local n = 41
  return function() return n end
end
local function by_native()
  local t = leaf()
  return t
end
local function caller()
  local t = call_back(by_native)
  return t
end
function frames()
  local t = caller()
  kept = { t, ("x"):rep(1000000) } -- makes the peak here, so that the peak view shows the blocks in use here
  return t
end

-- allocates in a coroutine that has yielded before and was resumed by another coroutine
function coroutine_frames()
  local inner = coroutine.create(function()
    coroutine.yield()
    local t = leaf()
    return t
  end)
  coroutine.resume(inner)
  local outer = coroutine.wrap(function()
    local _, t = coroutine.resume(inner)
    return t
  end)
  local t = outer()
  return t
end

-- stacks that differ only in their innermost line. The closures have an upvalue, `i`, because Lua 5.3 uses a closure again if a new one
-- would have the same upvalues.
function alike()
  collectgarbage("stop")
  for i = 1, 100 do
    local opened = function() return i end
    local first = function() return i end
    local second = function() return i end
    local third, name = function() return i end, "number " .. i
  end
  collectgarbage("restart")
end

-- a coroutine that yields inside of pcall: after it is resumed, the function that called pcall has no native frames
function yielded_frames()
  local co = coroutine.wrap(function()
    local ok, t = pcall(function()
      coroutine.yield()
      local t = leaf()
      return t
    end)
    return t
  end)
  co()
  local t = co()
  return t
end

-- a hook that allocates when a C function calls a Lua function
function hooked_frames()
  local t
  local function target() return 1 end
  local function hook()
    if not t and debug.getinfo(2, "f").func == target then
      t = leaf() -- in the hook
    end
  end
  debug.sethook(hook, "c")
  pcall(target)
  debug.sethook()
  return t
end

-- functions that are stored in a global, a field and a local get their names from there
function named()
  local key, t = "by_variable", {}
  t[1] = function() return {} end
  t[key] = function() return {} end
  t.by_field = function() return {} end
  function by_global() return {} end
  local function by_local() return {} end
  for _, f in ipairs { t[1], t[key], t.by_field, by_global, by_local } do
    for _ = 1, 10 do local made = f() end
  end
end

function native_memory()
  local function ask() take_native(54321) return 1 end
  return ask() + 1
end

-- the stack grows in the middle of calls: its new block must have the frames of these calls
function deep_frames()
  local function dig(n) if n == 0 then return 0 end return 1 + dig(n - 1) end
  return dig(300) + 1
end

-- a callback raises an error while an array or a stack is reallocated. The frames that the adapter read for the reallocation must not be
-- used for later stacks.
function left_while_it_moves()
  collectgarbage("stop") -- a collection would read the array, which is not possible during its reallocation
  local t = {}
  for i = 1, 64 do t[i] = i end
  raise_at(_VERSION == "Lua 5.5" and 4 + 9 * 128 or 16 * 128) -- the size of an array of 128 values
  local is_whole = pcall(function() t[65] = 65 end)
  raise_no_more()
  assert(not is_whole)
  kept = { caller() }
  big = ("x"):rep(1000000)
end

-- constructors, for which Lua saves no program counter. After --= is the number of blocks allocated at this line, counted by hand. A
-- table is one block; its array is another one, and so are its fields, if there are any; `...` is put into the array at the line of the
-- closing brace.
local function in_a_loop()
  for i = 1, 100 do
    local first = {} --= 100
    local second = { i, i, i } --= 200
    local third = { i, x = i } --= 300
    local n = #first
  end
end
local function in_branches()
  for i = 1, 100 do
    local t
    if i % 4 == 0 then
      t = {} --= 25
    elseif i % 4 == 1 then
      t = { i } --= 50
    else
      t = { x = i } --= 100
      if i > 50 then
        t = { i, {} } --= 75
      end
    end
  end
end
local function nested()
  for i = 1, 100 do
    local flat = { {}, { 1, 2, 3 } } --= 500
    local deep = { --= 200
      a = {}, --= 100
      b = { 1, 2, 3 }, --= 200
      c = { d = { {} } }, --= 500
    }
  end
end
local function with_many(...)
  for i = 1, 100 do
    local all = { ... } --= 200
    local many = { i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, --= 200
      i, {}, {}, i, i, --= 200
      i, { ... }, i, { i }, --= 400
      ...
    } --= 100
    local last = {} --= 100
  end
end
local function at_its_begin()
  return {} --= 100
end
local function in_a_coroutine()
  for i = 1, 100 do
    local first = {} --= 100
    coroutine.yield(first)
    local second = { i, {} } --= 300
    local third = { x = first } --= 200
    coroutine.yield(third)
  end
end

function constructors()
  collectgarbage("stop")
  deep(50)
  in_a_loop()
  in_branches()
  nested()
  with_many(1, 2, 3)
  for i = 1, 100 do at_its_begin() end
  local co = coroutine.create(in_a_coroutine)
  while coroutine.resume(co) do end
  collectgarbage("restart")
end

-- the allocator refuses each block at first, so that the collector runs in the middle of a constructor
function constructors_in_need()
  refuse_first(true)
  constructors()
  refuse_first(false)
end

function userdata() for i = 1, 20 do new_userdata(100 * i) end end

function forked()
  local t = {}
  for i = 1, 10 do t[i] = {} end
  local is_child = fork_and_go_on()
  local n = is_child and 7 or 3
  for i = 1, n do t[i] = { leaf() } end
  if is_child then end_by("exit") end
end

function ends_by_exit() counts() end_by("exit") end
function ends_by__exit() counts() end_by("_exit") end
function ends_by_quick_exit() counts() end_by("quick_exit") end
function ends_by_abort() counts() end_by("abort") end
function ends_by_kill() counts() end_by("kill") end

function collections()
  collectgarbage("stop")
  collectgarbage() collectgarbage() collectgarbage()
end

-- tables die, strings live, arrays grow in steps
function many()
  local kept = {}
  for i = 1, 20000 do local t = { i, i } end
  for i = 1, 20000 do kept[i] = ("x"):rep(i % 50) .. i end
  for _ = 1, 300 do
    local grows = {}
    for i = 1, 300 do grows[i] = i end
  end
end

-- calls and words, counted by hand in tests/conformance/lua_adapter.py
function calls_and_words()
  collectgarbage("stop")
  local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
  local function make(n) for _ = 1, n do local t = {} end return n end
  local function twice(n) local a = make(n) local b = make(n) return a + b end
  local function thrower() make(1) error({}) end
  local function tail(n) if n == 0 then return 0 end return tail(n - 1) end
  local function passes(n) return make(n) end -- a tail call: make has the same caller as passes
  local function each(n) for i = 1, n do make(2) coroutine.yield(i) end end
  deep(50)
  fib(10)
  twice(50)
  for _ = 1, 10 do pcall(thrower) end
  tail(9)
  passes(4)
  for _ in coroutine.wrap(function() deep(50) each(5) end) do end
  make(3)
  collectgarbage("restart")
end

local case = ... -- set by the interpreter; lua_guest calls the function itself
if case then
  local f = assert((loadstring or load)("return " .. case))()
  kept = f()
  big = ("x"):rep(1000000) -- makes the peak here, so that the peak view shows the blocks in use here
  print("done", case)
end
