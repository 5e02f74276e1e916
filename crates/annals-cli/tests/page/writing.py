"""What a person does with conversations: fork, edit, search, compare, export, import, and decide about calls."""

import os
import pathlib
import subprocess

from playwright.sync_api import expect

from provider import Provider, calls
from world import World, text


def fork_edit_search_compare_move(world: World):
    """Keys and the address; forks; an old prompt in other words; search; compare; export and import; drafts."""
    answers = ["Blue whales are the largest.", "Elephants are the largest on land.", "Giraffes are the tallest.", "Answered in the fork."]
    server = world.serve({"steps": [text(answer) for answer in answers]})
    tab = world.tab(server)
    first = tab.new()
    tab.send("Which animal is the largest?")
    tab.done()
    tab.page.locator(".viewport").focus()
    tab.page.keyboard.press("k")
    tail = tab.seqs()[-1]
    expect(tab.page).to_have_url(f"{server.origin}/#/c/{first}@{tail - 1}")
    expect(tab.page.locator(f"article[data-seq='{tail - 1}']")).to_have_attribute("aria-current", "true")
    tab.page.keyboard.press("j")
    expect(tab.page).to_have_url(f"{server.origin}/#/c/{first}")
    tab.page.keyboard.press("?")
    expect(tab.page.get_by_role("dialog", name="Keys")).to_be_visible()
    tab.page.keyboard.press("Escape")
    # Edit: a fork that shares nothing of the first turn, and stands below it in the list.
    row = tab.page.locator("article[data-type='user.prompt']")
    row.hover()
    row.get_by_role("button", name="Edit").click()
    tab.send("Which animal is the largest on land?")
    expect(tab.page.locator("article[data-type='assistant.completion']")).to_contain_text("Elephants")
    edited = tab.page.evaluate("() => location.hash.slice(4)")
    assert edited != first
    expect(tab.page.locator(".conversation.depth-1")).to_have_attribute("href", f"#/c/{edited}")
    # A second turn, edited: a fork that shares the first.
    tab.send("And the tallest?")
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Giraffes")
    second = tab.page.locator("article[data-type='user.prompt']").last
    second.hover()
    second.get_by_role("button", name="Edit").click()
    tab.send("And the fastest?")
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Answered in the fork")
    fork = tab.page.evaluate("() => location.hash.slice(4)")
    expect(tab.page.locator(".conversation.depth-2")).to_have_attribute("href", f"#/c/{fork}")
    # Compare the fork with where it came from.
    tab.page.get_by_role("button", name="Compare").click()
    dialog = tab.page.get_by_role("dialog", name="Compare two conversations")
    dialog.get_by_role("combobox").select_option(edited)
    expect(dialog.locator(".compare-column").first).to_contain_text("Answered in the fork")
    expect(dialog.locator(".compare-column").last).to_contain_text("Giraffes")
    expect(dialog).to_contain_text("are the same")
    dialog.get_by_role("button", name="Close").click()
    # Fork with one key.
    tab.page.locator(".viewport").focus()
    tab.page.keyboard.press("f")
    tab.page.wait_for_function("id => location.hash.slice(4) !== id && location.hash.startsWith('#/c/')", arg=fork)
    # Search finds it again.
    tab.page.keyboard.press("/")
    expect(tab.page.get_by_role("searchbox", name="Search")).to_be_focused()
    tab.page.keyboard.type("giraffes tallest")
    results = tab.page.get_by_role("list", name="Search results")
    expect(results.get_by_role("link").first).to_be_visible()
    tab.page.keyboard.press("Escape")
    # A draft stays with its conversation.
    tab.open(first)
    tab.page.get_by_role("textbox", name="Message").fill("half a thought")
    tab.open(edited)
    expect(tab.page.get_by_role("textbox", name="Message")).to_have_value("")
    tab.open(first)
    expect(tab.page.get_by_role("textbox", name="Message")).to_have_value("half a thought")
    # Out and in again, into another home.
    with tab.page.expect_download() as download:
        tab.page.get_by_role("link", name="Export").click()
    exported = world.folder / "out.annals"
    download.value.save_as(exported)
    other = world.tab(world.serve({"steps": []}))
    other.page.locator("input[accept='.annals']").set_input_files(exported)
    expect(other.page.locator("article[data-type='assistant.completion']")).to_contain_text("Blue whales")
    other.close()
    tab.close()


POLICY = """
[[rule]]
name = "ask-echo"
tool = "run_shell_command"
command = ["echo"]
decide = "ask"
why = "echo speaks to the world"

[[rule]]
name = "no-rm"
tool = "run_shell_command"
command = ["rm"]
decide = "deny"
why = "nothing is removed here"

[[rule]]
name = "ask-notes"
tool = "react.write"
path = "fi:*.files/notes.md"
decide = "ask"

[[rule]]
name = "free-ls"
tool = "run_shell_command"
command = ["ls"]
decide = "allow"
"""


def run(command: str) -> dict:
    return calls(("run_shell_command", {"command": command}))


def rules_ask_deny_and_allow(world: World):
    """`policy.toml` through the page: the card has the command, the rule that asks and the rule that "Always" would write;
    always writes it and is not asked again; the Call tab names the rule that decided each call."""
    home = world.home()
    (home / "policy.toml").write_text(POLICY)
    server = world.serve(Provider(run("echo one"), run("echo one"), run("rm -rf x"), run("ls"), "All tried."), home)
    tab = world.tab(server)
    tab.new()
    tab.send("Try commands.")
    card = tab.page.get_by_role("region", name="Waiting for you").get_by_role("group", name="Approval of run_shell_command")
    expect(card.locator("pre code")).to_have_text("echo one")
    expect(card).to_contain_text("echo speaks to the world (rule ask-echo)")
    rule = card.get_by_label("Rule").inner_text()
    assert 'answers = "ask-echo"' in rule and "echo" in rule, rule
    tab.shot("approval")
    card.get_by_role("button", name="Always").click()
    expect(tab.page.locator("article[data-type='approval.decision']").first).to_contain_text("always")
    tab.done()
    kept = (home / "config.toml").read_text()
    assert rule.strip() in kept, kept
    results = tab.page.locator("article[data-type='react.tool.result']")
    expect(results).to_have_count(4)
    gate = tab.page.get_by_role("tabpanel").locator("[data-gate]")
    says = []
    for at in range(4):
        tab.look(int(results.nth(at).get_attribute("data-seq")), "Call")
        expect(gate.first).to_be_visible()
        says.append(gate.evaluate_all("parts => parts.map(part => part.dataset.gate + ' ' + part.innerText).join(' | ')"))
    assert says[0].startswith("ask") and "ask-echo" in says[0] and "always" in says[0], says
    assert says[1].startswith("allow") and "in conversation" in says[1], says
    assert says[2].startswith("deny") and "no-rm in policy.toml:9: nothing is removed here" in says[2], says
    assert says[3].startswith("allow") and "free-ls in policy.toml:" in says[3], says
    tab.close()


def writes_ask_with_their_difference(world: World):
    """A write that waits is shown against the file as it is now, and is still there after the server was killed; approved
    it is written, denied it is not and the model reads why."""
    home = world.home()
    (home / "policy.toml").write_text(POLICY)
    write = lambda name, content: calls(("react.write", {"path": name, "channel": "canvas", "content": content, "kind": "file"}))
    notes = ["one\ntwo\nthree\n", "one\n2\nthree\n", "nothing\n"]
    server = world.serve(Provider(*(write("notes.md", text) for text in notes), "Two were written."), home)
    tab = world.tab(server)
    tab.new()
    tab.send("Write and change it.")
    pinned = tab.page.get_by_role("region", name="Waiting for you")
    expect(pinned).to_contain_text("new file")
    expect(pinned.locator(".diff .added .text")).to_have_text(["one", "two", "three"])
    pinned.get_by_role("button", name="Approve").click()
    expect(pinned.locator(".diff .removed .text")).to_have_text("two")
    expect(pinned.locator(".diff .added .text")).to_have_text("2")
    tab.shot("approval-difference")
    server.kill()
    server.start()
    expect(tab.page.locator(".chip.warn")).to_have_text("waiting for you")
    tab.page.reload()
    expect(pinned.locator(".diff .removed .text")).to_have_text("two")
    pinned.get_by_role("button", name="Approve").click()
    expect(pinned.locator(".diff .added .text")).to_have_text("nothing")
    pinned.get_by_role("textbox", name="Note").fill("keep my notes")
    pinned.get_by_role("button", name="Deny", exact=True).click()
    tab.done()
    expect(pinned).to_be_hidden()
    refused = tab.page.locator("article[data-type='react.tool.result']", has_text="denied_by_person")
    expect(refused).to_contain_text("keep my notes")
    tab.tab("Files")
    panel = tab.page.get_by_role("tabpanel")
    panel.get_by_role("button", name="notes.md").click()
    expect(panel.locator(".prose")).to_contain_text("2")
    expect(panel.get_by_role("combobox", name="Version").get_by_role("option")).to_have_count(2)
    tab.close()


# A server whose tool asks for the seat; the one of the tests of MCP itself.
BOOKING = pathlib.Path(__file__).parents[3] / "annals-mcp/tests/servers/booking.py"
# One with resources and prompts.
LIBRARY = BOOKING.with_name("library.py")


def a_server_s_question_is_answered(world: World):
    """A question of an MCP server is a card with a form: it outlives a reload, says what does not fit, and its answer is
    where it was asked; one that is declined is told so."""
    packages = pathlib.Path(os.environ["ANNALS_PAGE_MCP"])
    home = world.home()
    (home / "policy.toml").write_text('default = "allow-all"\n')
    add = [world.annals, "--home", str(home), "mcp", "add", "srv", "--read", str(packages), "--read", str(BOOKING.parent), "--", str(packages / "bin/python"), str(BOOKING)]
    subprocess.run(add, check=True, capture_output=True)
    book = calls(("srv__book", {"flight": "LH 1"}))
    server = world.serve(Provider(book, "It is booked.", book, "Then not."), home)
    tab = world.tab(server, axe=world.axe)
    tab.new()
    tab.send("Book a seat.")
    region = tab.page.get_by_role("region", name="Waiting for you")
    card = region.get_by_role("group", name="Question of srv.book")
    expect(card).to_contain_text("Which seat in LH 1?")
    expect(tab.page.locator(".chip.warn")).to_have_text("waiting for you")
    tab.page.reload()
    card.get_by_label("Seat").fill("12A")
    tab.shot("question")
    tab.axe("a question", ".pinned")
    card.get_by_role("button", name="Answer").click()
    tab.done()
    expect(region).to_be_hidden()
    expect(tab.page.locator("article[data-type='input.response']")).to_contain_text('{"seat":"12A"}')
    expect(tab.page.locator("article[data-type='assistant.completion']")).to_contain_text("It is booked.")
    tab.send("Once more.")
    card.get_by_role("button", name="Decline").click()
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Then not.")
    expect(tab.page.locator("article[data-type='input.response']").last).to_contain_text("declined")
    assert (home / "mcp/servers/srv/effects").read_text() == "booked 12A\n"
    tab.close()


# One of many mechanisms, by its first argument.
STRANGER = BOOKING.with_name("hostile.py")


def a_server_says_how_far_it_is_and_wants_a_page_opened(world: World):
    """What a running call says of itself stands beside it; a page that a server wants opened is a link with its host in
    sight, which nothing opens by itself, and the call is made again when the person agrees."""
    home = world.home()
    (home / "policy.toml").write_text('default = "allow-all"\n')
    for name, mechanism in (("far", "call-progresses"), ("page", "call-wants-a-page-opened")):
        add = [world.annals, "--home", str(home), "mcp", "add", name, "--read", str(STRANGER.parent), "--", "python3", str(STRANGER), mechanism]
        subprocess.run(add, check=True, capture_output=True)
    server = world.serve(Provider(calls(("far__work", {})), "It is read.", calls(("page__work", {})), "It is open."), home)
    tab = world.tab(server, axe=world.axe)
    tab.new()
    tab.send("Read it.")
    running = tab.page.locator("article[data-type='react.tool.call'] .running")
    expect(running).to_have_text("1 of 4 · reads[2J")
    # The server goes on when somebody has seen it.
    (home / "mcp/servers/far/order").write_text("heard")
    tab.done()
    expect(running).to_have_count(0)
    tab.send("Open it.")
    card = tab.page.get_by_role("region", name="Waiting for you").get_by_role("group", name="Question of page.work")
    link = card.get_by_role("link", name="Open a page of login.example")
    expect(link).to_have_attribute("href", "https://login.example/x")
    expect(link).to_have_attribute("target", "_blank")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    tab.axe("a page to open", ".pinned")
    card.get_by_role("button", name="Agree").click()
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("It is open.")
    expect(tab.page.locator("article[data-type='react.tool.result']").last).to_contain_text("opened")
    tab.close()


def a_server_s_resources_and_prompts_are_used(world: World):
    """What MCP servers have for people is a dialog where one writes: a resource becomes an attachment, a prompt with its
    arguments becomes the message, and what fails is said there. Without servers there is no button."""
    packages = pathlib.Path(os.environ["ANNALS_PAGE_MCP"])
    home = world.home()
    for name, script in (("library", LIBRARY), ("booking", BOOKING)):
        add = [world.annals, "--home", str(home), "mcp", "add", name, "--read", str(packages), "--read", str(script.parent), "--", str(packages / "bin/python"), str(script)]
        subprocess.run(add, check=True, capture_output=True)
    server = world.serve(Provider("It is about boats.", "Reviewed."), home)
    tab = world.tab(server, axe=world.axe)
    tab.new()
    tab.page.get_by_role("button", name="From a server").click()
    dialog = tab.page.get_by_role("dialog", name="From a server")
    dialog.get_by_role("combobox", name="Server").select_option("library")
    resources = dialog.get_by_role("list", name="Resources")
    expect(resources.get_by_role("listitem")).to_have_count(3)
    expect(resources).to_contain_text("What was seen at the harbour.")
    assert "\u202e" not in resources.inner_text()
    tab.shot("servers")
    tab.axe("resources and prompts", "dialog.servers")
    dialog.get_by_role("button", name="Attach broken").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Error reading resource")
    dialog.get_by_role("searchbox", name="Filter").press_sequentially("harb")
    expect(resources.get_by_role("listitem")).to_have_count(1)
    dialog.get_by_role("button", name="Attach Harbour notes").click()
    expect(dialog).to_be_hidden()
    expect(tab.page.get_by_role("list", name="Attachments")).to_contain_text("harbour.md")
    expect(tab.page.get_by_role("textbox", name="Message")).to_be_focused()
    tab.send("What is it about?")
    expect(tab.page.locator("article[data-type='assistant.completion']")).to_contain_text("It is about boats.")
    tab.tab("Files")
    panel = tab.page.get_by_role("tabpanel")
    panel.get_by_role("button", name="harbour.md").click()
    expect(panel.locator(".prose")).to_contain_text("The boats lay still.")
    # A prompt goes behind what is written already, and is sent by the person only.
    tab.page.get_by_role("textbox", name="Message").fill("Please:")
    tab.page.get_by_role("button", name="From a server").click()
    dialog.get_by_role("searchbox", name="Filter").fill("")
    dialog.get_by_role("button", name="Use review").click()
    dialog.get_by_role("button", name="Insert").click()
    expect(dialog).to_be_visible()
    dialog.get_by_label("language").fill("Rust")
    tab.shot("server-prompt")
    tab.axe("a prompt's arguments", "dialog.servers")
    dialog.get_by_role("button", name="Insert").click()
    expect(tab.page.get_by_role("textbox", name="Message")).to_have_value("Please:\n\nReview this Rust code in a kind tone.")
    tab.shot("inserted")
    tab.page.get_by_role("button", name="Send").click()
    expect(tab.page.locator("article[data-type='assistant.completion']").last).to_contain_text("Reviewed.")
    # A server without any of it says so.
    tab.page.get_by_role("button", name="From a server").click()
    dialog.get_by_role("combobox", name="Server").select_option("booking")
    expect(dialog).to_contain_text("It lists none.")
    tab.page.keyboard.press("Escape")
    tab.close()
    bare = world.tab(world.serve({"steps": []}))
    bare.new()
    expect(bare.page.get_by_role("button", name="Attach")).to_be_visible()
    expect(bare.page.get_by_role("button", name="From a server")).to_have_count(0)
    bare.close()


ALL = [a_server_s_resources_and_prompts_are_used, a_server_says_how_far_it_is_and_wants_a_page_opened, a_server_s_question_is_answered, fork_edit_search_compare_move, rules_ask_deny_and_allow, writes_ask_with_their_difference]
