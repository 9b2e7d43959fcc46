// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What is slipped on often: each error says what to write.

heddle.schedule @slip {
  // expected-error@+1 {{at takes a fraction of the run, found 16; write at(step = 16), or at(16 percent)}}
  %c = cadence at(16)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{at takes a fraction of the run, found 0; steps count from 1: write at(step = 1) for the first one}}
  %c = cadence at(0)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{a range of layers is written with `to`, found '0-3'; write 0 to 3}}
  attend dense in layers(0-3)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{a range of layers is written with `to`, found '8 - 11'; write 8 to 11}}
  attend dense in layers(0 to 3, 8 - 11)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{a range of layers is written with `to`, found '-6..-1'; write -6 to -1}}
  attend dense in layers(-6..-1)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{a range of layers is written with `to`, found '0:3'; write 0 to 3}}
  attend dense in layers(0:3)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{at takes a fraction of the run, found 160; write at(step = 160)}}
  %c = cadence at(160)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{expected a number, found '20%'; write 20 percent}}
  %c = cadence at(20%)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{expected an integer, found '20%'; write 20}}
  %w = window(20 %)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{expected a number, found '2.5%'; write 2.5 percent}}
  %s = sinks(2.5%)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{unknown cadence 'evry': one of never, every}}
  // expected-note@+1 {{did you mean 'every'?}}
  %c = cadence evry(4)
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence at(1/5)
  // expected-error@+1 {{keep must be more than 0 and at most 1, found 3/2}}
  %s = select columns(keep = 1.5, group = 32) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence at(1/5)
  // expected-error@+1 {{the number that is kept must be at least 1, found 0}}
  %s = select columns(keep = 0, group = 32) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence at(1/5)
  // expected-error@+1 {{the number that is kept must be at least 1, found -4}}
  %s = select blocks(keep = -4, size = 32) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence at(1/5)
  // expected-error@+1 {{rounds a fraction of the keys, and `keep = 512` is a number of them; drop it, or write a fraction, such as 20 percent}}
  %s = select columns(rounding = ceil, keep = 512, group = 32) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+2 {{columns has no argument 'kep'; it takes keep, group, rounding, per_kv_head, per_layer}}
  // expected-note@+1 {{did you mean 'keep'?}}
  %s = select columns(kep = 0.2, group = 32) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+2 {{unknown selection 'column': one of columns, blocks}}
  // expected-note@+1 {{did you mean 'columns'?}}
  %s = select column(keep = 0.2, group = 32) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+2 {{rounding is floor, ceil, round or floor_plus_one}}
  // expected-note@+1 {{did you mean 'floor'?}}
  %s = select columns(keep = 0.2, group = 32, rounding = flor) by mean_probability on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+2 {{unknown scorer 'mean_probabilty': one of mean_probability, mean_logit}}
  // expected-note@+1 {{did you mean 'mean_probability'?}}
  %s = select columns(keep = 0.2, group = 32) by mean_probabilty on %c
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+1 {{expected the end of the op, found %c; write `on %c` if it is a cadence}}
  recompute all %c
  attend dense
}

// -----

heddle.schedule @slip {
  %p = positions block
  // expected-error@+1 {{expected a value, found 'then'}}
  visible all on then %p
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+1 {{expected a value, found 'c'; values begin with %, as %c}}
  recompute all on c
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{expected all, %rows, salient(...), salient_ffn(...) or least_similar(...) in rows}}
  // expected-note@+1 {{did you mean 'salient'?}}
  recompute salent(below = 0.9) in all
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{argument 'below' of salient must be more than 0 and at most 2, found 3/1}}
  recompute salient(below = 3) in all
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{the ratio of above must be more than 0 and at most 1, found 90}}
  commit above(90)
  attend dense
}

// -----

// What is no share is not said to be percent.
heddle.schedule @slip {
  // expected-error-re@+1 {{the below of drift must be more than 0 and at most 1, found 2{{$}}}}
  %c = cadence drift(below = 2, within = 4)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{the window of uniform must be more than 0 and at most 1, found 30; write 30 percent}}
  %c = cadence uniform(window = 30, count = 4)
  attend dense
}

// -----

heddle.schedule @slip {
  %c = cadence first(1)
  // expected-error@+1 {{expected sets of pairs or of positions, and %c is a cadence}}
  %u = union %c
  attend dense
}

// -----

heddle.schedule @slip {
  %p = positions decoded
  // expected-error@+1 {{union positions %a, %b is now written union %a, %b}}
  %u = union positions %p, %p
  attend dense
}

// -----

heddle.schedule @slip {
  %p = positions decoded
  // expected-error@+1 {{intersect positions %a, %b is now written intersect %a, %b}}
  %u = intersect positions %p, %p
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{at(step n) is now written at(step = n)}}
  // expected-note@+1 {{write 'step ='}}
  %c = cadence at(step 5)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{heddle.cadence is now written cadence}}
  // expected-note@+1 {{write 'cadence'}}
  %c = heddle.cadence first(1)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{heddle.attend is now written attend}}
  // expected-note@+1 {{write 'attend'}}
  heddle.attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{expected a value, found the op window; give it a line of its own, %window = window ..., and write %window here}}
  %u = union window(4), sinks(4)
  attend dense
}

// -----

heddle.schedule @slip {
  %w = window(4)
  // expected-error@+1 {{expected a value, found 'w'; values begin with %, as %w}}
  attend pairs(w)
  attend dense
}

// -----

heddle.schedule @slip {
  %w = window(4)
  // expected-error@+1 {{write pairs(%w)}}
  attend %w
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{give window a line of its own, %window = window ..., and write pairs(%window)}}
  attend window(4)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{expected a value, found the op window; give it a line of its own}}
  attend pairs(window(4))
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+1 {{expected a value, such as %cols}}
  attend pairs(4)
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{expected dense, pairs(%value)}}
  // expected-note@+1 {{did you mean 'dense'?}}
  attend dence
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{unknown set of positions 'decodd'}}
  // expected-note@+1 {{did you mean 'decoded'?}}
  %p = positions decodd
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{unknown commit 'qota': one of quota, above}}
  // expected-note@+1 {{did you mean 'quota'?}}
  commit qota
  attend dense
}

// -----

heddle.schedule @slip {
  // expected-error@+2 {{what is reused is kv}}
  // expected-note@+1 {{did you mean 'kv'?}}
  reuse kw
  attend dense
}

// -----

heddle.schedule @mixed {
  // expected-note@+1 {{%w is made here}}
  %w = window(4)
  %p = positions decoded
  // expected-error@+1 {{%p is a set of positions, and %w is a set of pairs; sets that are united or intersected are all of pairs or all of positions}}
  %u = union %w, %p
  attend pairs(%u)
}

// -----

heddle.schedule @mixed {
  %w = window(4)
  // expected-note@+1 {{%p is made here}}
  %p = positions decoded
  // expected-error@+1 {{%w is a set of pairs, and %p is a set of positions}}
  %u = intersect %p, %w
  attend dense
}

// -----

// expected-error@+1 {{expected the schedule's name, found 'plain'; names begin with @, as @plain}}
heddle.schedule plain { attend dense }

// -----

// expected-note@+2 {{the schedule begins here}}
// expected-error@+1 {{expected '{' and the schedule's ops}}
heddle.schedule @open attend dense }

// -----

// All that is wrong with a schedule as a whole.
heddle.schedule @all {
  // expected-note@+1 {{they are named here}}
  attend dense in layers(0 to 3)
  // expected-error@+1 {{names layers that another one has; give each layer one attend}}
  attend dense in layers(3 to 5)
  // expected-error@+1 {{names no layers, so that those after it never come; write it last}}
  reuse kv
  // expected-note@+1 {{the last one is here}}
  reuse kv
  attend dense
}
