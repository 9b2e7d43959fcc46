// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// What the run costs by part, beside a dense run of the same lengths: all of it
// as the compiler estimates it.

const cost = data.cost;
const costParts = [...cost.parts, { name: 'the rest', ...cost.between }];
const partLook = i => [['solid', 'diagonal', 'columns', 'dots', 'rows', 'checks', 'solid'][i % 7], `kind-${[0, 1, 4, 3, 2, 5, 5][i % 7]}`, 'kind-ground'];

/** Time and operations of a step of the run, by kind: arrays whose entry 0 is
    step 1. */
const stepCost = (() => {
  const seconds = new Float64Array(run.steps), operations = new Float64Array(run.steps);
  for (const kind of cost.kinds) {
    const each = stepsIn(kind.steps);
    for (const step of expand(kind.steps))
      if (step <= run.steps) {
        seconds[step - 1] = kind.seconds / each;
        operations[step - 1] = kind.operations / each;
      }
  }
  return { seconds, operations, most: seconds.reduce((a, b) => Math.max(a, b), 0) };
})();

function makeCost() {
  const box = document.getElementById('cost');
  const most = Math.max(cost.seconds, cost.dense_seconds);
  for (const [name, key, total] of [['dense', 'dense_seconds', cost.dense_seconds], ['this schedule', 'seconds', cost.seconds]]) {
    const canvas = element('canvas', { 'aria-hidden': 'true' });
    box.append(element('div', { class: 'beside' }, element('span', {}, name), canvas,
      element('span', {}, `${key === 'seconds' ? cost.bound : ''}${secondsText(total)}`)));
    new Picture(canvas, (context, width, height) => {
      let x = 0;
      costParts.forEach((part, i) => {
        const w = part[key] / most * width, [texture, front, back] = partLook(i);
        context.fillStyle = fill(context, texture, colour(front), colour(back));
        context.fillRect(x, 0, w, height);
        x += w;
      });
    });
  }
  box.append(element('div', { class: 'legend', id: 'cost-legend' }));
  legend('cost-legend', costParts.map((part, i) => [part.name, ...partLook(i)]));
  const share = (a, b) => b > 0 ? percent(a / b) : '';
  box.append(element('div', { class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Cost by part as a table' },
    table('Cost by part', ['Part', 'Rows or pairs', 'Of dense', 'Operations', 'Bytes', 'Time', 'Dense time'],
      costParts.map(part => part.unit
        ? [part.name, `${pairsText(part.amount)} ${part.unit}`, share(part.amount, part.dense_amount), flopText(part.operations),
          bytesText(part.bytes), secondsText(part.seconds), secondsText(part.dense_seconds)]
        : [part.name, '', '', '', '', secondsText(part.seconds), secondsText(part.dense_seconds)]))));
  document.getElementById('ratio').append(
    element('b', {}, `${cost.bound === 'at most ' ? 'at least ' : cost.bound}${cost.times_as_fast.toFixed(2)} times as fast as dense`),
    `estimated for ${cost.machine}: ${cost.bound}${secondsText(cost.seconds)} instead of ${secondsText(cost.dense_seconds)}`);
}
