// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What the compiler wrote into this page, made quick to ask: what runs at a step
// in a layer, what a series is at a step. Nothing is computed here that the
// compiler could have said.

const data = JSON.parse(document.getElementById('data').textContent);
const run = data.run;

/** The numbers of runs [first, last, stride]. */
function expand(runs) {
  const numbers = [];
  for (const [first, last, stride] of runs)
    for (let n = first; n <= last; n += stride) numbers.push(n);
  return numbers;
}

/** A series over steps, [value, steps] one after the other, as an array whose
    entry 0 is step 1; cut at or filled up to the run's steps with `rest`. */
function overSteps(runs, rest) {
  const values = new Float64Array(run.steps).fill(rest);
  let at = 0;
  for (const [value, count] of runs) {
    values.fill(value, at, Math.min(run.steps, at + count));
    at += count;
    if (at >= run.steps) break;
  }
  return values;
}

const rules = data.rules.map(rule => {
  const phaseAt = new Uint16Array(run.steps);
  const refreshes = data.selections.map(() => []);
  const refreshesAt = new Map();
  rule.phases.forEach((phase, index) => {
    for (const step of expand(phase.steps)) phaseAt[step - 1] = index;
    for (const refresh of phase.refreshes)
      for (const step of expand(refresh.steps)) {
        refreshes[refresh.selection].push(step);
        refreshesAt.set(step, [...(refreshesAt.get(step) || []), refresh.selection]);
      }
  });
  for (const steps of refreshes) steps.sort((a, b) => a - b);
  return { layers: expand(rule.layers), phases: rule.phases, phaseAt, refreshes, refreshesAt };
});
const ruleOfLayer = [];
rules.forEach(rule => rule.layers.forEach(layer => { ruleOfLayer[layer] = rule; }));

const passAt = new Int16Array(run.steps).fill(-1);
data.passes.forEach((pass, index) => {
  for (const step of expand(pass.steps)) passAt[step - 1] = index;
});

/** The simulation by step; null where the schedule cannot run. */
const simulation = data.simulation.error ? null : (() => {
  const source = data.simulation;
  const rows = source.roles.map(text => {
    const row = new Uint8Array(source.bins);
    let bin = 0;
    for (const [, letter, count] of text.matchAll(/([acpr])(\d+)/g)) {
      row.fill('acpr'.indexOf(letter), bin, bin + Number(count));
      bin += Number(count);
    }
    return row;
  });
  const series = {};
  for (const name of ['visible', 'recomputed', 'partly', 'cached', 'masked', 'committed', 'logit_rows'])
    series[name] = overSteps(source[name], 0);
  return { ...source, steps: Math.min(source.steps, run.steps), allSteps: source.steps,
    rows, rowOfStep: overSteps(source.roles_of_steps, -1), series };
})();

/** The role of each bin at a step: index into 'acpr'. */
function rolesAt(step) {
  return simulation && step <= simulation.steps ? simulation.rows[simulation.rowOfStep[step - 1]] : null;
}

/** How much of a bin is masked before a step: 0, 1/4, 1/2, 3/4 or 1. */
function maskedShare(bin, step) {
  let later = 0;
  for (const when of simulation.decoded[bin]) later += when >= step;
  return later === 5 ? 1 : later / 5;
}

const isPrompt = bin => simulation.decoded[bin][4] === 0;

/** What happens at a step in a layer. */
function at(step, layer) {
  const rule = ruleOfLayer[layer];
  const phase = rule.phases[rule.phaseAt[step - 1]];
  const refreshes = rule.refreshesAt.get(step) || [];
  return { rule, phase, refreshes, pass: passAt[step - 1] < 0 ? null : data.passes[passAt[step - 1]] };
}

const choosers = data.selections.map(selection => expand(selection.chosen_in).sort((a, b) => a - b));

/** The layer whose choice a layer reads: the nearest up to it that chooses; -1 if
    there is none. */
function chooserOf(selection, layer) {
  return choosers[selection].findLast(chooser => chooser <= layer) ?? -1;
}

/** The step whose choice a step reads in a layer, 0 if there is none. */
function chosenAt(layer, selection, step) {
  const chooser = chooserOf(selection, layer);
  if (chooser < 0) return 0;
  // A layer that chooses does so after its attention, or before; one further on
  // finds what was chosen in the same step.
  const atOnce = chooser !== layer || at(step, layer).phase.refreshes_first;
  let latest = 0;
  for (const refresh of ruleOfLayer[chooser].refreshes[selection]) {
    if (refresh > step || (refresh === step && !atOnce)) break;
    latest = refresh;
  }
  return latest;
}

/** Whether two neighbouring steps do the same in a layer. */
function sameKind(a, b, layer) {
  const rule = ruleOfLayer[layer];
  const refreshed = step => (rule.refreshesAt.get(step) || []).join();
  return rule.phaseAt[a - 1] === rule.phaseAt[b - 1] && passAt[a - 1] === passAt[b - 1] && refreshed(a) === refreshed(b);
}
