// What a user does with the page, and what they expect: node page.mjs LINK CONTROL FOLDER. view/web/browser_test.go serves the
// page at LINK, and CONTROL changes its cluster, which has 60 nodes with 12 pods each. Pictures are saved in FOLDER.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { accessible, enter, open, screens, story } from "./browser.mjs";

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

const longest = "very-long-".repeat(25) + "abc"; // 253 characters, the maximum length of a name
/** known is the engine's response about addresses; the page of these stories has no engine. */
const known = {
  controller: true, at: new Date().toISOString(), targets: { variables: ["ENABLE_PREFIX_DELEGATION=true", "WARM_PREFIX_TARGET=1"], prefixes: true, customNetwork: false },
  subnets: [
    { id: "subnet-0a1b2c3d4e5f60718", zone: "us-west-2a", cidr: "10.0.0.0/24", total: 251, free: 9, scattered: 5, pools: ["batch", "general"] },
    { id: "subnet-1", zone: "us-west-2b", cidr: "10.0.16.0/20", total: 4091, free: 3120, pools: ["general", longest] },
    { id: "subnet-2", zone: "us-west-2c", free: 40, pools: [] },
  ],
  launches: [
    { pool: "batch", zone: "us-west-2a", subnet: "subnet-0a1b2c3d4e5f60718", free: 9, type: "c6a.large", least: 17, nodes: 0 },
    { pool: "general", zone: "us-west-2b", subnet: "subnet-1", free: 3120, type: "t3.small", least: 17, nodes: 183 },
    { pool: longest, zone: "us-west-2b", subnet: "subnet-1", free: 3120, type: "t3.small", least: 17, nodes: 183 },
  ],
  warm: [
    { pool: "batch", type: "c6a.4xlarge", zone: "us-west-2a", nodes: 7, pods: 84, enis: 7, maxEnis: 56, prefixes: 14, held: 224, room: 23296, growth: 1456 },
    { pool: "general", type: "r6i.xlarge", zone: "us-west-2b", nodes: 12, pods: 130, enis: 12, maxEnis: 48, prefixes: 24, held: 384, room: 10752, growth: 300 },
    { pool: "", type: "m5.large", zone: "us-west-2b", nodes: 1, pods: 3, enis: 1, maxEnis: 3, prefixes: 2, held: 32, room: 432, growth: 0 },
  ],
  short: [{ name: "ip-10-0-0-4.us-west-2.compute.internal", pods: 110, short: 81 }, { name: longest, pods: 110, short: 3 }], shortOf: 3,
  growth: [{ zone: "us-west-2a", growth: 1456, free: 9 }, { zone: "us-west-2b", growth: 300, free: 3120 }],
};
const answered = (answer, status = 200) => tab.route("**/api/addresses", (r) => r.fulfill({ status, json: answer }));

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
    // The first box is below its group's heading; its first pod is at 18, 32 within the box.
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
    for (const [q, left] of [["!spot", 54], ["capacity!=spot", 54], ["web-10-3 !spot", 0]]) { // a pod that the server finds does not bring its node back
      const answer = tab.waitForResponse((r) => r.url().endsWith("/api/find?q=" + encodeURIComponent(q)));
      await filter.fill(q);
      await (await answer).finished();
      await drawn();
      assert.match(await map.getAttribute("aria-label"), new RegExp(`^${left} of 60 nodes`), q);
    }
    await filter.fill("web-17-3 !spot");
    await mapSays("1 of 60 nodes");
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
    await details.getByText("NodeClaim: events and YAML").click();
    assert.match(await details.getByLabel("YAML of the NodeClaim").textContent(), /^kind: NodeClaim\nmetadata:\n  name: /);
    await details.getByRole("list", { name: "Events of the NodeClaim" }).getByText("3 times").waitFor();
    await details.getByText("EC2NodeClass default: events and YAML").click();
    await details.getByLabel("YAML of the EC2NodeClass").getByText("name: default").waitFor();
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

  await story("a link with values that make no sense shows the cluster", async () => {
    for (const odd of ["#group=constructor", "#group=__proto__;sort=toString", "#view=nodes;sort=hasOwnProperty", "#reload=2592000"]) {
      await tab.goto("about:blank");
      await tab.goto(page + "/" + odd);
      if (odd.includes("view=nodes")) await tab.getByText("ip-10-0-0-4").first().waitFor();
      else await mapSays("60 of 60 nodes");
    }
    await tab.evaluate(() => (window.sameDocument = true));
    await tab.getByRole("link", { name: "Nodes" }).click();
    await tab.getByText("ip-10-0-0-4").first().waitFor();
    assert.equal(await tab.evaluate(() => window.sameDocument), true, "a month is no time to reload after");
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

  await story("a part of the line of time is selected, and decisions are ticks on it", async () => {
    const chart = tab.locator(".timeline [data-span]"), show = tab.getByRole("combobox", { name: "show" });
    const spans = (text) => tab.waitForFunction((like) => new RegExp(like).test(document.querySelector(".timeline [data-span]").dataset.span), text);
    await show.selectOption("last 5 min");
    await spans("^300$");
    await show.selectOption("last 2 h");
    await spans("^7200$");
    await tab.waitForFunction(() => document.querySelector(".timeline [data-marks]").dataset.marks > 1);
    const box = await tab.locator(".timeline .u-over").boundingBox();
    await tab.mouse.move(box.x + box.width * 0.5, box.y + 20);
    await tab.mouse.down();
    await tab.mouse.move(box.x + box.width * 0.75, box.y + 20, { steps: 4 });
    await tab.mouse.up();
    await spans("^1[78]\\d\\d([.]|$)"); // a quarter of two hours
    assert.match(tab.url(), /#span=\d+-\d+$/);
    assert.equal(await show.inputValue(), decodeURIComponent(tab.url().split("span=")[1]));
    await picture("timeline");
    await tab.reload();
    await spans("^1[78]\\d\\d([.]|$)");
    await show.selectOption("everything");
    await tab.waitForFunction(() => document.querySelector(".timeline [data-span]").dataset.span < 600);
    assert.equal(new URL(tab.url()).hash, "");
    assert.equal(await tab.getByText("The state at").count(), 0, "to drag is not to go back in time");
    assert.ok(await chart.isVisible());
  });

  await story("ages go on while nothing changes, and stay when the connection is lost", async () => {
    const now = Date.now(), totals = { nodes: 1, onTheirWay: 0, notReady: 0, going: 0, unpriced: 0, price: 1e5, bound: 0, running: 0, waiting: 0, requests: [0, 0], allocatable: [2, 2] };
    const kinds = [{ pool: "general", type: "c6a.large", capacity: "spot", zone: "a", labels: {} }];
    const node = [1, "old", 0, "Ready", now / 1000 - 630, 40, 100000, [0, 0], [2000, 2 ** 31], "", [], "c-1", "", 0, true];
    const say = (r, event, message) => r.write(`event: ${event}\ndata: ${JSON.stringify({ e: "x", g: [], o: totals, ...message })}\n\n`);
    let stream = null;
    const server = createServer((_, r) => {
      r.writeHead(200, { "Content-Type": "text/event-stream" });
      if (stream) return void r.destroy(); // it stays lost
      stream = r;
      say(r, "state", { s: 1, t: now - 300_000, n: now, k: kinds, m: [node], h: ["cpu", "memory"] });
    });
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    await tab.route("**/api/stream", (r) => r.continue({ url: `http://127.0.0.1:${server.address().port}/` }));
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=nodes");
    const row = tab.locator(".rows tbody tr", { hasText: "old" }), age = async () => (await row.locator("td").allTextContents()).find((text) => /^\d+m$/.test(text));
    await row.waitFor();
    assert.equal(await age(), "10m", "five minutes after the last change");
    say(stream, "frame", { s: 2, t: now - 200_000, m: [[...node.slice(0, 3), "NotReady", ...node.slice(4)]] });
    await row.getByText("NotReady").waitFor();
    assert.equal(await age(), "10m", "after a frame that came late");
    stream.destroy();
    await tab.getByRole("alert").getByText("Disconnected since").waitFor();
    assert.equal(await age(), "10m", "without a connection");
    await tab.unroute("**/api/stream");
    server.close();
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await mapSays("60 of 60 nodes");
  });

  await story("what was in force is a strip on the line of time, and words under the pointer", async () => {
    const now = Math.floor(Date.now() / 1000);
    await tab.route("**/api/periods?*", (r) => r.fulfill({ json: [
      { pool: "general", nodes: "0", reasons: ["Drifted"], spans: [[now - 90_000, now - 80_000], [now - 3000, now + 600]] },
      { pool: "batch", reasons: ["Underutilized"], spans: [[now - 300, now + 60]] },
    ] }));
    await tab.reload();
    await mapSays("60 of 60 nodes");
    await tab.getByRole("combobox", { name: "show" }).selectOption("last 2 h");
    await tab.waitForFunction(() => document.querySelector(".timeline [data-periods]")?.dataset.periods === "2"); // yesterday is not in view
    const box = await tab.locator(".timeline .u-over").boundingBox();
    await tab.mouse.move(box.x + box.width * 0.93, box.y + 40); // 500 seconds ago
    await shown("general: No node, for Drifted");
    await picture("periods");
    await tab.unroute("**/api/periods?*");
    await tab.getByRole("combobox", { name: "show" }).selectOption("everything");
  });

  await story("a rollout is a triangle on the line of time", async () => {
    await tab.route("**/api/rollouts?*", (r) => r.fulfill({ json: [{ kind: "Deployment", namespace: "shop", name: "checkout", time: Date.now() - 500_000 }] }));
    await tab.reload();
    await mapSays("60 of 60 nodes");
    await tab.getByRole("combobox", { name: "show" }).selectOption("last 2 h");
    await tab.waitForFunction(() => Number(document.querySelector(".timeline [data-span]")?.dataset.span) === 7200);
    const box = await tab.locator(".timeline .u-over").boundingBox();
    await tab.mouse.move(box.x + box.width * (1 - 500 / 7200), box.y + 40); // the chart ends now, however long ago the last change was
    await shown("Rollout of Deployment shop/checkout");
    await picture("rollout");
    await tab.unroute("**/api/rollouts?*");
    await tab.getByRole("combobox", { name: "show" }).selectOption("everything");
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
    await tab.route("**/api/why?of=pod%2Fhuge&namespace=default", (r) => r.fulfill({ json: { changes: [
      { text: "would fit if it asked for cpu 190", command: "kubectl patch pod huge", launch: { type: "u7i-12tb.224xlarge", zone: "us-west-2a", capacityType: "on-demand", dollarsPerHour: 113.57 } },
      { text: "create a NodePool" },
    ] } }));
    await card.getByRole("button", { name: "Fixes and prices" }).click();
    const fixes = card.getByRole("list", { name: "Fixes" }).getByRole("listitem");
    await fixes.getByText("launches u7i-12tb.224xlarge on-demand us-west-2a · $113.5700/h").waitFor();
    assert.equal(await fixes.count(), 2);
    await tab.context().grantPermissions(["clipboard-write"], { origin: page });
    await fixes.first().getByRole("button", { name: "Copy" }).click();
    await fixes.first().getByRole("button", { name: "Copied" }).waitFor();
    await tab.unroute("**/api/why?of=pod%2Fhuge&namespace=default");
    await picture("cards");
    await accessible(tab, "a card of pending pods");
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
    await tab.route("**/api/offers", (r) => r.fulfill({ json: { backoffKnown: true, prices: "", pools: [{
      pool: "general-purpose", offered: 900, allowed: 800, available: 800,
      cheapest: { type: "t4g.nano", zone: "us-west-2a", capacityType: "spot", dollarsPerHour: 0.0016 },
      dearest: { type: "u7i-12tb.224xlarge", zone: "us-west-2b", capacityType: "on-demand", dollarsPerHour: 152.88 },
    }] } }));
    await tab.route("**/api/pools", (r) => r.fulfill({ json: [{ name: "general-purpose", limits: [{ resource: "cpu", used: "0", limit: "1k", share: 0 }] }] }));
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await shown("from NodePool general-purpose");
    await shown("from $0.0016/h, t4g.nano spot us-west-2a");
    await shown("0 / 1k");
    await tab.getByText("kubectl create deployment web --image=nginx --replicas=20").waitFor();
    await tab.getByRole("button", { name: "Copy" }).waitFor();
    await picture("empty");
    for (const path of ["pending", "offers", "pools", "stream"]) await tab.unroute("**/api/" + path);
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await mapSays("60 of 60 nodes");
  });

  await story("what was decided is listed, found, and comes by itself", async () => {
    await tab.getByRole("link", { name: "Decisions" }).click();
    const rows = tab.locator(".decisions tbody tr");
    await tab.getByText("The newest 3 of 3, of 3 recorded decisions").waitFor();
    assert.match(await rows.nth(0).textContent(), /Launch.*costs least \(2\)/);
    await tab.evaluate(() => {
      const real = Date.now;
      Date.now = () => real() - 3600e3; // the browser's clock is set back
    });
    await act("decide");
    await tab.getByText("The newest 4 of 4, of 4 recorded decisions").waitFor();
    assert.match(await rows.nth(0).textContent(), /costs least \(60\)/);
    await rows.nth(0).getByText("More").click();
    await rows.nth(0).getByText("m6g.large at $0.0310/h").waitFor();
    await picture("decisions");
    await rows.nth(1).getByText("More").click();
    assert.equal(await rows.nth(1).getByRole("link").count(), 0, "what was decided before the first moment that is kept has none");
    await rows.nth(0).getByRole("link", { name: "The cluster at that moment" }).click();
    await tab.getByText("The state at").waitFor();
    await mapSays("60 of 60 nodes");
    assert.equal(/#at=(\d+)$/.exec(tab.url())?.[1], String(Date.parse(await tab.evaluate(async () => (await (await fetch("/api/decisions?limit=1&q=")).json()).items[0].time))));
    await tab.goBack();
    await tab.getByText("The state at").waitFor({ state: "detached" });
    await tab.getByText("The newest 4 of 4, of 4 recorded decisions").waitFor();
    await tab.getByRole("searchbox").fill("empty old");
    await tab.getByText("The newest 1 of 1, of 4 recorded decisions").waitFor();
    assert.match(await rows.nth(0).textContent(), /Remove.*Empty.*nobody needs it.*terminated after 2m0s.*saves \$0\.5000/);
    assert.match(tab.url(), /#view=decisions;about=empty%20old$/);
    await tab.reload();
    await tab.getByText("The newest 1 of 1, of 4 recorded decisions").waitFor();
    await tab.getByRole("searchbox").fill("nobody decided this");
    await tab.getByText("None of the 4 recorded decisions").waitFor();
  });

  await story("what namespaces cost is divided, and a name leads to their nodes", async () => {
    await tab.getByRole("link", { name: "Costs" }).click();
    const table = tab.getByRole("table", { name: /^Costs by/ }), rows = table.getByRole("row");
    await rows.nth(2).waitFor();
    assert.match(await rows.nth(1).textContent(), /^shop\$[\d.]+\$[\d,]+ ?\d\d\.\d%720\d+(\.\d)?\d+(\.\d)?Gi$/);
    assert.match(await rows.nth(2).textContent(), /^requested by no pod\$[\d.]+\$[\d,]+ ?\d\d\.\d%000$/);
    await picture("costs");
    await table.getByRole("button", { name: "Namespace" }).click();
    await rows.nth(1).getByText("requested by no pod").waitFor();
    const [file] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name: "Save as CSV" }).click()]);
    assert.match(readFileSync(await file.path(), "utf8"), /^namespace,kind,name,dollars_per_hour,pods,cpu_requested,memory_requested\r\nshop,,,[\d.]+,720,/);
    await tab.getByRole("main").getByRole("combobox").selectOption("workload");
    await tab.getByRole("table", { name: "Costs by workload" }).waitFor();
    assert.match(tab.url(), /#view=costs;.*group=workload;sort=of$/);
    await rows.getByRole("button", { name: "shop" }).click();
    await mapSays("60 of 60 nodes");
    assert.match(tab.url(), /#q=namespace=shop(;|$)/);
    const last = async (text) => { // what is said of the last box
      await map.press("Home");
      await map.press("End");
      await tab.locator(".cluster .unseen").getByText(text).waitFor();
    };
    await Promise.all([tab.waitForResponse(/api.parts/), tab.getByLabel("Group").selectOption("namespace")]);
    await mapSays("60 of 60 nodes");
    await last(/^shop: ip-10-\S+: \w+, 12 pods\. /);
    await tab.getByLabel("Filter", { exact: true }).fill("");
    await last(/^requested by no pod: ip-10-\S+: \w+, 0 pods\. /);
    await map.press("ArrowLeft"); // from part to part
    await tab.locator(".cluster .unseen").getByText(/^requested by no pod: /).waitFor();
    await picture("divided");
    await map.press("Escape");
    await tab.getByLabel("Group").selectOption("pool");
  });

  await story("of more namespaces than are listed, shares are of the sum of all", async () => {
    const costs = [{ namespace: "a", pods: 1, price: 1e6, requests: [1000, 1] }, { namespace: "b", pods: 1, price: 5e5, requests: [1000, 1] }];
    await tab.getByRole("link", { name: "Costs" }).click();
    await tab.getByRole("table", { name: /^Costs by/ }).waitFor();
    assert.equal(await tab.getByText("The file has only").count(), 0);
    await tab.route("**/api/costs?*", (r) => r.fulfill({ json: { of: 1002, price: 4e6, costs } }));
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=costs");
    await tab.getByRole("row", { name: /^a \$1\.0000 \$730 25\.0%/ }).waitFor();
    await shown("The file has only the 2 most expensive.");
    await shown("The 2 most expensive of 1002.");
    await tab.unroute("**/api/costs?*");
    await tab.goto("about:blank");
    await tab.goto(page + "/");
  });

  await story("what was saved stands against what it is counted by", async () => {
    await tab.getByRole("link", { name: "Savings" }).click();
    await tab.getByTestId("saved").getByText(/^\$\d+\.\d{4}/).waitFor();
    await shown("Compared with the same cluster in which no node is removed");
    assert.match(await tab.getByRole("table", { name: "Saved by day, in UTC" }).getByRole("row").first().textContent(), /^\d{4}-\d\d-\d\d ?\$\d+\.\d{4}$/);
    const sums = (by) => tab.getByRole("table", { name: "Saved by " + by }).getByRole("row");
    assert.match(await sums("pool").nth(1).textContent(), /^other ?(\$0\.\d{4} ?){3}.?\$0\.0000.?\$0\.00001$/);
    await tab.getByRole("main").getByRole("combobox").selectOption("workload");
    await sums("workload").nth(2).waitFor();
    assert.match(tab.url(), /#view=savings;group=workload$/);
    assert.match(await sums("workload").nth(1).textContent(), /^requested by no pod ?\$0\.\d{4}/);
    assert.match(await sums("workload").nth(2).textContent(), /^DaemonSet kube-system\/logs ?\$0\.\d{4}\$0\.0400/);
    await picture("savings-by-workload");
    await accessible(tab, "savings by workload");
    const [divided] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name: "Save the sums as CSV" }).click()]);
    assert.equal(divided.suggestedFilename(), "savings-by-workload.csv");
    assert.match(readFileSync(await divided.path(), "utf8"), /^workload,saved_dollars,[a-z_,]+,decisions\r\nrequested by no pod,0\.\d+,[\d.,-]+,1\r\nDaemonSet kube-system\/logs,0\.0\d+,0\.04,/);
    await sums("workload").first().getByRole("button", { name: "Workload" }).click();
    await sums("workload").nth(1).getByText("DaemonSet").waitFor();
    await tab.getByRole("main").getByRole("combobox").selectOption("namespace");
    await sums("namespace").getByText("kube-system").waitFor();
    await shown("What no pod requested, such as the price of empty nodes, is nobody's.");
    const [file] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name: "Save as CSV", exact: true }).click()]);
    assert.match(readFileSync(await file.path(), "utf8"), /^time,reason,state,pools,saved_dollars,[a-z_,]+,what\r\n[^,]+,Empty,\w+,other,0\.\d+,/);
    const cells = await tab.locator(".scroll .list tbody tr").first().locator("td").allTextContents();
    assert.deepEqual([cells[0], cells[2] === "$0.0000", cells[7]], ["Empty", false, "c6a.xlarge"]);
    await picture("savings");
  });

  await story("GPUs and addresses of pods are shown where a node has some", async () => {
    await act("devices");
    await tab.goto("about:blank");
    await tab.goto(page + "/#q=ip-10-0-0-5.");
    await mapSays("1 of 60 nodes");
    await tab.evaluate(() => {
      const draw = CanvasRenderingContext2D.prototype.fillText;
      window.drawn = new Set();
      CanvasRenderingContext2D.prototype.fillText = function (text, ...where) { // what is drawn is not in the document
        window.drawn.add(text);
        draw.call(this, text, ...where);
      };
    });
    const details = tab.getByRole("complementary", { name: "Details" }), bars = details.getByRole("list", { name: "Utilisation" }).getByRole("listitem");
    await tab.evaluate(() => (location.hash = "#q=ip-10-0-0-5.;node=ip-10-0-0-5.us-west-2.compute.internal"));
    await bars.first().waitFor();
    await tab.waitForFunction(() => window.drawn.has("memory"));
    assert.equal(await bars.count(), 2, "a node without GPUs and known addresses");
    assert.equal(await tab.evaluate(() => window.drawn.has("GPU") || window.drawn.has("addresses")), false);
    await tab.evaluate(() => (location.hash = "#q=ip-10-0-0-4.;node=ip-10-0-0-4.us-west-2.compute.internal"));
    await bars.getByText("3 / 8").waitFor();
    await bars.getByText("1 / 58").waitFor();
    await details.getByText("3 of 8 requested, 38%").waitFor();
    await details.getByText("1 of 58 in use, 2%").waitFor();
    await tab.waitForFunction(() => ["GPU", "38%", "addresses", "2%"].every((text) => window.drawn.has(text)));
    await picture("devices");
    await accessible(tab, "a node with GPUs");
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=nodes;columns=gpu,addresses;sort=-gpu");
    const cells = tab.locator(".rows tbody tr:not(.gap)").first().locator("td");
    await cells.getByText("3 / 8").waitFor();
    assert.match((await cells.allTextContents()).join(), /^3 \/ 8,1 \/ 58$/);
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=savings");
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
    await tab.keyboard.press("Tab"); // to the file field
    await tab.keyboard.press("Tab");
    await tab.keyboard.type("nodepool/old");
    await tab.route("**/api/whatif", (r) => r.abort("internetdisconnected"), { times: 1 }); // the page retries once
    await tab.keyboard.press("Enter");
    const told = tab.getByRole("region", { name: "Forecast" });
    await told.getByText("1 node would be removed and 0 launched within about 2m10s; 1 pod would be evicted, 1 would be unschedulable.").waitFor();
    await told.getByText("$60.00 (−$40.00)").waitFor();
    await told.getByText("shop/big: no pool").waitFor();
    await told.getByText("<img src=x onerror=alert(1)>\\x1b[31m\\u202e").waitFor();
    assert.equal(await tab.locator("main img").count(), 0);
    await picture("whatif");
    await accessible(tab, "a forecast");
  });

  let before = 0;
  const rows = tab.locator(".rows tbody tr:not(.gap)");
  const column = (name) => tab.getByRole("columnheader", { name });
  await story("all nodes are a table that is ordered, filtered, and kept as a file", async () => {
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await tab.getByRole("link", { name: "Nodes" }).click();
    await tab.getByRole("main", { name: "Nodes" }).getByText("60 nodes").waitFor();
    assert.equal(await tab.getByRole("table").getAttribute("aria-rowcount"), "61");
    assert.match(await rows.first().textContent(), /^ip-10-0-0-0\..*● Readygeneralc6a\.4xlargespotus-west-2a\$0\.\d{4}.* \/ .*12\d+[mhd]$/);
    await picture("nodes");
    await column("$ an hour").getByRole("button").click();
    await column("$ an hour").getByRole("button").press("Enter");
    assert.equal(await column("$ an hour").getAttribute("aria-sort"), "descending");
    assert.match(await rows.first().textContent(), /m7g|r6i|c6a/);
    const prices = (await rows.locator("td:nth-child(7)").allTextContents()).map((p) => Number(p.slice(1)));
    assert.deepEqual(prices, prices.toSorted((a, b) => b - a), "the dearest is first");
    assert.match(tab.url(), /#view=nodes;sort=-price$/);
    await tab.keyboard.press("/");
    await tab.keyboard.type("capacity=spot");
    await shown("6 of 60 nodes");
    await tab.getByText("Columns", { exact: true }).first().click();
    await tab.getByRole("checkbox", { name: "Why" }).uncheck();
    await tab.getByRole("checkbox", { name: "Zone" }).uncheck();
    await picture("nodes-columns");
    await tab.keyboard.press("Escape");
    assert.equal(await column("Zone").count(), 0);
    const [file] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name: "Save as CSV" }).click()]);
    assert.match(file.suggestedFilename(), /^nodes-20\d\d-.*\.csv$/);
    const lines = readFileSync(await file.path(), "utf8").split("\r\n");
    assert.equal(lines[0], "name,status,pool,type,capacity,dollars_per_hour,cpu_requested,cpu_allocatable,memory_requested,memory_allocatable,pods,created");
    assert.equal(lines.length, 8);
    assert.match(lines[1], /^ip-10-0-0-\d+\.us-west-2\.compute\.internal,Ready,(general|batch),[\w.]+,spot,[\d.]+,[\d.]+,[\d.]+,\d+,\d+,12,20\d\d-/);
    await tab.goto(page + "/#view=nodes");
    await tab.reload();
    await shown("60 nodes");
    assert.equal(await column("Zone").count(), 0, "the browser remembers the columns");
    await tab.getByText("Columns", { exact: true }).first().click();
    await tab.getByRole("checkbox", { name: "NodeClaim" }).check();
    await tab.getByRole("heading", { name: "Nodes" }).click();
    await tab.getByRole("checkbox", { name: "Zone" }).waitFor({ state: "hidden" });
    await column("NodeClaim").getByRole("button").click();
    const claims = await rows.locator("td:last-child").allTextContents();
    assert.ok(claims.length > 20 && claims[0].startsWith("batch-"), "ordered by NodeClaim");
    assert.deepEqual(claims, claims.toSorted());
    await tab.getByText("Columns", { exact: true }).first().click();
    await tab.getByRole("checkbox", { name: "NodeClaim" }).uncheck();
    await tab.getByRole("checkbox", { name: "Zone" }).check();
    await tab.getByRole("checkbox", { name: "Why" }).check();
    await tab.keyboard.press("Escape");
    await column("Name").getByRole("button").click();
  });

  await story("what nodes use is shown beside what is requested, where it is measured", async () => {
    await tab.getByText("Columns", { exact: true }).first().click();
    await tab.getByRole("checkbox", { name: "CPU used" }).check();
    await tab.keyboard.press("Escape");
    await column("CPU used").getByRole("button").click();
    await column("CPU used").getByRole("button").press("Enter");
    const first = rows.first();
    assert.match(await first.textContent(), /^ip-10-0-0-59\..*590m$/, "the one that uses most is first");
    assert.match(await first.locator("td .use").first().getAttribute("title"), /^590m used$/);
    assert.ok(await first.locator("td .use .bar > i").first().isVisible());
    await first.getByRole("button").click();
    await tab.getByRole("complementary", { name: "Details" }).getByText(/requested, \d+%, 590m used/).waitFor();
    await picture("nodes-used");
    await tab.getByRole("button", { name: "Close details" }).click();
    const [file] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name: "Save as CSV" }).click()]);
    const [head, most, ...others] = readFileSync(await file.path(), "utf8").split("\r\n");
    assert.match(head, /,cpu_used$/);
    assert.match(most, /,0\.59$/);
    assert.match(others.at(-2), /^ip-10-0-0-0\..*,$/, "of the first node nothing is known");
    await tab.getByText("Columns", { exact: true }).first().click();
    await tab.getByRole("checkbox", { name: "CPU used" }).uncheck();
    await tab.keyboard.press("Escape");
    await column("Name").getByRole("button").click();
  });

  await story("a file for spreadsheets holds what anybody wrote as text", async () => {
    const made = execFileSync("../../../bin/esbuild", ["src/csv.ts", "--format=esm"]).toString();
    const { csv } = await import("data:text/javascript," + encodeURIComponent(made));
    assert.equal(csv([["a,b", 'he said "no"', "two\nlines", -1.5, "한국어"], ["=1+2", "+3", "-4", "@SUM(A1)", "\t=5", " =6", "＝7", '=HYPERLINK("x","y")', "a=b"]]),
      '"a,b","he said ""no""","two\nlines",-1.5,한국어\r\n' + "'=1+2,'+3,'-4,'@SUM(A1),'\t=5,' =6,'＝7,\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\",a=b\r\n");
  });

  await story("keys go through the table, and Back leads out of what they opened", async () => {
    await rows.first().getByRole("button").focus();
    await tab.keyboard.press("ArrowDown");
    await tab.keyboard.press("End");
    await tab.waitForFunction(() => document.activeElement.textContent.startsWith("ip-10-0-0-59"));
    await tab.keyboard.press("ArrowUp");
    await tab.keyboard.press("Enter");
    const details = tab.getByRole("complementary", { name: "Details" });
    await details.getByRole("heading", { name: "ip-10-0-0-58" }).waitFor();
    await details.getByRole("button", { name: /^shop\/web-58-/ }).first().waitFor();
    await picture("nodes-details");
    await tab.goBack();
    await details.waitFor({ state: "detached" });
    assert.match(tab.url(), /#view=nodes$/);
    await tab.goForward();
    await details.getByRole("heading", { name: "ip-10-0-0-58" }).waitFor();
    await rows.last().getByRole("button").press("Escape");
    await details.waitFor({ state: "detached" });
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=nodes;node=ip-10-0-0-50.us-west-2.compute.internal");
    await details.getByRole("heading", { name: "ip-10-0-0-50" }).waitFor();
    await tab.locator(".rows tr.chosen").getByText("ip-10-0-0-50.").waitFor();
    await tab.getByRole("button", { name: "Close details" }).click();
  });

  await story("a pool says its limits, its budgets and what it may launch", async () => {
    const offering = (type, dollarsPerHour) => ({ type, zone: "us-west-2a", capacityType: "spot", dollarsPerHour });
    await tab.route("**/api/offers", (r) => r.fulfill({ json: {
      prices: "made up", backoffKnown: true, pools: [{ pool: "general", offered: 893, allowed: 312, available: 310, cheapest: offering("t4g.nano", 0.0016), dearest: offering("u7i", 12),
        exhausted: [{ type: "p5.48xlarge", zone: "us-west-2b", capacityType: "spot", retryAt: new Date(Date.now() + 600e3).toISOString() }], exhaustedOf: 3 }],
    } }));
    await tab.getByRole("link", { name: "Pools" }).click();
    const card = tab.getByRole("article", { name: "general" });
    await card.getByText("312 of the 893 types of its node class; 310 available now").waitFor();
    await card.getByText("from $0.0016/h, t4g.nano spot us-west-2a").waitFor();
    await card.getByText("to $12.0000/h, u7i spot us-west-2a").waitFor();
    assert.match(await card.textContent(), /cpu ?96 \/ 1k.*At most 10% of the nodes at once, for any reason.*No node, for Drifted.*0 9 \* \* \* UTC for 8h: (in force until|not in force; next from) .*\(in .*Allowed at once now: \d+ Drifted/);
    await card.getByText("3 offerings the cloud had no capacity for").click();
    await card.getByText(/^p5\.48xlarge spot us-west-2b, tried again in (9m|10m)/).waitFor();
    await tab.getByRole("article", { name: "batch" }).getByText("✗ NodeRegistrationHealthy is False: RegistrationFailed: nodes do not register (for ").waitFor();
    await tab.getByRole("article", { name: "batch" }).getByText("not known", { exact: true }).waitFor();
    await picture("pools");
    await accessible(tab, "pools with offers");
    await card.getByRole("button", { name: /nodes$/ }).click();
    await tab.getByText(/^\d+ of 60 nodes$/).waitFor();
    assert.match(tab.url(), /#view=nodes;q=pool=general$/);
    await tab.goBack();
    await card.waitFor();
    await tab.unroute("**/api/offers");
  });

  await story("addresses say what is free, what nodes take, and who lacks some", async () => {
    await answered(known);
    await tab.getByRole("link", { name: "Addresses" }).click();
    const lacking = tab.getByRole("list", { name: "Lacking addresses" });
    await lacking.getByText("✗ NodePool batch can launch no node in us-west-2a: subnet-0a1b2c3d4e5f60718 has 9 free addresses, and c6a.large, which takes the fewest, takes 17.").waitFor();
    await lacking.getByText("▲ us-west-2a: when its nodes are full of pods they take 1,456 more addresses, and its subnets have 9.").waitFor();
    assert.match(await lacking.textContent(), /3 nodes may get more pods than they have addresses for: ip-10-0-0-4\.[^ ]+ \(lacks 81 of 110\), very-.*, and 1 more$/);
    const subnets = tab.getByRole("table", { name: "Subnets" }), first = (table) => table.locator("tbody tr").first();
    assert.equal(await first(subnets).textContent(), "subnet-0a1b2c3d4e5f60718us-west-2a10.0.0.0/249237 / 25105batch, general");
    assert.match(await subnets.getByRole("row").last().textContent(), /^subnet-2us-west-2cnot known40not known20none$/);
    assert.match(await tab.getByRole("table", { name: "The next nodes" }).textContent(), /c6a\.large✗ none.*t3\.small183/);
    assert.match(await tab.getByRole("table", { name: "Warm pools of nodes" }).textContent(), /batchc6a\.4xlargeus-west-2a77 \/ 56142248414[01]1,456/);
    await shown("The VPC CNI is set to ENABLE_PREFIX_DELEGATION=true, WARM_PREFIX_TARGET=1.");
    await shown("free addresses outside free blocks are scattered");
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "names of 253 characters fit");
    await picture("addresses");
    await accessible(tab, "addresses");
    const head = subnets.getByRole("columnheader", { name: "Free", exact: true });
    await head.getByRole("button").focus();
    await tab.keyboard.press("Enter");
    await tab.keyboard.press("Enter");
    assert.equal(await head.getAttribute("aria-sort"), "descending");
    assert.match(await first(subnets).textContent(), /^subnet-1/);
    assert.match(tab.url(), /#view=addresses;sort=-free$/);
    await subnets.getByRole("button", { name: "batch" }).click();
    await shown("Only NodePool batch.");
    assert.equal(await subnets.getByRole("row").count(), 2);
    assert.match(tab.url(), /#view=addresses;sort=-free;pool=batch$/);
    await tab.reload();
    await shown("Only NodePool batch.");
    await tab.getByRole("button", { name: "Show all" }).click();
    await lacking.getByRole("button", { name: /^ip-10-0-0-4/ }).click();
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "ip-10-0-0-4" }).waitFor();
    await tab.goBack();
  });

  await story("addresses of a cluster of which little is known, or may be", async () => {
    const again = async (answer, status) => {
      await tab.unroute("**/api/addresses");
      await answered(answer, status);
      await tab.goto("about:blank");
      await tab.goto(page + "/#view=addresses");
    };
    await again({ ...known, controller: false, at: null, launches: [], growth: [], short: [], shortOf: 0, subnets: known.subnets.map(({ id, zone, pools }) => ({ id, zone, pools, free: null })) });
    await shown("Not known here: how many addresses are free, and for how many nodes they suffice. See the controller's own page");
    assert.match(await tab.getByRole("table", { name: "Subnets" }).textContent(), /us-west-2anot knownnot knownnot known/);
    assert.equal(await tab.getByRole("heading", { name: "The next nodes" }).count(), 0);
    await picture("addresses-elsewhere");
    await again({ controller: true, at: null, subnets: [], launches: [], warm: [], short: [], shortOf: 0, growth: [] });
    await shown("No subnets are known: no NodePool's node class is resolved yet");
    await shown("What nodes hold is not known: no DaemonSet aws-node");
    await shown("Only the VPC CNI says what nodes take.");
    await picture("addresses-none");
    await again({ error: "the engine's answers are for those who may list persistentvolumes of the whole cluster" }, 422);
    await tab.getByRole("alert").getByText("for those who may list persistentvolumes").waitFor();
    await again(known);
    await tab.getByRole("table", { name: "Subnets" }).waitFor();
  });

  await story("a host of microVMs says what it runs and how it is reached", async () => {
    await tab.getByRole("link", { name: "Hosts" }).click();
    const shelf = tab.getByRole("article", { name: "shelf" }), gone = tab.getByRole("article", { name: /^long-/ });
    assert.match(await shelf.textContent(), /^shelf● Readyamd64 · KVM · rack-1 · kubelet v1\.36\.2 · kernel 6\.1Usedcpu0\.5 \/ 8memory1Gi \/ 16Gipods2 \/ 50Networkpods 10\.90\.0\.0\/24, host 192\.0\.2\.7encrypted by WireGuard, UDP port 8476Heard\d+s ago, joined 12d ago/);
    assert.match(await gone.textContent(), /▲ NotReady✗ nothing has been heard of it since .*<img.*user mode: its pods can open outbound connections.*Heardnever/);
    assert.equal(await tab.locator("main img").count(), 0);
    assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "a name of 253 characters fits");
    await shown("2 hosts, 1 ready");
    await picture("hosts");
    await tab.getByLabel("Order").selectOption("-pods");
    assert.equal(await tab.locator("article h3").first().textContent(), "shelf");
    await shelf.getByRole("link", { name: "shelf" }).focus();
    await tab.keyboard.press("Enter");
    assert.match(tab.url(), /#view=hosts;sort=-pods;host=shelf$/);
    await tab.reload();
    await tab.locator("article.chosen h3").getByText("shelf").waitFor();
    await shelf.getByText("2 pods", { exact: true }).click();
    await shelf.getByText("Running, cpu 0.3, 512Mi, profile web").first().waitFor();
    await shelf.getByRole("button", { name: "shop/web-0" }).click();
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "shop/web-0" }).waitFor();
    await tab.getByRole("button", { name: "Close details" }).click();
    await shelf.getByText("MicroVMHost: events and YAML").click();
    await shelf.getByLabel("YAML of the MicroVMHost").getByText("name: shelf").waitFor();
    await tab.route("**/api/hosts", (r) => r.fulfill({ json: { served: false, hosts: [] } }));
    await tab.reload();
    await shown("No host has joined this cluster.");
    await tab.getByText("nodeless host token NAME > join.kubeconfig").waitFor();
    await tab.getByText("nodeless crds | kubectl apply --server-side -f -").waitFor();
    await picture("hosts-none");
    await tab.unroute("**/api/hosts");
    await tab.route("**/api/hosts", (r) => r.fulfill({ status: 422, json: { error: "hosts of microVMs are for those who may list microvmhosts.nodeless.sh of the whole cluster" } }));
    await tab.reload();
    await tab.getByRole("alert").getByText("may list microvmhosts.nodeless.sh").waitFor();
    await tab.unroute("**/api/hosts");
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=pools");
  });

  await story("the other clusters of the kubeconfig are a choice away", async () => {
    await tab.getByRole("link", { name: "Fleet" }).click();
    const row = (name) => tab.getByRole("row", { name });
    await row(/:cluster\/prod \$\d/).waitFor();
    assert.match(await row(/:cluster\/prod/).textContent(), /cluster\/prod\$\d\.\d{4}\$[\d,]+5150not knownnot known$/);
    assert.match(await row(/^gone/).textContent(), /^gone–––––––✗ context gone: .*no such host.*<img/);
    assert.match(await tab.locator(".sum").textContent(), /month for 65 nodes of 2 clusters; 1 not read$/);
    await picture("fleet");
    await tab.getByRole("link", { name: /:cluster\/prod$/ }).click();
    await mapSays("5 of 5 nodes");
    await tab.reload();
    await mapSays("5 of 5 nodes");
    await tab.getByRole("link", { name: "Nodes" }).click();
    await shown("5 nodes");
    await tab.getByRole("combobox", { name: "Cluster" }).selectOption("story");
    await shown("60 nodes");
    assert.match(tab.url(), /\/#view=nodes$/);
    await tab.keyboard.press("Control+k");
    await tab.keyboard.type("prod");
    await tab.getByRole("option", { name: /^cluster .*:cluster\/prod$/ }).waitFor();
    await tab.keyboard.press("Enter");
    await shown("5 nodes");
    await tab.goto(page + "/#view=pools");
  });

  await story("Ctrl-K and a few letters go anywhere", async () => {
    const go = tab.getByRole("dialog", { name: "Go to" }), box = go.getByRole("combobox");
    const picked = async (text, name) => {
      await tab.keyboard.press("Control+k");
      await tab.keyboard.type(text);
      const option = go.getByRole("option", { name });
      await option.waitFor();
      while ((await option.getAttribute("aria-selected")) !== "true") await tab.keyboard.press("ArrowDown");
      assert.equal(await box.getAttribute("aria-activedescendant"), await option.getAttribute("id"));
      await picture("palette");
      await tab.keyboard.press("Enter");
      await go.waitFor({ state: "detached" });
    };
    for (let i = 0; i < 5; i++) { // a key pressed as soon as the page is there is not lost
      await tab.goto("about:blank");
      await tab.goto(page + "/#view=pools");
      await tab.keyboard.press("Control+k");
      await go.waitFor();
    }
    for (let i = 0; i < 20; i++) { // nor one pressed as soon as the dialogue that it opens was closed
      await tab.keyboard.press("Escape");
      await tab.keyboard.press("Control+k");
      await go.waitFor();
    }
    await tab.keyboard.press("Escape");
    await picked("microvm", "screen Hosts microVM hosts");
    await tab.getByRole("heading", { name: "MicroVM hosts" }).waitFor();
    await picked("warm", /^screen Addresses/);
    await tab.getByRole("table", { name: "Subnets" }).waitFor();
    await picked("nod", "screen Nodes");
    await shown("60 nodes");
    await picked("0-0-41.", /^node ip-10-0-0-41\./);
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "ip-10-0-0-41" }).waitFor();
    await picked("bat", "pool batch");
    await tab.locator(".shape.chosen").getByRole("heading", { name: "batch" }).waitFor();
    assert.match(tab.url(), /#view=pools;pool=batch$/);
    await tab.route("**/api/names*", (r) => r.fulfill({ body: "busy" }), { times: 1 }); // the page retries
    await picked("shop web-17-3", /^pod shop\/web-17-3 on ip-10-0-0-17/);
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "shop/web-17-3" }).waitFor();
    await picked("shop", "namespace shop");
    await mapSays("60 of 60 nodes");
    assert.match(tab.url(), /#q=namespace=shop/);
    await tab.goBack();
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "shop/web-17-3" }).waitFor();
    assert.equal(await tab.evaluate(async () => {
      document.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true }));
      await null; // the browser dispatches no other key before this
      return document.activeElement.getAttribute("role");
    }), "combobox", "the next letter typed after Ctrl-K is not the field's");
    await tab.keyboard.type("nothing is called so");
    await go.getByText("Nothing has such a name.").waitFor();
    await tab.keyboard.press("Escape");
    await go.waitFor({ state: "detached" });
    await tab.getByRole("button", { name: "Close details" }).click();
  });

  await story("5,000 nodes take no more rows than are seen", async () => {
    const made = Array.from({ length: 5000 }, (_, i) => [i + 1, `ip-10-1-${i >> 8}-${i & 255}.us-west-2.compute.internal`, i % 3, "Ready", 1.7e9 + i * 60, 40, 100000 + ((i * 7919) % 5000), [1000 + i % 900, 2 ** 30], [2000, 2 ** 31], "rrrr", [], `c-${i}`, "", 0, true]);
    const kinds = ["a", "b", "c"].map((zone) => ({ pool: "general", type: "c6a.large", capacity: "spot", zone, labels: {} }));
    await tab.route("**/api/stream", (r) => r.fulfill({ contentType: "text/event-stream", body: `event: state\ndata: ${JSON.stringify({
      e: "x", s: 1, t: Date.now(), k: kinds, m: made, g: [], h: ["cpu", "memory"],
      o: { nodes: 5000, onTheirWay: 0, notReady: 0, going: 0, unpriced: 0, price: 5e8, bound: 20000, running: 20000, waiting: 0, requests: [1, 1], allocatable: [2, 2] },
    })}\n\n` }));
    await tab.goto("about:blank");
    await tab.goto(page + "/#view=nodes");
    await shown("5,000 nodes");
    assert.ok((await rows.count()) < 80, "rows that are not seen are not there");
    // How long a frame takes depends on the machine's other load; that sorting and scrolling create only visible rows does not.
    const made5000 = await tab.evaluate(async () => {
      const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const head = [...document.querySelectorAll(".rows thead button")].find((b) => b.textContent.startsWith("$")), box = document.querySelector(".rows");
      let rows = 0;
      new MutationObserver((all) => all.forEach((m) => m.addedNodes.forEach((n) => (rows += n.nodeName === "TR" ? 1 : 0)))).observe(box, { childList: true, subtree: true });
      head.click();
      await frame();
      const sorted = rows, most = [];
      for (let i = 0; i < 40; i++) {
        rows = 0;
        box.scrollTop = (i * 4001) % (box.scrollHeight - box.clientHeight);
        await frame();
        most.push(rows);
      }
      return { sorted, most: Math.max(...most), seen: document.querySelectorAll(".rows tbody th").length };
    });
    assert.ok(made5000.sorted < 80 && made5000.most < 80 && made5000.most > 10 && made5000.seen > 10, JSON.stringify(made5000));
    await rows.nth(10).getByRole("button").focus();
    await tab.keyboard.press("End");
    await tab.waitForFunction(() => document.activeElement.closest("tr")?.getAttribute("aria-rowindex") === "5001");
    await picture("nodes-5000");
    await tab.unroute("**/api/stream");
  });

  await story("what is gone leaves nothing behind it", async () => {
    const kinds = [{ pool: "general", type: "c6a.large", capacity: "spot", zone: "a", labels: {} }];
    const made = (n) => Array.from({ length: n }, (_, i) => [i + 1, `node-${i}`, 0, "Ready", 1.7e9, 40, 100000, [1000, 2 ** 30], [2000, 2 ** 31], "rrrr", [], `c-${i}`, "", 0, true]);
    let nodes = 9;
    await tab.route("**/api/stream", (r) => r.fulfill({ contentType: "text/event-stream", body: `retry: 100\nevent: state\ndata: ${JSON.stringify({
      e: "x", s: 1, t: Date.now(), k: kinds, m: made(nodes), g: [], h: ["cpu", "memory"],
      o: { nodes, onTheirWay: 0, notReady: 0, going: 0, unpriced: 0, price: 1e5 * nodes, bound: 4 * nodes, running: 4 * nodes, waiting: 0, requests: [1, 1], allocatable: [2, 2] },
    })}\n\n` }));
    await tab.goto("about:blank");
    await tab.goto(page + "/");
    await mapSays("9 of 9 nodes");
    await drawn();
    const canvases = () => tab.locator(".boxes canvas").evaluateAll((all) => all.map((c) => parseFloat(c.style.top)));
    assert.ok((await canvases()).length > 1, "nine nodes take more than one canvas");
    nodes = 1;
    await mapSays("1 of 1 nodes");
    await drawn();
    const high = await tab.locator(".boxes .tall").evaluate((e) => parseFloat(e.style.height));
    assert.ok((await canvases()).every((top) => top < high), `canvases at ${await canvases()} of ${high} pixels`);
    await tab.unroute("**/api/stream");
  });

  await story("a pod that another replaces is found no longer, nor named", async () => {
    await tab.goto("about:blank");
    await tab.goto(page + "/#q=web-5-0;node=ip-10-0-0-5.us-west-2.compute.internal");
    await mapSays("1 of 60 nodes");
    const details = tab.getByRole("complementary", { name: "Details" }), pod = (name) => details.getByRole("button", { name: "shop/" + name, exact: true });
    await pod("web-5-0").waitFor();
    await act("evict"); // the only change, right after the page has asked what it finds
    await shown("No node matches");
    await pod("web-5-0").waitFor({ state: "detached" });
    await act("replace"); // requests, phases and number of the node's pods are as before
    await pod("web-5-next").waitFor();
    assert.equal(await pod("web-5-0").count(), 0);
    await tab.getByRole("button", { name: "Close details" }).click();
  });

  await story("planned moves are lines from box to box, and words", async () => {
    await tab.goto("about:blank");
    await tab.goto(page + "/#area=nodes");
    await mapSays("60 of 60 nodes");
    const without = await drawn(), tip = tab.getByRole("tooltip"), came = Date.now();
    await act("plan");
    await mapSays("61 of 61 nodes");
    await sums.getByText("1 being removed").waitFor();
    const box = await map.boundingBox();
    await tab.mouse.move(box.x + 6 + 60, box.y + 6 + 26 + 10); // the first box
    await tip.getByText(/^8 pods to ip-10-0-0-4\..*, 4 pods to general-00060$/).waitFor();
    await picture("moves");
    await tab.mouse.move(2, 2);
    await tab.goto(page + "/#area=nodes;node=general-00060");
    const left = async () => Number(/^ready in about (\d+)s: others took 44s$/.exec(await tab.locator(".detail dd", { hasText: "others took" }).textContent())[1]);
    const atFirst = await left();
    assert.ok(atFirst <= 44 && atFirst >= 43 - Math.ceil((Date.now() - came) / 1000), `ready in ${atFirst}s, of which 44 were left ${Date.now() - came} ms ago`);
    while ((await left()) >= atFirst) await tab.waitForTimeout(200); // the countdown continues though nothing changes
    await tab.goto(page + "/#area=nodes");
    await mapSays("61 of 61 nodes");
    const lines = await drawn();
    await tab.emulateMedia({ colorScheme: "dark" });
    await picture("dark-moves");
    await tab.emulateMedia({ colorScheme: "light" });
    await act("kept");
    await mapSays("60 of 60 nodes");
    assert.deepEqual([await drawn() === without, lines === without], [true, false], "the lines are gone");
  });

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
    await accessible(tab, "the past");
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
    await accessible(tab, "a lost connection");
    await act("up");
    await tab.getByRole("alert").waitFor({ state: "detached" });
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
    await tab.getByText("The newest 6 of 6, of 6 recorded decisions").waitFor();
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
      for (const view of screens) {
        await tab.goto(page + "/#view=" + view);
        await tab.reload(); // as a phone opens it
        await (view === "cluster" ? mapSays("59 of 59 nodes") : tab.getByRole("heading", { level: 2 }).first().waitFor());
        assert.ok(await tab.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} fits in ${wide} pixels`);
        await picture(`dark-${view}-${wide}`);
      }
    }
    await tab.goto(page + "/#view=nodes");
    await tab.locator(".card").first().getByRole("button").click();
    await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: /^ip-/ }).waitFor();
    await tab.goBack();
    await tab.getByLabel("Order").selectOption("-price");
    await tab.getByRole("button", { name: "More" }).click();
    await picture("dark-palette-390");
    await tab.getByRole("option", { name: "screen What if" }).click();
    await tab.getByRole("button", { name: "Forecast" }).waitFor();
    await tab.getByRole("link", { name: "Cluster" }).click();
    await tab.getByRole("button", { name: "Filter and view" }).click();
    await tab.getByRole("searchbox").fill("capacity=spot");
    await map.focus();
    await tab.keyboard.press("ArrowRight");
    const sheet = await tab.getByRole("complementary", { name: "Details" }).boundingBox();
    assert.deepEqual([sheet.x, sheet.y, sheet.width, sheet.height], [0, 0, 390, 844], "details cover the screen of a phone");
    await tab.getByRole("button", { name: "Close details" }).click();
  });
  await story("axe-core finds nothing wrong with any screen", async () => {
    await tab.emulateMedia({ colorScheme: "light" });
    for (const [scheme, wide, contrast = "no-preference"] of [["light", 1440], ["dark", 1440, "more"], ["light", 390, "more"], ["dark", 390]]) {
      await tab.emulateMedia({ colorScheme: scheme, contrast });
      await tab.setViewportSize({ width: wide, height: 900 });
      for (const view of screens) {
        await tab.goto("about:blank");
        await tab.goto(`${page}/#view=${view};node=ip-10-0-0-4.us-west-2.compute.internal`);
        await tab.getByRole("complementary", { name: "Details" }).getByRole("button", { name: /^shop/ }).first().waitFor();
        if (wide < 700) await tab.getByRole("button", { name: "Close details" }).click();
        await (view === "cluster" ? mapSays("59 of 59 nodes") : tab.getByRole("heading", { level: 2 }).first().waitFor());
        await accessible(tab, `${view}, ${scheme}, ${wide} pixels, contrast ${contrast}`);
        if (scheme === "light") await picture(`light-${view}-${wide}`);
      }
      await tab.keyboard.press("Control+k");
      await tab.getByRole("option", { name: "screen Cluster" }).waitFor();
      await accessible(tab, `palette, ${scheme}`);
      await tab.keyboard.press("Escape");
    }
  });
  assert.deepEqual(wrong.filter((w) => !/ERR_(CONNECTION_REFUSED|INCOMPLETE_CHUNKED|INTERNET_DISCONNECTED)|status of (501|422)/.test(w)), [], "errors that the browser saw");
} finally {
  await browser.close();
}

/** drawn returns the content of all canvases of the boxes, once pending drawing is done. */
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
