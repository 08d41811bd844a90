// A browser follows a cluster with many changes: node soak.mjs LINK CHANGES. Each GET of CHANGES makes 2,000 changes, and returns the API server's
// resulting state, which the page has to show.
import assert from "node:assert/strict";
import { enter, open } from "./browser.mjs";

const [link, changes] = process.argv.slice(2);
const { browser, tab, wrong } = await open();
tab.setDefaultTimeout(60000);
const page = await enter(tab, link);
await tab.goto(page + "/#view=nodes;columns=name,pods");

// The state that the page shows, in the format of the API server's state.
const read = async () => {
  const { pods } = await (await fetch("/api/waiting")).json();
  const sums = document.querySelector("[data-testid=sums]").textContent, number = (pattern) => Number(sums.match(pattern)[1].replaceAll(",", ""));
  const rows = [...document.querySelectorAll(".rows tbody tr")].map((tr) => [...tr.children].map((cell) => cell.textContent));
  const waiting = pods.map((p) => p.name).sort();
  return {
    running: number(/([\d,]+) pods? running/), waiting, nodes: Object.fromEntries(rows.map(([name, n]) => [name, Number(n)])),
    sums: [number(/([\d,]+) pending/), number(/ · ([\d,]+) nodes?/)],
  };
};
for (let round = 1; round <= 5; round++) {
  const answer = await (await fetch(changes)).text();
  const want = JSON.parse(answer);
  want.sums = [want.waiting.length, Object.keys(want.nodes).length];
  for (const before = Date.now(); ; await tab.waitForTimeout(200)) {
    const shown = await tab.evaluate(read);
    try {
      assert.deepEqual(shown, want, `after ${2000 * round} changes`);
      break;
    } catch (e) {
      if (Date.now() - before > 120000) throw e; // a broken watch is restarted after at most a minute: client-go's back-off with its jitter
    }
  }
}
assert.deepEqual(wrong, [], "errors that the browser saw");
console.log("ok: the page is the cluster after 10,000 changes");
await browser.close();
