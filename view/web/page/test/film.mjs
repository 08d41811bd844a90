// The README's animation: node film.mjs LINK FOLDER COMMAND. lab/stories/film_test.go starts the cluster, whose nodes are worth
// consolidating after COMMAND. Each frame that the browser paints is saved in FOLDER, named after its time in milliseconds.
import { execSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { enter, open } from "./browser.mjs";

const [link, folder, command] = process.argv.slice(2);
const rest = 8000; // the film ends after this many milliseconds without a change
const { browser, tab } = await open();
try {
  tab.setDefaultTimeout(120_000);
  await tab.setViewportSize({ width: 1180, height: 430 });
  const page = await enter(tab, link);
  await tab.goto(page + "/#scale=0.8");
  const sums = tab.getByTestId("sums");
  await sums.getByText(/[1-9]\d* nodes · \d+ pods running, 0 pending/).waitFor();
  const tools = await tab.context().newCDPSession(tab);
  tools.on("Page.screencastFrame", ({ data, metadata, sessionId }) => {
    writeFileSync(join(folder, `${String(Math.round(metadata.timestamp * 1000)).padStart(16, "0")}.png`), Buffer.from(data, "base64"));
    void tools.send("Page.screencastFrameAck", { sessionId });
  });
  await tools.send("Page.startScreencast", { format: "png" });
  await tab.waitForTimeout(1000);
  execSync(command, { stdio: "inherit" });
  await sums.getByText(/being removed/).waitFor();
  for (let text = "", since = Date.now(); Date.now() - since < rest; await tab.waitForTimeout(250)) {
    const now = await sums.textContent();
    if (now !== text || /being removed|launching|[1-9]\d* pending/.test(now)) [text, since] = [now, Date.now()];
  }
  await tools.send("Page.stopScreencast");
} finally {
  await browser.close();
}
