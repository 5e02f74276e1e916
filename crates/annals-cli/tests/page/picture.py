"""The picture of the page in the README, from a real run of the demo: `picture.py ANNALS OUT`."""

import pathlib
import shutil
import sys
import tempfile

from playwright.sync_api import sync_playwright

import scenarios
from main import BROWSERS

# Where the demo's last step has just found its prefix changed.
BLOCK = 42


def main() -> None:
    annals, out = sys.argv[1:]
    program = next(filter(None, map(shutil.which, BROWSERS)))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        world = scenarios.World(browser, annals, "", pathlib.Path(folder))
        server, conversation = scenarios.demo(world)
        tab = world.tab(server, width=1440, height=860)
        tab.open(conversation, BLOCK)
        tab.page.wait_for_selector("[data-first-changed-byte]")
        tab.page.wait_for_timeout(500)
        tab.page.screenshot(path=out)
        world.end()
        browser.close()


if __name__ == "__main__":
    main()
