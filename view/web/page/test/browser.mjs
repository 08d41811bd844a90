// A tab of Debian's Chromium, and what went wrong in it: errors, and requests that leave the page's own server.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export async function open() {
  const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
  const tab = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  tab.setDefaultTimeout(15000);
  const wrong = [];
  tab.on("pageerror", (e) => wrong.push(String(e)));
  tab.on("console", (m) => m.type() === "error" && wrong.push(m.text()));
  tab.on("request", (r) => /^(http:\/\/127\.0\.0\.1:|about:|data:)/.test(r.url()) || wrong.push("left for " + r.url()));
  return { browser, tab, wrong };
}

/** enter opens a page by its link, whose token the browser keeps in a cookie and nowhere else. It is the page's address without it. */
export async function enter(tab, link) {
  const page = new URL(link).origin;
  await tab.goto(link);
  assert.equal(tab.url(), page + "/");
  assert.equal(await tab.evaluate(() => document.cookie), "", "what a script of the page sees of cookies");
  return page;
}
