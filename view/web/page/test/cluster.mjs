// The page of a real cluster: node cluster.mjs LINK FOLDER. lab/stories/web_test.go starts the cluster: pods run, and one, huge, is pending.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { enter, open } from "./browser.mjs";

const [link, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { browser, tab, wrong } = await open();
const picture = (name) => tab.screenshot({ path: join(folder, name + ".png") });
try {
  tab.setDefaultTimeout(60000);
  await enter(tab, link);
  await tab.getByTestId("sums").getByText("1 pending").waitFor();
  await picture("real-cluster");

  await tab.getByRole("link", { name: "Pending 1" }).click();
  const row = tab.locator(".shape");
  await row.getByText("requests cpu 5000", { exact: true }).waitFor();
  await row.locator(".gets").getByText("✗ 1 get nothing", { exact: true }).waitFor();
  assert.match(await row.locator("ul > li").first().textContent(), /^✗general-purpose .*cpu.*Catalog\d+/);
  assert.ok((await row.getByRole("list", { name: "types left" }).getByRole("listitem").count()) > 1);
  await picture("real-pending");

  await row.getByRole("button", { name: "default/huge" }).click();
  const details = tab.getByRole("complementary", { name: "Details" });
  await details.getByRole("button", { name: "Why?" }).click();
  await details.getByText("no node can take it, and none can be launched for it").first().waitFor();
  await details.getByText("general-purpose").first().waitFor();
  await details.getByText("Pod: events and YAML").click();
  await details.getByRole("list", { name: "Events of the Pod" }).getByText("FailedScheduling").first().waitFor();
  assert.match(await details.getByLabel("YAML of the Pod").textContent(), /^apiVersion: v1\nkind: Pod\n/);
  await picture("real-why");
  assert.match(tab.url(), /#view=pending;pod=default\/huge$/);

  await tab.getByRole("link", { name: "Decisions" }).click();
  await tab.locator(".decisions tbody tr").filter({ hasText: "Launch" }).filter({ hasText: "ready in" }).first().waitFor();
  await tab.getByRole("searchbox").fill("refuse huge");
  await tab.locator(".decisions tbody tr").filter({ hasText: "Refuse" }).first().waitFor();
  await picture("real-decisions");

  await tab.getByRole("link", { name: "Nodes", exact: true }).click();
  await tab.locator(".rows tbody").getByText("● Ready").first().waitFor();
  await picture("real-nodes");
  await tab.getByRole("link", { name: "Pools", exact: true }).click();
  const pool = tab.getByRole("article", { name: "general-purpose" });
  await pool.getByText(/^\d+ of the \d+ types of its node class/).waitFor();
  await pool.getByText(/^from \$\d+\.\d{4}\/h, \S+ on-demand us-west-2/).waitFor();
  await pool.getByText("The cloud has refused none of them lately.").waitFor();
  await pool.getByText(/^Allowed at once now: \d+ Drifted/).waitFor();
  await picture("real-pools");
  await tab.getByRole("link", { name: "Addresses" }).click();
  const subnets = tab.getByRole("table", { name: "Subnets" });
  await subnets.getByText("general-purpose").first().waitFor();
  assert.match(await subnets.textContent(), /subnet-\w+us-west-2a10\.\d+\.\d+\.0\/\d+[\d,]+[\d,]+ \/ [\d,]+general-purpose/);
  assert.doesNotMatch(await tab.getByRole("main").textContent(), /not known/i);
  assert.match(await tab.getByRole("table", { name: "The next nodes" }).textContent(), /general-purposeus-west-2asubnet-\w+?[\d,]+\d[\w.]+[\d,]+/);
  assert.match(await tab.getByRole("table", { name: "Warm pools of nodes" }).textContent(), /general-purpose[\w.-]+us-west-2[a-d]\d+ ?\d+ \/ \d+/);
  await tab.getByText("The VPC CNI is set to WARM_ENI_TARGET=1.").waitFor();
  await details.getByRole("button", { name: "Close details" }).click();
  await picture("real-addresses");
  await tab.getByRole("link", { name: "Hosts" }).click();
  await tab.getByText(/No host has joined this cluster\.|1 host, [01] ready/).waitFor(); // nodeless up's own host, if QEMU is installed
  await tab.keyboard.press("Control+k");
  await tab.keyboard.type("huge");
  await tab.getByRole("option", { name: "pod default/huge pending" }).click();
  await tab.getByRole("complementary", { name: "Details" }).getByRole("heading", { name: "default/huge" }).waitFor();
  await tab.getByRole("button", { name: "Close details" }).click();

  await tab.getByRole("link", { name: "Savings" }).click();
  await tab.getByTestId("saved").waitFor();

  await tab.getByRole("link", { name: "What if" }).click();
  await tab.getByLabel("these were deleted").fill("nodepool/general-purpose");
  await tab.getByRole("button", { name: "Forecast" }).click();
  const told = tab.getByRole("region", { name: "Forecast" });
  await told.getByText("NodePool general-purpose is deleted").waitFor();
  await told.getByText(/Unschedulable \(\d+\)/).waitFor();
  await tab.getByLabel("these were deleted").fill("");
  await tab.getByLabel("these had so many pods").fill("deployment/web=400");
  await tab.getByRole("button", { name: "Forecast" }).click();
  await told.getByText(/Deployment default\/web/).waitFor();
  await told.getByText("Launch").first().waitFor();
  await picture("real-whatif");
  await tab.getByLabel("these had so many pods").fill("deployment/no-such=4");
  await tab.getByRole("button", { name: "Forecast" }).click();
  await tab.getByRole("alert").getByText("not found").waitFor();
  assert.deepEqual(wrong.filter((w) => !/status of 422/.test(w)), [], "errors that the browser saw");
  console.log("ok: matrix, why, decisions, savings and what if of a real cluster");
} finally {
  await browser.close();
}
