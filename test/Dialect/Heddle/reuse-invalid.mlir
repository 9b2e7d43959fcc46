// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// What schedules can't keep of rows.

heddle.schedule @U1 {
  // expected-error@+1 {{what is reused is kv, context, context(propagating), output, attention(outside = %set, on = %cadence) or ffn}}
  "heddle.reuse"() <{rule = #heddle.reuse_rule<>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @U1 {
  // expected-error@+1 {{what is reused is kv, context, context(propagating), output, attention(outside = %set, on = %cadence) or ffn}}
  reuse everything
  attend dense
}

// -----

heddle.schedule @U2 {
  // expected-error@+1 {{keeps parts of rows but not their keys and values, which other rows attend to; add kv}}
  reuse context, ffn
  attend dense
}

// -----

heddle.schedule @U3 {
  // expected-error@+1 {{attention is kept once: as context, as output or outside of a set}}
  reuse kv, context, output
  attend dense
}

// -----

heddle.schedule @U3_outside {
  %start = cadence every(4)
  %block = positions block
  // expected-error@+1 {{attention is kept once: as context, as output or outside of a set}}
  reuse kv, output, attention(outside = %block, on = %start)
  attend dense
}

// -----

heddle.schedule @outside_without_a_cadence {
  %block = positions block
  // expected-error@+1 {{attention needs argument 'on'}}
  reuse kv, attention(outside = %block)
  attend dense
}

// -----

heddle.schedule @outside_of_nothing {
  // expected-error@+1 {{keeps attention outside of a set and needs both the set and a cadence}}
  "heddle.reuse"() <{rule = #heddle.reuse_rule<kv, attention>, operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()
  attend dense
}

// -----

heddle.schedule @a_set_of_nothing {
  %block = positions block
  // expected-error@+1 {{names a set or a cadence, which only attention(outside = %set, on = %cadence) has}}
  "heddle.reuse"(%block) <{rule = #heddle.reuse_rule<kv>, operandSegmentSizes = array<i32: 1, 0, 0>}> : (!heddle.positions) -> ()
  attend dense
}

// -----

heddle.schedule @refreshed_of_nothing {
  %block = positions block
  // expected-error@+1 {{names rows that refresh what is kept of attention, which only attention(outside = %set, on = %cadence, refresh = %rows) has}}
  "heddle.reuse"(%block) <{rule = #heddle.reuse_rule<kv>, operandSegmentSizes = array<i32: 0, 0, 1>}> : (!heddle.positions) -> ()
  attend dense
}

// -----

heddle.schedule @so_many_of_no_rows {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+1 {{says how many rows refresh what is kept of attention, and not which: refresh = least_similar(keep = r) in %rows}}
  "heddle.reuse"(%block, %start) <{rule = #heddle.reuse_rule<kv, attention(refresh = least_similar(keep = 1/4))>, operandSegmentSizes = array<i32: 1, 1, 0>}> : (!heddle.positions, !heddle.cadence) -> ()
  attend dense
}

// -----

heddle.schedule @refresh_too_many {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+1 {{argument 'keep' of least_similar must be from 0 to 1, found 5/4}}
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 5/4) in %block)
  attend dense
}

// -----

heddle.schedule @refresh_what {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+1 {{expected 'in'}}
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 1/4))
  attend dense
}

// -----

heddle.schedule @refresh_misspelt {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+2 {{expected %rows, or least_similar(keep = r) in %rows}}
  // expected-note@+1 {{did you mean 'least_similar'?}}
  reuse kv, attention(outside = %block, on = %start, refresh = least_simular(keep = 1/4) in %block)
  attend dense
}

// -----

heddle.schedule @U10 {
  %start = cadence first(1) in block
  %block = positions block
  %rows = predicting %block
  // expected-error@+1 {{refreshes attention of rows by what they predict (predicting); name the positions}}
  reuse kv, attention(outside = %block, on = %start, refresh = %rows)
  recompute all on %start
  recompute %block
  attend dense
}

// -----

heddle.schedule @U11 {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+1 {{keeps attention of masked positions, in whose place `renoise` puts other noise at each step, and of what became a token at the step before; let `refresh` name both: a union of positions undecoded and committed(last = 1)}}
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  commit above(0.9) renoise
  attend dense
}

// -----

heddle.schedule @U11 {
  %start = cadence first(1) in block
  %block = positions block
  %new = positions committed(last = 1)
  // expected-error@+1 {{keeps attention of masked positions, in whose place `renoise` puts other noise at each step}}
  reuse kv, attention(outside = %block, on = %start, refresh = %new)
  recompute all on %start
  recompute %block
  commit above(0.9) renoise
  attend dense
}

// -----

heddle.schedule @U11 {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+1 {{keeps attention of masked positions, in whose place `renoise` puts other noise at each step}}
  reuse kv, attention(outside = %block, on = %start, refresh = least_similar(keep = 1/4) in %block)
  recompute all on %start
  recompute %block
  commit above(0.9) renoise
  attend dense
}

// -----

heddle.schedule @U2_outside {
  %start = cadence first(1) in block
  %block = positions block
  // expected-error@+1 {{keeps parts of rows but not their keys and values, which other rows attend to; add kv}}
  reuse attention(outside = %block, on = %start)
  attend dense
}

// -----

heddle.schedule @U5_late {
  %late = cadence every(4, from = 2)
  %start = cadence every(4)
  %block = positions block
  // expected-error@+1 {{keeps attention outside of a set on every(4, from = 2), which need not include step 1, so that there may be none to merge with}}
  reuse kv, attention(outside = %block, on = %late)
  recompute all on %start
  recompute %block
  attend dense
}

// -----

heddle.schedule @U5_some {
  %start = cadence first(1)
  %often = cadence every(4)
  %block = positions block
  // expected-error@+1 {{keeps attention outside of a set on every(4), at whose steps all visible rows must be computed; begin with `recompute all` on the same cadence}}
  reuse kv, attention(outside = %block, on = %often)
  recompute all on %start
  recompute %block
  attend dense
}

// -----

heddle.schedule @U5_all {
  %start = cadence first(1)
  %block = positions block
  // expected-error@+1 {{keeps attention outside of a set for steps that compute some rows, and every step computes all; add `recompute %rows`}}
  reuse kv, attention(outside = %block, on = %start)
  attend dense
}

// -----

heddle.schedule @U6 {
  %start = cadence every(8)
  %often = cadence every(4)
  %decoded = positions decoded
  %some = positions undecoded(first = 32)
  %seen = union %decoded, %some
  %window = fix %seen on %often
  %block = positions block
  visible %window
  // expected-error@+1 {{keeps attention outside of a set on every(8), and the visible positions change on every(4); keep it at these steps too, for instance on the same cadence}}
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %often
  recompute %some
  attend dense
}

// -----

heddle.schedule @U7 {
  %start = cadence first(1) in block
  %masked = positions undecoded
  // expected-error@+1 {{keeps attention outside of a set that need not be a range of positions; name all, prompt, response, a block, hull or leading of a set, or a fix of one of these}}
  reuse kv, attention(outside = %masked, on = %start)
  recompute all on %start
  recompute %masked
  attend dense
}

// -----

heddle.schedule @U8 {
  %start = cadence first(1) in block
  %block = positions block
  %near = window(64)
  // expected-note@+1 {{the reuse is here}}
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  // expected-error@+1 {{must be dense where attention outside of a set is kept; write `attend dense`, or reuse context or output}}
  attend pairs(%near)
}

// -----

heddle.schedule @U8_positions {
  %start = cadence first(1) in block
  %block = positions block
  // expected-note@+1 {{the reuse is here}}
  reuse kv, attention(outside = %block, on = %start)
  recompute all on %start
  recompute %block
  // expected-error@+1 {{has scores that ask for positions, which attention outside of a set can't be kept by; reuse context or output}}
  attend dense scores(%logit, %query, %key) {
    %d = arith.subi %query, %key : i32
    %f = arith.sitofp %d : i32 to f32
    %s = arith.addf %logit, %f : f32
    yield %s
  }
}

// -----

heddle.schedule @U4 {
  // expected-error@+1 {{names no layers, so that those after it never come; write it last}}
  reuse kv
  // expected-note@+1 {{the last one is here}}
  reuse kv, ffn
  attend dense
}
