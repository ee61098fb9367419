-- a random program: recursion, pcall and error, coroutines, tail calls, metamethods, finalizers, hooks, sort and gsub callbacks
local seed, steps = tonumber(arg[1]), tonumber(arg[2])
math.randomseed(seed)
local random = math.random
local kept, budget = {}, steps
local act
local function leaf(n) kept[random(20)] = {n} kept[random(20)] = "s" .. random(1000000) return n end
local function leaves(n) local a = leaf(n)
  local b = leaf(n + 1)
  kept[random(20)] = function() return a, b end
  return a end
local dead = setmetatable({}, {__mode = "v"})
local is_5_4 = _VERSION >= "Lua 5.4" -- which has coroutine.close and variables that are closed
local closes = (loadstring or load)("local t, leaf, d = ... " .. (is_5_4 and "local c <close> = t leaf(d)" or "leaf(d)"))
local acts = {
  function(d) leaf(d) return act(d + 1) end,                       -- tail call
  function(d) local r = act(d + 1) leaf(d) act(d + 1) return r end,
  function(d) leaves(d) for _ = 1, random(3) do act(d + 1) end return d end,
  function(d) local ok = pcall(function() act(d + 1) leaf(d) if random(2) == 1 then error({d}) end act(d + 1) end) leaf(d) return d end,
  function(d) local ok = xpcall(function() leaf(d) error("deep") end, function(m) leaf(d) act(d + 2) return m end) return d end,
  function(d) local co = coroutine.wrap(function(a) leaf(a) for i = 1, random(4) do coroutine.yield(i) act(d + 2) end return leaf(a) end)
    for _ = 1, random(4) do if not pcall(co, d) then break end leaf(d) end return d end,
  function(d) local co = coroutine.create(function() pcall(function() leaf(d) coroutine.yield() act(d + 3) error("x") end) coroutine.yield() leaf(d) end)
    coroutine.resume(co) act(d + 2) coroutine.resume(co) leaf(d) coroutine.resume(co) if random(2) == 1 and is_5_4 then coroutine.close(co) end return d end,
  function(d) local t = setmetatable({}, {__index = function(_, k) leaf(d) return act(d + 2) end, __add = function(a, b) return leaf(d) end,
      __close = function() leaf(d) act(d + 3) end, __concat = function() return act(d + 2) end})
    closes(t, leaf, d)
    local x = t.a; x = t + t; x = t .. "a" return leaf(d) end,
  function(d) setmetatable({}, {__gc = function() leaf(d) if random(3) == 1 then act(d + 4) end end}) if random(6) == 1 then collectgarbage() end return leaf(d) end,
  function(d) local a = {} for i = 1, 6 do a[i] = random(100) end table.sort(a, function(x, y) leaf(d) return x < y end)
    string.gsub("abc", ".", function(c) return leaf(d) .. c end) return d end,
  function(d) local n = random(40) local function dig(k) if k == 0 then return act(d + 3) end leaf(k) local r = dig(k - 1) leaf(k) return r end return dig(n) end,
  function(d) debug.sethook(function() leaf(d) end, "l") leaf(d) debug.sethook() return leaf(d) end,
  function(d) local a = {} for i = 1, random(60) do a[i] = i end return leaf(d) end,
}
function act(d)
  budget = budget - 1
  if budget < 0 or d > 60 then return leaf(d) end
  return acts[random(#acts)](d)
end
while budget > 0 do pcall(act, 1) end
print("done", seed)
