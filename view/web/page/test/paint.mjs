// How long the page takes: node paint.mjs LINK NODES. Prints the medians in milliseconds as JSON.
import { enter, open } from "./browser.mjs";

const [link, nodes] = process.argv.slice(2);
const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const rounded = (n) => Math.round(n * 10) / 10;
const { browser, tab } = await open();
tab.setDefaultTimeout(60000);
const page = await enter(tab, link);
let bytes = 0;
const tools = await tab.context().newCDPSession(tab);
await tools.send("Network.enable");
tools.on("Network.dataReceived", (e) => (bytes += e.encodedDataLength));
await tools.send("Performance.enable");
/** busy returns for how many milliseconds the page's thread has worked so far, independent of other load. */
const busy = async () => 1000 * (await tools.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
const paints = [], works = [];
let first = 0;
for (let i = 0; i < 5; i++) {
  await tab.goto("about:blank");
  bytes = 0;
  const before = await busy();
  await tab.goto(page + "/#scale=0.6", { waitUntil: "commit" });
  await tab.waitForSelector(`[aria-label^="${nodes} of ${nodes} nodes"]`);
  // From the start of the navigation to the frame after the boxes are there.
  paints.push(await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))));
  first ||= bytes;
  works.push((await busy()) - before);
}
const idle = await busy();
// The time between frames while the user scrolls through the whole page and changes arrive, which is 16.7 if none is late.
const frames = await tab.evaluate(() => new Promise((done) => {
  const boxes = document.querySelector(".boxes"), times = [];
  let last = performance.now(), n = 0;
  const step = (now) => {
    times.push(now - last);
    last = now;
    boxes.scrollTop = (boxes.scrollHeight - boxes.clientHeight) * Math.abs(Math.sin(n / 40));
    if (++n < 300) requestAnimationFrame(step);
    else done(times.slice(1));
  };
  requestAnimationFrame(step);
}));
const worked = ((await busy()) - idle) / frames.length;
frames.sort((a, b) => a - b);
const heap = await tab.evaluate(() => performance.memory.usedJSHeapSize);
console.log(JSON.stringify({
  firstPaint: rounded(median(paints)), firstPaintWork: rounded(median(works)), frameWork: rounded(worked), firstBytes: first, frame: rounded(frames[frames.length >> 1]), frame95: rounded(frames[Math.floor(frames.length * 0.95)]),
  slowest: rounded(frames.at(-1)), heapMB: rounded(heap / 1e6),
}));
await browser.close();
