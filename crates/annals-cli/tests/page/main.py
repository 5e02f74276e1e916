"""Drives the page in Chromium: `main.py ANNALS AXE FOLDER [SCENARIO]…`. Prints one line a scenario and what it measured;
ends with 1 if any of them failed."""

import json
import pathlib
import shutil
import sys
import time
import traceback

from playwright.sync_api import sync_playwright

import scenarios

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


def main() -> int:
    annals, axe, folder, *wanted = sys.argv[1:]
    folder = pathlib.Path(folder)
    program = next(filter(None, map(shutil.which, BROWSERS)))
    failed = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        world = scenarios.World(browser, annals, axe, folder)
        for scenario in scenarios.ALL:
            if wanted and scenario.__name__ not in wanted:
                continue
            began = time.monotonic()
            try:
                scenario(world)
                outcome = "ok"
            except Exception:  # noqa: BLE001 - every failure is reported, the others still run
                failed += 1
                outcome = "FAILED\n" + traceback.format_exc()
            finally:
                world.end()
            print(f"{scenario.__name__}: {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
        print("measured " + json.dumps(world.measured), flush=True)
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
