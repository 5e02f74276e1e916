"""Strings that would act if they were taken for more than text, in every place where the page shows a text."""

import json

from playwright.sync_api import expect

import conversations
import corpus
from provider import Provider
from world import World


def hostile() -> conversations.Export:
    """Every string of the corpus as prompt, file name, tool result, artifact and source title."""
    export = conversations.Export("conv_hostile", corpus.STRINGS[0])
    for number, string in enumerate(corpus.STRINGS):
        turn = f"turn_h{number}"
        clean = string.replace("\x00", "")
        export.block("turn.header", turn, "text/plain", path=f"ar:{turn}.turn.header")
        export.block("user.prompt", turn, author="user", path=f"ar:{turn}.user.prompt", text=string)
        said = {"tool_id": clean, "tool_call_id": "tc_1", "params": {"path": string, string: string}, "ts": conversations.TIME % 1}
        export.block("react.notes", turn, author="assistant", path=f"ar:{turn}.react.notes.tc_1", text=string, meta={"step": 1})
        export.block("react.tool.call", turn, "application/json", author="assistant", path=f"tc:{turn}.tc_1.call", call_id="tc_1", text=json.dumps(said), meta={"tool_call_id": "tc_1", "step": 1})
        row = {"sid": number + 1, "source_type": "web", "title": string, "url": string, "text": string}
        export.block("react.tool.result", turn, "text/markdown", author="tool", path=f"tc:{turn}.tc_1.result", call_id="tc_1", text=string, meta={"tool_call_id": "tc_1", "result_count": 1, "sources": [row], "error": {"code": string, "message": string}})
        kind = [("page.html", "text/html"), ("drawing.svg", "image/svg+xml"), ("table.csv", "text/csv"), ("notes.md", "text/markdown"), ("code.js", "text/javascript")][number % 5]
        name = "".join(c for c in clean if c >= " " and c not in "/\\#") or "x"
        export.file(turn, f"{name}.{kind[0]}", kind[1], string.encode(), text=string)
        export.block("react.notice", turn, "application/json", path=f"tc:{turn}.tc_1.notice", call_id="tc_1", text=json.dumps({"code": string, "message": string}), meta={"tool_call_id": "tc_1"})
        export.block("assistant.completion", turn, author="assistant", path=f"ar:{turn}.assistant.completion", text=string, meta={"step": 2})
        report = {"outcome": "failed", "rounds": 1, "iterations": 1, "usage": {"input_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0, "output_tokens": 1}, "elapsed_ms": 1, "error": string}
        export.block("react.completion", turn, "application/json", path=f"ar:{turn}.react.completion", text=json.dumps(report))
    return export


ACTING = """() => {
  const acting = [];
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      if (/^on/i.test(name) || name === 'srcdoc' || name === 'srcset') acting.push(name);
      if (['href', 'src', 'action', 'formaction', 'data'].includes(name) && /^[\\s\\u0000-\\u001f]*(javascript|vbscript|data|filesystem|view-source|about):/i.test(value)) acting.push(value);
    }
  }
  const scripts = [...document.querySelectorAll('script')].map(script => script.src).filter(src => !src.endsWith('/js/main.js'));
  const odd = document.querySelectorAll('object, embed, applet, base, frameset, portal, style, form:not(.composer), meta[http-equiv]').length;
  return { ran: window.__ran ?? 0, acting, scripts, odd };
}"""


FILE_SHOWN = """() => {
  const view = document.querySelector('.file-view');
  return view?.querySelector('iframe') || (view?.querySelector('.reading') && !view.textContent.includes('Reading.'));
}"""


def nothing_hostile_runs(world: World):
    """The corpus in every place where a stranger's text is shown."""
    file = hostile().write(world.folder)
    server = world.serve(Provider("Harmless.", ["\n\n".join(corpus.STRINGS)]))
    tab = world.tab(server)
    tab.page.locator("input[accept='.annals']").set_input_files(file)
    tab.page.wait_for_selector("article[data-seq]:not(.pending)")
    harmless = {"ran": 0, "acting": [], "scripts": [], "odd": 0}

    def check(where: str):
        found = tab.page.evaluate(ACTING)
        assert found == harmless, (where, found)

    tail = int(tab.page.get_by_role("slider", name="Position").get_attribute("max"))
    per_turn = tail // len(corpus.STRINGS)
    tab.page.evaluate("() => { document.querySelector('.viewport').scrollTop = 0; }")
    seen, steps = set(tab.seqs()), 0
    while tab.scroll_on():
        seen |= set(tab.seqs())
        steps += 1
        if steps % 10 == 1:
            check(f"rows, step {steps}")
    assert seen == set(range(1, tail + 1)), set(range(1, tail + 1)) - seen
    check("rows")
    panel = tab.page.get_by_role("tabpanel")
    for name, drawn in (("Sources", ".sources li"), ("Files", ".file-entry"), ("Model's view", ".part")):
        tab.tab(name)
        expect(panel.locator(drawn).first).to_be_visible()
        check(name)
    for number in range(0, len(corpus.STRINGS), 6):
        tab.look(number * per_turn + 4, "Call")
        check(f"call {number}")
    tab.open("conv_hostile")
    tab.tab("Files")
    for index in range(0, len(corpus.STRINGS), 7):
        panel.locator(".file-entry").nth(index).click()
        tab.page.wait_for_function(FILE_SHOWN)
        check(f"file {index}")
        panel.get_by_role("button", name="All files").click()
    # As a prompt that a person sends, as an answer that arrives, and as a search.
    tab.new()
    tab.send("\n".join(corpus.STRINGS))
    tab.done()
    check("prompt")
    tab.send("And you?")
    expect(tab.page.locator("article[data-type='assistant.completion']")).to_have_count(2)
    tab.done()
    check("answer")
    tab.page.get_by_role("searchbox", name="Search").fill(corpus.STRINGS[0])
    expect(tab.page.locator(".hits, .sidebar > .empty").first).to_be_visible()
    check("search")
    tab.close()


ALL = [nothing_hostile_runs]
