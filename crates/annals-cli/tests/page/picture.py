"""The picture of the page in the README, from a real run of the demo: `picture.py ANNALS OUT`."""

import pathlib
import sys
import tempfile

from playwright.sync_api import expect, sync_playwright

from everybody import BLOCK
from main import chromium
from world import Shared, World


def main() -> None:
    annals, out = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        shared = Shared(annals, "", pathlib.Path(folder) / "work")
        shared.folder.mkdir()
        world = World(browser, shared)
        server, conversation = world.demo()
        tab = world.tab(server, width=1360, height=800)
        tab.open(conversation, BLOCK)
        tab.page.wait_for_selector(f".panel[data-at='{BLOCK}'] [data-first-changed-byte]")
        # What led to the answer is above it.
        tab.page.locator(".viewport").evaluate("viewport => { viewport.scrollTop -= 190; }")
        tab.page.wait_for_load_state("networkidle")
        expect(tab.page.locator("article.pending")).to_have_count(0)
        tab.page.screenshot(path=out)
        world.end()
        shared.end()
        browser.close()


if __name__ == "__main__":
    main()
