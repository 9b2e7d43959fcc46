// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Maps of attention: mass by colour, on a scale of powers of ten, and over it the pairs
// that are computed.

/** A map as an image of cells. */
function image(map, layer, head, overlay) {
  const n = run.cells, mass = square('maps.mass', map, layer, head), kept = square('maps.kept', map, layer, head);
  const rows = rowsOf(map, layer), front = channels('kind-0'), back = channels('card'), veil = channels('row-a'), empty = channels('row-c');
  const small = document.createElement('canvas');
  small.width = small.height = n;
  const pixels = new ImageData(n, n);
  for (let q = 0; q < n; ++q)
    for (let k = 0; k < n; ++k) {
      const i = q * n + k;
      let rgb = rows[q] ? mixed(back, front, mass[i] / 255) : empty;
      if (rows[q] && overlay === 'out') rgb = mixed(rgb, veil, 0.78 * (1 - kept[i] / 255));
      pixels.data.set([...rgb, 255], 4 * i);
    }
  small.getContext('2d').putImageData(pixels, 0, 0);
  return small;
}

function makeMap() {
  legend('pattern-legend', [['much of a row\u2019s mass', 'solid', 'kind-0'], ['little', 'solid', 'card'],
    ['left out', 'solid', 'row-a'], ['row not computed', 'solid', 'row-c']]);
  return new Picture(document.getElementById('pattern'), (context, width, height) => {
    const map = mapAt(state.step), overlay = document.getElementById('overlay').value, n = run.cells;
    context.imageSmoothingEnabled = false;
    context.drawImage(image(map, state.layer, state.head, overlay), 0, 0, width, height);
    if (overlay !== 'in') return;
    // An outline around cells of which at least half is computed.
    const kept = square('maps.kept', map, state.layer, state.head), rows = rowsOf(map, state.layer);
    const inside = (q, k) => q >= 0 && k >= 0 && q < n && k < n && rows[q] && kept[q * n + k] >= 128;
    context.strokeStyle = colour('accent');
    context.lineWidth = 1;
    context.beginPath();
    for (let q = 0; q <= n; ++q)
      for (let k = 0; k <= n; ++k) {
        const here = inside(q, k), x = k / n * width, y = q / n * height;
        if (here !== inside(q - 1, k) && k < n) { context.moveTo(x, y); context.lineTo((k + 1) / n * width, y); }
        if (here !== inside(q, k - 1) && q < n) { context.moveTo(x, y); context.lineTo(x, (q + 1) / n * height); }
      }
    context.stroke();
  });
}

/** All heads of the layer, small; a click chooses one. */
function makeHeads() {
  const canvas = document.getElementById('heads'), across = Math.min(8, Math.ceil(Math.sqrt(run.heads)));
  const down = Math.ceil(run.heads / across);
  document.getElementById('heads-box').style.aspectRatio = `${across} / ${down}`;
  canvas.addEventListener('pointerdown', event => {
    const box = canvas.getBoundingClientRect();
    const head = Math.floor((event.clientY - box.top) / box.height * down) * across + Math.floor((event.clientX - box.left) / box.width * across);
    if (head < run.heads) select(state.step, state.layer, head);
  });
  return new Picture(canvas, (context, width, height) => {
    const map = mapAt(state.step), w = width / across, h = height / down;
    for (let head = 0; head < run.heads; ++head) {
      const x = head % across * w, y = Math.floor(head / across) * h;
      context.imageSmoothingEnabled = true;
      context.drawImage(image(map, state.layer, head, 'out'), x + 2, y + 2, w - 4, h - 4);
      context.strokeStyle = colour(head === state.head ? 'accent' : 'line');
      context.lineWidth = head === state.head ? 2 : 1;
      context.strokeRect(x + 1.5, y + 1.5, w - 3, h - 3);
    }
  });
}

/** What the map shows, in words. */
function mapText() {
  const map = mapAt(state.step), cell = run.length / run.cells;
  const rows = rowsOf(map, state.layer).reduce((sum, n) => sum + n, 0);
  return rows === 0 ? `At step ${count(mapStep(map))} this layer computes no row.`
    : `Recorded at step ${count(mapStep(map))}, ${count(rows)} rows, ${cell > 1 ? `a cell is ${Number(cell.toPrecision(3))}\u00a0\u00d7\u00a0${Number(cell.toPrecision(3))} positions` : 'a cell is a pair'}.`
      + ` The pairs that are computed hold ${percent(recallOf(map, state.layer, state.head))} of the mass.`;
}
