// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Layers as rows, steps across; below them which rows are recomputed and when
// lists are refreshed.

/** What steps do in layers: each pair of an attention pattern and a choice of
    rows, with its look; dense attention of all rows first. */
const kinds = (() => {
  const map = new Map();
  for (const rule of rules) {
    rule.kindAt = new Array(run.steps);
    for (let step = 1; step <= run.steps; ++step) {
      const pattern = rule.phases[rule.phaseAt[step - 1]].pattern, pass = data.passes[passAt[step - 1]];
      const name = pass ? `${pattern}; rows: ${pass.what}` : pattern;
      if (!map.has(name)) map.set(name, { name, steps: 0, whole: !pass || pass.what === 'all', dense: pattern === 'dense' });
      map.get(name).steps += rule.layers.length;
      rule.kindAt[step - 1] = name;
    }
  }
  const order = [...map.values()].sort((a, b) => (b.dense && b.whole) - (a.dense && a.whole) || b.steps - a.steps);
  let next = order[0].dense && order[0].whole ? 0 : 1;
  for (const kind of order) {
    Object.assign(kind, { texture: textures[next % textures.length], front: `kind-${next % 6}`, back: 'kind-ground' });
    ++next;
  }
  return new Map(order.map(kind => [kind.name, kind]));
})();

/** The steps of each kind of a rule as runs, the most frequent kind first. */
function kindRuns(rule) {
  const runs = new Map();
  for (let step = 1; step <= run.steps; ++step) {
    const name = rule.kindAt[step - 1];
    if (!runs.has(name)) runs.set(name, []);
    const all = runs.get(name), last = all[all.length - 1];
    if (last && last[1] === step - 1) last[1] = step;
    else all.push([step, step, 1]);
  }
  return [...runs].sort((a, b) => stepsIn(b[1]) - stepsIn(a[1]));
}

/** Fills the steps of runs in a lane, each at least visible. */
function fillSteps(context, runs, top, height, width) {
  const least = leastWidth(context);
  for (const [first, last, stride] of runs)
    if (stride === 1) {
      const x = StepPlot.x(first, width);
      context.fillRect(x, top, Math.max(least, StepPlot.x(last + 1, width) - x), height);
    } else
      for (let step = first; step <= last; step += stride)
        context.fillRect(StepPlot.x(step, width), top, Math.max(least, width / run.steps), height);
}

/** Bands of layers that follow one rule, from the first layer down. */
function layerBands() {
  const bands = [];
  for (let layer = 0; layer < run.layers; ++layer) {
    const last = bands[bands.length - 1];
    if (last && last.rule === ruleOfLayer[layer]) ++last.count;
    else bands.push({ rule: ruleOfLayer[layer], first: layer, count: 1 });
  }
  return bands;
}

function makeTimeline() {
  const plot = new StepPlot('timeline');
  const bands = layerBands();
  const height = Math.max(64, Math.min(240, Math.max(run.layers * (bands.length > 1 ? 7 : 4), bands.length * 14)));
  const labels = bands.map(band => [
    band.count === 1 ? `layer ${count(band.first)}` : `layers ${count(band.first)}\u2013${count(band.first + band.count - 1)}`,
    (band.first + band.count / 2) / run.layers]);
  plot.lane(labels, height, (context, width, tall) => {
    for (const { rule, first, count: layers } of bands) {
      const top = first / run.layers * tall, band = layers / run.layers * tall;
      // Seldom kinds lie on top of frequent ones.
      for (const [name, runs] of kindRuns(rule)) {
        const { texture, front, back } = kinds.get(name);
        context.fillStyle = fill(context, texture, colour(front), colour(back));
        fillSteps(context, runs, top, band, width);
      }
      context.fillStyle = colour('accent');
      for (const phase of rule.phases) fillSteps(context, phase.unfilled, top + band / 2 - 1, 2, width);
    }
    if (tall / run.layers >= 2.5) {
      context.fillStyle = colour('card');
      context.globalAlpha = tall / run.layers >= 6 ? 0.7 : 0.25;
      for (let layer = 1; layer < run.layers; ++layer) context.fillRect(0, layer / run.layers * tall - 0.5, width, 1);
      context.globalAlpha = 1;
    }
  }, (context, width, tall, x, w) => {
    const each = tall / run.layers;
    context.strokeStyle = colour('accent');
    context.lineWidth = 2;
    context.strokeRect(Math.max(1, x - 2), state.layer * each - 1, Math.max(5, w + 4), Math.max(5, each + 2));
  }, (step, share) => select(step, Math.min(run.layers - 1, Math.max(0, Math.floor(share * run.layers)))));

  if (simulation) {
    const most = run.length;
    plot.lane([['rows', 0.5]], 26, (context, width, tall) => {
      context.fillStyle = colour('row-a');
      context.fillRect(0, 0, width, tall);
      area(context, width, tall, step => simulation.series.visible[step - 1] / most, 'rows', 'row-c', 'row-a');
      area(context, width, tall, step => (simulation.series.recomputed[step - 1] + simulation.series.partly[step - 1]) / most, 'diagonal', 'row-p', 'row-a');
      area(context, width, tall, step => simulation.series.recomputed[step - 1] / most, 'solid', 'row-r', 'row-a');
    }, null, step => select(step, state.layer));
  }
  data.selections.forEach((selection, index) => {
    const owner = rules.filter(rule => rule.refreshes[index].length);
    const steps = [...new Set(owner.flatMap(rule => rule.refreshes[index]))].sort((a, b) => a - b);
    plot.lane([[selection.name, 0.5]], 16, (context, width, tall) => {
      if (!steps.length) return;
      const x = StepPlot.x(steps[0], width);
      context.fillStyle = colour('kind-ground');
      context.fillRect(x, tall / 2 - 3, width - x, 6);
      context.fillStyle = colour('accent');
      fillSteps(context, steps.map(step => [step, step, 1]), 1, tall - 2, width);
    }, null, step => select(step, state.layer));
  });
  plot.axis();

  const entries = [...kinds].map(([name, { texture, front, back }]) => [name, texture, front, back]);
  if (simulation) {
    entries.push(['rows recomputed', 'solid', 'row-r']);
    if (simulation.series.partly.some(n => n)) entries.push(['recomputed in part: in some layers, or as the run decides', 'diagonal', 'row-p', 'row-a']);
    if (simulation.series.cached.some(n => n))
      entries.push(['read from the cache', 'rows', 'row-c', 'row-a']);
  }
  if (data.selections.length) entries.push(['lists refreshed', 'solid', 'accent']);
  legend('timeline-legend', entries);
  return plot;
}

/** The area under a share of the height, as a fill. */
function area(context, width, height, shareAt, texture, front, back, floorAt = () => 0) {
  context.fillStyle = fill(context, texture, colour(front), colour(back));
  const each = width / run.steps, least = leastWidth(context);
  for (let step = 1; step <= run.steps;) {
    const share = shareAt(step), floor = floorAt(step);
    let end = step + 1;
    while (end <= run.steps && shareAt(end) === share && floorAt(end) === floor) ++end;
    if (share > 0) {
      const tall = Math.max(1, share * height);
      context.fillRect(StepPlot.x(step, width), height - floor * height - tall, Math.max(least, (end - step) * each), tall);
    }
    step = end;
  }
}
