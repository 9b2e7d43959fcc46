//===- Passes.td - Passes on schedules and plans -------------*- tablegen -*-===//
//
// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_TD
#define HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def HeddleVerifySchedule : Pass<"heddle-verify-schedule", "::mlir::ModuleOp"> {
  let summary = "Check that a module is at the schedule level";
  let description = [{
    The module holds schedules and nothing else, at least one. (That each of
    them is well formed is held by the verifiers of their ops.) Warns of values
    that no `attend` reads, and of an `until` that changes nothing.

    ```mlir
    heddle.schedule @s {
      %near = window(256)   // warning: has no effect
      attend dense
    }
    ```
  }];
}

def HeddlePlanSteps : Pass<"heddle-plan-steps", "::mlir::ModuleOp"> {
  let summary = "Turn schedules into step programs";
  let description = [{
    Each `heddle.schedule` becomes the `heddle.plan` of the same name. Of a
    `attend` that reads selections, one phase `on` each of their cadences
    computes dense attention and refreshes the selections, then one `before` the
    cadence of `until`, if it has one, is dense, and the last one, `otherwise`,
    computes the pairs. Selections, attention kernels and select kernels that
    are alike are one.

    ```mlir
    heddle.schedule @s {
      %refresh = cadence every(8)
      %cols = select columns(keep = 0.2, group = 64) by mean_probability on %refresh
      attend pairs(%cols)
    }
    ```
    becomes
    ```mlir
    heddle.plan @s {
      heddle.selection @cols columns(keep = 0.2, group = 64) by mean_probability on every(8)
      heddle.kernel @attention_dense_lse attention dense writes_lse
      heddle.kernel @select_64 select(group = 64) by mean_probability
      heddle.kernel @attention_cols attention [columns(@cols, group = 64)]
      heddle.rule default {
        heddle.phase on every(8) {
          heddle.attend_with @attention_dense_lse
          heddle.refresh @cols with @select_64
        }
        heddle.phase otherwise {
          heddle.attend_with @attention_cols
        }
      }
    }
    ```

    Above some share of the keys dense attention takes less time than attention
    over a list of them. A table says above which (`bundle/format/Crossovers.h`).
    Where a selection keeps more on each of `targets`, the plan is that of the
    schedule with `dense` in place of the sets that have its lists, and a
    `heddle.fallback` says so. A selection stays where that is not known: it keeps
    a number of keys, or is attended to within other sets, by a function of
    logits, in steps of some rows or at once before others, or the table has no
    entry. With keep = 0.5 and group = 32, and for sm_90a, the schedule becomes
    ```mlir
    heddle.plan @s {
      heddle.fallback "cols" columns(keep = 0.5, group = 32) by mean_probability dense_above 0.36
      heddle.kernel @attention_dense attention dense
      heddle.rule default {
        heddle.phase otherwise {
          heddle.attend_with @attention_dense
        }
      }
    }
    ```
  }];
  let options = [
    ListOption<"targetNames", "targets", "std::string",
               "machines, as LLVM names them (sm_90a), on which lists that take "
               "longer than dense attention give way to it; none: nowhere">,
    Option<"crossovers", "crossovers", "std::string", "",
           "a file with the table of such lists; the built-in one without it">,
  ];
}

def HeddleVerifyPlan : Pass<"heddle-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Check that a module is at the plan level";
  let description = [{
    The module holds plans and nothing else, at least one, and in each of them

    - the last phase of a rule, and only that, is `otherwise`: so the phases
      partition the steps;
    - every read of a selection comes after a write, at every step of every run;
    - a refresh follows dense attention that writes the log-sum-exp;
    - no two kernels and no two selections are alike, and all of them are used.
  }];
}

#endif // HEDDLE_DIALECT_HEDDLE_TRANSFORMS_PASSES_TD
