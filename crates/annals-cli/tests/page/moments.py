"""Any moment of a conversation: what the model saw, what it cost, what was decided, what changed the view."""

import json

from playwright.sync_api import expect

import conversations
from world import PRICE, World, call, text


def a_broken_cache_is_explained(world: World):
    """The third step broke the prefix: four buckets, the cost, the first changed byte, and the block that changed it."""
    report = "# Report\n\n" + "A line of the report that the model has to read again. " * 40
    steps = [
        call("react.write", {"path": "report.md", "channel": "canvas", "content": report, "kind": "display"}, id="tc_write"),
        call("react.hide", {"path": "fi:turn_break.files/report.md", "replacement": "the report"}, id="tc_hide"),
        text("It is written."),
    ]
    home = world.home()
    server = world.serve({"steps": steps, "price": PRICE}, home)
    server.stop()
    conversation = json.loads(server.annals_says(*server.model, "run", "Write a report", "--turn-id", "turn_break", "--json").splitlines()[0])
    listed = json.loads(server.annals_says("conversations", "--json"))
    identifier = listed[0]["id"]
    why = json.loads(server.annals_says("timeline", "render", identifier, "--why", "--json"))
    broke = why[2]["broke"]
    assert broke and conversation, why
    server.start()
    tab = world.tab(server)
    tab.open(identifier, why[2]["at"])
    tab.tab("Model's view")
    card = tab.page.locator("[data-step='3']")
    expect(card).to_be_visible()
    usage = why[2]["usage"]
    uncached = usage["input_tokens"] - usage["cache_read_tokens"] - usage["cache_write_tokens"]
    expected = {"cache_read": usage["cache_read_tokens"], "cache_write": usage["cache_write_tokens"], "uncached": uncached, "output": usage["output_tokens"]}
    for bucket, tokens in expected.items():
        expect(card.locator(f"[data-bucket={bucket}]")).to_have_text(f"{tokens:,}")
    nano = (
        uncached * PRICE["input_nanousd"]
        + usage["cache_read_tokens"] * PRICE["cache_read_nanousd"]
        + usage["cache_write_tokens"] * PRICE["cache_write_nanousd"]
        + usage["output_tokens"] * PRICE["output_nanousd"]
    )
    shown = card.locator("[data-cost]").inner_text()
    assert abs(float(shown.strip("$<")) - nano / 1e9) <= 0.0006, (shown, nano)
    expect(card.locator("[data-first-changed-byte]")).to_have_text(str(broke["byte"]))
    expect(card.locator("[data-cause-block]")).to_have_attribute("data-cause-block", str(broke["cause"]["seq"]))
    # The hide and the break that it caused are two marks; each leads to its block.
    expect(tab.page.locator("[data-mark=hide]")).to_have_count(1)
    expect(tab.page.locator("[data-mark=break]")).to_have_count(1)
    expect(tab.page.locator("[data-marks=break]")).to_have_text("cache break")
    tab.page.locator("[data-mark=hide]").click()
    expect(tab.page).to_have_url(f"{server.origin}/#/c/{identifier}@{broke['cause']['seq']}")
    tab.look(why[2]["at"], "Model's view")
    expect(tab.page.locator(".part").first).to_be_visible()
    kinds = tab.page.evaluate("() => [...document.querySelectorAll('.part')].map(part => part.dataset.cache)")
    order = ["read", "write", "uncached"]
    assert kinds == sorted(kinds, key=order.index) and kinds[0] == "read", kinds
    tab.close()


def the_slider_shows_what_render_prints(world: World):
    """At each position the panel has the very bytes that the command line prints."""
    server, conversation = world.demo()
    tab = world.tab(server)
    tab.open(conversation)
    tab.tab("Model's view")
    slider = tab.page.get_by_role("slider", name="Position")
    moments = (1, 5, 12, 25, 36, 42, 44, 60)
    printing = {at: server.annals_starts("timeline", "render", conversation, "--at", str(at)) for at in moments}
    for at in moments:
        slider.evaluate("(element, at) => { element.value = at; element.dispatchEvent(new Event('input', { bubbles: true })); }", str(at))
        expect(tab.page).to_have_url(f"{server.origin}/#/c/{conversation}@{at}")
        expect(tab.page.locator(f".model-view[data-at='{at}'] .parts")).to_be_visible()
        printed, _ = printing[at].communicate(timeout=120)
        assert tab.rendered() == printed, f"block {at} differs"
    tab.close()


def marked() -> conversations.Export:
    """A conversation that was hidden from in its uncached end, pruned, compacted, and whose cache expired once."""
    export = conversations.Export("conv_marked", "Marked")

    def turn(number: int, read: int, written: int):
        name = f"turn_m{number}"
        usage = {"input_tokens": 9000, "cache_read_tokens": read, "cache_write_tokens": written, "output_tokens": 50}
        export.block("turn.header", name, "text/plain", path=f"ar:{name}.turn.header")
        export.block("user.prompt", name, author="user", path=f"ar:{name}.user.prompt", text=f"Question {number}.")
        export.block("assistant.completion", name, author="assistant", path=f"ar:{name}.assistant.completion", text="Answered.", meta={"step": 1, "usage": usage})
        report = {"outcome": "complete", "rounds": 0, "iterations": 1, "usage": usage, "elapsed_ms": 5}
        export.block("react.completion", name, "application/json", path=f"ar:{name}.react.completion", text=conversations.compact(report))
        return name

    def hide(name: str, reason: str, number: int, target: str):
        said = {"reason": reason, "items": [{"path": target, "from_seq": 2, "replacement": "gone"}]}
        export.block("timeline.hide", name, "application/json", path=f"ar:{name}.timeline.hide.{number}", text=conversations.compact(said))

    first = turn(1, 0, 4000)
    hide(first, "hide", 1, f"ar:{first}.assistant.completion")
    turn(2, 4000, 500)
    second = turn(3, 4500, 500)
    hide(second, "ttl", 2, f"ar:{first}.user.prompt")
    third = turn(4, 100, 4000)
    covered = {"covered_turn_ids": [first], "first_kept_seq": 6}
    export.block("conv.range.summary", third, path=f"ar:{third}.conv.range.summary", text="What came before.", meta=covered)
    turn(5, 4100, 200)
    turn(6, 0, 4500)
    return export


def the_strip_tells_breaks_from_hides(world: World):
    """Hides, prunes, compactions and cache breaks are marks of their own; a hide that broke nothing is no break."""
    home = world.home()
    file = marked().write(world.folder)
    server = world.serve({"steps": [], "price": PRICE}, home)
    tab = world.tab(server)
    tab.page.locator("input[accept='.annals']").set_input_files(file)
    for kind, times in (("hide", 1), ("prune", 1), ("compaction", 1), ("break", 2)):
        expect(tab.page.locator(f"[data-mark={kind}]")).to_have_count(times)
    breaks = tab.page.locator("[data-mark=break]").evaluate_all("marks => marks.map(mark => mark.getAttribute('aria-label'))")
    assert "4,900 tokens" in breaks[0] and "4,300 tokens" in breaks[1], breaks
    expect(tab.page.locator("[data-marks=break]")).to_have_text("2 × cache break")
    tab.close()


def the_sandbox_says_what_holds(world: World):
    """The layers in force, the bounds of the backend that runs, and what was refused, with the block that was."""
    steps = [call("run_shell_command", {"command": "cat /proc/1/root/etc/shadow"}), call("read_workspace_file", {"path": "../outside"}, id="tc_2"), text("Refused.")]
    server = world.serve({"steps": steps})
    tab = world.tab(server)
    tab.new()
    tab.send("Try to get out.")
    tab.done()
    tab.tab("Sandbox")
    panel = tab.page.get_by_role("tabpanel")
    expect(panel.get_by_text("seccomp")).to_be_visible()
    for row in ("memory", "processes", "workspace", "time of a command"):
        expect(panel.locator("dl.table").get_by_text(row, exact=True)).to_be_visible()
    expect(panel.locator("dl.table")).to_contain_text("2 GiB")
    refused = panel.locator(".refused li")
    expect(refused).to_contain_text(["path_violation"])
    refused.get_by_role("button").click()
    expect(tab.page.locator("article[aria-current]")).to_contain_text("path_violation")
    # Without isolation there are fewer bounds, and the panel names no other.
    server.stop()
    server.model += ["--sandbox", "trusted-host"]
    server.start()
    tab.page.goto(server.url)
    tab.page.get_by_role("link", name="block").first.click()
    tab.tab("Sandbox")
    expect(panel.get_by_text("trusted-host")).to_be_visible()
    expect(panel.locator("dl.table")).to_contain_text("time of a command")
    expect(panel.locator("dl.table").get_by_text("memory", exact=True)).to_have_count(0)
    tab.close()


ALL = [a_broken_cache_is_explained, the_slider_shows_what_render_prints, the_strip_tells_breaks_from_hides, the_sandbox_says_what_holds]
