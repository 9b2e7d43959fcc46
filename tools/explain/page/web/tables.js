// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The same as the pictures show, as tables; filled when they are opened.

/** Runs of steps at which all of some series stay the same: [first, last]. */
function equalRuns(series, last) {
  const runs = [];
  for (let step = 1; step <= last; ++step) {
    const before = runs[runs.length - 1];
    if (before && series.every(values => values[before[0] - 1] === values[step - 1])) before[1] = step;
    else runs.push([step, step]);
  }
  return runs;
}

const span = ([first, last]) => first === last ? count(first) : `${count(first)}\u2013${count(last)}`;

const tables = {
  timeline() {
    const rows = rules.flatMap((rule, i) => rule.phases.filter(phase => phase.steps.length).map(phase => [
      runsText(data.rules[i].layers), phase.pattern, count(stepsIn(phase.steps)), runsText(phase.steps),
      `${phase.exact ? '' : 'at most '}${percent(phase.pairs / data.dense_pairs)}`,
      phase.refreshes.map(refresh => `${data.selections[refresh.selection].name} at ${runsText(refresh.steps)}`
        + (phase.refreshes_first ? ', before attention' : '')).join('; ') || 'none']));
    const passes = data.passes.filter(pass => pass.steps.length).map(pass => [pass.what, count(stepsIn(pass.steps)), runsText(pass.steps),
      pass.rows[0] === pass.rows[1] ? count(pass.rows[1]) : `${count(pass.rows[0])} to ${count(pass.rows[1])}`]);
    return [table('Steps by layer', ['Layers', 'Attention', 'Steps', 'Which', 'Pairs', 'Refreshes'], rows, [1, 3, 5]),
      ...(passes.length ? [table('Rows that steps recompute', ['Recomputes', 'Steps', 'Which', 'Rows'], passes, [0, 2])] : [])];
  },
  sequence() {
    if (!simulation) return [];
    const { visible, recomputed, partly, cached, masked, committed } = simulation.series;
    const columns = [visible, recomputed, partly, cached, masked, committed];
    return [table('Positions by step', ['Steps', 'Visible', 'Recomputed', 'In part', 'From cache', 'Masked before', 'Become tokens'],
      equalRuns(columns, simulation.steps).map(steps => [span(steps), ...columns.map(values => count(values[steps[0] - 1]))]))];
  },
  memory() {
    return [table('Bytes kept', ['Steps', ...kept.map(part => part.name), 'All'],
      equalRuns(kept.map(part => part.bytes), run.steps).map(steps =>
        [span(steps), ...kept.map(part => bytesText(part.bytes[steps[0] - 1])), bytesText(keptAt(steps[0]))])),
      ...(data.selections.length ? [table('Selections', ['Selection', 'Keeps', 'For each', 'Scored by', 'Refreshed', 'In layers', 'Also read in', 'Bytes'],
        data.selections.map(one => [one.name,
          `${one.keep}: ${count(one.keys)} of ${count(one.of)} ${one.kind === 'blocks' ? 'blocks' : 'keys'}${one.within ? `, within ${one.within}` : ''}`,
          `${one.all_rows ? 'all' : count(one.group)} rows, ${one.per_layer ? 'layer' : one.per_kv_head ? 'key/value head' : 'query head'}`, one.scorer, one.cadence,
          runsText(one.chosen_in), runsText(one.read_in),
          one.lists.map(list => list.encoding ? `${bytesText(list.bytes)} (${list.target}, ${list.encoding})` : `cannot run on ${list.target}`).join('; ')]),
        [1, 2, 3, 4, 5, 6, 7])] : [])];
  },
  pattern() {
    const { phase } = at(state.step, state.layer);
    const rows = phase.terms.map(term => {
      if (term.half !== undefined && term.selection === undefined) return [term.words, !term.share ? 'keys that all of these have' : `${term.share < 1 ? `one in ${count(Math.round(1 / term.share))} of the ` : ''}keys at most ${count(term.half)} positions away`];
      if (term.kind === 'sinks') return ['sinks', `the first ${plural(term.bound, 'key')}`];
      const one = data.selections[term.selection], when = chosenAt(state.layer, term.selection, state.step),
        chooser = chooserOf(term.selection, state.layer);
      return [`${one.kind}(${one.name})${term.half === undefined ? '' : ` within ${term.words}`}`, `${count(one.keys)} of ${count(one.of)} ${one.kind === 'blocks' ? `blocks of ${count(one.group)} keys` : 'keys'}${one.within ? `, within ${one.within},` : ''} for ${one.all_rows ? 'all rows' : `each ${plural(one.group, 'row')}`}, `
        + (when ? `chosen at step ${count(when)}${chooser === state.layer ? '' : ` in layer ${count(chooser)}`}` : 'not chosen yet')];
    });
    if (!rows.length) rows.push(['dense', 'every key']);
    return [table('What a query reads', ['Part', 'Keys'], rows, [1])];
  },
};
