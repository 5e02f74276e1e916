"""What the scenarios share: a browser, servers that end with the scenario, one server over the demo's home."""

import json
import pathlib
import shutil
import subprocess
import threading

from playwright.sync_api import Browser

import conversations
from page import Tab
from provider import Provider
from server import Server

PRICE = {"input_nanousd": 3000, "cache_read_nanousd": 300, "cache_write_nanousd": 3750, "output_nanousd": 15000}
LONG_BLOCKS = 50_000


def text(words: str, **more) -> dict:
    """A step of a script that says something."""
    return {"text": words, **more}


def call(tool: str, params: dict, **more) -> dict:
    """A step of a script that calls a tool."""
    return {"tool_calls": [{"id": more.pop("id", "tc_1"), "tool": tool, "params": params}], **more}


class Shared:
    """What is made once, for all scenarios, whichever thread needs it first."""

    def __init__(self, annals: str, axe: str, folder: pathlib.Path):
        self.annals, self.axe, self.folder = annals, axe, folder
        self.measured: dict[str, float] = {}
        self.lock, self.demo_lock = threading.Lock(), threading.Lock()
        self.homes = 0
        self.demo_server: tuple[Server, str] | None = None
        self.importing: subprocess.Popen | None = None

    def home(self) -> pathlib.Path:
        with self.lock:
            self.homes += 1
            home = self.folder / f"home{self.homes}"
        home.mkdir(parents=True)
        return home

    def prepare_long(self):
        """Begins to import the long conversation; it takes a while, and nobody needs it at first."""
        file = conversations.long_conversation(LONG_BLOCKS).write(self.folder)
        self.long_home = self.home()
        self.importing = subprocess.Popen([self.annals, "--home", str(self.long_home), "timeline", "import", str(file)], stdout=subprocess.DEVNULL)

    def long(self) -> pathlib.Path:
        """The home with the long conversation."""
        assert self.importing.wait() == 0
        return self.long_home

    def demo(self) -> tuple[Server, str]:
        """A server over the home of the demo, and the demo's conversation. Scenarios only read it."""
        with self.demo_lock:
            if self.demo_server is None:
                # A script of the demo's own name, so that its prices are known.
                home = self.folder / "demo"
                home.mkdir()
                subprocess.run([self.annals, "--home", str(home), "demo", "--fast", "--into", str(home)], check=True, capture_output=True)
                server = Server(self.annals, home, {"steps": [text("Thank you.")], "price": PRICE})
                self.demo_server = server, json.loads(server.annals_says("conversations", "--json"))[0]["id"]
            return self.demo_server

    def end(self):
        if self.demo_server:
            self.demo_server[0].stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class World:
    """One scenario's surroundings."""

    def __init__(self, browser: Browser, shared: Shared):
        self.browser, self.shared = browser, shared
        self.annals, self.axe, self.folder, self.measured = shared.annals, shared.axe, shared.folder, shared.measured
        self.running: list[Server | Provider] = []
        self.tabs: list[Tab] = []

    def home(self) -> pathlib.Path:
        return self.shared.home()

    def demo(self) -> tuple[Server, str]:
        return self.shared.demo()

    def serve(self, model: dict | Provider, home: pathlib.Path | None = None) -> Server:
        """A server with a script or a provider in the model's place."""
        if isinstance(model, Provider):
            self.running.append(model)
        server = Server(self.annals, home or self.home(), model)
        self.running.insert(0, server)
        return server

    def tab(self, server: Server, **options) -> Tab:
        tab = Tab(self.browser, server, **options)
        self.tabs.append(tab)
        return tab

    def end(self):
        for tab in self.tabs:
            tab.context.close()
        for thing in self.running:
            thing.stop()
        self.tabs, self.running = [], []
