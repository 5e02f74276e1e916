"""The real program, `annals serve`, with a script or a provider in the model's place."""

import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import threading
import time


class Server:
    def __init__(self, annals: str, home: pathlib.Path, model, port: int = 0):
        self.annals, self.home, self.port = annals, home, port
        if isinstance(model, dict):
            script = home.parent / f"{home.name}.json"
            script.write_text(json.dumps(model))
            self.model = ["--model", f"script:{script}"]
        else:
            self.model = model.options
        self.start()

    def start(self):
        """Starts, and waits for the address that it prints."""
        listen = f"127.0.0.1:{self.port}"
        command = [self.annals, "--home", str(self.home), *self.model, "serve", "--listen", listen]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.url = first_address(self.process)
        self.port = int(re.search(r":(\d+)/", self.url).group(1))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self):
        """As power loss ends it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()

    def annals_starts(self, *arguments: str) -> subprocess.Popen:
        """A command of the program about the same home, begun."""
        command = [self.annals, "--home", str(self.home), *arguments]
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    def annals_says(self, *arguments: str) -> str:
        """What a command of the program prints about the same home."""
        process = self.annals_starts(*arguments)
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, arguments
        return said


def first_address(process: subprocess.Popen) -> str:
    """The address that a program prints; what it prints afterwards is read and forgotten, so that it never waits."""
    found: queue.Queue[str] = queue.Queue()
    said: list[str] = []

    def read():
        for line in process.stdout:
            said.append(line)
            address = re.search(r"http://127\.0\.0\.1:\d+/\S*", line)
            if address:
                found.put(address.group(0))
        found.put("")

    threading.Thread(target=read, daemon=True).start()
    address = found.get(timeout=120)
    assert address, "no address was printed:\n" + "".join(said)
    return address


def until(condition, seconds: float = 20, what: str = "it"):
    """Waits for something to become true, and gives it back."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")
