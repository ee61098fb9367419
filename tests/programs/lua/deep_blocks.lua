-- Prints the nanoseconds per block of tables that are allocated at two depths: 10 and 10,000 calls. In the first line all blocks
-- are allocated at the bottom of the recursion, in the second line each call allocates one. Each figure is the least of five
-- measurements.
local BLOCKS = 40000
local kept

local function bottom(n)
  for i = 1, n do kept = {} end
end
local function dig(n)
  if n == 0 then
    bottom(BLOCKS)
    return 0
  end
  return 1 + dig(n - 1)
end
local function dig_with_blocks(n)
  kept = {}
  if n == 0 then return 0 end
  return 1 + dig_with_blocks(n - 1)
end
local function go_up_and_down(n)
  for i = 1, math.floor(BLOCKS / n) do dig_with_blocks(n) end
end

collectgarbage("stop")
for _, work in ipairs { dig, go_up_and_down } do
  local least = { math.huge, math.huge }
  for i = 1, 5 do
    for at, depth in ipairs { 10, 10000 } do
      work(depth) -- allocates the CallInfo structures and the stack that the collection freed; they are not measured
      local start = os.clock()
      work(depth)
      least[at] = math.min(least[at], (os.clock() - start) / BLOCKS * 1e9)
      collectgarbage()
      collectgarbage("stop")
    end
  end
  print(string.format("%.1f\t%.1f", least[1], least[2]))
end
