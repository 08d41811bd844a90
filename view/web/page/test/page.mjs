// What a person does with the page, and what they expect: node page.mjs LINK CONTROL FOLDER. view/web/browser_test.go serves
// the page at LINK, moves its cluster at CONTROL, and 60 nodes with 12 pods each are there. Pictures go to FOLDER.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { enter, open } from "./browser.mjs";

const [entrance, control, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { browser, tab, wrong } = await open();
const page = await enter(tab, entrance);
const picture = (name) => tab.screenshot({ path: join(folder, name + ".png") });
const act = async (what) => assert.equal((await fetch(control + "/" + what)).status, 200, what);
const sums = tab.getByTestId("sums");
const map = tab.getByRole("application");
const shown = (text) => tab.getByText(text).first().waitFor();
const mapSays = (text) => tab.locator(`[role=application][aria-label^="${text}"]`).waitFor();

async function story(name, tell) {
  const began = Date.now();
  await tell();
  console.log(`ok: ${name} (${Date.now() - began} ms)`);
}

try {
  await story("boxes are there, with sums and prices", async () => {
    await tab.goto(page + "/");
    await mapSays("60 of 60 nodes");
    assert.match(await sums.textContent(), /^\$\d+\.\d{4}\/h · \$[\d,]+\/month · 60 nodes · 720 pods running, 0 pending$/);
    assert.ok(await painted(), "the canvas shows something");
    await picture("cluster");
  });

  await story("a tooltip names node and pod", async () => {
    const box = await map.boundingBox();
    // The first box is below its group's head; its first pod is at 18, 32 within it.
    await tab.mouse.move(box.x + 6 + 22, box.y + 6 + 26 + 36);
    const tip = tab.getByRole("tooltip");
    await tip.getByText(/^shop\/web-\d+-0$/).waitFor();
    assert.match(await tip.textContent(), /running.*requests cpu [\d.]+, memory .*Ready.*an hour/s);
    await picture("tooltip");
    await tab.mouse.move(2, 2);
    await tip.waitFor({ state: "detached" });
  });

  await story("a filter leaves nodes, by a field, a label, a pod's name", async () => {
    const filter = tab.getByRole("searchbox");
    await tab.keyboard.press("/");
    await tab.keyboard.type("capacity=spot");
    await mapSays("6 of 60 nodes");
    assert.match(tab.url(), /#q=capacity=spot$/);
    await filter.fill("team=team-1 !spot");
    await mapSays("12 of 60 nodes");
    await filter.fill("web-17-3");
    await mapSays("1 of 60 nodes");
    await picture("filter");
    await filter.fill("nothing is like this");
    await shown("No node matches");
    await filter.fill("");
    await mapSays("60 of 60 nodes");
  });

  await story("keys go from node to node and open what there is to say", async () => {
    await map.focus();
    await tab.keyboard.press("ArrowRight");
    await tab.keyboard.press("ArrowRight");
    const details = tab.getByRole("complementary", { name: "Details" });
    await details.getByText("an hour").waitFor();
    await details.getByRole("button", { name: /^shop\/web-/ }).first().waitFor();
    assert.match(await tab.locator(".cluster [role=status]").textContent(), /: Ready, 12 pods\./);
    await details.getByRole("button", { name: "Why?" }).click();
    await details.getByText("started without the engine's answers").waitFor();
    await picture("details");
    await map.focus();
    await tab.keyboard.press("Escape");
    await details.waitFor({ state: "detached" });
  });

  await story("a link shows the same to somebody else, with kube-ops-view's words", async () => {
    await tab.goto("about:blank");
    await tab.goto(page + "/#scale=1.5;group=zone;color=price;q=capacity%3Don-demand;node=ip-10-0-0-4.us-west-2.compute.internal");
    await mapSays("54 of 60 nodes");
    await tab.getByRole("complementary").getByRole("heading", { name: "ip-10-0-0-4" }).waitFor();
    assert.equal(await tab.getByRole("searchbox").inputValue(), "capacity=on-demand");
    assert.equal(await tab.getByLabel("Size").inputValue(), "1.5");
    await picture("link");
    await tab.goto("about:blank");
    await tab.goto(page + "/#dashboard=true;scale=0.5;clusters=a;renderer=canvas;odd=%zz");
    await mapSays("60 of 60 nodes");
    assert.equal(await tab.getByRole("banner").count(), 0);
  });

  await story("the line of time does not span more than there was", async () => {
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await mapSays("60 of 60 nodes");
    await tab.waitForFunction(() => document.querySelector(".timeline [data-span]"));
    const seconds = Number(await tab.locator(".timeline [data-span]").getAttribute("data-span"));
    assert.ok(seconds >= 60 && seconds < 600, `it spans ${seconds} seconds`);
    await picture("cluster");
  });

  await story("a card says what each pool answers, and what would help", async () => {
    await tab.route("**/api/pending", (r) => r.fulfill({ json: {
      pools: ["general-purpose", "spot"], prices: "made up", shapes: [{
        requests: "cpu 5000", suchAs: { namespace: "default", name: "huge" }, pods: 3, room: 0, launching: 2, nothing: 1, change: "would fit if it asked for cpu 190",
        pools: [{ rule: "Resource", text: "pool general-purpose: needs cpu 5000", funnel: [{ rule: "Catalog", left: 893 }, { rule: "Resource", left: 0 }] }, { launching: 2 }],
      }],
    } }));
    await tab.getByRole("link", { name: "Pending 0" }).click();
    const card = tab.locator(".shape");
    await card.getByText("requests cpu 5000", { exact: true }).waitFor();
    assert.equal(await card.locator(".gets").textContent(), "✓ 2 get a new node✗ 1 get nothing");
    assert.match(await card.locator("ul > li").first().textContent(), /^✗general-purpose needs cpu 5000Catalog893Resource0$/);
    assert.equal(await card.getByRole("list", { name: "types left" }).getByRole("listitem").count(), 2);
    await card.getByText("What would help: would fit if it asked for cpu 190").waitFor();
    await picture("cards");
    await card.getByRole("button", { name: "default/huge" }).click();
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "default/huge" }).waitFor();
    await tab.unroute("**/api/pending");
    await tab.getByRole("button", { name: "Close details" }).click();
  });

  await story("an empty cluster says what to do", async () => {
    await tab.route("**/api/pending", (r) => r.fulfill({ json: { pools: ["general-purpose"], prices: "", shapes: [] } }));
    await tab.route("**/api/stream", (r) => r.fulfill({ contentType: "text/event-stream", body: `event: state\ndata: ${JSON.stringify({
      e: "x", s: 1, t: Date.now(), m: [], g: [], h: ["cpu", "memory"],
      o: { nodes: 0, onTheirWay: 0, notReady: 0, going: 0, unpriced: 0, price: 0, bound: 0, running: 0, waiting: 0, requests: [], allocatable: [] },
    })}\n\n` }));
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await shown("from NodePool general-purpose");
    await tab.getByText("kubectl create deployment web --image=nginx --replicas=20").waitFor();
    await tab.getByRole("button", { name: "Copy" }).waitFor();
    await picture("empty");
    await tab.unroute("**/api/pending");
    await tab.unroute("**/api/stream");
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await mapSays("60 of 60 nodes");
  });

  await story("what was decided is listed, found, and comes by itself", async () => {
    await tab.getByRole("link", { name: "Decisions" }).click();
    const rows = tab.locator(".decisions tbody tr");
    await tab.getByText("The newest 3 of 3, of 3 recorded decisions").waitFor();
    assert.match(await rows.nth(0).textContent(), /Launch.*costs least \(2\)/);
    await act("decide");
    await tab.getByText("The newest 4 of 4, of 4 recorded decisions").waitFor();
    assert.match(await rows.nth(0).textContent(), /costs least \(60\)/);
    await rows.nth(0).getByText("More").click();
    await rows.nth(0).getByText("m6g.large at $0.0310/h").waitFor();
    await picture("decisions");
    await tab.getByRole("searchbox").fill("empty old");
    await tab.getByText("The newest 1 of 1, of 4 recorded decisions").waitFor();
    assert.match(await rows.nth(0).textContent(), /Remove.*Empty.*nobody needs it.*terminated after 2m0s.*saves \$0\.5000/);
    assert.match(tab.url(), /#view=decisions;about=empty%20old$/);
    await tab.reload();
    await tab.getByText("The newest 1 of 1, of 4 recorded decisions").waitFor();
    await tab.getByRole("searchbox").fill("nobody decided this");
    await tab.getByText("None of the 4 recorded decisions").waitFor();
  });

  await story("what was saved stands against what it is counted by", async () => {
    await tab.getByRole("link", { name: "Savings" }).click();
    await tab.getByTestId("saved").getByText(/^\$\d+\.\d{4}/).waitFor();
    await shown("Compared with the same cluster in which no node is removed");
    const cells = await tab.locator(".list tbody tr").first().locator("td").allTextContents();
    assert.deepEqual([cells[0], cells[2] === "$0.0000", cells[7]], ["Empty", false, "c6a.xlarge"]);
    await picture("savings");
  });

  await story("what if is asked with keys alone, and an error says what is wrong", async () => {
    await tab.getByRole("link", { name: "What if" }).focus();
    await tab.keyboard.press("Enter");
    assert.ok(await tab.getByRole("button", { name: "Forecast" }).isDisabled());
    await tab.getByLabel("these had so many pods").fill("deployment/web");
    await tab.keyboard.press("Enter");
    await tab.getByRole("alert").getByText("want deployment/NAME=N").waitFor();
    await tab.getByLabel("these had so many pods").fill("deployment/web=5");
    await tab.getByLabel("these manifests").fill("kind: NodePool");
    await tab.keyboard.press("Tab"); // files
    await tab.keyboard.press("Tab");
    await tab.keyboard.type("nodepool/old");
    await tab.keyboard.press("Enter");
    const told = tab.getByRole("region", { name: "Forecast" });
    await told.getByText("1 node would be removed and 0 launched within about 2m10s; 1 pod would be evicted, 1 would be unschedulable.").waitFor();
    await told.getByText("$60.00 (−$40.00)").waitFor();
    await told.getByText("shop/big: no pool").waitFor();
    await told.getByText("<img src=x onerror=alert(1)>\\x1b[31m\\u202e").waitFor();
    assert.equal(await tab.locator("main img").count(), 0);
    await picture("whatif");
  });

  let before = 0;
  await story("changes come by themselves", async () => {
    await tab.goto("about:blank");
    await tab.goto(page + "/#group=pool");
    await mapSays("60 of 60 nodes");
    before = Date.now();
    await act("drop");
    await sums.getByText("708 pods running").waitFor();
    const changed = await drawn();
    await tab.getByLabel("Shade by").selectOption("cpu");
    const shaded = await drawn();
    await tab.getByLabel("Shade by").selectOption("pods");
    assert.deepEqual([await drawn(), shaded === changed], [changed, false], "what was drawn of a change is what all of it drawn anew is");
    await act("remove");
    await mapSays("59 of 59 nodes");
    await act("microvm");
    await tab.getByRole("searchbox").fill("shop/alone");
    await mapSays("1 of 59 nodes");
    await tab.getByRole("searchbox").fill("");
  });

  await story("the past is a moment away, can be linked to, and goes on until now", async () => {
    const moment = tab.getByLabel("Moment");
    await tab.waitForFunction(() => Number(document.querySelector(".moment").max) >= 3);
    await moment.focus();
    await tab.keyboard.press("Home");
    await tab.getByText("The state at").waitFor();
    await mapSays("60 of 60 nodes");
    await sums.getByText("720 pods running").waitFor();
    const link = tab.url();
    assert.match(link, /at=\d+/);
    await picture("past");
    await tab.getByRole("button", { name: "Play" }).click();
    await mapSays("59 of 59 nodes");
    await tab.getByText("The state at").waitFor({ state: "detached" });
    assert.doesNotMatch(tab.url(), /at=/);
    await tab.goto("about:blank");
    await tab.goto(link);
    await mapSays("60 of 60 nodes");
    await tab.getByRole("button", { name: "Live" }).click();
    await mapSays("59 of 59 nodes");
  });

  await story("a reload in mid-stream, and a server that comes again, lose nothing", async () => {
    await tab.reload();
    await mapSays("59 of 59 nodes");
    await act("down");
    await tab.getByRole("alert").waitFor();
    await picture("lost");
    await act("up");
    await tab.getByRole("alert").waitFor({ state: "detached", timeout: 20000 });
    await mapSays("59 of 59 nodes");
    assert.match(await sums.textContent(), /708 pods running/);
  });

  await story("hostile names are text", async () => {
    await act("hostile");
    await tab.getByRole("link", { name: "Pending 1" }).click();
    await shown("shop/odd");
    await shown("<img src=x onerror=alert(1)>\\x1b[31m\\u202e");
    assert.equal(await tab.locator("main img").count(), 0);
    await picture("pending");
    await tab.goBack();
    await mapSays("59 of 59 nodes");
    await tab.getByRole("link", { name: "Decisions" }).click();
    await tab.getByText("The newest 5 of 5, of 5 recorded decisions").waitFor();
    await shown("<img src=x onerror=alert(1)>\\x1b[31m\\u202e");
    assert.equal(await tab.locator("main img").count(), 0);
    for (const [path, text] of [["/lite", "shop/odd"], ["/lite/decisions", "nobody needs it"], ["/lite/savings", "Compared with"]]) {
      await tab.goto(page + path);
      await shown(text);
      assert.equal(await tab.locator("img").count(), 0);
      await picture(path.slice(1).replace("/", "-"));
    }
  });

  await story("without colours of day, and narrow", async () => {
    await tab.emulateMedia({ colorScheme: "dark" });
    await tab.setViewportSize({ width: 640, height: 800 });
    await tab.goto(page + "/#node=ip-10-0-0-4.us-west-2.compute.internal");
    await mapSays("59 of 59 nodes");
    await picture("dark");
    await tab.goto("about:blank");
    for (const [wide, tall] of [[640, 800], [390, 844]]) {
      await tab.setViewportSize({ width: wide, height: tall });
      for (const view of ["cluster", "pending", "decisions", "savings", "whatif"]) {
        await tab.goto(page + "/#view=" + view);
        await tab.reload(); // as a phone would open it
        await (view === "cluster" ? mapSays("59 of 59 nodes") : tab.getByRole("heading", { level: 2 }).first().waitFor());
        assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} fits in ${wide} pixels`);
        await picture(`dark-${view}-${wide}`);
      }
    }
    await tab.getByRole("link", { name: "Cluster" }).click();
    await tab.getByRole("button", { name: "Filter and view" }).click();
    await tab.getByRole("searchbox").fill("capacity=spot");
    await map.focus();
    await tab.keyboard.press("ArrowRight");
    const sheet = await tab.getByRole("complementary", { name: "Details" }).boundingBox();
    assert.deepEqual([sheet.x, sheet.y, sheet.width, sheet.height], [0, 0, 390, 844], "details cover the screen of a phone");
    await tab.getByRole("button", { name: "Close details" }).click();
  });
  assert.deepEqual(wrong.filter((w) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|status of (501|422)/.test(w)), [], "errors that the browser saw");
} finally {
  await browser.close();
}

/** drawn is all that the canvases of the boxes show, after what is to be drawn was. */
async function drawn() {
  return tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const bands = [...document.querySelectorAll(".boxes canvas")].sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top));
    done(bands.map((c) => c.toDataURL()).join(" "));
  }))));
}

/** painted reports whether the canvas has more than one colour. */
async function painted() {
  return tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => {
    const c = document.querySelector("canvas");
    const data = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
    done(new Set(data).size > 3);
  })));
}
