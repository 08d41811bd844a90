// The page of a cluster with the longest names, text from right to left, too many pods, a wrong clock, or a user without rights or a
// mouse: node limits.mjs LINK CONTROL FOLDER, like page.mjs. Each story has a tab of its own.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { enter, open, screens, story } from "./browser.mjs";

const [entrance, control, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { browser, tab: first, wrong } = await open();
const page = await enter(first, entrance);
const act = async (what) => assert.equal((await fetch(control + "/" + what)).status, 200, what);
const longest = ("a".repeat(63) + ".").repeat(4).slice(0, 253);

/** within tells a story in a new tab, in which script runs before the page's own. */
async function within(name, tell, script) {
  const tab = await first.context().newPage();
  tab.setDefaultTimeout(60000);
  tab.on("pageerror", (e) => wrong.push(String(e)));
  await tab.setViewportSize({ width: 1440, height: 900 });
  if (script) await tab.addInitScript(script);
  try {
    await story(name, () => tell(tab));
  } finally {
    await tab.close();
  }
}

/** ready waits until a screen shows what it has asked for. */
async function ready(tab, view) {
  await (view === "cluster" ? tab.locator("[role=application][aria-label*=nodes]") : tab.getByRole("heading", { level: 2 }).first()).waitFor();
  await tab.waitForFunction(() => [...document.querySelectorAll("main [role=status]")].every((e) => !e.textContent.endsWith("…")));
}

/** stream answers the page's stream like a server, and returns what says more. */
async function stream(tab, ...said) {
  let response;
  const say = (event, m) => response.write(`event: ${event}\ndata: ${JSON.stringify({ g: [], ...m })}\n\n`);
  const server = createServer((_, r) => {
    response = r;
    r.writeHead(200, { "Content-Type": "text/event-stream" });
    for (const [event, m] of said) say(event, m);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  await tab.route("**/api/stream", (r) => r.continue({ url: `http://127.0.0.1:${server.address().port}/` }));
  tab.on("close", () => (server.closeAllConnections(), server.close()));
  return say;
}

const kinds = [{ pool: "general", type: "c6a.large", capacity: "spot", zone: "a", labels: {} }];
const node = (id, name, pods = "rrrr") => [id, name, 0, "Ready", 1.7e9, 40, 100000, [1000, 2 ** 30], [2000, 2 ** 31], pods, [], `c-${id}`, "", 0, true];
const totals = (nodes) => ({ nodes, onTheirWay: 0, notReady: 0, going: 0, unpriced: 0, price: 1e5 * nodes, bound: 4 * nodes, running: 4 * nodes, waiting: 0, requests: [1, 1], allocatable: [2, 2] });

try {
  await act("long");
  await within("the longest names fit on every screen, and the figures beside them are seen", async (tab) => {
    await tab.route("**/api/pending", (r) => r.fulfill({ json: {
      pools: [longest], prices: longest, notKnown: [longest], shapes: [{
        requests: longest, suchAs: { namespace: longest.slice(0, 63), name: longest }, pods: 3, room: 1, launching: 1, nothing: 1, change: longest,
        pools: [{ rule: "Resource", text: `pool ${longest}: ${longest}`, funnel: [{ rule: "Catalog", left: 893 }, { rule: longest, left: 0 }] }],
      }],
    } }));
    const offering = { type: longest, zone: longest, capacityType: "spot", dollarsPerHour: 1 };
    await tab.route("**/api/offers", (r) => r.fulfill({ json: {
      prices: longest, backoffKnown: true, notKnown: [longest], pools: [{ pool: longest, offered: 893, allowed: 312, available: 310, cheapest: offering, dearest: offering, exhausted: [{ ...offering, retryAt: new Date().toISOString() }], exhaustedOf: 1 }],
    } }));
    await tab.route("**/api/why?*", (r) => r.fulfill({ json: { summary: longest, state: "", facts: [{ label: longest, text: longest }] } }));
    await tab.route("**/api/clusters/sums", (r) => r.fulfill({ json: [{ name: longest, known: false, problem: longest, totals: totals(1) }] }));
    for (const wide of [1440, 390]) {
      await tab.setViewportSize({ width: wide, height: 844 });
      for (const view of screens) {
        for (const details of view === "cluster" || view === "nodes" ? ["", `;node=${longest}`] : [""]) {
          await tab.goto("about:blank");
          await tab.goto(`${page}/#view=${view}${details}`);
          await ready(tab, view);
          await tab.locator(".note").getByText(longest).waitFor();
          if (details) {
            const aside = tab.getByRole("complementary", { name: "Details" });
            await aside.getByRole("button", { name: "Why?" }).click();
            await aside.locator(".why dd").waitFor();
            await aside.locator("summary", { hasText: "Labels" }).click();
          }
          assert.deepEqual(await tab.evaluate(sticksOut), [], `${view} at ${wide} pixels, ${details ? "with" : "without"} details`);
          await tab.screenshot({ path: join(folder, `long-${view}-${wide}${details ? "-details" : ""}.png`) });
        }
      }
      await tab.goto(`${page}/#group=pool`);
      await ready(tab, "cluster");
      const figures = await (await tab.waitForFunction(() => {
        const some = window.texts.filter((t) => /^1 node · 1 pod · \$/.test(t.text));
        return some.length > 0 && some;
      })).jsonValue();
      assert.ok(figures.every((t) => t.right <= t.wide), JSON.stringify(figures));
      assert.ok((await tab.evaluate(() => window.texts)).some((t) => /^a+(\.a+)*…$/.test(t.text)), "the name is shortened");
    }
  }, () => {
    window.texts = [];
    const canvas = CanvasRenderingContext2D.prototype, was = canvas.fillText;
    canvas.fillText = function (text, x, ...more) {
      window.texts.push({ text, right: x + this.measureText(text).width, wide: this.canvas.clientWidth });
      was.call(this, text, x, ...more);
    };
  });

  await within("a note goes when what it says is over", async (tab) => {
    await tab.goto(page);
    const note = tab.locator(".note", { hasText: longest });
    await note.waitFor();
    await act("short");
    await note.waitFor({ state: "detached" });
  });

  await act("bidi");
  await within("text from right to left leaves the order of what is around it", async (tab) => {
    await tab.goto(page + "/#view=pools");
    const text = tab.getByRole("article", { name: "batch" }).locator(".bad span");
    await text.getByText("מאגר مجمع").waitFor();
    const seen = await text.evaluate((e) => {
      const after = document.createRange();
      after.selectNodeContents(e.nextSibling);
      return { bidi: getComputedStyle(e).unicodeBidi, says: after.toString(), name: [...e.getClientRects()].at(-1).toJSON(), after: after.getClientRects()[0].toJSON() };
    });
    assert.equal(seen.bidi, "isolate");
    assert.ok(/ \(for /.test(seen.says) && seen.name.y === seen.after.y && seen.after.left >= seen.name.right - 1, JSON.stringify(seen));
    await tab.goto(page + "/#view=pending");
    await tab.getByRole("cell", { name: "מאגר مجمع" }).waitFor();
    for (const tag of ["span", "strong", "small", "code", "a", "option", "td", "dd", "li"]) {
      assert.equal(await tab.evaluate((name) => getComputedStyle(document.body.appendChild(document.createElement(name))).unicodeBidi, tag), "isolate", tag);
    }
  });

  const hour = 3600_000;
  await within("a browser whose clock is two hours late shows true ages and the whole line of time", async (tab) => {
    const now = Date.now(), asked = (path) => tab.waitForRequest((r) => r.url().includes(path)).then((r) => Number(new URL(r.url()).searchParams.get("to")));
    await stream(tab, ["state", { e: "x", s: 1, t: now - 2 * hour, n: now, k: kinds, m: [node(1, "one")], h: ["cpu", "memory"], o: totals(1) }]);
    await tab.route("**/api/history", (r) => r.fulfill({ json: [[1, now - 2 * hour, 1, 1e5, 4, 0]] }));
    await tab.route("**/api/object?*", (r) => r.fulfill({ json: { yaml: "kind: Node", events: [{ last: now / 1000 - 1800, type: "Normal", reason: "Odd", message: "odd", source: "", count: 1 }] } }));
    const [periods, rollouts] = [asked("/api/periods"), asked("/api/rollouts")];
    await tab.goto(page + "/#node=one");
    for (const to of [await periods, await rollouts]) assert.ok(to >= now && to <= now + 2 * hour, `until ${(to - now) / 1000} s from now`);
    await tab.getByRole("complementary", { name: "Details" }).getByText("Node: events and YAML").click();
    await tab.getByText("30m ago").waitFor();
    const chart = tab.locator(".timeline [data-span]");
    await tab.waitForFunction(() => document.querySelector(".timeline [data-span]").dataset.span >= 7200);
    assert.ok(Number(await chart.getAttribute("data-span")) < 7200 + 600, "it ends now, long after the last change");
    await tab.waitForFunction(() => document.querySelector(".timeline [data-points]").dataset.points === "2"); // what held then holds now
  }, () => {
    const real = Date.now;
    Date.now = () => real() - 7200_000;
  });

  await within("a server that starts over leaves nothing of the line of time, and none of it is lost", async (tab) => {
    const now = Date.now(), state = (e, t) => ({ e, s: 1, t, n: now, k: kinds, m: [node(1, "one")], h: ["cpu", "memory"], o: totals(1) });
    const histories = [];
    await tab.route("**/api/history", (r) => void histories.push(r));
    const say = await stream(tab, ["state", state("x", now - hour)]);
    const points = (n) => tab.waitForFunction((n) => document.querySelector(".moment")?.max === String(n - 1), n), asked = async (n) => {
      while (histories.length < n) await tab.waitForTimeout(20);
    };
    await tab.goto(page);
    await asked(1);
    await histories[0].fulfill({ json: [1, 2, 3, 4].map((i) => [i, now - hour + 1000 * i, 1, 1e5, 4, 0]) });
    await points(4);
    say("state", state("y", now - 2 * hour));
    await asked(2);
    say("frame", { e: "y", s: 2, t: now - 2 * hour + 1, m: [], o: totals(1) });
    say("frame", { e: "y", s: 3, t: now - 2 * hour + 2, m: [], o: totals(1) });
    await points(2);
    await histories[1].fulfill({ json: [[1, now - 2 * hour, 1, 1e5, 4, 0], [2, now - 2 * hour + 1, 1, 1e5, 4, 0]] });
    await points(3);
  });

  await within("ten thousand pending pods are no ten thousand rows", async (tab) => {
    const shape = (i, pods) => ({ requests: `cpu ${i}`, suchAs: { namespace: "default", name: `p-${i}` }, pods, room: 0, launching: 0, nothing: pods, pools: [{ rule: "Resource", text: "no" }] });
    let shapes = [shape(0, 10_000)], refused = false;
    await tab.route("**/api/pending", (r) => r.fulfill(refused ? { status: 500, json: { error: "not now" } } : { json: { pools: ["general"], prices: "", shapes } }));
    await tab.route("**/api/waiting", (r) => r.fulfill({ json: { of: 10_000, pods: Array.from({ length: 500 }, (_, i) => ({ namespace: "default", name: `p-${i}`, created: 1.7e9, why: "no" })) } }));
    const elements = () => tab.evaluate(() => document.querySelectorAll("main *").length);
    await tab.goto(page + "/#view=pending");
    await tab.getByRole("heading", { name: "10,000 pods, such as" }).waitFor();
    const rows = tab.getByText("The 500 of 10,000 pods that have waited longest.");
    await rows.waitFor();
    await tab.getByRole("button", { name: "default/p-499" }).waitFor({ state: "detached" });
    assert.ok(await elements() < 100, `${await elements()} elements`);
    await rows.click();
    await tab.getByRole("button", { name: "default/p-499" }).waitFor();
    assert.ok(await elements() < 4000, `${await elements()} elements`);
    const alert = tab.getByRole("alert").filter({ hasText: "not now" });
    refused = true;
    await alert.waitFor();
    refused = false;
    await alert.waitFor({ state: "detached" });
    assert.ok(await tab.getByRole("button", { name: "default/p-499" }).isVisible(), "the table stays open");
    shapes = Array.from({ length: 10_000 }, (_, i) => shape(i, 1));
    await tab.getByText("9,950 more shapes not listed").waitFor();
    assert.equal(await tab.locator("article.shape").count(), 50);
    assert.ok(await elements() < 4000, `${await elements()} elements`);
  });

  await within("who may not see something reads so on every screen", async (tab) => {
    const error = "nodes are for those who may list nodes of the whole cluster; an administrator allows it: nodeless rbac --view --user NAME";
    await tab.route(/\/api\/(?!stream|who|clusters$|language)/, (r) => r.fulfill({ status: 403, json: { error } }));
    const told = (where) => tab.locator(`${where} [role=alert]`).filter({ hasText: error }).first().waitFor();
    for (const view of screens) {
      await tab.goto("about:blank");
      await tab.goto(`${page}/#view=${view};node=ip-10-0-0-4.us-west-2.compute.internal`);
      await ready(tab, view);
      if (view === "whatif") {
        await tab.getByLabel("these had so many pods").fill("deployment/web=5");
        await tab.keyboard.press("Enter");
      }
      await told(view === "cluster" || view === "nodes" ? ".timeline" : "main");
      await tab.getByRole("button", { name: "Why?" }).click();
      await told(".why");
    }
  });

  await within("keys alone reach everything on every screen", async (tab) => {
    await tab.goto(page);
    for (const view of screens) {
      await tab.keyboard.press("Control+k");
      await tab.getByRole("dialog", { name: "Go to" }).waitFor();
      await tab.keyboard.type(view === "whatif" ? "what if" : view);
      await tab.getByRole("option", { name: new RegExp(`^screen ${view === "whatif" ? "what if" : view}`, "i") }).waitFor();
      await tab.keyboard.press("Enter");
      await tab.locator(`nav a[aria-current=page][href="${view === "cluster" ? "#" : "#view=" + view}"]`).waitFor();
      await ready(tab, view);
      const all = await tab.evaluate(() => {
        const can = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')];
        window.left = new Set(can.filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true })));
        return window.left.size;
      });
      const left = () => tab.evaluate(() => {
        window.left.delete(document.activeElement);
        for (const e of window.left) if (!e.isConnected || e.disabled) window.left.delete(e);
        return [...window.left].map((e) => e.outerHTML.slice(0, 120));
      });
      let pressed = 0;
      for (; (await left()).length > 0 && pressed < 3 * all + 20; pressed++) await tab.keyboard.press("Tab");
      assert.deepEqual(await left(), [], `${view}: of ${all} after ${pressed} times Tab`);
    }
  });

  await within("a part of the line of time is selected with keys", async (tab) => {
    await tab.goto(page);
    await tab.waitForFunction(() => Number(document.querySelector(".moment")?.max) >= 3);
    const moment = tab.getByLabel("Moment"), spans = (part) => tab.waitForFunction((part) => location.hash.includes(part), `span=${part}`);
    await moment.focus();
    await tab.keyboard.press("Home");
    await tab.getByText("The state at").waitFor();
    const from = Number(/at=(\d+)/.exec(tab.url())[1]);
    await tab.keyboard.press("[");
    await spans(`${from}-`);
    await tab.route("**/api/at?*", async (r) => void setTimeout(() => r.continue().catch(() => {}), 500)); // slower than the keys
    await tab.keyboard.press("ArrowRight");
    await tab.waitForFunction((from) => Number(/at=(\d+)/.exec(location.hash)?.[1]) > from, from);
    const to = Number(/at=(\d+)/.exec(tab.url())[1]);
    await tab.keyboard.press("]");
    await spans(`${from}-${to}`);
  });

  await within("of 5,000 boxes only those are drawn that are seen, and only what changed", async (tab) => {
    const all = Array.from({ length: 5000 }, (_, i) => node(i + 1, `ip-10-1-${i >> 8}-${i & 255}`));
    const say = await stream(tab, ["state", { e: "x", s: 1, t: Date.now(), n: Date.now(), k: kinds, m: all, h: ["cpu", "memory"], o: totals(5000) }]);
    await tab.goto(page);
    await tab.locator('[role=application][aria-label^="5000 of 5000 nodes"]').waitFor();
    const band = 320, boxes = tab.getByRole("application"), drawn = async (act) => {
      await settled(tab);
      await tab.evaluate(() => (window.drawn = []));
      await act();
      await settled(tab);
      return tab.evaluate(() => window.drawn);
    };
    const tall = (await boxes.boundingBox()).height, bands = (list) => [...new Set(list.map((b) => b.band))].sort((a, b) => a - b);
    const once = (list) => assert.equal(new Set(list.map((b) => JSON.stringify(b))).size, list.length, "each box once in a band");
    const near = (list) => list.filter((b) => b.y + b.h < b.band || b.y > b.band + band);
    const shaded = await drawn(() => tab.getByLabel("Shade by").selectOption("cpu"));
    once(shaded);
    assert.deepEqual([near(shaded), bands(shaded)], [[], Array.from({ length: Math.ceil(tall / band) }, (_, i) => i * band)]);
    const scrolled = await drawn(() => boxes.evaluate((e) => (e.scrollTop += 320)));
    once(scrolled);
    assert.deepEqual([near(scrolled), bands(scrolled)], [[], [Math.ceil(tall / band) * band]], "one more band");
    const changed = await drawn(async () => {
      say("frame", { e: "x", s: 2, t: Date.now(), m: [node(100, "ip-10-1-0-99", "rrrrr")], o: totals(5000) });
      await tab.waitForFunction(() => window.drawn.length > 0);
    });
    assert.ok(changed.length <= 2 && new Set(changed.map((b) => b.y)).size === 1, JSON.stringify(changed));
  }, () => {
    window.drawn = [];
    const canvas = CanvasRenderingContext2D.prototype, was = canvas.roundRect;
    canvas.roundRect = function (x, y, w, h, r) {
      window.drawn.push({ x, y, w, h, band: parseFloat(this.canvas.style.top) });
      was.call(this, x, y, w, h, r);
    };
  });
  assert.deepEqual(wrong.filter((w) => !/ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED|INTERNET_DISCONNECTED)|status of (403|501|422)/.test(w)), [], "errors that the browser saw");
} finally {
  await browser.close();
}

/** settled waits until pending drawing is done. */
async function settled(tab) {
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(done)))));
}

/** sticksOut runs in the page and returns the elements that are wider than what holds them, unless they scroll. */
function sticksOut() {
  const holders = [...document.querySelectorAll("html, main, .detail, .note, .timeline, .top")].filter((e) => e.scrollWidth > e.clientWidth);
  return holders.flatMap((holder) => {
    const edge = holder.getBoundingClientRect().left + holder.clientWidth, name = (e) => `${e.localName}.${e.className}`;
    const out = [...holder.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > edge + 1 && !e.closest(".scroll, .rows, pre, .unseen"));
    return [`${name(holder)} ${holder.scrollWidth} > ${holder.clientWidth}`, ...out.slice(0, 6).map((e) => `${name(e.parentElement)} > ${name(e)}: ${e.textContent.slice(0, 40)}`)];
  });
}
