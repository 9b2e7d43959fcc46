// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What the run costs by part, beside a dense run of the same lengths.

/** A bar for a share of dense; what is beyond dense is marked. */
function bar(share, most) {
  const made = element('span', { class: 'bar', 'aria-hidden': 'true' });
  const piece = element('i', { class: share > 1 ? 'over' : null });
  piece.style.width = `${Math.min(100, 100 * share / most)}%`;
  made.append(piece);
  return made;
}

function makeCost() {
  const { parts, bound } = data.cost;
  const most = Math.max(1, ...parts.map(part => part.share));
  document.getElementById('cost').append(table('Cost by part', ['Part', 'As a bar', 'Of dense'],
    parts.map(part => [part.name, bar(part.share, most), `${bound}${percent(part.share)}`]), []));
  document.getElementById('ratio').append(element('b', {}, `${data.cost.speed_bound}${data.cost.times_as_fast.toFixed(2)} times as fast`),
    `as a dense run of the same lengths, estimated for ${data.cost.machine}${data.cost.drift && `. ${data.cost.drift}.`}${data.cost.fallbacks.map(each => `. With ${each}.`).join("")}`);
}
