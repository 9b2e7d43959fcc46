# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Headless Chromium over a pair of pipes: no driver program, no sockets.

The protocol is Chromium's own (https://chromedevtools.github.io/devtools-protocol),
JSON messages that end with a zero byte, on file descriptors 3 and 4.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The browser's path, or None."""
    named = os.environ.get("HEDDLE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, PROGRAMS)), None)


class BrowserError(Exception):
    pass


class Browser:
    """One browser with one page. A context manager."""

    def __init__(self, program=None, timeout=60):
        self.timeout = timeout
        self.profile = tempfile.mkdtemp(prefix="heddle-browser-")
        # The child's ends lie above 4 until they become 3 and 4.
        to_read, self.out = os.pipe()
        self.into, to_write = os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write)]

        def wire():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program or find(), "--headless=new", "--remote-debugging-pipe",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--disable-background-networking", "--no-first-run",
             "--disable-component-update", "--disable-sync",
             "--hide-scrollbars", "--force-color-profile=srgb",
             "--font-render-hinting=none", "--disable-lcd-text",
             f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=wire, pass_fds=(3, 4), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (to_read, to_write, *ends):
            os.close(fd)
        self.buffer = b""
        self.next_id = 0
        self.events = []
        self.session = None
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=page["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Performance.enable", timeDomain="threadTicks")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        os.close(self.out)
        os.close(self.into)
        for _ in range(50):  # its children may still write there
            shutil.rmtree(self.profile, ignore_errors=True)
            if not os.path.exists(self.profile):
                break
            time.sleep(0.1)

    def _receive(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                raise BrowserError(f"the browser said nothing for {self.timeout} s")
            got = os.read(self.into, 1 << 20)
            if not got:
                raise BrowserError("the browser ended")
            self.buffer += got
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def send(self, method, **params):
        """Calls a method of the protocol and returns its result."""
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.timeout
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self.next_id:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event):
        deadline = time.monotonic() + self.timeout
        while not any(e.get("method") == event for e in self.events):
            self.events.append(self._receive(deadline))

    def open(self, path, width=1280, height=800, dark=False, scale=1, touch=False):
        """Opens a file in a window of a size in CSS pixels; returns the seconds
        until it has loaded and drawn."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=touch)
        self.send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])
        self.events.clear()  # the page before has loaded, which is not waited for
        self.send("Page.navigate", url="about:blank")
        self.wait_for("Page.loadEventFired")
        self.events.clear()
        start = time.monotonic()
        url = path if path.startswith(("file:", "about:")) else "file://" + os.path.abspath(path)
        self.send("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        # Two frames later everything has been drawn.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
        return time.monotonic() - start

    def own_seconds(self):
        """Seconds that the page's thread has computed since it was opened, whatever else the machine does."""
        return next(m["value"] for m in self.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")

    def run(self, script):
        """The value of a JavaScript expression, promises awaited."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description")
                               or details["text"])
        return result["result"].get("value")

    def key(self, key, **more):
        """Presses a key, named as in KeyboardEvent.key."""
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else None)
        codes = {"Tab": 9, "Enter": 13, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35,
                 "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        params = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), **more}
        if text:
            params["text"] = text
        self.send("Input.dispatchKeyEvent", type="keyDown", **params)
        params.pop("text", None)
        self.send("Input.dispatchKeyEvent", type="keyUp", **params)

    def screenshot(self, whole=False):
        """PNG bytes of the window, or of the whole page."""
        return base64.b64decode(self.send(
            "Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def problems(self):
        """Errors of scripts, messages to the console, and what was fetched."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
            elif method == "Runtime.consoleAPICalled":
                found.append("console: " + json.dumps(params["args"]))
            elif method == "Log.entryAdded":
                found.append("log: " + params["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if not url.startswith(("file://", "data:", "about:")):
                    found.append("fetched " + url)
        return found
