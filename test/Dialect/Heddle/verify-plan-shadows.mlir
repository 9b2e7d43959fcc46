// REQUIRES: heddle-opt
// RUN: heddle-opt %s --heddle-verify-plan --split-input-file --verify-diagnostics

heddle.plan @N14 {
  heddle.commit best(2) revoke(below = 0.9, by = shadow)
  heddle.kernel @dense attention dense
  heddle.rule default {
    // expected-error@+1 {{has no attention for shadows, by which a commit revokes}}
    heddle.phase otherwise {
      heddle.attend_with @dense
    }
  }
}

// -----

heddle.plan @N14 {
  heddle.commit best(2) revoke(below = 0.9)
  heddle.kernel @dense attention dense
  heddle.kernel @others attention [others]
  heddle.rule default {
    // expected-error@+1 {{has attention for shadows, by which no commit revokes}}
    heddle.phase otherwise {
      heddle.attend_with @dense shadow @others
    }
  }
}

// -----

heddle.plan @N14 {
  heddle.commit best(2) revoke(below = 0.9, by = shadow)
  heddle.kernel @dense attention dense
  heddle.kernel @near attention [window(8)]
  heddle.rule default {
    // expected-error@+1 {{needs for shadows attention over `others`, by the scores of its own attention and without log-sum-exps, which kernel "near" is not}}
    heddle.phase otherwise {
      heddle.attend_with @dense shadow @near
    }
  }
}

// -----

heddle.plan @N14 {
  heddle.commit best(2) revoke(below = 0.9, by = shadow)
  heddle.kernel @dense attention dense
  heddle.kernel @others attention [others] writes_lse
  heddle.rule default {
    // expected-error@+1 {{which kernel "others" is not}}
    heddle.phase otherwise {
      heddle.attend_with @dense shadow @others
    }
  }
}

// -----

heddle.plan @N14 {
  heddle.commit best(2) revoke(below = 0.9, by = shadow)
  heddle.kernel @dense attention dense
  heddle.kernel @others attention [others] scores(%logit) {
    %twice = arith.addf %logit, %logit : f32
    heddle.yield %twice
  }
  heddle.rule default {
    // expected-error@+1 {{which kernel "others" is not}}
    heddle.phase otherwise {
      heddle.attend_with @dense shadow @others
    }
  }
}

// -----

heddle.plan @M13 {
  heddle.commit best(2) revoke(below = 0.9, by = shadow)
  heddle.kernel @near attention [window(8)]
  heddle.kernel @others attention [others]
  heddle.rule default {
    // expected-error@+1 {{with kernel "near" must be dense where tokens are revoked by a shadow}}
    heddle.phase otherwise {
      heddle.attend_with @near shadow @others
    }
  }
}

// -----

heddle.plan @N4 {
  heddle.commit best(2) revoke(below = 0.9, by = shadow)
  heddle.kernel @dense attention dense
  heddle.rule default {
    heddle.phase otherwise {
      // expected-error@+1 {{names @none, which is no heddle.kernel of the plan}}
      heddle.attend_with @dense shadow @none
    }
  }
}
