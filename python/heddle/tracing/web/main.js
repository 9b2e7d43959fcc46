// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The page's state, a step, a layer and a head, and everything that follows it.

const plots = [];
let map = null, heads = null;

function describe() {
  const [queries, exact, ffn] = countsAt(state.step, state.layer), tokens = commitsAt(state.step).filter(([, token]) => token >= 0);
  const became = tokens.filter(([position]) => tokenSince(position, state.step - 1) === Infinity).length;
  const edited = tokens.length - became;
  return `Step ${count(state.step)} of ${count(run.steps)}, layer ${count(state.layer)}, head ${count(state.head)}: `
    + `${plural(became, 'position')} ${became === 1 ? 'becomes a token' : 'become tokens'}`
    + `${edited ? `, ${plural(edited, 'token')} ${edited === 1 ? 'becomes another' : 'become others'}` : ''}; attention of ${plural(exact, 'row')} is computed`
    + `${queries !== exact ? `, of ${count(queries)} corrected or computed` : ''}, the FFN of ${count(ffn)}.`;
}

/** Three figures, and all digits before the point. */
const figures = n => n < 100 ? String(Number(n.toPrecision(3))) : count(n);

function facts() {
  const at = mapAt(state.step), [, exact] = countsAt(state.step, state.layer);
  const recalls = Array.from({ length: run.heads }, (_, head) => recallOf(at, state.layer, head));
  const rows = [['Mass on the computed pairs', percent(recallOf(at, state.layer, state.head))],
    ['The layer\u2019s heads in the mean', percent(recalls.reduce((a, b) => a + b, 0) / run.heads)],
    ['Rows with attention', `${count(exact)} of ${count(run.length)}`],
    ['Masked after the step', count(run.changes.reduce((sum, _, i) => sum + (tokenSince(i, state.step) > state.step), 0))],
    ['Milliseconds', figures(1000 * tensors.seconds.values[state.step - 1])]];
  const [pass, copies] = passOf(state.step);
  if (copies > 1 || pass !== state.step) rows.push(['Forward pass', `${count(pass)}, of ${copies > 1 ? `${count(copies)} copies` : 'one copy'}`]);
  const drift = driftOf(state.layer, state.head).filter(([step, , share]) => step <= state.step && share >= 0).pop();
  if (drift) rows.push([`New entries at step ${count(drift[0])}`, percent(1 - drift[2])]);
  return rows.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]);
}

const tables = {
  commits: () => [table('Tokens by step', ['Step', 'Position', 'Text', 'Confidence'],
    Array.from({ length: run.steps }, (_, i) => commitsAt(i + 1).map(([position, token, confidence]) => {
      const from = Math.max(0, Math.min(run.prompt, run.length - run.texts.length));
      const text = stays(position, i + 1) ? run.texts[position - from] : undefined;
      return [count(i + 1), count(position), token < 0 ? '(masked again)' : text ?? String(token), confidence.toFixed(3)];
    })).flat().slice(0, 2000), [2])],
  saliency: () => [table('Rows with attention by layer at this step', ['Layer', 'Q', 'Attention', 'FFN'],
    Array.from({ length: run.layers }, (_, layer) => [count(layer), ...[...countsAt(state.step, layer)].map(count)]))],
  drift: () => [table('Refreshes of this layer and head', ['Step', 'Selection', 'Entries that are new'],
    driftOf(state.layer, state.head).map(([step, selection, share]) =>
      [count(step), run.selections[selection].name, share < 0 ? 'all, the first' : percent(1 - share)]), [1])],
  heads: () => [table('Mass on the computed pairs by head', ['Head', ...Array.from(tensors['maps.steps'].values, step => `step ${count(step)}`)],
    Array.from({ length: run.heads }, (_, head) => [count(head),
      ...Array.from(tensors['maps.steps'].values, (_, at) => percent(recallOf(at, state.layer, head)))]))],
};

/** Chooses a step, a layer and a head, and shows them everywhere. */
function select(step, layer, head) {
  const layerBefore = state.layer;
  state.step = Math.min(run.steps, Math.max(1, Math.round(step) || 1));
  state.layer = Math.min(run.layers - 1, Math.max(0, Math.round(layer) || 0));
  state.head = Math.min(run.heads - 1, Math.max(0, Math.round(head) || 0));
  show(state.layer !== layerBefore);
}

let waiting = false;
function show(otherLayer = false) {
  const text = describe(), slider = document.getElementById('timeline');
  slider.setAttribute('aria-valuenow', state.step);
  slider.setAttribute('aria-valuetext', text);
  document.getElementById('what').textContent = text;
  for (const name of ['step', 'layer', 'head']) document.getElementById(name).value = state[name];
  for (const plot of plots) plot.recall();
  if (otherLayer) plots[1].lanes[1].redraw();
  // Pictures once a frame, however fast a key repeats.
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    showText();
    map.redraw();
    heads.redraw();
    document.getElementById('facts').replaceChildren(...facts());
    document.getElementById('pattern').setAttribute('aria-label', `Attention of layer ${state.layer}, head ${state.head}. ${mapText()}`);
    document.getElementById('heads').setAttribute('aria-label', `Attention of all ${count(run.heads)} heads of layer ${state.layer}, small; the field Head chooses one`);
    document.getElementById('pattern-note').textContent = mapText();
    for (const details of document.querySelectorAll('details[data-table]')) fillTable(details);
    history.replaceState(null, '', `#step=${state.step}&layer=${state.layer}&head=${state.head}`);
  });
}

function makeKeys() {
  const slider = document.getElementById('timeline');
  slider.setAttribute('aria-valuemin', 1);
  slider.setAttribute('aria-valuemax', run.steps);
  slider.addEventListener('keydown', event => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { step, layer, head } = state, leap = Math.max(1, Math.round(run.steps / 10));
    const maps = [...tensors['maps.steps'].values];
    const to = {
      ArrowLeft: [step - 1, layer, head], ArrowRight: [step + 1, layer, head], ArrowUp: [step, layer - 1, head], ArrowDown: [step, layer + 1, head],
      PageUp: [step - leap, layer, head], PageDown: [step + leap, layer, head], Home: [1, layer, head], End: [run.steps, layer, head],
      h: [step, layer, (head + 1) % run.heads], H: [step, layer, (head + run.heads - 1) % run.heads],
      m: [maps.find(at => at > step) ?? maps[0], layer, head],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    select(...to);
  });
  for (const [name, most] of [['step', run.steps], ['layer', run.layers - 1], ['head', run.heads - 1]]) {
    const field = document.getElementById(name);
    field.max = most;
    field.addEventListener('change', () => select(...['step', 'layer', 'head'].map(each => each === name ? field.valueAsNumber : state[each])));
  }
  document.getElementById('overlay').addEventListener('change', () => map.redraw());
}

function makeHead() {
  document.getElementById('name').textContent = run.schedule;
  document.getElementById('run').textContent = `${run.model}, ${run.dtype} on ${run.device}, ${run.date}: ${plural(run.steps, 'step')} over ${plural(run.length, 'token')}`
    + ` (prompt ${count(run.prompt)}), ${plural(run.layers, 'layer')}, ${plural(run.heads, 'head')} of ${count(run.head_dim)}, seed ${run.seed}${run.complete ? '' : '; the run was ended early'}`;
  document.getElementById('source').textContent = run.source.split('\n').filter(line => !line.startsWith('//')).join('\n').trim();
  document.getElementById('made').textContent = `Recorded by ${run.producer}. Everything is in this file; nothing is fetched. Attention is the softmax of scaled products, of at most `
    + `${count(run.rows_per_cell)} rows of a cell; a schedule\u2019s scores are left out.`;
}

async function start() {
  await unpack();
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const [name, least, most] of [['step', 1, run.steps], ['layer', 0, run.layers - 1], ['head', 0, run.heads - 1]])
    state[name] = Math.min(most, Math.max(least, Math.round(Number(asked.get(name))) || least));
  makeHead();
  for (const plot of [makeTimeline(), makeSaliency(), makeDrift()]) if (plot) plots.push(plot);
  map = makeMap();
  heads = makeHeads();
  makeTables();
  makeKeys();
  makeTheme();
  show();
  document.documentElement.dataset.ready = 'yes';
}
start();
