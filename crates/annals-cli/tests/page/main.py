"""Drives the page in Chromium: `main.py ANNALS AXE FOLDER [SCENARIO]…`. Prints one line a scenario and what it measured;
ends with 1 if any of them failed."""

import json
import pathlib
import queue
import shutil
import sys
import threading
import time
import traceback

from playwright.sync_api import sync_playwright

import scenarios
from world import Shared, World

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
# Scenarios wait more than they work.
BESIDE_EACH_OTHER = 2


def chromium() -> str:
    return next(filter(None, map(shutil.which, BROWSERS)))


def drive(todo: queue.Queue, shared: Shared, failed: list[str]):
    """Takes scenarios until there are none left."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        while True:
            try:
                scenario = todo.get_nowait()
            except queue.Empty:
                break
            world = World(browser, shared)
            began = time.monotonic()
            try:
                scenario(world)
                outcome = "ok"
            except Exception:  # noqa: BLE001 - every failure is reported, the others still run
                failed.append(scenario.__name__)
                outcome = "FAILED\n" + traceback.format_exc()
            finally:
                world.end()
            print(f"{scenario.__name__}: {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
        browser.close()


def main() -> int:
    annals, axe, folder, *wanted = sys.argv[1:]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    shared = Shared(annals, axe, pathlib.Path(folder))
    chosen = lambda all: [scenario for scenario in all if not wanted or scenario.__name__ in wanted]
    failed: list[str] = []
    if chosen(scenarios.ALONE):
        shared.prepare_long()
    for group, threads in ((scenarios.ALL, BESIDE_EACH_OTHER), (scenarios.ALONE, 1)):
        todo: queue.Queue = queue.Queue()
        for scenario in chosen(group):
            todo.put(scenario)
        drivers = [threading.Thread(target=drive, args=(todo, shared, failed)) for _ in range(min(threads, todo.qsize()))]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
    shared.end()
    print("measured " + json.dumps(shared.measured), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
