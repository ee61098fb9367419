-- planted.lua: small programs with one memory bug each, as in planted.c.
--
--   cache  results are remembered in a table that is never cleaned
--   peak   the lines of a report are collected before they are counted
local name, is_planted = arg[1], arg[2] ~= nil

local seen, n_seen = {}, 0
local function parse(path)
  local known = seen[path]
  if known then return known end
  if not is_planted and n_seen >= 100 then seen, n_seen = {}, 0 end
  local parts = {}                                   -- the table itself
  for part in path:gmatch("[^/]+") do parts[#parts + 1] = part end -- PLANTED cache
  seen[path] = parts
  n_seen = n_seen + 1
  return parts
end

local function cache()
  local n = 0
  for i = 1, 5000 do n = n + #parse("/home/user" .. i .. "/documents/letter.txt") end
  return n
end

local function line(i)
  return string.format("%06d: the temperature was %d degrees at the station %d", i, i % 40, i % 7) -- PLANTED peak
end

local function peak()
  local n = 0
  if is_planted then
    local lines = {}
    for i = 1, 40000 do lines[i] = line(i) end
    for _, text in ipairs(lines) do n = n + #text end
  else
    for i = 1, 40000 do n = n + #line(i) end
  end
  return n
end

print(name == "cache" and cache() or peak())
