// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Drawing that any page of pictures can use: colours of the theme, textures, a
// canvas that stays sharp, and a plot over steps with a cursor that all plots
// share. Pictures hold no text: labels are elements, so that they can be read,
// searched and scaled, and a picture is the same with every font.

const probe = element('span', { hidden: '' });
document.body.append(probe);
const resolved = new Map();

/** A colour of page.css in the present theme. */
function colour(name) {
  if (!resolved.has(name)) {
    probe.style.color = `var(--${name})`;
    resolved.set(name, getComputedStyle(probe).color);
  }
  return resolved.get(name);
}

/** [r, g, b] of a colour as the browser says it, and one between two. */
const channels = name => colour(name).match(/[\d.]+/g).slice(0, 3).map(Number);
const mixed = (a, b, share) => a.map((value, i) => value + (b[i] - value) * share);

/** Colours by number and a texture each, so that no kind is told by colour alone. */
const textures = ['solid', 'columns', 'checks', 'diagonal', 'dots', 'rows'];

const tiles = new Map();
/** A fill: marks in one colour on a lighter tone between it and another. */
function fill(context, texture, front, back) {
  if (texture === 'solid') return front;
  const key = `${texture} ${front} ${back}`;
  if (!tiles.has(key)) {
    const size = 6;
    const tile = document.createElement('canvas');
    tile.width = tile.height = size;
    const draw = tile.getContext('2d');
    draw.fillStyle = back;
    draw.fillRect(0, 0, size, size);
    draw.fillStyle = front;
    draw.globalAlpha = 0.5;
    draw.fillRect(0, 0, size, size);
    draw.globalAlpha = 0.6;
    if (texture === 'columns') { draw.fillRect(0, 0, 1, size); draw.fillRect(3, 0, 1, size); }
    if (texture === 'rows') draw.fillRect(0, 0, size, 2);
    if (texture === 'checks') { draw.fillRect(0, 0, 3, 3); draw.fillRect(3, 3, 3, 3); }
    if (texture === 'dots') draw.fillRect(1, 1, 3, 3);
    if (texture === 'diagonal')
      for (let i = 0; i < size; ++i) { draw.fillRect(i, i, 2, 1); if (i + 1 === size) draw.fillRect(0, i, 1, 1); }
    tiles.set(key, tile);
  }
  return context.createPattern(tiles.get(key), 'repeat');
}

/** Lines across whatever is drawn: it depends on the run. */
function hatch(context) {
  if (!tiles.has('hatch')) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 8;
    const draw = tile.getContext('2d');
    draw.fillStyle = colour('card');
    for (let i = 0; i < 8; ++i) { draw.fillRect(i, 7 - i, 3, 1); draw.fillRect(i - 8, 7 - i, 3, 1); }
    tiles.set('hatch', tile);
  }
  return context.createPattern(tiles.get('hatch'), 'repeat');
}

const pictures = [];

/** Keeps a canvas as large as its box and as sharp as the screen; draw(context,
    width, height) is in CSS pixels. `over` is drawn on top, without the rest
    anew. */
class Picture {
  constructor(canvas, draw, over = () => {}) {
    Object.assign(this, { canvas, drawBase: draw, drawOver: over, base: document.createElement('canvas') });
    new ResizeObserver(() => this.redraw()).observe(canvas);
    pictures.push(this);
  }
  redraw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    this.scale = window.devicePixelRatio || 1;
    for (const canvas of [this.canvas, this.base]) {
      canvas.width = Math.round(width * this.scale);
      canvas.height = Math.round(height * this.scale);
    }
    const context = this.base.getContext('2d');
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.drawBase(context, width, height);
    this.recall();
  }
  /** Only what lies over the picture has changed. */
  recall() {
    if (!this.scale) return;
    const context = this.canvas.getContext('2d');
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.base, 0, 0);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    this.drawOver(context, this.canvas.clientWidth, this.canvas.clientHeight);
  }
}

/** Redraws everything in the theme's present colours. */
function repaint() {
  resolved.clear();
  tiles.clear();
  for (const picture of pictures) picture.redraw();
}

/** A legend: [name, texture, front, back], the colours by their names. */
function legend(id, entries) {
  document.getElementById(id).replaceChildren(...entries.map(([name, texture, front, back]) => {
    const swatch = element('canvas', { 'aria-hidden': 'true' });
    new Picture(swatch, (context, width, height) => {
      context.fillStyle = fill(context, texture === 'hatch' ? 'solid' : texture, colour(front), colour(back || 'card'));
      context.fillRect(0, 0, width, height);
      if (texture !== 'hatch') return;
      context.fillStyle = hatch(context);
      context.fillRect(0, 0, width, height);
    });
    return element('span', {}, swatch, name);
  }));
}

/** Numbers for an axis from `first` to `last`: some `most` round ones and both
    ends. */
function ticks(first, last, most) {
  const rough = (last - first) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough) || 1;
  const marks = [first];
  for (let mark = Math.ceil((first + step / 2) / step) * step; mark < last - step / 2; mark += step) marks.push(mark);
  return last > first ? [...marks, last] : marks;
}

/** A plot over the steps of the run: lanes one below the other, each a label and
    a canvas, on one axis. */
class StepPlot {
  constructor(id) {
    this.box = document.getElementById(id);
    this.lanes = [];
  }
  /** Where a step begins in a canvas of some width; steps go from 1 to `steps` + 1. */
  static x(step, width) { return (step - 1) / run.steps * width; }
  static stepAt(x, width) { return Math.min(run.steps, Math.max(1, Math.floor(x / width * run.steps) + 1)); }

  /** labels: [[text, share of the height], ...]; draw(context, width, height). */
  lane(labels, height, draw, over, pick) {
    const canvas = element('canvas', { style: `height:${height}px`, 'aria-hidden': 'true' });
    const label = element('div', { class: 'label', style: `height:${height}px` });
    let below = -99;
    for (const [text, share] of labels) {
      const top = Math.min(height - 14, Math.max(0, below + 13, share * height - 7));
      label.append(element('span', { style: `top:${top}px`, title: text }, text));
      below = top;
    }
    this.box.append(element('div', { class: 'lane' }, label, canvas));
    const picture = new Picture(canvas, draw, (context, width, height) => {
      const x = StepPlot.x(state.step, width), w = Math.max(1, width / run.steps);
      context.strokeStyle = colour('ink');
      context.lineWidth = 1;
      context.strokeRect(Math.max(0.5, x - 0.5), -2, Math.min(w + 1, width - x), height + 4);
      if (over) over(context, width, height, x, w);
    });
    const choose = event => {
      const bounds = canvas.getBoundingClientRect();
      pick(StepPlot.stepAt(event.clientX - bounds.left, bounds.width), (event.clientY - bounds.top) / bounds.height);
    };
    canvas.addEventListener('pointerdown', event => { canvas.setPointerCapture(event.pointerId); choose(event); });
    canvas.addEventListener('pointermove', event => { if (event.buttons) choose(event); });
    this.lanes.push(picture);
  }
  axis() {
    const ruler = element('div', { class: 'ticks', 'aria-hidden': 'true' });
    this.box.append(element('div', { class: 'lane' }, element('div', { class: 'label' }, element('span', { style: 'top:3px' }, 'step')), ruler));
    new ResizeObserver(() => ruler.replaceChildren(...ticks(1, run.steps, ruler.clientWidth / 80).map(mark =>
      element('span', { style: `left:${100 * StepPlot.x(mark + 0.5, 1)}%` }, count(mark))))).observe(ruler);
  }
  recall() { for (const lane of this.lanes) lane.recall(); }
}

/** The least width that a single step is drawn with: none may vanish. */
const leastWidth = context => 1.25 / (context.getTransform().a || 1);

/** The button that chooses the colours. */
function makeTheme() {
  const button = document.getElementById('theme'), names = ['system', 'light', 'dark'];
  let now = 0;
  button.addEventListener('click', () => {
    now = (now + 1) % names.length;
    document.documentElement.style.colorScheme = names[now] === 'system' ? '' : names[now];
    button.textContent = `Colours: ${names[now]}`;
    repaint();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
}
