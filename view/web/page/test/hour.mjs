// Whether what the page holds stays constant while the cluster changes: node hour.mjs PAGE CONTROL NODES MINUTES. Every GET of CONTROL/minutes?n=10
// makes that many minutes pass, and returns the number of running pods at their end. Prints as JSON what the page holds at the start and after each
// sixth of the minutes: its heap in megabytes, DOM nodes, and event listeners.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

const [page, control, nodes, minutes] = process.argv.slice(2);
const { browser, tab, wrong } = await open();
tab.setDefaultTimeout(240000);
const tools = await tab.context().newCDPSession(tab);
await tools.send("Performance.enable");
await tab.goto(page + "/");
await tab.waitForSelector(`[aria-label^="${nodes} of ${nodes} nodes"]`);
const holds = async () => {
  await tools.send("HeapProfiler.collectGarbage");
  const heap = Math.round((await tools.send("Runtime.getHeapUsage")).usedSize / 1e5) / 10;
  const { metrics } = await tools.send("Performance.getMetrics");
  const count = (name) => metrics.find((m) => m.name === name).value;
  return { heap, nodes: count("Nodes"), listeners: count("JSEventListeners") };
};
const sixths = [await holds()];
for (let i = 0; i < 6; i++) {
  const pods = Number(await (await fetch(`${control}/minutes?n=${minutes / 6}`)).text()).toLocaleString("en-US");
  await tab.getByTestId("sums").getByText(`${pods} pods running`).waitFor(); // the page has applied all changes
  sixths.push(await holds());
}
assert.deepEqual(wrong, [], "errors that the browser saw");
console.log(JSON.stringify(sixths));
await browser.close();
