-- Makes strings at many places, and prints for each the lines of the Lua functions that are active, the innermost first, as debug.getinfo
-- shows them. The strings live until the end. Runs in Lua 5.1 and later, and in LuaJIT.
local kept, resumers = {}, {}
local function add_lines(lines, level)
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return lines end
    -- Lua 5.1 shows a tail call as a level of its own
    if info.what == "Lua" or info.what == "main" then lines[#lines + 1] = info.currentline end
    level = level + 1
  end
end
local function note()
  local lines = add_lines({}, 3)
  for i = #resumers, 1, -1 do
    for _, line in ipairs(resumers[i]) do lines[#lines + 1] = line end
  end
  print("stack " .. table.concat(lines, " "))
  kept[#kept + 1] = ("x"):rep(1000 + #kept) -- the traced block
end
local function resume(co, ...)
  resumers[#resumers + 1] = add_lines({}, 2) local _, value = coroutine.resume(co, ...)
  resumers[#resumers] = nil
  return value
end

local function plain() note() end
local function variadic(...)
  plain()
  note(...)
  return select("#", ...)
end
local function tail(n)
  if n == 0 then
    note()
    return 0
  end
  return tail(n - 1)
end
local function dig(n)
  if n == 0 then
    variadic(1, 2, 3)
    return tail(3)
  end
  local r = dig(n - 1)
  if n % 7 == 0 then note() end
  return 1 + r
end
local object = setmetatable({}, {
  __index = function(_, key) note() return key end,
  __add = function(a, b) note() return 1 end,
  __concat = function(a, b) plain() return "c" end,
  __lt = function(a, b) note() return true end,
  __call = function(self, n) note() return n end,
})
local function metamethods()
  local a = object.field
  local b = object + 1
  local c = object .. "text"
  local d = object < object
  local e = object(1)
  return a, b, c, d, e
end
local function protected()
  local ok = pcall(function()
    note()
    error("x")
  end)
  note()
  local is_ok = xpcall(function()
    plain()
    local text = nil .. "x"
  end, function(message)
    note()
    return message
  end)
  return ok, is_ok
end
local function callbacks()
  local n = 0
  table.sort({ 3, 1, 2 }, function(a, b)
    if n == 0 then
      n = 1
      note()
    end
    return a < b
  end)
  string.gsub("a", ".", function(c)
    note()
    return c
  end)
  local ok = pcall(string.gsub, "a", ".", function(c)
    plain()
    error(c)
  end)
  assert(loadstring or load)("local note = ... note()\n\nnote()")(note)
end
local function coroutines()
  local inner = coroutine.create(function(n)
    note()
    coroutine.yield(n)
    dig(3)
    coroutine.yield(n)
    error("ends")
  end)
  local outer = coroutine.create(function()
    resume(inner, 1)
    note()
    coroutine.yield()
    resume(inner)
    plain()
  end)
  resume(outer)
  note()
  resume(outer)
  resume(inner)
end
local function hooked()
  local n = 0
  debug.sethook(function()
    n = n + 1
    if n == 2 then note() end
  end, "l")
  local a = 1
  local b = 2
  debug.sethook()
end

plain() metamethods()
protected()
callbacks()
coroutines()
hooked()
dig(100)
dig(10)
dig(100)
local all = coroutine.create(function() protected() metamethods() callbacks() coroutines() dig(30) end)
resume(all)
kept[#kept + 1] = ("x"):rep(1000000) -- makes the peak here
