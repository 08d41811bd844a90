// One move in the game behind a cluster's Ingress: node game2048.mjs ADDRESS PICTURE. lab/stories starts the cluster.
import assert from "node:assert/strict";
import { open } from "./browser.mjs";

const [address, picture] = process.argv.slice(2);
const { browser, tab, wrong } = await open();
try {
  await tab.goto(address);
  assert.equal(await tab.title(), "2048");
  const tiles = async () => (await tab.locator("#board div").allTextContents()).map(Number);
  const before = await tiles();
  assert.equal(before.length, 16);
  assert.equal(before.filter(Boolean).length, 2, "a game begins with two tiles");
  // At least one of two tiles can move left, right, up or down.
  for (const key of ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"]) {
    await tab.keyboard.press(key);
    if ((await tab.locator("#moves").textContent()) === "1") break;
  }
  assert.equal(await tab.locator("#moves").textContent(), "1");
  const after = await tiles(), score = Number(await tab.locator("#score").textContent());
  const sum = (board) => board.reduce((a, b) => a + b, 0);
  const added = sum(after) - sum(before);
  assert.ok(added === 2 || added === 4, "a move adds a tile of 2 or 4, not of " + added);
  assert.equal(after.filter(Boolean).length, score ? 2 : 3, "two tiles of a number become one");
  await tab.screenshot({ path: picture });
  assert.deepEqual(wrong.filter((w) => !w.startsWith("left for " + address)), []);
} finally {
  await browser.close();
}
