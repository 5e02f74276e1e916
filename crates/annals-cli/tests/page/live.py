"""Words as they arrive, tools as they run, and what a reload, a stop or a dead server does to them."""

from playwright.sync_api import expect

from page import Tab
from provider import Pause, Provider, calls
from server import Server, until
from world import World

HARBOUR = "The harbour was quiet that morning, and the boats lay still. "


def each_once_in_order(shown: list[int]):
    """Rows without a gap or a repetition; read once, since more may arrive at any time."""
    assert shown == list(range(shown[0], shown[-1] + 1)), shown


def same_as_a_fresh_load(world: World, server: Server, tab: Tab, conversation: str):
    fresh = world.tab(server)
    fresh.open(conversation)
    until(lambda: fresh.texts() == tab.texts(), 60, "a fresh load that is the same")
    fresh.close()


def streams_and_resumes(world: World):
    """A reload in mid-sentence shows the sentence; afterwards the page is what a fresh load gives."""
    pause = Pause()
    server = world.serve(Provider([HARBOUR, pause, HARBOUR], "Second answer."))
    tab = world.tab(server)
    conversation = tab.new()
    tab.send("Tell me about the harbour.")
    arriving = tab.page.locator("[data-arriving=answer]")
    expect(arriving).to_contain_text("the boats lay still")
    tab.page.reload()
    expect(arriving).to_contain_text("the boats lay still")
    expect(tab.page.get_by_role("button", name="Stop")).to_be_visible()
    pause.release()
    tab.done()
    expect(tab.page.locator("[data-arriving]")).to_have_count(0)
    expect(tab.page.locator("article[data-type='assistant.completion'] p")).to_have_text((HARBOUR * 2).strip())
    each_once_in_order(tab.seqs())
    other = world.tab(server)
    other.open(conversation)
    until(lambda: other.texts() == tab.texts(), 60, "a fresh load that is the same")
    tab.send("And then?")
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Second answer.")
    # The other tab heard it too.
    expect(other.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Second answer.")
    tab.close()
    other.close()


ANSWER = ["# Sales\n\nRevenue is **up**", " by `12 %`, see [it](https://example.org).\n\n- first *it", "em*\n- second\n\n| month | un", "its |\n|---|---:|\n| May | 12 |\n", "| June | 14 |\n\nLast **wo", "rds**."]
WATCH = """() => {
  window.__seen = [];
  const look = () => {
    const row = document.querySelector('[data-arriving=answer], article[data-type="assistant.completion"]');
    if (row) window.__seen.push(row.querySelector('.said').innerText);
    requestAnimationFrame(look);
  };
  look();
}"""


def answers_arrive_formatted(world: World):
    """Markdown is markdown while it arrives: no mark is ever seen, what is drawn stays the same node, and a reader who
    has scrolled away stays where they are."""
    pauses = [Pause() for _ in ANSWER]
    pieces = [piece for pair in zip(ANSWER, pauses) for piece in pair]
    server = world.serve(Provider("\n\n".join(f"Paragraph {n}." for n in range(60)), pieces))
    tab = world.tab(server)
    tab.new()
    tab.send("Something long first.")
    tab.done()
    tab.page.evaluate(WATCH)
    tab.send("How are sales?")
    row = tab.page.locator("[data-arriving=answer]")
    expect(row.locator("h1")).to_have_text("Sales")
    row.locator("h1").evaluate("heading => { heading.__mine = true; }")
    pauses[0].release()
    expect(row.locator("p code")).to_have_text("12 %")
    expect(row.locator("p a")).to_have_attribute("href", "https://example.org")
    pauses[1].release()
    expect(row.locator("li")).to_have_text(["first item", "second"])
    pauses[2].release()
    expect(row.locator("td")).to_have_text(["May", "12"])
    # Somebody reads further up while the rest comes.
    tab.page.locator(".viewport").evaluate("viewport => { viewport.scrollTop = 200; }")
    place = "() => [...document.querySelectorAll('article[data-seq]')].map(row => [row.dataset.seq, Math.round(row.getBoundingClientRect().top)])"
    until(lambda: tab.page.evaluate(place) == tab.page.evaluate(place), what="a page that rests")
    before = tab.page.evaluate(place)
    pauses[3].release()
    pauses[4].reached.wait(60)
    assert tab.page.evaluate(place) == before
    tab.page.locator(".viewport").evaluate("viewport => { viewport.scrollTop = viewport.scrollHeight; }")
    expect(row.locator("td")).to_have_text(["May", "12", "June", "14"])
    assert row.locator("h1").evaluate("heading => document.contains(heading)")
    pauses[4].release()
    expect(row.locator("p strong").last).to_have_text("words")
    pauses[5].release()
    tab.done()
    expect(tab.page.locator("article[data-type='assistant.completion']").last.locator("p").last).to_have_text("Last words.")
    seen = tab.page.evaluate("() => window.__seen")
    for mark in ("**", "*it", "](", "|--", "| month", "# Sales", "`12"):
        assert not any(mark in words for words in seen), mark
    tab.close()


RUNNING = "touch started; until [ -e go ]; do sleep 0.05; done; echo finished"


def started(server: Server):
    """Where a command of the server's sandbox runs, once it does."""
    return until(lambda: next(server.home.rglob("started"), None), 60, "a command that runs").parent


def reload_while_a_tool_runs(world: World):
    """A reload in mid-tool loses nothing; Enter steers, Esc stops."""
    server = world.serve(Provider(calls(("run_shell_command", {"command": RUNNING})), "It finished.", calls(("run_shell_command", {"command": "sleep 300"})), "never"))
    tab = world.tab(server)
    tab.new()
    tab.send("Run something slow.")
    folder = started(server)
    expect(tab.page.locator("article[data-type='react.tool.call'] .running")).to_be_visible()
    tab.page.reload()
    expect(tab.page.locator("article[data-type='react.tool.call']")).to_contain_text("touch started")
    expect(tab.page.get_by_role("button", name="Stop")).to_be_visible()
    tab.page.get_by_role("textbox", name="Message").fill("And tell me when it is done.")
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("textbox", name="Message")).to_have_value("")
    (folder / "go").touch()
    tab.done()
    expect(tab.page.locator("article[data-type='user.steer']")).to_contain_text("And tell me when")
    expect(tab.page.locator("article[data-type='react.tool.result']").first).to_contain_text("finished")
    each_once_in_order(tab.seqs())
    tab.send("Now something slower.")
    expect(tab.page.locator("article[data-type='react.tool.call']").last).to_contain_text("sleep 300")
    expect(tab.page.get_by_role("button", name="Stop")).to_be_visible()
    tab.page.locator(".viewport").focus()
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("article[data-type='react.completion']").last).to_contain_text("cancelled")
    tab.close()


def killed_in_mid_sentence(world: World):
    """The server dies by SIGKILL in mid-sentence and comes back: the page finds it by itself, the turn goes on to its end,
    and no block is lost or twice there."""
    pause = Pause()
    server = world.serve(Provider([HARBOUR, pause], HARBOUR * 2, "Back again."))
    tab = world.tab(server)
    conversation = tab.new()
    tab.send("Tell me about the harbour.")
    expect(tab.page.locator("[data-arriving=answer]")).to_contain_text("the boats lay still")
    server.kill()
    expect(tab.page.locator(".chip.warn")).to_contain_text("reconnecting")
    server.start()
    expect(tab.page.locator(".chip.warn")).to_have_count(0)
    tab.done()
    expect(tab.page.locator("article[data-type='assistant.completion'] p")).to_have_text((HARBOUR * 2).strip())
    tab.send("Are you there?")
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Back again.")
    tab.done()
    each_once_in_order(tab.seqs())
    same_as_a_fresh_load(world, server, tab, conversation)
    tab.close()


def killed_in_mid_tool(world: World):
    """The server dies by SIGKILL while a command runs: the command dies with it and is not run again, the model is told,
    and the page shows all of it without a reload."""
    server = world.serve(Provider(calls(("run_shell_command", {"command": "echo x >> runs; " + RUNNING})), "It was cut off."))
    tab = world.tab(server)
    conversation = tab.new()
    tab.send("Run something slow.")
    folder = started(server)
    expect(tab.page.locator("article[data-type='react.tool.call']")).to_be_visible()
    server.kill()
    expect(tab.page.locator(".chip.warn")).to_contain_text("reconnecting")
    server.start()
    tab.done()
    expect(tab.page.locator("article[data-type='react.tool.result']")).to_contain_text("interrupted")
    expect(tab.page.locator("article[data-type='assistant.completion']")).to_contain_text("It was cut off.")
    assert (folder / "runs").read_text() == "x\n"
    each_once_in_order(tab.seqs())
    same_as_a_fresh_load(world, server, tab, conversation)
    tab.close()


ALL = [streams_and_resumes, answers_arrive_formatted, reload_while_a_tool_runs, killed_in_mid_sentence, killed_in_mid_tool]
