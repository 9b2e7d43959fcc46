// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Bytes that the schedule keeps from step to step.

const kept = data.memory.map((part, i) => ({ name: part.name, bytes: overSteps(part.bytes, 0),
  look: [['rows', 'diagonal', 'columns', 'dots', 'checks', 'solid'][i % 6], `kind-${[1, 2, 3, 4, 5, 0][i % 6]}`, 'kind-ground'] }));

const keptAt = step => kept.reduce((sum, part) => sum + part.bytes[step - 1], 0);

function makeMemory() {
  let most = 0;
  for (let step = 1; step <= run.steps; ++step) most = Math.max(most, keptAt(step));
  document.getElementById('memory-note').textContent = most
    ? `What is kept for all ${plural(run.layers, 'layer')} from step to step: at most ${bytesText(most)}. Weights and the activations of a step are not in it.`
      + (data.passes.length ? ' A step that recomputes a row refreshes all that is kept of it.' : '')
    : 'Nothing is kept from step to step: every step computes all rows, and there are no lists.';
  const box = document.getElementById('memory');
  if (!most) {
    box.hidden = document.querySelector('details[data-table=memory]').hidden = true;
    return null;
  }
  const plot = new StepPlot('memory');
  plot.lane([[bytesText(most), 0], ['0', 1]], 110, (context, width, height) => {
    context.fillStyle = colour('row-a');
    context.fillRect(0, 0, width, height);
    kept.forEach((part, i) => {
      const below = step => kept.slice(0, i).reduce((sum, other) => sum + other.bytes[step - 1], 0) / most;
      area(context, width, height, step => part.bytes[step - 1] / most, ...part.look, below);
    });
  }, null, step => select(step, state.layer));
  plot.axis();
  legend('memory-legend', kept.map(part => [part.name, ...part.look]));
  return plot;
}
