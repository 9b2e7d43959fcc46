// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The record that this page carries: its tensors, and what they say of a step.

const data = JSON.parse(document.getElementById('data').textContent);
const run = data.run;
const state = { step: 1, layer: 0, head: 0 };
const tensors = {};

/** Unpacks the tensors: base64 of zlib's deflate of all of them. */
async function unpack() {
  const holder = document.getElementById('tensors');
  const packed = Uint8Array.from(atob(holder.textContent.trim()), c => c.charCodeAt(0));
  holder.textContent = '';
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  const bytes = await new Response(stream).arrayBuffer();
  const kinds = { I32: Int32Array, F32: Float32Array, U8: Uint8Array };
  for (const [name, { dtype, shape, data_offsets: [begin, end] }] of Object.entries(data.tensors)) {
    const kind = kinds[dtype];
    tensors[name] = { shape, values: new kind(bytes, begin, (end - begin) / kind.BYTES_PER_ELEMENT) };
  }
  run.steps = Math.max(1, tensors.seconds.shape[0]);
  run.bins = tensors.shares.shape[1];
  run.cells = tensors['maps.mass'].shape[4];
  // Of each position the steps that change it, in turn: [step, whether it is a token then].
  run.changes = Array.from({ length: run.length }, () => []);
  const commits = tensors.commits.values;
  for (let i = 0; i < commits.length; i += 3) run.changes[commits[i + 1]].push([commits[i], commits[i + 2] >= 0]);
}

/** The step that made a position the token that it is after `step`: 0 the prompt, Infinity where it is a mask. */
function tokenSince(position, step) {
  let since = position < run.prompt ? 0 : Infinity;
  for (const [at, token] of run.changes[position]) {
    if (at > step) break;
    since = token ? at : Infinity;
  }
  return since;
}
/** Whether it stays that token, which is the one that there is a text of. */
const stays = (position, step) => tokenSince(position, Infinity) === tokenSince(position, step);

/** A row of shares of the bins, 0 to 255. */
const sharesOf = number => tensors.shares.values.subarray(number * run.bins, (number + 1) * run.bins);

/** The place of the recorded map that shows a step: the latest before or at it. */
function mapAt(step) {
  const steps = tensors['maps.steps'].values;
  let found = -1;
  while (found + 1 < steps.length && steps[found + 1] <= step) ++found;
  return Math.max(0, found);
}
const mapStep = map => tensors['maps.steps'].values[map];

/** A head's square of a map: name is 'maps.mass' or 'maps.kept'. */
function square(name, map, layer, head) {
  const size = run.cells * run.cells, at = ((map * run.layers + layer) * run.heads + head) * size;
  return tensors[name].values.subarray(at, at + size);
}
const recallOf = (map, layer, head) => tensors['maps.recall'].values[(map * run.layers + layer) * run.heads + head];
const rowsOf = (map, layer) => tensors['maps.rows'].values.subarray((map * run.layers + layer) * run.cells, (map * run.layers + layer + 1) * run.cells);

/** The forward pass that made a step, and the copies of the sequence that were in it. */
const passOf = step => tensors.passes.values.subarray(2 * (step - 1), 2 * step);

/** Rows of a layer at a step: whose Q, attention, FFN are computed. */
function countsAt(step, layer) {
  const at = 3 * ((step - 1) * run.layers + layer);
  return tensors.counts.values.subarray(at, at + 3);
}

/** What a step makes of positions: [[position, token, confidence], ...], token -1 a mask again. */
function commitsAt(step) {
  const { values } = tensors.commits, found = [];
  for (let i = 0; 3 * i < values.length; ++i)
    if (values[3 * i] === step) found.push([values[3 * i + 1], values[3 * i + 2], tensors.confidences.values[i]]);
  return found;
}

/** Of each step and layer the mean share of entries that lists kept at a refresh; -1: no refresh, -2: the first. */
function driftGrid() {
  const sums = new Float64Array(run.steps * run.layers), counts = new Float64Array(run.steps * run.layers).fill(0);
  const first = new Uint8Array(run.steps * run.layers), at = tensors['drift.at'].values;
  tensors.drift.values.forEach((value, i) => {
    const cell = (at[4 * i] - 1) * run.layers + at[4 * i + 1];
    if (value < 0) first[cell] = 1;
    else { sums[cell] += value; ++counts[cell]; }
  });
  return sums.map((sum, i) => counts[i] ? sum / counts[i] : first[i] ? -2 : -1);
}

/** The same of one layer and head: [[step, selection, share], ...]. */
function driftOf(layer, head) {
  const at = tensors['drift.at'].values, found = [];
  tensors.drift.values.forEach((value, i) => {
    if (at[4 * i + 1] === layer && at[4 * i + 2] === head) found.push([at[4 * i], at[4 * i + 3], value]);
  });
  return found;
}
