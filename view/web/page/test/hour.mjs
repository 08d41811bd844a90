// Whether the page's memory stays constant while the cluster changes: node hour.mjs PAGE CONTROL NODES. Every GET of CONTROL/minutes?n=10 makes
// that many minutes pass, and returns the number of running pods at their end. Prints the heap after each as JSON, in megabytes.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

const [page, control, nodes] = process.argv.slice(2);
const { browser, tab, wrong } = await open();
tab.setDefaultTimeout(240000);
const tools = await tab.context().newCDPSession(tab);
await tab.goto(page + "/");
await tab.waitForSelector(`[aria-label^="${nodes} of ${nodes} nodes"]`);
const heap = async () => {
  await tools.send("HeapProfiler.collectGarbage");
  return Math.round((await tools.send("Runtime.getHeapUsage")).usedSize / 1e5) / 10;
};
const out = { start: await heap() };
const began = Date.now();
for (let minute = 10; minute <= 60; minute += 10) {
  const pods = Number(await (await fetch(control + "/minutes?n=10")).text()).toLocaleString("en-US");
  await tab.getByTestId("sums").getByText(`${pods} pods running`).waitFor(); // the page has applied all changes
  out["minute" + minute] = await heap();
}
out.seconds = Math.round((Date.now() - began) / 1000);
assert.deepEqual(wrong, [], "errors that the browser saw");
console.log(JSON.stringify(out));
await browser.close();
