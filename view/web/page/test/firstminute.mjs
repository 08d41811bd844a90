// What a new user does in the first minute: node firstminute.mjs LINK FOLDER. lab/stories/firstminute_test.go starts an empty cluster, and puts
// its kubectl in PATH.
import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { enter, open } from "./browser.mjs";

const [link, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { browser, tab, wrong } = await open();
const began = Date.now();
let n = 0;
/** seen prints what was seen and after how many seconds, and takes a picture of it. */
const seen = async (what) => {
  console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(6)} s  ${what}`);
  await tab.screenshot({ path: join(folder, `first-minute-${++n}.png`) });
};
const sums = tab.getByTestId("sums");
const go = (screen) => tab.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: screen }).click();
try {
  tab.setDefaultTimeout(240000);
  const page = await enter(tab, link);
  await tab.context().grantPermissions(["clipboard-read", "clipboard-write"], { origin: page });
  await tab.getByRole("heading", { name: "There are no nodes" }).waitFor();
  await tab.getByText("from NodePool general-purpose").waitFor();
  await seen("an empty cluster says what there is, and what to do");

  await tab.getByRole("button", { name: "Copy" }).click();
  await tab.getByRole("button", { name: "Copied" }).waitFor();
  const command = await tab.evaluate(() => navigator.clipboard.readText());
  execSync(command, { stdio: "inherit" });
  await sums.getByText(/20 pending/).waitFor();
  await seen("the copied command's pods wait");

  await go("Pending");
  await tab.locator(".shape").getByRole("button", { name: /^default\/web-/ }).first().click();
  const details = tab.getByRole("complementary", { name: "Details" });
  await details.getByRole("button", { name: "Why?" }).click();
  await details.locator(".why").getByText(/launched for it|its node is not ready yet|has room for it/).first().waitFor();
  await seen("why: a node is on its way");
  await details.getByRole("button", { name: "Close details" }).click();

  await go("Cluster");
  await sums.getByText(/20 pods running, 0 pending/).waitFor();
  assert.match(await sums.textContent(), /^\$\d+\.\d+\/h .* [12] nodes? /, "few nodes, with a price");
  await seen("the node has come, and all pods run");

  execSync("kubectl scale deployment web --replicas=0", { stdio: "inherit" });
  await tab.getByRole("heading", { name: "There are no nodes" }).waitFor();
  await seen("without pods there are no nodes");

  await go("Decisions");
  await tab.locator(".decisions tbody tr").filter({ hasText: "Empty" }).getByText(/^saves \$\d/).first().waitFor();
  await seen("what was decided, and what it saves an hour");
  await go("Savings");
  await tab.getByTestId("saved").getByText(/now \$0\.\d*[1-9]\d* an hour/).waitFor();
  await seen("what has been saved since, and what it saves now");
  assert.deepEqual(wrong, [], "errors that the browser saw");
} finally {
  await browser.close();
}
