"""The page in a browser, by the names that people and screen readers find things by."""

import os
import pathlib
import re
import types

from playwright.sync_api import Browser, Page, expect

# Generous: a busy machine must not fail a test, and a condition that holds does not wait.
expect.set_options(timeout=60_000)

# While somebody works on the page, its files come from this folder instead of the program.
ASSETS = os.environ.get("ANNALS_PAGE_ASSETS", "")
# Where pictures of what the scenarios see go, for somebody who wants to look at them.
SHOTS = os.environ.get("ANNALS_PAGE_SHOTS", "")


class Tab:
    """One tab. It notes whatever ran, failed or left the origin."""

    def __init__(self, browser: Browser, server, width: int = 1440, height: int = 900, scheme: str = "light", axe: str = ""):
        self.server = server
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
        self.context.set_default_timeout(60_000)
        self.page: Page = self.context.new_page()
        if ASSETS:
            self.context.route(server.origin + "/**/*.{js,css}", self.from_folder)
            self.context.route(server.origin + "/*.css", self.from_folder)
        if axe:
            self.context.add_init_script(path=axe)
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(f"{error.message}\n{error.stack}"))
        self.page.on("request", self.requested)
        self.page.on("dialog", self.asked)
        self.page.goto(server.url)

    @classmethod
    def at(cls, browser: Browser, address: str) -> "Tab":
        """At an address that some program printed."""
        origin = re.match(r"http://[^/]+", address).group(0)
        return cls(browser, types.SimpleNamespace(origin=origin, url=address))

    def shot(self, name: str):
        if SHOTS:
            self.page.screenshot(path=pathlib.Path(SHOTS) / f"{name}.png")

    def scroll_on(self) -> bool:
        """Scrolls by most of a screen and waits until what is there is drawn; whether there was more."""
        by = "() => { const v = document.querySelector('.viewport'); const before = v.scrollTop; v.scrollTop += v.clientHeight * 0.9; return v.scrollTop > before + 1; }"
        moved = self.page.evaluate(by)
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(self.page.locator("article.pending")).to_have_count(0)
        return moved

    def from_folder(self, route):
        route.fulfill(path=pathlib.Path(ASSETS) / route.request.url.removeprefix(self.server.origin + "/"))

    def requested(self, request):
        address = request.url
        if not address.startswith((self.server.origin, "data:", "blob:", "about:", "chrome")):
            self.foreign.append(address)

    def asked(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, conversation: str, at: int | None = None):
        place = f"#/c/{conversation}" + (f"@{at}" if at else "")
        self.page.evaluate("place => { location.hash = place; }", place)
        self.page.wait_for_selector("article[data-seq]:not(.pending)")

    def new(self) -> str:
        before = self.page.evaluate("() => location.hash")
        self.page.get_by_role("button", name="New conversation").click()
        self.page.wait_for_function("before => location.hash !== before && location.hash.startsWith('#/c/')", arg=before)
        return self.page.evaluate("() => location.hash.slice(4)")

    def send(self, text: str):
        self.page.get_by_role("textbox", name="Message").fill(text)
        self.page.get_by_role("button", name="Send").click()

    def done(self):
        """Waits until the last turn has ended."""
        expect(self.page.locator("article[data-type='react.completion']").last).to_be_visible()
        expect(self.page.locator(".chip.live")).to_have_count(0)

    def tab(self, name: str):
        self.page.get_by_role("tab", name=name, exact=True).click()

    def texts(self) -> list[str]:
        """What the rows near the end say, without what depends on the moment."""
        return self.page.evaluate(
            "() => [...document.querySelectorAll('article[data-seq]')].map(row => row.dataset.seq + ' ' + row.dataset.type + ' ' + row.querySelector('.body').innerText)"
        )

    def rendered(self) -> str:
        """The model's view as it stands on the panel."""
        return self.page.evaluate("() => [...document.querySelectorAll('[data-rendered]')].map(part => part.textContent).join('')")

    def check_clean(self):
        assert self.errors == [], self.errors
        assert self.foreign == [], self.foreign
        assert self.dialogs == [], self.dialogs

    def look(self, at: int, tab: str):
        """Moves the position and opens a side of the inspector; waits until it is drawn."""
        self.page.evaluate("place => { location.hash = place; }", self.page.evaluate("() => location.hash.split('@')[0]") + f"@{at}")
        self.tab(tab)
        self.page.wait_for_selector(f".panel[data-at='{at}']", state="attached")

    def seqs(self) -> list[int]:
        """The blocks that have a row now."""
        return self.page.evaluate("() => [...document.querySelectorAll('article[data-seq]')].map(row => Number(row.dataset.seq))")

    def axe(self, where: str, within: str = "html"):
        """Fails on any rule of axe that the page, or a part of it, breaks."""
        found = self.page.evaluate("within => window.axe.run(within === 'html' ? document : within, { resultTypes: ['violations'] })", within)
        broken = [
            f"{rule['id']}: {rule['help']}: {node['target']} {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]
        assert broken == [], f"{where}:\n" + "\n".join(broken)

    def close(self):
        self.check_clean()
        self.context.close()
