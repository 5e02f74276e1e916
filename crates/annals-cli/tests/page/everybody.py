"""Readers of all kinds: light and dark, a phone, a keyboard and nothing else, a screen reader; and a newcomer's first look."""

import pathlib
import re
import signal
import subprocess

from playwright.sync_api import expect

from files import shows_pages
from page import Tab
from provider import Provider, calls
from server import first_address
from world import World
from writing import POLICY

# Where the demo's first turn has just answered, after its prefix changed.
BLOCK = 43
TABS = ("Model's view", "Call", "Files", "Sources", "Plan", "Sandbox", "Raw")
PHONE = {"width": 390, "height": 844}


def view_layer(world: World):
    """Signals, elements, keyed lists and sums of heights, each by its rule."""
    server, _ = world.demo()
    tab = world.tab(server)
    failures = tab.page.evaluate(pathlib.Path(__file__).with_name("view_layer.js").read_text())
    assert failures == [], failures
    tab.close()


def accessible(world: World):
    """axe finds nothing in light, dark and on a phone, on any panel."""
    server, conversation = world.demo()
    for scheme in ("light", "dark"):
        for size in ({}, PHONE):
            where = f"{scheme} {size or 'wide'}"
            tab = world.tab(server, axe=world.axe, scheme=scheme, **size)
            tab.axe(f"{where} welcome")
            tab.shot(f"welcome-{scheme}-{'phone' if size else 'wide'}")
            tab.open(conversation, BLOCK)
            tab.page.wait_for_selector(f".panel[data-at='{BLOCK}']", state="attached")
            tab.axe(f"{where} timeline")
            tab.shot(f"timeline-{scheme}-{'phone' if size else 'wide'}")
            if size:
                fits(tab)
                tab.page.get_by_role("button", name="Show inspector").click()
            # A phone's panels have the colours of the wide ones: one scheme shows what its width changes.
            for name in TABS if not (size and scheme == "dark") else ():
                tab.look(BLOCK, name)
                expect(tab.page.locator(".panel > *").first).to_be_visible()
                tab.page.wait_for_function("() => !document.querySelector('.panel > .empty')?.textContent.startsWith('Re')")
                # The rest of the page is the same as before.
                tab.axe(f"{where} {name}", ".inspector")
                tab.shot(f"{name[:5].lower()}-{scheme}-{'phone' if size else 'wide'}")
            tab.close()


def fits(tab: Tab):
    """Nothing is wider than the screen."""
    wide = tab.page.evaluate("() => document.documentElement.scrollWidth")
    assert wide <= PHONE["width"], wide


def a_phone_reads_everything(world: World):
    """390 px: the list, a conversation, a PDF as pictures, a table; nothing is wider than the screen."""
    server, conversation = world.demo()
    tab = world.tab(server, **PHONE)
    fits(tab)
    tab.page.get_by_role("button", name="Show conversations").click()
    tab.page.get_by_role("list", name="Conversations").get_by_role("link").first.click()
    expect(tab.page).to_have_url(re.compile(re.escape(conversation)))
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_be_visible()
    fits(tab)
    tab.page.get_by_role("button", name="Show inspector").click()
    tab.tab("Files")
    panel = tab.page.get_by_role("tabpanel")
    panel.get_by_role("button", name="report.pdf").click()
    shows_pages(tab)
    shown = tab.page.locator("img.pdf-page").first.bounding_box()
    assert 300 < shown["width"] <= PHONE["width"], shown
    fits(tab)
    tab.shot("pdf-phone")
    panel.get_by_role("button", name="All files").click()
    panel.get_by_role("button", name="sales.csv").click()
    expect(panel.get_by_role("columnheader").first).to_have_text("month")
    fits(tab)
    tab.page.get_by_role("button", name="Close inspector").click()
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_be_visible()
    tab.close()


FOCUSED = """() => {
  const focused = document.activeElement;
  return { role: focused.getAttribute('role') ?? focused.tagName.toLowerCase(), name: focused.getAttribute('aria-label') ?? focused.innerText ?? '' };
}"""


def tab_to(tab: Tab, name: str, key: str = "Tab"):
    """Presses Tab until what has this name is focused. Fails if the focus comes round without having met it."""
    met = []
    for _ in range(120):
        tab.page.keyboard.press(key)
        focused = tab.page.evaluate(FOCUSED)
        met.append(focused["name"][:30])
        # A panel is focused for scrolling, and its text begins with that of its first button.
        if focused["role"] != "tabpanel" and focused["name"].strip().startswith(name):
            return
    raise AssertionError(f"the keyboard does not reach {name!r}: {met}")


def the_keyboard_is_enough(world: World):
    """A whole visit without a mouse: begin, write, decide, look around, open a file, compare versions, fork, search, stop."""
    home = world.home()
    (home / "policy.toml").write_text(POLICY)
    write = lambda text: calls(("react.write", {"path": "plan.md", "channel": "canvas", "content": text, "kind": "file"}))
    server = world.serve(Provider(write("# One\n"), write("# Two\n"), calls(("run_shell_command", {"command": "echo hi"})), "All done.", calls(("run_shell_command", {"command": "sleep 300"}))), home)
    tab = world.tab(server)
    press = tab.page.keyboard.press
    tab_to(tab, "New conversation")
    press("Enter")
    expect(tab.page.get_by_role("textbox", name="Message")).to_be_focused()
    tab.page.keyboard.type("Write a plan.")
    press("Enter")
    expect(tab.page.get_by_role("button", name="Approve")).to_be_visible()
    tab_to(tab, "Blocks of the conversation", "Shift+Tab")
    press("a")
    expect(tab.page.get_by_role("group", name="Approval of run_shell_command").first).to_be_focused()
    tab_to(tab, "Approve")
    press("Enter")
    tab.done()
    press("m")
    # Moving through the blocks, and what belongs to one of them.
    press("Escape")
    press("g")
    expect(tab.page.locator("article[aria-current]")).to_have_attribute("data-seq", "1")
    press("j")
    expect(tab.page.locator("article[aria-current]")).to_have_attribute("data-seq", "2")
    press("k")
    press("G")
    expect(tab.page.locator(".past")).to_be_hidden()
    press("3")
    expect(tab.page.get_by_role("tab", name="Files")).to_be_focused()
    tab_to(tab, "plan.md")
    press("Enter")
    panel = tab.page.get_by_role("tabpanel")
    expect(panel.locator(".prose h1")).to_have_text("Two")
    press("3")
    tab_to(tab, "Difference")
    press("Enter")
    expect(panel.locator(".diff .added .text")).to_have_text("# Two")
    press("3")
    press("ArrowRight")
    expect(tab.page.get_by_role("tab", name="Sources")).to_be_focused()
    expect(tab.page.get_by_role("tab", name="Sources")).to_have_attribute("aria-selected", "true")
    # Fork, compare, search.
    before = tab.page.evaluate("() => location.hash")
    press("Escape")
    press("f")
    tab.page.wait_for_function("before => location.hash !== before", arg=before)
    expect(tab.page.locator("article[data-type='react.completion']")).to_be_visible()
    tab_to(tab, "Compare")
    press("Enter")
    expect(tab.page.get_by_role("dialog", name="Compare two conversations")).to_be_visible()
    press("Escape")
    press("/")
    tab.page.keyboard.type("plan")
    expect(tab.page.get_by_role("list", name="Search results").get_by_role("link").first).to_be_visible()
    press("Tab")
    press("Enter")
    press("?")
    expect(tab.page.get_by_role("dialog", name="Keys")).to_be_visible()
    press("Escape")
    # A turn that is stopped.
    press("m")
    tab.page.keyboard.type("Now wait.")
    press("Enter")
    expect(tab.page.locator("article[data-type='react.tool.call'] .running")).to_be_visible()
    press("Escape")
    expect(tab.page.locator("article[data-type='react.completion']").last).to_contain_text("cancelled")
    tab.close()


def the_demo_opens_on_the_page(world: World):
    """`annals demo --serve` prints an address that opens the demo's own conversation."""
    command = [world.annals, "--home", str(world.home()), "demo", "--fast", "--serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = first_address(process)
        assert "#/c/" in address, address
        tab = Tab.at(world.browser, address)
        world.tabs.append(tab)
        expect(tab.page.locator("article[data-type='react.completion']").last).to_be_visible()
        expect(tab.page.locator("h1.title")).not_to_be_empty()
        tab.tab("Files")
        expect(tab.page.get_by_role("tabpanel").get_by_role("button", name="report.pdf")).to_be_visible()
        tab.check_clean()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


ALL = [view_layer, accessible, a_phone_reads_everything, the_keyboard_is_enough, the_demo_opens_on_the_page]
