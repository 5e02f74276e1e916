"""Files: looked at in every form, compared with the version before, and handed over."""

import json

from playwright.sync_api import expect

from page import Tab
from server import until
from world import World, text

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAYAAACNMs+9AAAAFUlEQVR42mP8z8BQz0AEYBxVSF+FABJADveWkH6oAAAAAElFTkSuQmCC"
)


def shows_pages(tab: Tab):
    """The pages of a PDF are there as pictures, the first of them drawn."""
    first = tab.page.locator("img.pdf-page").first
    expect(first).to_be_visible()
    until(lambda: first.evaluate("image => image.complete && image.naturalWidth") > 200, 60, "a page that is drawn")
    pages = tab.page.locator("img.pdf-page").count()
    expect(tab.page.get_by_role("tabpanel")).to_contain_text("1 page." if pages == 1 else f"{pages} pages.")


def files_are_shown(world: World):
    """A PDF, a drawing, a table, markdown and code, and the difference between two versions."""
    server, conversation = world.demo()
    tab = world.tab(server)
    tab.open(conversation)
    tab.tab("Files")
    panel = tab.page.get_by_role("tabpanel")

    def show(name: str):
        panel.get_by_role("button", name=name).click()

    def back():
        panel.get_by_role("button", name="All files").click()

    show("report.pdf")
    shows_pages(tab)
    whole = panel.get_by_role("link", name="browser's own viewer").get_attribute("href")
    answer = tab.page.request.get(server.origin + whole)
    assert answer.headers["content-type"] == "application/pdf" and answer.body().startswith(b"%PDF-")
    back()
    show("chart.svg")
    expect(panel.locator("iframe[sandbox='']")).to_be_visible()
    back()
    show("sales.csv")
    expect(panel.get_by_role("columnheader")).to_have_text(["month", "region", "units", "revenue"])
    expect(panel.locator("tbody tr")).to_have_count(36)
    back()
    show("report.md")
    expect(panel.locator(".prose h1")).to_have_text("Sales 2025")
    expect(panel.locator(".prose table")).to_be_visible()
    panel.get_by_role("button", name="Difference").click()
    expect(panel.locator(".diff .removed .text")).to_contain_text("November")
    expect(panel.locator(".diff .added .text")).to_contain_text("December")
    tab.tab("Sources")
    expect(panel.get_by_text("sales.csv").first).to_be_visible()
    tab.tab("Plan")
    expect(panel.get_by_role("list", name="Plan").get_by_role("listitem")).to_have_count(3)
    tab.tab("Sandbox")
    expect(panel.get_by_text("seccomp")).to_be_visible()
    tab.tab("Raw")
    expect(panel.locator("pre")).to_contain_text('"type": "react.completion"')
    tab.close()


def files_are_attached(world: World):
    """By drop, by paste and by the picker; the picture comes back as a picture, a list of objects as a table."""
    server = world.serve({"steps": [text("Four files.")]})
    tab = world.tab(server)
    tab.new()
    hand_over = """([kind, name, type, base64]) => {
      const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
      const data = new DataTransfer();
      data.items.add(new File([bytes], name, { type }));
      const target = kind === 'paste' ? document.querySelector('textarea') : document.body;
      const event = kind === 'paste'
        ? new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })
        : new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true });
      target.dispatchEvent(event);
    }"""
    tab.page.evaluate(hand_over, ["drop", "notes.txt", "text/plain", "aGVsbG8="])
    tab.page.evaluate(hand_over, ["paste", "dot.png", "image/png", PNG])
    with tab.page.expect_file_chooser() as chooser:
        tab.page.get_by_role("button", name="Attach").click()
    cities = [{"city": "Oslo", "people": 709000}, {"city": "Bergen", "people": 291000}]
    chooser.value.set_files([{"name": "table.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"}, {"name": "cities.json", "mimeType": "application/json", "buffer": json.dumps(cities).encode()}])
    expect(tab.page.get_by_role("list", name="Attachments").get_by_role("listitem")).to_have_count(4)
    tab.send("Look at these.")
    tab.done()
    tab.tab("Files")
    panel = tab.page.get_by_role("tabpanel")
    expect(panel.get_by_role("list", name="Files").get_by_role("listitem")).to_have_count(4)
    panel.get_by_role("button", name="dot.png").click()
    picture = panel.locator("figure img")
    expect(picture).to_be_visible()
    until(lambda: picture.evaluate("image => image.naturalWidth") == 10, 60, "the picture")
    panel.get_by_role("button", name="All files").click()
    panel.get_by_role("button", name="cities.json").click()
    expect(panel.get_by_role("columnheader")).to_have_text(["city", "people"])
    expect(panel.locator("tbody tr").first.locator("td")).to_have_text(["Oslo", "709000"])
    tab.close()


ALL = [files_are_shown, files_are_attached]
