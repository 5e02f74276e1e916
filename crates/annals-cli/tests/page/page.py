"""The page in a browser, by the names that people and screen readers find things by."""

import os
import pathlib

from playwright.sync_api import Browser, Page, expect

from server import Server

expect.set_options(timeout=20_000)

# While somebody works on the page, its files come from this folder instead of the program.
ASSETS = os.environ.get("ANNALS_PAGE_ASSETS", "")


class Tab:
    """One tab. It notes whatever ran, failed or left the origin."""

    def __init__(self, browser: Browser, server: Server, width: int = 1440, height: int = 900, scheme: str = "light", axe: str = ""):
        self.server = server
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
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

    def axe(self, where: str):
        """Fails on any rule of axe that the page breaks."""
        found = self.page.evaluate("() => window.axe.run(document, { resultTypes: ['violations'] })")
        broken = [
            f"{rule['id']}: {rule['help']}: {node['target']} {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for rule in found["violations"]
            for node in rule["nodes"][:3]
        ]
        assert broken == [], f"{where}:\n" + "\n".join(broken)

    def close(self):
        self.check_clean()
        self.context.close()
