// A tab of Debian's Chromium, and what goes wrong in it: errors, and requests to other servers than the page's own.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

export async function open() {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
  const tab = await (await browser.newContext({ viewport: { width: 1400, height: 900 } })).newPage();
  tab.setDefaultTimeout(60000);
  const wrong = [];
  tab.on("pageerror", (e) => wrong.push(String(e)));
  // The browser drops requests when the host's addresses change, as when other tests start microVMs; the page retries once.
  tab.on("console", (m) => m.type() === "error" && !/ERR_NETWORK_CHANGED/.test(m.text()) && wrong.push(m.text()));
  tab.on("request", (r) => /^(http:\/\/127\.0\.0\.1:|about:|data:)/.test(r.url()) || wrong.push("left for " + r.url()));
  return { browser, tab, wrong };
}

/** enter opens a page by its link, whose token the browser keeps in a cookie and nowhere else, and returns the page's address without the token. */
export async function enter(tab, link) {
  const page = new URL(link).origin;
  await tab.goto(link);
  assert.equal(tab.url(), page + "/");
  assert.equal(await tab.evaluate(() => document.cookie), "", "what a script of the page sees of cookies");
  return page;
}

export const screens = ["cluster", "nodes", "pools", "pending", "decisions", "costs", "savings", "whatif", "addresses", "hosts", "fleet"];

/** story tells a part of what a user does, and says how long it took. */
export async function story(name, tell) {
  const began = Date.now();
  await tell();
  console.log(`ok: ${name} (${Date.now() - began} ms)`);
}

const axe = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** accessible fails if axe-core finds an accessibility problem. */
export async function accessible(tab, where) {
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.slice(0, 4).map((n) => `${n.target} ${n.any[0]?.message ?? ""}`).join("; ")}`), [], where);
}
