// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// The pairs (query, key) of one layer at one step as a map. Windows, sinks and
// what is visible are drawn as they are; which keys a selection lists is found in
// a run, so that an illustration of as many stands for them.

const cells = 128;
const seed = 7;

/** A number in [0, 1) that depends on all of its arguments. */
function noise(...numbers) {
  let h = 0x9E3779B9 ^ seed;
  for (const n of numbers) {
    h = Math.imul(h ^ (n | 0), 0x85EBCA6B);
    h = Math.imul(h ^ (h >>> 13), 0xC2B2AE35);
    h ^= h >>> 16;
  }
  return (h >>> 0) / 4294967296;
}

/** Of `n` cells the `keep` that score highest, as flags. */
function best(n, keep, score) {
  const order = Array.from({ length: n }, (_, i) => i);
  const scores = order.map(score);
  order.sort((a, b) => scores[b] - scores[a] || a - b);
  const flags = new Uint8Array(n);
  for (const i of order.slice(0, keep)) flags[i] = 1;
  return flags;
}

/** The part that is shown: positions [from, from + size). */
function part() {
  const size = Math.min(run.length, Number(document.getElementById('part').value) || run.length);
  const from = Math.min(run.length - size, Math.round(Number(document.getElementById('part-from').value)));
  return { from, size, n: Math.min(cells, size) };
}

/** What a selection lists for a query cell: flags over the key cells, made up. */
function lister(selection, index, layer, chosen, view) {
  const share = selection.keys / selection.of;
  const rows = new Map();
  const keyOf = cell => view.from + (cell + 0.5) * view.size / view.n;
  // Units that are chosen or not: cells of the picture, or blocks if these are
  // larger.
  const unit = selection.kind === 'blocks' ? Math.max(1, selection.group / (view.size / view.n)) : 1;
  return queryCell => {
    const query = view.from + queryCell * view.size / view.n;
    const group = Math.floor(query / selection.group);
    const key = view.size / view.n >= selection.group ? queryCell : group;
    if (!rows.has(key)) {
      const units = Math.ceil(view.n / unit);
      const spans = selection.apart && run.prompt
        ? [[0, Math.round(units * Math.min(1, Math.max(0, (run.prompt - view.from) / view.size)))]] : [];
      spans.push([spans.length ? spans[0][1] : 0, units]);
      const flags = new Uint8Array(units);
      for (const [first, end] of spans) {
        // Some keys matter to every query, near ones matter more, the rest is noise;
        // a refresh changes some of it.
        const score = i => {
          const at = keyOf((first + i) * unit), near = Math.exp(-Math.abs(at - query) / (0.04 * view.size));
          const everywhere = noise(index, layer, Math.round(at)) ** 3;
          return 0.9 * everywhere + 0.5 * near + 0.35 * noise(index, layer, chosen, group, Math.round(at))
            + 0.25 * noise(index, layer, chosen, Math.round(at));
        };
        if (end > first) flags.set(best(end - first, Math.max(1, Math.round(share * (end - first))), score), first);
      }
      rows.set(key, flags);
    }
    const flags = rows.get(key);
    return keyCell => flags[Math.floor(keyCell / unit)];
  };
}

/** Shares of a cell that a window keeps, by samples; some for every cell that it
    touches. */
function windowShare(q0, q1, k0, k1, half) {
  const gap = Math.max(k0 - (q1 - 1), q0 - (k1 - 1), 0);
  if (gap > half) return 0;
  const samples = 6;
  let inside = 0;
  for (let i = 0; i < samples; ++i)
    for (let j = 0; j < samples; ++j) {
      const q = q0 + Math.floor((i + 0.5) / samples * (q1 - q0)), k = k0 + Math.floor((j + 0.5) / samples * (k1 - k0));
      inside += Math.abs(q - k) <= half;
    }
  return Math.max(0.35, inside / samples / samples);
}

/** The map of the chosen step and layer: for each cell how much of it is computed
    (0 to 1), -1 where the query's row is not recomputed, -2 where the key is not
    visible; the role of each query; and whether something of it is made up. */
function pairMap(step, layer) {
  const { phase } = at(step, layer);
  const view = part();
  const { from, size, n } = view;
  const roles = rolesAt(step);
  const roleOf = cell => roles ? roles[Math.floor((from + (cell + 0.5) * size / n) / run.length * simulation.bins)] : 3;
  const lists = phase.terms.map(term => term.selection === undefined ? null
    : lister(data.selections[term.selection], term.selection, chooserOf(term.selection, layer), chosenAt(layer, term.selection, step), view));
  const map = new Float32Array(n * n);
  const queries = Array.from({ length: n }, (_, q) => roleOf(q));
  for (let q = 0; q < n; ++q) {
    const q0 = from + Math.floor(q * size / n), q1 = Math.max(q0 + 1, from + Math.floor((q + 1) * size / n));
    const listed = lists.map(list => list && list(q));
    const active = queries[q] >= 2;
    for (let k = 0; k < n; ++k) {
      let share = phase.terms.length ? 0 : 1;
      if (queries[k] === 0) share = -2;
      else if (!active) share = -1;
      else {
        const k0 = from + Math.floor(k * size / n), k1 = Math.max(k0 + 1, from + Math.floor((k + 1) * size / n));
        phase.terms.forEach((term, i) => {
          const near = term.half === undefined ? 1 : term.share * windowShare(q0, q1, k0, k1, term.half);
          if (listed[i]) share = Math.max(share, listed[i](k) ? near : 0);
          else if (term.half !== undefined) share = Math.max(share, near);
          else if (term.kind === 'sinks') share = Math.max(share, k0 >= term.bound ? 0 : Math.max(0.35, Math.min(1, (term.bound - k0) / (k1 - k0))));
        });
      }
      map[q * n + k] = share;
    }
  }
  return { map, n, queries, illustrated: lists.some(list => list), view };
}

let shown = null;

function makePattern() {
  const canvas = document.getElementById('pattern');
  legend('pattern-legend', [['computed', 'solid', 'kind-0'],
    ...(simulation && simulation.series.partly.some(n => n) ? [['computed if the run finds the row changed', 'hatch', 'kind-0']] : []),
    ...(data.rules.some(rule => rule.phases.some(phase => phase.terms.length)) ? [['left out', 'solid', 'kind-ground']] : []),
    ...(data.passes.length ? [['query not recomputed', 'rows', 'row-c', 'row-a']] : []),
    ...(data.visible !== 'all' ? [['key not visible', 'solid', 'card']] : [])]);
  return new Picture(canvas, (context, width, height) => {
    shown = pairMap(state.step, state.layer);
    const { map, n, queries } = shown;
    const front = channels('kind-0'), back = channels('kind-ground');
    context.fillStyle = colour('card');
    context.fillRect(0, 0, width, height);
    context.fillStyle = fill(context, 'rows', colour('row-c'), colour('row-a'));
    // Rows that are not active are one colour from end to end.
    for (let q = 0; q < n; ++q)
      for (let k = 0; k < n; ++k) {
        let end = k;
        while (end < n && map[q * n + end] === -1) ++end;
        if (end > k) {
          context.fillRect(k / n * width, q / n * height, (end - k) / n * width, height / n + 0.2);
          k = end;
        }
      }
    const small = document.createElement('canvas');
    small.width = small.height = n;
    const image = new ImageData(n, n);
    for (let i = 0; i < map.length; ++i)
      if (map[i] >= 0) image.data.set([...mixed(back, front, map[i]), 255], 4 * i);
    small.getContext('2d').putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, width, height);
    for (let q = 0; q < n; ++q) {
      let end = q;
      while (end < n && queries[end] === 2) ++end;
      if (end === q) continue;
      context.fillStyle = hatch(context);
      context.fillRect(0, q / n * height, width, (end - q) / n * height);
      q = end;
    }
  });
}

/** What the picture shows, in words. */
function patternText() {
  const { phase } = at(state.step, state.layer);
  const { view, n, illustrated } = shown || pairMap(state.step, state.layer);
  const cell = view.size / n;
  const where = view.size === run.length ? `all ${count(run.length)} positions` : `positions ${count(view.from)} to ${count(view.from + view.size - 1)}`;
  return `${phase.pattern}, ${where}${cell > 1 ? `, a cell is ${count(cell)}\u00a0\u00d7\u00a0${count(cell)}` : ''}.`
    + (illustrated ? ` Which keys a list holds is found in a run: an illustration of the right share, seed ${seed}.` : '');
}
