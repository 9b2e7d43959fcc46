// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Numbers and names for people.

const count = n => Math.round(n).toLocaleString('en-US');
const plural = (n, what) => `${count(n)} ${what}${n === 1 ? '' : 's'}`;

function percent(share) {
  const value = 100 * share;
  return `${value >= 99.95 || value === 0 ? value.toFixed(0) : value >= 0.1 ? value.toFixed(1) : value.toPrecision(1)}%`;
}

/** Three digits and a unit, in powers of 1000. */
function scaled(value, units) {
  let unit = 0;
  while (value >= 999.5 && unit + 1 < units.length) { value /= 1000; ++unit; }
  return `${unit === 0 ? count(value) : Number(value.toPrecision(3))} ${units[unit]}`;
}
const bytesText = n => scaled(n, ['B', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB']);

/** Runs [first, last, stride] as "1-4, 9, 13, 17 ... 125 every 4". */
function runsText(runs) {
  return runs.map(([first, last, stride]) =>
    first === last ? count(first) : stride === 1
      ? last === first + 1 ? `${count(first)}, ${count(last)}` : `${count(first)}\u2013${count(last)}`
      : `${count(first)} to ${count(last)} every ${count(stride)}`).join(', ') || 'none';
}

const stepsIn = runs => runs.reduce((sum, [first, last, stride]) => sum + (last - first) / stride + 1, 0);

/** An element with text and attributes; null attributes are left out. */
function element(name, attributes, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== null && value !== false) made.setAttribute(key, value);
  made.append(...content);
  return made;
}

/** A table of rows whose cells are texts or nodes; the first cell of a row is its
    header. `text` names columns that are words. */
function table(caption, heads, rows, text = []) {
  const kind = i => text.includes(i) ? 'text' : null;
  return element('table', {}, element('caption', { class: 'skip' }, caption),
    element('thead', {}, element('tr', {}, ...heads.map((head, i) => element('th', { scope: 'col', class: kind(i) }, head)))),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...row.map((cell, i) =>
      element(i ? 'td' : 'th', { scope: i ? null : 'row', class: kind(i) }, cell))))));
}

/** Fills tables when they are opened, and those that are open; a page names them in
    `tables`. */
function makeTables() {
  for (const details of document.querySelectorAll('details[data-table]'))
    details.addEventListener('toggle', () => fillTable(details));
}
function fillTable(details) {
  if (!details.open) return;
  const box = details.querySelector('.table');
  box.replaceChildren(...tables[details.dataset.table]());
  // What scrolls must be reachable without a mouse.
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  const title = details.closest('section').querySelector('h2');
  box.setAttribute('aria-label', `${title.textContent}: ${details.querySelector('summary').textContent}`);
}
