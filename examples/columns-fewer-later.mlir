// pulsecol's columns, half of the keys in the first third of the run and a tenth
// from then on: what is kept as a function of the step. A composition; SGLang's
// cube sparse attention states a fraction for each step by hand.
//
// many, few: the shares that are kept, before and after `from` of the run.
//
// Both selections are refreshed in the same steps, by one dense attention.

heddle.schedule @columns_fewer_later(many = 50 percent, few = 10 percent, from = 1/3) {
  %refresh = cadence uniform(window = 0.5, count = 8)
  %third = cadence at(from)
  %more = select columns(keep = many, group = 128) by mean_probability on %refresh
  %less = select columns(keep = few, group = 128) by mean_probability on %refresh
  attend pairs(%more) until(%third) then pairs(%less)
}
