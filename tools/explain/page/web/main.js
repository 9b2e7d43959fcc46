// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The page's state, a step and a layer, and everything that follows it.

const state = { step: 1, layer: 0 };
const plots = [];
let pattern = null, strip = null;

/** What happens at the chosen step and layer, in sentences. */
function describe() {
  const { step, layer } = state, { rule, phase, refreshes, pass } = at(step, layer);
  const texts = [`Step ${count(step)} of ${count(run.steps)}, layer ${count(layer)}: `
    + `attention is ${phase.pattern}${phase.terms.length ? `, ${phase.exact ? '' : 'at most '}${percent(phase.pairs / data.dense_pairs)} of all pairs` : ''}.`];
  if (rule.scores) texts.push(`A pair's logit becomes ${rule.scores}.`);
  for (const term of phase.terms)
    if (term.selection !== undefined) {
      const when = chosenAt(layer, term.selection, step), chooser = chooserOf(term.selection, layer);
      if (when && (when < step || chooser !== layer))
        texts.push(`It reads what ${data.selections[term.selection].name} chose at step ${count(when)}${chooser === layer ? '' : ` in layer ${count(chooser)}`}.`);
    }
  for (const selection of refreshes)
    texts.push(`${phase.refreshes_first ? 'Before that' : 'Then'} ${data.selections[selection].name} is refreshed.`);
  for (const measure of phase.measures)
    if (measure.layer === layer) texts.push(`At steps that are not its own, ${measure.cadence} is measured${measure.again ? ', for which attention runs once more' : ''}.`);
  if (phase.unfilled.some(([first, last]) => step >= first && step <= last)) texts.push('It cannot run: no step so far has filled a list that it reads.');
  if (pass) texts.push(`Recomputed: ${pass.what}.`);
  if (simulation && step > simulation.steps) texts.push('The illustrated run has ended by then.');
  return texts.join(' ');
}

function facts() {
  const rows = [];
  if (simulation && state.step <= simulation.steps) {
    const value = name => simulation.series[name][state.step - 1];
    rows.push(['Visible positions', `${count(value('visible'))} of ${count(run.length)}`],
      ['Rows recomputed', count(value('recomputed'))]);
    if (simulation.series.partly.some(n => n)) rows.push(['In part: in some layers, or as the run decides', count(value('partly'))]);
    rows.push(['Read from the cache', count(value('cached'))],
      ['Masked before the step', count(value('masked'))], ['Become tokens', count(value('committed'))],
      ['Rows through the LM head', count(value('logit_rows'))]);
  }
  rows.push(['Tokens are committed by', data.commits.join('; ')]);
  if (kept.length) rows.push(['Kept memory', bytesText(keptAt(state.step))]);
  return rows.flatMap(([name, value]) => [element('dt', {}, name), element('dd', {}, value)]);
}

/** Chooses a step and a layer, and shows them everywhere. */
function select(step, layer) {
  state.step = Math.min(run.steps, Math.max(1, Math.round(step) || 1));
  state.layer = Math.min(run.layers - 1, Math.max(0, Math.round(layer) || 0));
  show();
}

let waiting = false;
function show() {
  const text = describe();
  const slider = document.getElementById('timeline');
  slider.setAttribute('aria-valuenow', state.step);
  slider.setAttribute('aria-valuetext', text);
  document.getElementById('what').textContent = text;
  document.getElementById('step').value = state.step;
  document.getElementById('layer').value = state.layer;
  document.getElementById('facts').replaceChildren(...facts());
  for (const plot of plots) plot.recall();
  // Pictures once a frame, however fast a key repeats.
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (strip) strip.redraw();
    pattern.redraw();
    const canvas = document.getElementById('pattern');
    canvas.setAttribute('aria-label', `Pairs of queries and keys: ${patternText()}`);
    document.getElementById('pattern-note').textContent = patternText();
    if (strip) document.getElementById('strip').setAttribute('aria-label',
      `Positions 0 to ${count(run.length - 1)} at step ${count(state.step)}: above which rows are recomputed, below which are tokens; the numbers follow`);
    const details = document.querySelector('details[data-table=pattern]');
    fillTable(details);
    history.replaceState(null, '', `#step=${state.step}&layer=${state.layer}`);
  });
}

/** The next step, in one direction, that does something else; the end if none. */
function change(direction) {
  let step = state.step;
  while (step + direction >= 1 && step + direction <= run.steps) {
    step += direction;
    if (!sameKind(step - direction, step, state.layer)) break;
  }
  return step;
}

function makeKeys() {
  const slider = document.getElementById('timeline');
  slider.setAttribute('aria-valuemin', 1);
  slider.setAttribute('aria-valuemax', run.steps);
  slider.addEventListener('keydown', event => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const { step, layer } = state, leap = Math.max(1, Math.round(run.steps / 10));
    const to = {
      ArrowLeft: [step - 1, layer], ArrowRight: [step + 1, layer], ArrowUp: [step, layer - 1], ArrowDown: [step, layer + 1],
      PageUp: [step - leap, layer], PageDown: [step + leap, layer], Home: [1, layer], End: [run.steps, layer],
      n: [change(1), layer], N: [change(1), layer], p: [change(-1), layer], P: [change(-1), layer],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    select(...to);
  });
  const step = document.getElementById('step'), layer = document.getElementById('layer');
  step.max = run.steps;
  layer.max = run.layers - 1;
  step.addEventListener('change', () => select(step.valueAsNumber, state.layer));
  layer.addEventListener('change', () => select(state.step, layer.valueAsNumber));
  document.getElementById('previous').addEventListener('click', () => select(change(-1), state.layer));
  document.getElementById('next').addEventListener('click', () => select(change(1), state.layer));
}

/** Which part of the sequence the pattern shows. */
function makeParts() {
  const choice = document.getElementById('part'), from = document.getElementById('part-from');
  choice.append(element('option', { value: run.length }, `all ${count(run.length)} positions`));
  for (let size = 64; size < run.length; size *= 8)
    choice.append(element('option', { value: size }, `${count(size)} positions`));
  const update = () => {
    const size = Number(choice.value);
    from.max = run.length - size;
    from.step = Math.max(1, Math.floor(size / 8));
    from.disabled = size === run.length;
    show();
  };
  choice.addEventListener('change', () => {
    // The part begins where rows are recomputed: there is something to see.
    const roles = rolesAt(state.step), first = roles ? Math.max(0, roles.findIndex(role => role >= 2)) : 0;
    update();
    from.value = Math.max(0, first * (simulation ? simulation.bin : 1) - Number(choice.value) / 4);
    update();
  });
  from.addEventListener('input', update);
  update();
}

function makeHead() {
  document.getElementById('name').textContent = data.schedule;
  const blocks = run.block_length && run.block_length < run.length - run.prompt
    ? `, in blocks of ${count(run.block_length)} with ${plural(run.block_steps, 'step')} each` : '';
  document.getElementById('run').textContent = `${plural(run.steps, 'step')} over ${plural(run.length, 'token')}`
    + ` (${run.prompt ? `prompt ${count(run.prompt)}` : 'no prompt'}${blocks}), ${plural(run.layers, 'layer')},`
    + ` ${count(run.heads)} heads of ${count(run.head_dim)}${run.kv_heads === run.heads ? '' : `, ${count(run.kv_heads)} key/value heads`}`;
  const lines = data.source.split('\n'), first = lines.findIndex(line => line.trim() && !line.trim().startsWith('//'));
  document.getElementById('source').textContent = lines.slice(Math.max(0, first)).join('\n').trimEnd();
  const notes = lines.slice(0, Math.max(0, first)).map(line => line.trim().replace(/^\/\/ ?/, '')).join('\n').trim();
  document.getElementById('notes-text').textContent = notes;
  document.getElementById('notes').hidden = !notes;
  document.getElementById('made').textContent = `Made by ${data.producer}. Everything is in this file; nothing is fetched.`;
}

function start() {
  const asked = new URLSearchParams(location.hash.slice(1));
  state.step = Math.min(run.steps, Math.max(1, Number(asked.get('step')) || 1));
  state.layer = Math.min(run.layers - 1, Math.max(0, Number(asked.get('layer')) || 0));
  makeHead();
  makeCost();
  for (const plot of [makeTimeline(), makeSequence(), makeMemory()]) if (plot) plots.push(plot);
  strip = makeStrip();
  pattern = makePattern();
  makeTables();
  makeKeys();
  makeTheme();
  makeParts();
}
start();
