heddle.schedule @unfinished {
  %good = cadence every(4)
  %early = cadence uniform(window = 0.3, // the rest is missing

  // %never = cadence never
  %late = cadence
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on
  %near = window(8)
  %far = sinks(
  %pairs = union %near,
  %more = union %near, %far
  attend pairs(%more) until(%good) then
  %when = positions committed(since =
  %known = positions decoded
  attend dense in
  visible %nowhere
}
