// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// Ratios

heddle.schedule @P1 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 6/5}}
  %c = cadence at(6/5)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 0}}
  %c = cadence at(0.0)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{must be more than 0 and at most 1, found a minus sign}}
  %c = cadence at(-0.2)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 5/1}}
  %c = cadence at(500 percent)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{a ratio's denominator must not be 0}}
  %c = cadence at(1/0)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{a decimal ratio has at most 15 digits and lies in (0, 1]; write a fraction, such as 1/3}}
  %c = cadence at(0.3333333333333333)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{a decimal ratio has at most 15 digits}}
  %c = cadence at(1.0e300)
}

// -----

heddle.schedule @P1 {
  // expected-error@+1 {{expected a ratio, such as 1/5, 0.2 or 20 percent}}
  %c = cadence at(half)
}

// -----

// Groups

heddle.schedule @P2 {
  %c = cadence every(1)
  // expected-error@+1 {{a group must be a power of two from 16 to 1024 rows, or all, found 100}}
  %a = select columns(keep = 0.2, group = 100) by mean_probability on %c
}

// -----

heddle.schedule @P2 {
  %c = cadence every(1)
  // expected-error@+1 {{a group must be a power of two from 16 to 1024 rows, or all, found 8}}
  %a = select columns(keep = 0.2, group = 8) by mean_probability on %c
}

// -----

heddle.schedule @P2 {
  %c = cadence every(1)
  // expected-error@+1 {{a group must be a power of two from 16 to 1024 rows, or all, found 2048}}
  %a = select columns(keep = 0.2, group = 2048) by mean_probability on %c
}

// -----

heddle.schedule @P2 {
  %c = cadence every(1)
  // expected-error@+1 {{a group must be a power of two from 16 to 1024 rows, or all, found -16}}
  %a = "heddle.select"(%c) <{rule = #heddle.selection_rule<columns(keep = 0.2, group = -16) by mean_probability>}> : (!heddle.cadence) -> !heddle.pairs
}

// -----

// Selections as text

heddle.schedule @text {
  %c = cadence every(1)
  // expected-error@+1 {{columns needs argument 'group'}}
  %a = select columns(keep = 0.2) by mean_probability on %c
}

// -----

heddle.schedule @text {
  %c = cadence every(1)
  // expected-error@+1 {{columns has no argument 'drop'; it takes keep, group, rounding}}
  %a = select columns(drop = 0.8, group = 32) by mean_probability on %c
}

// -----

heddle.schedule @text {
  %c = cadence every(1)
  // expected-error@+1 {{argument 'keep' is given twice}}
  %a = select columns(keep = 0.8, keep = 0.2) by mean_probability on %c
}

// -----

heddle.schedule @text {
  %c = cadence every(1)
  // expected-error@+1 {{columns takes named arguments: keep, group, rounding}}
  %a = select columns(0.2, 32) by mean_probability on %c
}

// -----

heddle.schedule @text {
  %c = cadence every(1)
  // expected-error@+1 {{rounding is floor, ceil, round or floor_plus_one}}
  %a = select columns(keep = 0.2, group = 32, rounding = up) by mean_probability on %c
}

// -----

// Windows, sinks, unions

heddle.schedule @P3 {
  // expected-error@+1 {{the size of window must be at least 1, found 0}}
  %w = window(0)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{the size of sinks must be at least 1, found -4}}
  %w = sinks(-4)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{the size of sinks must be at least 1, found 0}}
  %w = sinks(0)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{the size of sinks must be at most 2147483647, found 2147483648}}
  %w = sinks(2147483648)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 11/10}}
  %w = sinks(110 percent)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 0}}
  %w = sinks(0.0)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 4/3}}
  %w = sinks(4/3)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{expected a ratio, such as 1/5, 0.2 or 20 percent}}
  %w = sinks(few)
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{requires attribute 'term'}}
  %w = "heddle.sinks"() : () -> !heddle.pairs
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{states window, not sinks}}
  %w = "heddle.sinks"() <{term = #heddle.term<window(4)>}> : () -> !heddle.pairs
}

// -----

heddle.schedule @P4 {
  // expected-error@+1 {{must be more than 0 and at most 1, found 3/2}}
  %w = "heddle.sinks"() <{term = #heddle.term<sinks(3/2)>}> : () -> !heddle.pairs
}

// -----

heddle.schedule @P3 {
  // expected-error@+1 {{the size of window must be at most 2147483647, found 2147483648}}
  %w = window(2147483648)
}

// -----

heddle.schedule @P5 {
  // expected-error@+1 {{needs at least one set of pairs}}
  %w = union
}

// -----

heddle.schedule @P10 {
  %c = cadence every(4)
  %a = select columns(keep = 0.2, group = 64) by mean_probability on %c
  // expected-note@+1 {{the second selection is here}}
  %b = select columns(keep = 0.1, group = 64) by mean_probability on %c
  %w = window(64)
  %u = union %w, %b
  // expected-error@+1 {{is of two sets that selections give; a kernel goes by the lists of one of them; let one choose within the other: select ... within %other}}
  %i = intersect %a, %u
  attend pairs(%i)
}

// -----

heddle.schedule @P11 {
  %w = window(64)
  // expected-note@+1 {{the sinks are here}}
  %s = sinks(1/10)
  // expected-error@+1 {{is of a fraction of sinks, whose number a kernel gets to know when it runs; write a number}}
  %i = intersect %w, %s
  attend pairs(%i)
}

// -----

heddle.schedule @P12 {
  %w = window(64)
  %r = random_blocks(one_in = 4, size = 64)
  // expected-note@+1 {{the intersection is here}}
  %i = intersect %w, %r
  %s = sinks(4)
  %u = union %i, %s
  %v = window(8)
  // expected-error@+1 {{is of a union that holds an intersection; unite intersections, and intersect none of their unions}}
  %j = intersect %u, %v
  attend pairs(%j)
}

// -----

heddle.schedule @P13 {
  %a = random_blocks(one_in = 2, size = 64, seed = 1)
  %b = random_blocks(one_in = 2, size = 64, seed = 2)
  %c = random_blocks(one_in = 2, size = 64, seed = 3)
  %d = random_blocks(one_in = 2, size = 64, seed = 4)
  %e = random_blocks(one_in = 2, size = 64, seed = 5)
  %w = window(8)
  %s = sinks(4)
  %t = window(40, dilation = 3)
  %v = window(90, dilation = 5)
  %many = union %a, %b, %c, %d, %e
  %more = union %w, %s, %t, %v
  // expected-error@+1 {{comes to more than 16 intersections of two sets or more, one for each way to take a part of each of its unions; unite fewer}}
  %i = intersect %many, %more
  attend pairs(%i)
}

// -----

heddle.schedule @P14 {
  %c = cadence every(4)
  // expected-note@+1 {{one is here}}
  %a = select columns(keep = 0.2, group = 64) by mean_probability on %c
  // expected-note@+1 {{the other one is here}}
  %b = select columns(keep = 0.1, group = 64) by mean_probability on %c
  %w = window(64)
  %s = sinks(4)
  %i = intersect %a, %w
  %j = intersect %b, %s
  %u = union %i, %j
  // expected-error@+1 {{reads two selections that are intersected with different sets, and of what one has kept of a row the other can't know; intersect both with the same set}}
  attend pairs(%u)
}

// -----

// What no step reads is held against nothing.
heddle.schedule @P14_beside_all_pairs {
  %c = cadence every(4)
  %a = select columns(keep = 0.2, group = 64) by mean_probability on %c
  %b = select columns(keep = 0.1, group = 64) by mean_probability on %c
  %w = window(64)
  %s = sinks(4)
  %i = intersect %a, %w
  %j = intersect %b, %s
  %all = dense
  %u = union %i, %j, %all
  attend pairs(%u)
}

// -----

heddle.schedule @S4 {
  %c = cadence every(4)
  %a = select columns(keep = 0.2, group = 64) by mean_probability on %c
  %b = random_blocks(one_in = 2, size = 64, seed = 1)
  %d = random_blocks(one_in = 2, size = 64, seed = 2)
  %e = random_blocks(one_in = 2, size = 64, seed = 3)
  %w = window(8)
  %s = sinks(4)
  %u = union %b, %d, %e, %w, %s
  %i = intersect %a, %u
  // expected-error@+1 {{reads 5 parts of selections, one for each set of a union that it intersects them with; a kernel reads at most 4}}
  attend pairs(%i)
}

// -----

heddle.schedule @P3 {
  // expected-error@+1 {{states what it is within; intersect is an op of its own}}
  %w = "heddle.window"() <{term = #heddle.term<window(8) within sinks(4)>}> : () -> !heddle.pairs
}

// -----

// Cadences

heddle.schedule @C1 {
  // expected-error@+1 {{the period of every must be at least 1, found 0}}
  %c = cadence every(0)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the period of every must be at most 2147483647, found 9223372036854775807}}
  %c = cadence every(9223372036854775807)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the count of first must be at least 1, found -3}}
  %c = cadence first(-3)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the step of at must be at least 1, found 0}}
  %c = cadence at(step = 0)
}

// -----

heddle.schedule @C1 {
  // expected-error@+1 {{the count of uniform must be at least 1, found 0}}
  %c = cadence uniform(window = 0.3, count = 0)
}

// -----

heddle.schedule @C2 {
  // expected-error@+1 {{the seed of random must be at least 0, found -1}}
  %c = cadence random(window = 0.3, count = 4, seed = -1)
}

// -----

heddle.schedule @text {
  // expected-error@+1 {{uniform has no argument 'seed'; it takes window, count}}
  %c = cadence uniform(window = 0.3, count = 4, seed = 1)
}

// -----

heddle.schedule @text {
  // expected-error@+1 {{random needs argument 'seed'}}
  %c = cadence random(window = 0.3, count = 4)
}

// -----

heddle.schedule @text {
  // expected-error@+1 {{unknown cadence 'sometimes': one of never, every, first, at, uniform, random, power}}
  %c = cadence sometimes(3)
}

// -----

// Layers

heddle.schedule @L1 {
  // expected-error@+1 {{both ends of a layer range must count from the same end of the model, found 1 to -1; write two ranges instead}}
  attend dense in layers(1 to -1)
}

// -----

heddle.schedule @L1 {
  // expected-error@+1 {{a layer range must not be empty, found 3 to 1}}
  attend dense in layers(3 to 1)
}

// -----

heddle.schedule @L1 {
  // expected-error@+1 {{layers are numbered from -2147483647 to 2147483647, found 0 to 9223372036854775807}}
  attend dense in layers(0 to 9223372036854775807)
}

// -----

// expected-error@+1 {{has control characters in its name}}
heddle.schedule @"S8\1B[2J" {
  attend dense
}

// -----

// expected-error@+1 {{has an empty name, expected one such as @dense}}
heddle.schedule @"" {
  attend dense
}

// -----

// expected-error@+1 {{has a name that is not UTF-8, @"S8\xff"; write it in letters, such as @dense}}
heddle.schedule @"S8\FF" {
  attend dense
}

// -----

heddle.schedule @L2 {
  // expected-note@+1 {{they are named here}}
  attend dense in layers(0 to 3)
  // expected-error@+1 {{names layers that another one has}}
  attend dense in layers(3 to 5)
  attend dense
}

// -----

heddle.schedule @L2 {
  // expected-note@+1 {{they are named here}}
  attend dense in layers(-4 to -1)
  // expected-error@+1 {{names layers that another one has}}
  attend dense in layers(-2)
  attend dense
}

// -----

// Schedules

heddle.schedule @S1 {
  // expected-error@+1 {{does not belong in a heddle.schedule}}
  %c = arith.constant 1 : i32
  attend dense
}

// -----

// expected-error@+1 {{needs a last attend that names no layers}}
heddle.schedule @S2 {
  attend dense in layers(0 to 1)
}

// -----

heddle.schedule @S2 {
  // expected-error@+1 {{names no layers, so that those after it never come; write it last}}
  attend dense
  // expected-note@+1 {{the last one is here}}
  attend dense in layers(0)
}

// -----

// S3: a selection that need not exist at step 1.
heddle.schedule @S3 {
  %once = cadence at(0.2)
  // expected-note@+1 {{the selection is here}}
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %once
  // expected-error@+1 {{may read a selection before it is first made: its cadence, at(0.2), need not include step 1; write `dense until(...) then pairs(...)` with that cadence}}
  attend pairs(%cols)
}

// -----

// S3, through a union, in one layer.
heddle.schedule @S3 {
  %some = cadence random(window = 0.3, count = 4, seed = 0)
  // expected-note@+1 {{the selection is here}}
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %some
  %near = window(32)
  %pairs = union %near, %cols
  // expected-error@+1 {{its cadence, random(window = 0.3, count = 4, seed = 0), need not include step 1}}
  attend pairs(%pairs) in layers(0)
  attend dense
}

// -----

// S3: dense until something that may come earlier.
heddle.schedule @S3 {
  %early = cadence at(0.2)
  %late = cadence at(0.3)
  // expected-note@+1 {{the selection is here}}
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %late
  // expected-error@+1 {{its cadence, at(0.3), need not include step 1, and may begin after at(0.2)}}
  attend dense until(%early) then pairs(%cols)
}

// -----

heddle.schedule @S3 {
  %never = cadence never
  %early = cadence at(0.2)
  // expected-note@+1 {{the selection is here}}
  %cols = select columns(keep = 0.2, group = 32) by mean_probability on %never
  // expected-error@+1 {{its cadence, never, has no steps}}
  attend dense until(%early) then pairs(%cols)
}

// -----

heddle.schedule @S4 {
  // expected-note@+1 {{the cadence is here}}
  %never = cadence never
  %near = window(32)
  // expected-error@+1 {{is dense until a cadence that never comes; write `attend dense`}}
  attend dense until(%never) then pairs(%near)
}

// -----

heddle.schedule @S5 {
  %c = cadence every(4)
  %0 = select columns(keep = 0.1, group = 32) by mean_probability on %c
  %1 = select columns(keep = 0.2, group = 32) by mean_probability on %c
  %2 = select columns(keep = 0.3, group = 32) by mean_probability on %c
  %3 = select columns(keep = 0.4, group = 32) by mean_probability on %c
  %4 = select columns(keep = 0.5, group = 32) by mean_probability on %c
  %ab = union %0, %1
  %pairs = union %ab, %2, %3, %4
  // expected-error@+1 {{reads 5 selections; a kernel reads at most 4}}
  attend pairs(%pairs)
}

// -----

heddle.schedule @text {
  // expected-error@+1 {{expected dense, pairs(%value) or dense until(%cadence) then pairs(%value)}}
  attend sparse
}

// -----

// expected-error@+1 {{expects parent op 'heddle.schedule'}}
heddle.attend dense

// -----

heddle.schedule @scorer {
  %c = cadence every(4)
  // expected-error@+1 {{unknown scorer 'entropy': one of mean_probability, mean_logit}}
  %a = select columns(keep = 0.3, group = 128) by entropy on %c
}

// -----

heddle.schedule @types {
  // expected-note@+1 {{prior use here}}
  %c = cadence every(4)
  // expected-error@+1 {{expects different type than prior uses}}
  attend pairs(%c)
}

// -----

heddle.schedule @at_once_of_nothing {
  %w = window(8)
  // expected-error@+1 {{reads no selection, so `at_once` says nothing; drop it}}
  attend pairs(%w) at_once
}

// -----

// At once, nothing is refreshed while attention is dense.
heddle.schedule @at_once_too_late {
  %some = cadence every(7)
  %skipped = cadence at(step = 5)
  // expected-note@+1 {{the selection is here}}
  %a = select columns(keep = 0.2, group = 32) by mean_probability on %some
  // expected-error@+1 {{may read a selection before it is first made: its cadence, every(7), may lack steps of at(step = 5), before which `at_once` refreshes nothing}}
  attend dense until(%skipped) then pairs(%a) at_once
}

// -----

heddle.schedule @L2 {
  // expected-error@+1 {{names layer 3 twice}}
  attend dense in layers(0 to 3, 3)
  attend dense
}

// -----

heddle.schedule @L2 {
  // expected-note@+1 {{they are named here}}
  attend dense in layers(1, 4 to 6)
  // expected-error@+1 {{names layers that another one has}}
  attend dense in layers(0, 5)
  attend dense
}

// -----

heddle.schedule @text {
  // expected-error@+1 {{expected an integer, found 'all'}}
  attend dense in layers(all)
  attend dense
}

// -----

heddle.schedule @L2 {
  %c = cadence every(4)
  // expected-error@+1 {{names layer 3 twice}}
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0 to 3, 3)
  attend pairs(%s)
}

// -----

// L3: layers 0 and 1 have none before them.
heddle.schedule @L3 {
  %c = cadence every(4)
  // expected-note@+1 {{the selection is here}}
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(2, 8)
  // expected-error@+1 {{reads a selection in layer 0, which neither refreshes it nor comes after a layer that does; name it in the selection's layers(...), or write an attend without the selection for it}}
  attend pairs(%s)
}

// -----

// L3: the layers that no attend names begin with layer 2.
heddle.schedule @L3_holds {
  %c = cadence every(4)
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(1, 8)
  attend dense in layers(0)
  attend pairs(%s)
}

// -----

// L3: layers that count from the end come last.
heddle.schedule @L3 {
  %c = cadence every(4)
  // expected-note@+1 {{the selection is here}}
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(-2)
  // expected-error@+1 {{reads a selection in layer -3, which neither}}
  attend pairs(%s) in layers(-3)
  attend dense
}

// -----

heddle.schedule @L3_holds {
  %c = cadence every(4)
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(-3)
  attend pairs(%s) in layers(-2 to -1)
  attend dense
}

// -----

// S3: what layer 0 chooses at a fifth of the run, layer 1 would read before.
heddle.schedule @S3 {
  %c = cadence at(0.2)
  // expected-note@+1 {{the selection is here}}
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0)
  // expected-note@+1 {{its layers have this attend}}
  attend dense in layers(0)
  // expected-error@+1 {{may read a selection before the layers that refresh it first do: on at(0.2); write `dense until(...) then pairs(...)` with that cadence, or let it include step 1}}
  attend pairs(%s)
}

// -----

// S3: layer 0 refreshes nothing while it waits.
heddle.schedule @S3 {
  %c = cadence every(1)
  %late = cadence at(0.5)
  %early = cadence at(0.2)
  // expected-note@+1 {{the selection is here}}
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0)
  // expected-note@+1 {{its layers have this attend}}
  attend dense until(%late) then pairs(%s) at_once in layers(0)
  // expected-error@+1 {{before the layers that refresh it first do: on every(1), not before at(0.5)}}
  attend dense until(%early) then pairs(%s)
}

// -----

// S10: `at_once` is said where something is refreshed.
heddle.schedule @S10 {
  %c = cadence every(4)
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layers(0)
  attend pairs(%s) in layers(0)
  // expected-error@+1 {{has no layer that refreshes a selection, so `at_once` says nothing; drop it}}
  attend pairs(%s) at_once
}

// -----

// F4: the layers that choose have the function.
heddle.schedule @F4 {
  %c = cadence every(4)
  // expected-note@+1 {{the selection is here}}
  %s = select blocks(keep = 0.2, size = 32) by mean_probability isolating(filtered) on %c in layers(0)
  // expected-error@+1 {{has scores, which isolating(filtered) can't take among the response's keys alone}}
  attend dense in layers(0) scores(%logit) {
    %two = arith.constant 2.0 : f32
    %twice = arith.mulf %logit, %two : f32
    yield %twice
  }
  attend pairs(%s)
}

// -----

// Others may have one.
heddle.schedule @F4_holds {
  %c = cadence every(4)
  %s = select blocks(keep = 0.2, size = 32) by mean_probability isolating(filtered) on %c in layers(0)
  attend dense in layers(0)
  attend pairs(%s) scores(%logit) {
    %two = arith.constant 2.0 : f32
    %twice = arith.mulf %logit, %two : f32
    yield %twice
  }
}

// -----

heddle.schedule @text {
  %c = cadence every(4)
  // expected-error@+1 {{expected 'layers'}}
  %s = select columns(keep = 0.2, group = 32) by mean_probability on %c in layer(0)
  attend pairs(%s)
}

// -----

// S4: the second stage never comes.
heddle.schedule @S4 {
  // expected-note@+1 {{the cadence is here}}
  %never = cadence never
  %a = window(8)
  %b = window(64)
  // expected-error@+1 {{attends to pairs until a cadence that never comes; drop what follows}}
  attend pairs(%a) until(%never) then pairs(%b)
}

// -----

// S3: the first stage reads from step 1 on.
heddle.schedule @S3 {
  %c = cadence at(0.5)
  // expected-note@+1 {{the selection is here}}
  %many = select columns(keep = 0.5, group = 32) by mean_probability on %c
  %near = window(8)
  // expected-error@+1 {{may read a selection before it is first made: its cadence, at(0.5), need not include step 1; write `dense until(...) then pairs(...)` with that cadence}}
  attend pairs(%many) until(%c) then pairs(%near)
}

// -----

// S3: the second one from the end of the first.
heddle.schedule @S3_holds {
  %c = cadence at(0.5)
  %few = select columns(keep = 0.1, group = 32) by mean_probability on %c
  %near = window(8)
  attend pairs(%near) until(%c) then pairs(%few)
}

// -----

heddle.schedule @text {
  %a = window(8)
  %c = cadence at(0.5)
  // expected-error@+1 {{expected pairs(%value); give dense a line of its own, %dense = dense ..., and write pairs(%dense)}}
  attend pairs(%a) until(%c) then dense
}

// -----

heddle.schedule @text {
  %a = window(8)
  %c = cadence at(0.5)
  // expected-error@+1 {{has 1 sets of pairs and 2 cadences; each stage but the last ends on one}}
  "heddle.attend"(%c, %c, %a) <{operandSegmentSizes = array<i32: 2, 1>}> ({}) : (!heddle.cadence, !heddle.cadence, !heddle.pairs) -> ()
}
