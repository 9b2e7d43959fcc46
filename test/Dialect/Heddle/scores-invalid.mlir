// REQUIRES: heddle-opt
// RUN: heddle-opt %s --split-input-file --heddle-verify-plan --verify-diagnostics

heddle.schedule @F1 {
  attend dense scores(%logit) {
    // expected-error@+1 {{'math.sin' op has no place in scores, which are made of arith.constant, arith.addf}}
    %s = math.sin %logit : f32
    yield %s
  }
}

// -----

heddle.schedule @F1 {
  attend dense scores(%logit) {
    // expected-error@+1 {{gives 'f64'; scores compute in f32, i32 and i1}}
    %c = arith.constant 2.0 : f64
    yield %logit
  }
}

// -----

heddle.schedule @F1 {
  // expected-error@+1 {{scores are of (%logit), (%logit, %query), (%logit, %query, %key) or (%logit, %query, %key, %head), found 5 arguments}}
  attend dense scores(%a, %b, %c, %d, %e) { yield %a }
}

// -----

heddle.schedule @F1 {
  attend dense scores(%logit) {
    // expected-error@+1 {{is not a number, which no logit can be}}
    %c = arith.constant 0x7FC00000 : f32
    %s = arith.addf %logit, %c : f32
    yield %s
  }
}

// -----

heddle.schedule @F2 {
  attend dense scores(%logit, %query, %key) {
    // expected-error@+1 {{divides positions by what is no positive constant}}
    %r = arith.remsi %key, %query : i32
    yield %logit
  }
}

// -----

heddle.schedule @F2 {
  attend dense scores(%logit, %query) {
    %many = arith.constant 32 : i32
    // expected-error@+1 {{shifts by what is no constant from 0 to 31}}
    %r = arith.shli %query, %many : i32
    yield %logit
  }
}

// -----

heddle.schedule @F2 {
  attend dense scores(%logit) {
    %none = arith.constant -0.0 : f32
    // expected-error@+1 {{divides by zero, which gives no logit; write another constant}}
    %r = arith.divf %logit, %none : f32
    yield %r
  }
}

// -----

heddle.schedule @F3 {
  %start = cadence first(4)
  %rows = positions response
  // expected-note@+1 {{the reuse is here}}
  reuse kv, context(propagating), ffn
  recompute all on %start
  recompute salient(below = 0.99) in %rows
  // expected-error@+1 {{has scores, by which context(propagating) can't weigh what changed}}
  attend dense scores(%logit) {
    %s = arith.negf %logit : f32
    yield %s
  }
}

// -----

heddle.schedule @F4 {
  %once = cadence at(0.2)
  // expected-note@+1 {{the selection is here}}
  %tiles = select blocks(keep = 0.3, size = 128) by mean_probability isolating(filtered) on %once
  // expected-error@+1 {{has scores, which isolating(filtered) can't take among the response's keys alone}}
  attend dense until(%once) then pairs(%tiles) scores(%logit) {
    %s = arith.negf %logit : f32
    yield %s
  }
}

// -----

heddle.plan @F5 {
  heddle.selection @cols columns(keep = 0.2, group = 32) by mean_probability on every(8)
  // expected-note@+1 {{the kernel is here}}
  heddle.kernel @dense attention dense writes_lse scores(%logit) {
    %s = arith.negf %logit : f32
    heddle.yield %s
  }
  heddle.kernel @pick select(group = 32) by mean_probability
  heddle.kernel @read attention [columns(@cols, group = 32)]
  heddle.rule default {
    heddle.phase on every(8) {
      heddle.attend_with @dense
      // expected-error@+1 {{must choose by the scores of the attention whose log-sum-exp it reads}}
      heddle.refresh @cols with @pick
    }
    heddle.phase otherwise { heddle.attend_with @read }
  }
}
