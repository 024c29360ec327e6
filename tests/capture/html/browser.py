"""Headless Chromium over the DevTools protocol: two pipes and JSON, so that no driver has to fit the browser's version."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from pathlib import Path

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60
KEYS = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "ArrowRight": (39, ""),
    "ArrowLeft": (37, ""),
    "End": (35, ""),
}


class Browser:
    """A browser with one page open; every wait is bounded."""

    def __init__(self, folder: Path):
        program = next(path for name in PROGRAMS if (path := shutil.which(name)))
        read_commands, self._write = os.pipe()
        self._read, write_answers = os.pipe()

        def as_three_and_four():
            # Chromium reads descriptor 3 and writes 4; duplicates first, as either may be among the pipe's own numbers.
            reading, writing = os.dup(read_commands), os.dup(write_answers)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self._process = subprocess.Popen(
            [
                program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                f"--user-data-dir={folder}", "about:blank",
            ],
            pass_fds=(3, 4, read_commands, write_answers) if os.name == "posix" else (),
            env={**os.environ, "TMPDIR": str(folder)},
            preexec_fn=as_three_and_four, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_commands)
        os.close(write_answers)
        self._buffer, self._number, self.events, self._session = b"", 0, [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility", "Security"):
            self.call(f"{domain}.enable")

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(SECONDS)
        os.close(self._read)
        os.close(self._write)

    def call(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _next(self, deadline):
        while b"\0" not in self._buffer:
            with selectors.DefaultSelector() as selector:
                selector.register(self._read, selectors.EVENT_READ)
                assert selector.select(deadline - time.monotonic()), "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser ended"
            self._buffer += data
        one, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(one)

    def open(
        self, path: Path, *, dark=False, width=1280, height=900, scripts=True, media="screen", motion="no-preference"
    ):
        self.events.clear()
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": motion},
        ]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def wait_for(self, method):
        deadline = time.monotonic() + SECONDS
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next(deadline))

    def run(self, code):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key):
        code, text = KEYS.get(key, (ord(key.upper()[0]), key))
        event = {"key": key, "windowsVirtualKeyCode": code, "text": text}
        self.call("Input.dispatchKeyEvent", type="keyDown", **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        for letter in text:
            self.press(letter)

    def screenshot(self, whole=False):
        return base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])

    def tree(self):
        """The accessibility tree's nodes that a screen reader is told of."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]

    def told(self, method):
        return [event["params"] for event in self.events if event.get("method") == method]
