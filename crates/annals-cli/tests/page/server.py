"""The real program, `annals serve`, with a script in the model's place."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time


class Server:
    def __init__(self, annals: str, home: pathlib.Path, script: dict, port: int = 0):
        self.annals, self.home, self.port = annals, home, port
        self.script = home.parent / f"{home.name}.json"
        self.script.write_text(json.dumps(script))
        self.log: list[str] = []
        self.url = ""
        self.start()

    def start(self):
        """Starts, and waits for the address that it prints."""
        listen = f"127.0.0.1:{self.port}"
        command = [self.annals, "--home", str(self.home), "--model", f"script:{self.script}", "serve", "--listen", listen]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = threading.Event()

        def read():
            for line in self.process.stdout:
                self.log.append(line)
                address = re.search(r"http://127\.0\.0\.1:(\d+)/\S*", line)
                if address and not found.is_set():
                    self.url, self.port = address.group(0), int(address.group(1))
                    found.set()
            found.set()

        threading.Thread(target=read, daemon=True).start()
        if not found.wait(60) or not self.url:
            raise AssertionError("annals serve printed no address:\n" + "".join(self.log))

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

    def annals_says(self, *arguments: str) -> str:
        """What a command of the program prints about the same home."""
        command = [self.annals, "--home", str(self.home), *arguments]
        environment = {**os.environ, "NO_COLOR": "1"}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def until(condition, seconds: float = 20, what: str = "it"):
    """Waits for something to become true, and gives it back."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")
