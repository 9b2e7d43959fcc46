#!/usr/bin/env python3
# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the pictures of docs/images that show `heddlec --explain=html` anew.

usage: pictures.py --heddlec=build/dev/bin/heddlec [--check]

--check compares instead. Fonts differ between machines, so text is not compared:
what the page draws stands on canvases that hold no text and whose sizes depend
on the window alone. Each picture names its canvases in a tEXt chunk, and each
canvas is compared pixel by pixel, wherever text has pushed it. At most one pixel
in a hundred may differ by more than 24 of 255 in a channel: edges are smoothed
differently from one version of the browser to the next.
"""

import argparse
import base64
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from browser import Browser, find

ROOT = Path(__file__).resolve().parents[3]
IMAGES = ROOT / "docs" / "images"
KEYWORD = b"heddle-canvases"
WIDTH, HEIGHT, SCALE = 1280, 1150, 1.25

# Name -> (example, options, step and layer, dark)
PICTURES = {
    f"explain-{name}{'-dark' if dark else ''}.png": (example, options, place, dark)
    for name, example, options, place in (
        ("columns", "pulsecol", ("--steps=1024", "--length=65536", "--prompt=0", "--block-length=65536"), (300, 0)),
        ("composed", "columns-window-saliency",
         ("--steps=128", "--length=384", "--prompt=128", "--block-length=256"), (60, 5)),
    )
    for dark in (False, True)
}

# Those that are whole in the window: number -> place in the picture's pixels.
CANVASES = """Object.fromEntries([...document.querySelectorAll('canvas')].map((canvas, i) => {
  const box = canvas.getBoundingClientRect();
  return [i, [box.x, box.y, box.width, box.height].map(n => n * SCALE)];
}).filter(([i, [x, y, w, h]]) => w && h && y + h <= innerHeight * SCALE))""".replace("SCALE", str(SCALE))

COMPARE = """(async (one, other) => {
  const load = async ({png, canvases}) => {
    const image = new Image();
    image.src = 'data:image/png;base64,' + png;
    await image.decode();
    return Object.entries(canvases).map(([i, [x, y, w, h]]) => {
      const canvas = document.createElement('canvas');
      canvas.width = Math.round(w);
      canvas.height = Math.round(h);
      const context = canvas.getContext('2d', {willReadFrequently: true});
      context.drawImage(image, -Math.round(x), -Math.round(y));
      return [i, context.getImageData(0, 0, canvas.width, canvas.height)];
    });
  };
  const now = new Map(await load(other));
  return (await load(one)).filter(([i]) => now.has(i)).map(([i, was]) => {
    const is = now.get(i), size = [was.width, was.height, is.width, is.height];
    if (Math.abs(was.width - is.width) > 1 || Math.abs(was.height - is.height) > 1)
      return {canvas: i, size, share: 1};
    const width = Math.min(was.width, is.width), height = Math.min(was.height, is.height);
    let different = 0;
    for (let y = 0; y < height; ++y)
      for (let x = 0; x < width; ++x)
        for (let c = 0; c < 3; ++c)
          if (Math.abs(was.data[4 * (y * was.width + x) + c] - is.data[4 * (y * is.width + x) + c]) > 24) {
            ++different;
            break;
          }
    return {canvas: i, size, share: different / (width * height)};
  });
})"""


def chunks(png):
    """The chunks of a PNG file: (type, data)."""
    at = 8  # behind the signature
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        yield kind, png[at + 8:at + 8 + length]
        at += 12 + length


def with_canvases(png, canvases):
    """The same picture with the canvases' places in a tEXt chunk, packed tighter
    than the browser does."""
    parts = list(chunks(png))
    pixels = zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT"))
    parts = [parts[0], (b"tEXt", KEYWORD + b"\0" + json.dumps(canvases).encode()),
             (b"IDAT", zlib.compress(pixels, 9)), (b"IEND", b"")]
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts)


def canvases_of(png):
    for kind, data in chunks(png):
        if kind == b"tEXt" and data.startswith(KEYWORD + b"\0"):
            return json.loads(data[len(KEYWORD) + 1:])
    raise ValueError("the picture names no canvases; draw it anew with pictures.py")


def draw(browser, heddlec, folder, name):
    example, options, (step, layer), dark = PICTURES[name]
    page = Path(folder) / f"{example}.html"
    if not page.exists():
        subprocess.run([heddlec, ROOT / "examples" / f"{example}.mlir", "--explain=html",
                        "-o", page, *options], check=True)
    browser.open(f"file://{page}#step={step}&layer={layer}", WIDTH, HEIGHT, dark, SCALE)
    canvases = browser.run(CANVASES)
    return with_canvases(browser.screenshot(), canvases)


def compare(browser, was, now):
    """What differs between two pictures, as sentences."""
    both = [json.dumps({"png": base64.b64encode(png).decode(), "canvases": canvases_of(png)})
            for png in (was, now)]
    browser.open("about:blank")
    found = browser.run(f"{COMPARE}({both[0]}, {both[1]})")
    if len(found) < 8:  # larger text may push some out of the window, not all
        return [f"only {len(found)} canvases stand in both"]
    return [f"canvas {one['canvas']} of {one['size'][:2]} pixels: {100 * one['share']:.1f}% "
            f"differ (now {one['size'][2:]})" for one in found if one["share"] > 0.01]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--heddlec", required=True, type=Path)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    if not find():
        sys.exit("pictures.py: no Chromium on this machine; install Debian's package chromium-headless-shell")
    failed = False
    with Browser() as browser, tempfile.TemporaryDirectory() as folder:
        for name in PICTURES:
            png = draw(browser, options.heddlec, folder, name)
            if not options.check:
                IMAGES.mkdir(exist_ok=True)
                (IMAGES / name).write_bytes(png)
                print(f"{name}: {len(png) / 1000:.0f} kB")
                continue
            problems = compare(browser, (IMAGES / name).read_bytes(), png)
            failed |= bool(problems)
            print(f"{name}: " + ("; ".join(problems) or "the same"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
