-- For wrk: POSTs the message of its first argument under ever other ids; says as one line of JSON what was done and failed.
-- With a second argument, the sum that is asked for, it looks at every answer. That slows wrk down: not for a timed run.
local IDS = 1000 -- far more than there are connections: no id is used twice at a time
local threads = {}

function setup(thread)
  table.insert(threads, thread)
end

function init(args)
  wrong = 0
  local requests, last = {}, 0
  for id = 1, IDS do
    requests[id] = wrk.format("POST", nil, nil, (args[1]:gsub('"id":%d+', '"id":' .. id, 1)))
  end
  request = function()
    last = last % IDS + 1
    return requests[last]
  end
  if args[2] then
    -- As the text and as the structured content of an answer that is no error.
    local right = "result.*" .. args[2] .. ".*" .. args[2]
    response = function(status, headers, body)
      if status ~= 200 or not body:find(right) or body:find('"isError": ?true') then
        wrong = wrong + 1
      end
    end
  end
end

function done(summary, latency, requests)
  local errors, wrong = summary.errors, 0
  for _, thread in ipairs(threads) do
    wrong = wrong + thread:get("wrong")
  end
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('{"requests": %d, "microseconds": %d, "bytes": %d, "failed": %d, "wrong": %d}\n',
    summary.requests, summary.duration, summary.bytes, failed, wrong))
end
