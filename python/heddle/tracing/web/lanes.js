// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Plots over the steps: the sequence being unmasked, rows by layer, drift by layer.

/** A grid of steps across and `rows` down, by share(step, row): 0 to 1, or null for nothing. */
function grid(context, width, height, rows, share, front, back) {
  const small = document.createElement('canvas');
  const across = Math.min(run.steps, Math.max(1, Math.round(width)));
  small.width = across;
  small.height = rows;
  const pixels = new ImageData(across, rows), to = channels(front), from = channels(back);
  for (let x = 0; x < across; ++x) {
    const step = 1 + Math.floor(x / across * run.steps);
    for (let row = 0; row < rows; ++row) {
      const value = share(step, row);
      if (value !== null) pixels.data.set([...mixed(from, to, value), 255], 4 * (row * across + x));
    }
  }
  small.getContext('2d').putImageData(pixels, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, width, height);
}

function layerOver(context, width, tall, x, w) {
  const each = tall / run.layers;
  context.strokeStyle = colour('accent');
  context.lineWidth = 2;
  context.strokeRect(Math.max(1, x - 2), state.layer * each, Math.max(5, w + 4), Math.max(3, each));
}
const pickLayer = (step, share) => select(step, Math.floor(share * run.layers), state.head);
const layerHeight = () => Math.max(48, Math.min(200, run.layers * 10));

function makeTimeline() {
  const plot = new StepPlot('timeline');
  const size = Math.max(1, run.length - run.prompt), rows = Math.min(size, 160);
  const edge = row => run.prompt + Math.floor(row * size / rows);
  plot.lane([['response', 0.5]], 150, (context, width, tall) => {
    const look = ['token', 'commit', 'masked'].map(channels);
    const small = document.createElement('canvas'), across = Math.min(run.steps, Math.max(1, Math.round(width)));
    small.width = across;
    small.height = rows;
    const pixels = new ImageData(across, rows);
    for (let x = 0; x < across; ++x) {
      const step = 1 + Math.floor(x / across * run.steps);
      for (let row = 0; row < rows; ++row) {
        const first = edge(row), end = edge(row + 1);
        let masked = 0, now = false;
        for (let i = first; i < end; ++i) {
          const since = tokenSince(i, step);
          masked += since > step;
          now ||= since === step;
        }
        const rgb = now ? look[1] : mixed(look[0], look[2], masked / (end - first));
        pixels.data.set([...rgb, 255], 4 * (row * across + x));
      }
    }
    small.getContext('2d').putImageData(pixels, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, width, tall);
  }, null, step => select(step, state.layer, state.head));
  plot.axis();
  legend('timeline-legend', [['masked', 'solid', 'masked'], ['becomes a token', 'solid', 'commit'], ['token', 'solid', 'token']]);
  return plot;
}

function makeSaliency() {
  const plot = new StepPlot('saliency');
  plot.lane([['layer 0', 0], [`layer ${count(run.layers - 1)}`, 1]], layerHeight(), (context, width, tall) => {
    context.fillStyle = colour('row-a');
    context.fillRect(0, 0, width, tall);
    grid(context, width, tall, run.layers, (step, layer) => countsAt(step, layer)[1] / run.length, 'row-r', 'row-a');
  }, layerOver, pickLayer);
  const rows = Math.min(run.bins, 96);
  plot.lane([['positions', 0.5]], 90, (context, width, tall) => grid(context, width, tall, rows, (step, row) => {
    const number = tensors.exact.values[(step - 1) * run.layers + state.layer];
    return sharesOf(number)[Math.floor((row + 0.5) * run.bins / rows)] / 255;
  }, 'row-r', 'row-a'), null, step => select(step, state.layer, state.head));
  plot.lane([['visible', 0.5]], 40, (context, width, tall) => grid(context, width, tall, rows, (step, row) =>
    sharesOf(tensors.visible.values[step - 1])[Math.floor((row + 0.5) * run.bins / rows)] / 255, 'token', 'row-a'), null,
  step => select(step, state.layer, state.head));
  plot.axis();
  legend('saliency-legend', [['attention computed', 'solid', 'row-r'], ['not', 'solid', 'row-a'], ['visible as keys', 'solid', 'token']]);
  document.getElementById('saliency-note').textContent = 'Above, the share of rows in each layer; below, which positions in the chosen layer, and which are visible.';
  return plot;
}

function makeDrift() {
  const note = document.getElementById('drift-note');
  if (!tensors.drift.values.length) {
    note.textContent = 'The schedule keeps no lists, or the run refreshed none.';
    return null;
  }
  const cells = driftGrid(), plot = new StepPlot('drift');
  plot.lane([['layer 0', 0], [`layer ${count(run.layers - 1)}`, 1]], layerHeight(), (context, width, tall) => {
    context.fillStyle = colour('row-a');
    context.fillRect(0, 0, width, tall);
    const front = channels('commit'), back = channels('kind-ground'), least = leastWidth(context);
    for (let step = 1; step <= run.steps; ++step)
      for (let layer = 0; layer < run.layers; ++layer) {
        const value = cells[(step - 1) * run.layers + layer];
        if (value === -1) continue;
        context.fillStyle = value === -2 ? colour('prompt') : `rgb(${mixed(back, front, 1 - value).map(Math.round).join()})`;
        context.fillRect(StepPlot.x(step, width), layer / run.layers * tall, Math.max(3 * least, width / run.steps), tall / run.layers);
      }
  }, layerOver, pickLayer);
  plot.axis();
  legend('drift-legend', [['all entries are new', 'solid', 'commit'], ['none is', 'solid', 'kind-ground'], ['the first lists', 'solid', 'prompt']]);
  const known = [...cells].filter(value => value >= 0);
  note.textContent = known.length ? `In the mean ${percent(1 - known.reduce((a, b) => a + b, 0) / known.length)} of a list\u2019s entries were not in the list before.`
    : 'Lists were made once.';
  return plot;
}

/** The text, its masked tokens hidden; made once, marked at each step. */
let spans = null;
function showText() {
  const box = document.getElementById('text'), texts = run.texts;
  box.hidden = !texts.length;
  if (!texts.length) return;
  const from = Math.max(0, Math.min(run.prompt, run.length - texts.length)), made = !spans;
  if (made) {
    spans = texts.map(() => element('span'));
    box.replaceChildren(...spans);
  }
  spans.forEach((span, i) => {
    const when = tokenSince(from + i, state.step), text = stays(from + i, state.step) ? texts[i] : '\u25a1';
    const kind = when === 0 ? 'prompt' : when > state.step ? 'masked' : when === state.step ? 'now' : '';
    // What is masked is not there for anybody, only as wide.
    const shown = kind === 'masked' ? '\u00a0'.repeat(Math.max(1, texts[i].length)) : text;
    if (span.className === kind && span.textContent === shown) return;
    span.className = kind;
    span.textContent = shown;
  });
  const first = spans[run.prompt - from];
  if (made && first) box.scrollTop = first.offsetTop - box.offsetTop - box.clientHeight / 3;
}
