# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a page must be for everybody: names, contrast, a keyboard that gets
everywhere. Rules of WCAG 2.1, level AA, by number; axe-core as well where its
axe.min.js is (HEDDLE_AXE names it; PyPI's axe-playwright-python carries one)."""

import importlib.util
import json
import os
from pathlib import Path

# 1.4.3: text against what is behind it. 1.4.11: borders of controls.
CONTRAST = """(() => {
  const parse = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const luminance = rgb => rgb.slice(0, 3).map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility() || ['SCRIPT', 'STYLE'].includes(element.tagName)) continue;
    if (element.closest(':disabled')) continue;
    ++texts;
    const style = getComputedStyle(element), large = parseFloat(style.fontSize) >= 24
      || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    const is = ratio(parse(style.color), behind(element));
    if (is < (large ? 3 : 4.5)) found.push(`1.4.3: "${text.slice(0, 40)}" has a contrast of ${is.toFixed(2)}`);
  }
  for (const control of document.querySelectorAll('input, select, button')) {
    if (!control.checkVisibility() || control.disabled || control.type === 'range') continue;
    const is = ratio(parse(getComputedStyle(control).borderTopColor), behind(control.parentElement));
    if (is < 3) found.push(`1.4.11: the border of #${control.id} has a contrast of ${is.toFixed(2)}`);
  }
  return {found, texts};
})()"""

# 1.1.1, 1.3.1, 2.4.2, 2.4.6, 3.1.1, 4.1.1.
STRUCTURE = """(() => {
  const found = [], all = selector => [...document.querySelectorAll(selector)];
  if (!document.documentElement.lang) found.push('3.1.1: the page names no language');
  if (!document.title.trim()) found.push('2.4.2: the page has no title');
  const levels = all('h1, h2, h3, h4').filter(h => h.checkVisibility()).map(h => Number(h.tagName[1]));
  if (levels.filter(level => level === 1).length !== 1) found.push('1.3.1: expected one h1');
  levels.forEach((level, i) => { if (i && level > levels[i - 1] + 1) found.push(`1.3.1: h${level} follows h${levels[i - 1]}`); });
  const ids = all('[id]').map(element => element.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) found.push(`4.1.1: id ${id} twice`);
  for (const attribute of ['aria-labelledby', 'aria-describedby'])
    for (const element of all(`[${attribute}]`))
      for (const id of element.getAttribute(attribute).split(' '))
        if (!document.getElementById(id)) found.push(`1.3.1: ${attribute} names ${id}, which there is not`);
  for (const canvas of all('canvas'))
    if (canvas.checkVisibility() && canvas.getAttribute('aria-hidden') !== 'true' && !canvas.getAttribute('aria-label'))
      found.push(`1.1.1: the picture #${canvas.id} says nothing`);
  for (const table of all('table')) {
    if (!table.caption) found.push('1.3.1: a table without a caption');
    if (![...table.querySelectorAll('thead th')].every(head => head.scope === 'col')) found.push('1.3.1: a head of a table without a scope');
  }
  for (const box of all('*'))
    if (box.checkVisibility() && box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(box).overflowY)
        && box !== document.documentElement && box !== document.body && box.tabIndex < 0)
      found.push(`2.1.1: what scrolls in ${box.tagName} ${box.id || box.className} is out of a keyboard's reach`);
  return found;
})()"""

FOCUS = """(() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  return {what: at.id || at.parentElement.id || at.textContent.trim().slice(0, 30) || at.tagName,
          seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.right > 0};
})()"""


def names(browser):
    """4.1.2: what can have the focus has a name and a role."""
    found = []
    for node in browser.send("Accessibility.getFullAXTree")["nodes"]:
        if node.get("ignored"):
            continue
        role = node.get("role", {}).get("value", "")
        focusable = any(p["name"] == "focusable" and p["value"].get("value")
                        for p in node.get("properties", []))
        name = node.get("name", {}).get("value", "").strip()
        if focusable and role != "RootWebArea" and (not name or role in ("generic", "none")):
            found.append(f"4.1.2: something with role {role or 'none'} has no name")
    return found


def focus_order(browser):
    """What Tab reaches, in order, and what shows no focus (2.4.7)."""
    browser.run("document.activeElement.blur()")
    order, found = [], []
    for _ in range(200):
        browser.key("Tab")
        at = browser.run(FOCUS)
        if not at or (order and at["what"] == order[0]):
            break
        order.append(at["what"])
        if not at["seen"]:
            found.append(f"2.4.7: nothing shows that {at['what']} has the focus")
    return order, found


def axe_source():
    named = os.environ.get("HEDDLE_AXE")
    if named:
        return Path(named).read_text(encoding="utf-8")
    for module, path in (("axe_playwright_python", "axe.min.js"),
                         ("axe_selenium_python", "node_modules/axe-core/axe.min.js")):
        spec = importlib.util.find_spec(module)
        if spec and spec.origin and (Path(spec.origin).parent / path).is_file():
            return (Path(spec.origin).parent / path).read_text(encoding="utf-8")
    return None


def axe(browser, source):
    """What axe-core finds, as sentences."""
    browser.run(source + "\n;0")
    result = browser.run("axe.run(document, {resultTypes: ['violations', 'incomplete']})"
                         ".then(r => ({version: r.testEngine.version, passes: r.passes.length,"
                         " violations: r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html.slice(0, 100))])}))")
    return [f"axe {result['version']}: {rule}: {text}: {json.dumps(nodes)}"
            for rule, text, nodes in result["violations"]], result


def check(browser):
    """All that is wrong with the page that is open, as sentences."""
    contrast = browser.run(CONTRAST)
    assert contrast["texts"] > 20, "the page has next to no text"
    order, unseen = focus_order(browser)
    found = contrast["found"] + browser.run(STRUCTURE) + names(browser) + unseen
    source = axe_source()
    if source:
        found += axe(browser, source)[0]
    return found, order
