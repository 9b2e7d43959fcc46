// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Positions over steps: the whole simulation as one picture, and the chosen step as
// a strip.

const roleNames = ['not visible', 'read from the cache', 'recomputed in part: in some layers, or as the run decides', 'recomputed'];
const roleColours = ['row-a', 'row-c', 'row-p', 'row-r'];
const roleTextures = ['solid', 'rows', 'diagonal', 'solid'];


function makeSequence() {
  const note = document.getElementById('sequence-note');
  if (!simulation) {
    note.classList.add('warning');
    note.textContent = `Not drawn: ${data.simulation.error}.`;
    return null;
  }
  note.textContent = (data.simulation.follows
    ? 'The positions became tokens as in the run that is followed.'
    : `Which positions become tokens when is found in a run. This is one of many: made-up confidences with seed ${data.simulation.seed}, `
      + `everything else by the schedule's own rules.`)
    + (simulation.bin > 1 ? ` A cell stands for ${count(simulation.bin)} positions and shows the most that is done for any of them.` : '')
    + (simulation.allSteps < run.steps ? ` It ends after step ${count(simulation.allSteps)}.` : '')
    + (simulation.allSteps > run.steps ? ` It goes on beyond the planned steps, to step ${count(simulation.allSteps)}.` : '');
  const plot = new StepPlot('sequence');
  const { bins, steps } = simulation;
  const labels = [[`position 0`, 0]];
  if (run.prompt) labels.push(['response', run.prompt / run.length]);
  labels.push([count(run.length - 1), 1]);
  plot.lane(labels, 230, (context, width, height) => {
    const image = new ImageData(steps, bins);
    const role = roleColours.map(channels), mask = channels('masked'), paper = channels('card'), now = channels('commit');
    for (let bin = 0; bin < bins; ++bin) {
      const decoded = simulation.decoded[bin];
      for (let step = 1; step <= steps; ++step) {
        const what = rolesAt(step)[bin];
        let rgb = role[what];
        // What is still masked is mixed with the colour of masks.
        rgb = mixed(rgb, what ? mask : paper, what ? 0.62 * maskedShare(bin, step) : 0);
        if (simulation.bin === 1 && decoded[0] === step) rgb = now;
        image.data.set([...rgb, 255], 4 * (bin * steps + step - 1));
      }
    }
    const small = document.createElement('canvas');
    small.width = steps;
    small.height = bins;
    small.getContext('2d').putImageData(image, 0, 0);
    context.fillStyle = colour('row-a');
    context.fillRect(0, 0, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, StepPlot.x(steps + 1, width), height);
    if (run.prompt) {
      context.fillStyle = colour('ink');
      context.fillRect(0, run.prompt / run.length * height - 0.5, width, 1);
    }
  }, null, step => select(step, state.layer));
  plot.axis();
  const used = new Set(simulation.rows.flatMap(row => [...new Set(row)]));
  legend('sequence-legend', [
    ...[3, 2, 1, 0].filter(role => used.has(role)).map(role => [roleNames[role], 'solid', roleColours[role]]),
    ['the more still masked, the more of this', 'solid', 'masked'],
    ...(simulation.bin === 1 ? [['becomes a token', 'solid', 'commit']] : [])]);
  return plot;
}

/** The chosen step: above what is done for each position, below what it holds. */
function makeStrip() {
  const canvas = document.getElementById('strip');
  if (!simulation) {
    canvas.hidden = true;
    return null;
  }
  legend('strip-legend', [...(run.prompt ? [['prompt', 'dots', 'prompt', 'row-a']] : []), ['token', 'solid', 'token'], ['masked', 'solid', 'masked'],
    ...(simulation.bin === 1 ? [['becomes one', 'solid', 'commit']] : [])]);
  return new Picture(canvas, (context, width, height) => {
    const roles = rolesAt(state.step);
    context.clearRect(0, 0, width, height);
    if (!roles) return;
    const split = Math.round(height * 0.62);
    const runs = (valueAt, draw) => {
      for (let bin = 0; bin < simulation.bins;) {
        let end = bin + 1;
        while (end < simulation.bins && valueAt(end) === valueAt(bin)) ++end;
        draw(valueAt(bin), bin / simulation.bins * width, (end - bin) / simulation.bins * width);
        bin = end;
      }
    };
    runs(bin => roles[bin], (role, x, w) => {
      context.fillStyle = fill(context, roleTextures[role], colour(roleColours[role]), colour('row-a'));
      context.fillRect(x, 0, w, split);
    });
    runs(bin => isPrompt(bin) ? -1 : maskedShare(bin, state.step), (share, x, w) => {
      context.fillStyle = share < 0 ? fill(context, 'dots', colour('prompt'), colour('row-a')) : colour('token');
      context.fillRect(x, split, w, height - split);
      if (share > 0) {
        context.fillStyle = colour('masked');
        context.fillRect(x, split, w, (height - split) * share);
      }
    });
    context.fillStyle = colour('commit');
    if (simulation.bin === 1)
      simulation.decoded.forEach((decoded, bin) => {
        if (decoded[0] === state.step) context.fillRect(bin / simulation.bins * width, split, Math.max(1, width / simulation.bins), height - split);
      });
    context.fillStyle = colour('card');
    context.fillRect(0, split - 0.5, width, 1);
  });
}
