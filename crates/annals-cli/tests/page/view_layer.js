async () => {
  const { signal, derived, effect, batch, h, keyed, root } = await import("/js/view.js");
  const { isSafeAddress } = await import("/js/address.js");
  const { Heights, WindowedList } = await import("/js/window.js");
  const failures = [];
  const check = (name, found, expected) => {
    const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
    if (a !== b) failures.push(`${name}: ${a} instead of ${b}`);
  };

  // An effect follows what it read last, runs once for a batch, and ends with its scope.
  const [which, one, two] = [signal(true), signal(1), signal(2)];
  const seen = [];
  const { end } = root(() => effect(() => seen.push(which.value ? one.value : two.value)));
  two.value = 20;
  one.value = 10;
  which.value = false;
  one.value = 11;
  batch(() => { two.value = 21; two.value = 22; });
  end();
  two.value = 23;
  check("effects", seen, [1, 10, 20, 22]);

  // What is derived is up to date before anything that reads it, so nothing half changed is seen.
  const base = signal(1);
  const pairs = [];
  const graph = root(() => {
    const doubled = derived(() => base.value * 2);
    effect(() => pairs.push([base.value, doubled.value]));
  });
  base.value = 5;
  check("derived", pairs.at(-1), [5, 10]);
  check("no half change", pairs.filter(([a, b]) => b !== a * 2), []);
  graph.end();

  // Text is text, in attributes and children, and addresses that act are not set.
  const bad = "<img src=x onerror=window.__ran=1>";
  const made = root(() => h("p.a.b", { title: bad, "data-n": 3, hidden: false }, bad, [1, null, false, "x"], () => [h("b", null, "y")]));
  check("children", made.made.textContent, `${bad}1xy`);
  check("elements", made.made.querySelectorAll("*").length, 1);
  check("class", made.made.className, "a b");
  for (const address of ["javascript:1", " java\tscript:1", "\u0001javascript:1", "data:text/html,x", "vbscript:x", "//host/x", "\\\\host", "file:///x"]) {
    check(`unsafe ${address}`, isSafeAddress(address), false);
    check(`unset ${address}`, h("a", { href: address }).hasAttribute("href"), false);
  }
  for (const address of ["https://a.b/c", "mailto:a@b", "/v1/x:y", "#/c/a@1", "x/y?z=a:b"]) check(`safe ${address}`, isSafeAddress(address), true);
  for (const refused of ["innerHTML", "srcdoc", "style"]) {
    let threw = false;
    try { h("div", { [refused]: "x" }); } catch { threw = true; }
    check(`refused ${refused}`, threw, true);
  }

  // Rows of a keyed list are moved, not made again; those that are gone are ended.
  const items = signal([{ k: 1 }, { k: 2 }, { k: 3 }]);
  const list = document.createElement("ul");
  const ended = [];
  const rows = root(() => keyed(list, () => items.value, (item) => item.k, (item) => h("li", null, () => String(item.value.k) + (item.value.t ?? ""))));
  const [first, , third] = list.children;
  items.value = [{ k: 3 }, { k: 1, t: "!" }, { k: 4 }];
  check("keyed order", list.textContent, "31!4");
  check("keyed same", [list.children[0] === third, list.children[1] === first], [true, true]);
  rows.end();
  check("ended", ended, []);

  // Sums of heights agree with adding them up, whatever is set in what order.
  let state = 7;
  const random = (n) => (state = (state * 1103515245 + 12345) % 2147483648) % n;
  const heights = new Heights(10);
  const plain = [];
  for (let round = 0; round < 3000; round += 1) {
    const kind = random(4);
    if (kind === 0) {
      const length = random(3000);
      heights.resize(length);
      while (plain.length < length) plain.push(10);
      plain.length = length;
    } else if (plain.length > 0) {
      const index = random(plain.length);
      plain[index] = random(90);
      heights.set(index, plain[index]);
    }
    if (round % 50 === 0 && plain.length > 0) {
      const index = random(plain.length);
      const sum = plain.slice(0, index).reduce((a, b) => a + b, 0);
      check("before", heights.before(index), sum);
      const at = heights.at(sum);
      if (plain[index] > 0) check("at", heights.before(at) <= sum && sum < heights.before(at) + plain[at], true);
    }
  }

  // A list of a million rows keeps few of them, and the reader's row stays when rows above it grow.
  const viewport = h("div.viewport");
  const canvas = h("div.canvas");
  viewport.append(canvas);
  viewport.style.cssText = "position:fixed;inset:0;height:600px;overflow-y:auto;overflow-anchor:none";
  document.body.append(viewport);
  const sizes = new Map();
  const windowed = new WindowedList({ viewport, canvas, estimate: 30, draw: (index) => { const row = h("div", null, String(index)); row.style.height = `${sizes.get(index) ?? 20 + (index % 7) * 5}px`; return row; } });
  const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  windowed.follows = false;
  windowed.resize(1_000_000);
  await frame();
  windowed.show(500_000, "start");
  await frame();
  const topOf = (index) => Math.round(viewport.querySelector(`[data-index="${index}"]`)?.getBoundingClientRect().top ?? -1);
  const before = topOf(500_000);
  check("in view", before >= 0 && before < 600, true);
  check("few rows", canvas.children.length < 80, true);
  for (const row of [...canvas.children]) if (Number(row.dataset.index) < 500_000) { row.style.height = "120px"; }
  await frame();
  await frame();
  check("anchored", Math.abs(topOf(500_000) - before) <= 1, true);
  for (const row of [...canvas.children]) row.setAttribute("class", "another");
  await frame();
  check("placed whatever its classes", Math.abs(topOf(500_000) - before) <= 1, true);
  // What stands above the list grows, as the strip does with its first mark.
  viewport.style.top = "14px";
  viewport.style.height = "586px";
  await frame();
  check("left in peace by what stands above", Math.abs(topOf(500_000) - before) <= 1, true);
  const standing = () => [...canvas.children].map((row) => Number(row.dataset.index));
  const [all, old] = [standing(), canvas.querySelector('[data-index="500000"]')];
  windowed.redraw(499_999, 500_001);
  check("drawn again without a hole", standing(), all);
  await frame();
  check("drawn again", [Math.abs(topOf(500_000) - before) <= 1, canvas.querySelector('[data-index="500000"]') === old], [true, false]);
  windowed.show(999_999, "end");
  await frame();
  check("at the end", windowed.isAtEnd() && topOf(999_999) > 0, true);
  windowed.resize(1_000_010);
  await frame();
  check("follows the end", topOf(1_000_009) > 0, true);
  windowed.close();
  viewport.remove();
  check("nothing ran", window.__ran ?? 0, 0);
  return failures;
}
