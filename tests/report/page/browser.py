# SPDX-License-Identifier: MIT
"""Drives headless Chromium through its debugging pipe, with Python's standard library alone."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """Path of a browser that runs, or None. Ubuntu's package is a script that asks for a snap."""
    for path in filter(None, map(shutil.which, ("chromium", "chromium-browser"))):
        if subprocess.run([path, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return path
    return None


class Browser:
    """One page of one browser process; a context manager."""

    def __init__(self, width=1280, height=1000):
        self.exceptions = []
        self.requests = []
        self._next_id = 0
        self._buffer = b""
        self._events = []
        self._profile = tempfile.mkdtemp(prefix="swr-browser-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        def wire():
            # Above 4 first: one of the pipes' own ends may be 3 or 4.
            reader, writer = os.dup2(to_read, 100), os.dup2(to_write, 101)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        arguments = [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--disable-background-networking", "--remote-debugging-pipe",
                     f"--user-data-dir={self._profile}", f"--window-size={width},{height}",
                     "about:blank"]
        self._process = subprocess.Popen(arguments, preexec_fn=wire, close_fds=False,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self._session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _receive(self, timeout):
        deadline = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._in, 1 << 16)
            if not chunk:
                raise RuntimeError("the browser ended")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event):
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.exceptions.append(details["exceptionDetails"])
        elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.exceptions.append(details["entry"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"][:200])
        self._events.append(method)

    def call(self, method, timeout=250, **parameters):
        """Sends a command and returns its result."""
        self._next_id += 1
        message = {"id": self._next_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data):]
        while True:
            answer = self._receive(timeout)
            if answer.get("id") == self._next_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def open(self, url):
        """Loads a page and returns the seconds of a processor that it took until its load event,
        whatever else runs on the machine."""
        self._events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._note(self._receive(250))
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(metric["value"] for metric in metrics if metric["name"] == "ProcessTime")

    def evaluate(self, expression):
        """The value of a JavaScript expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=100):
        """Waits until the expression is true."""
        deadline = time.monotonic() + seconds
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.02)

    def press(self, key, code=None):
        """A key as a person presses it."""
        text = "\r" if key == "Enter" else None
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "code": code or key,
                     "windowsVirtualKeyCode": {"Tab": 9, "Enter": 13}.get(key, 0)}
            if text and kind == "keyDown":
                event["text"] = text
            self.call("Input.dispatchKeyEvent", **event)

    def media(self, scheme="light", kind=""):
        """Colour scheme and medium ("" or "print")."""
        self.call("Emulation.setEmulatedMedia", media=kind,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path, whole=False):
        """Writes the visible part, or the whole page, as PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pdf(self):
        """The page as it would be printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
