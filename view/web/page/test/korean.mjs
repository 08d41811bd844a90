// What a user who reads Korean sees: node korean.mjs LINK CONTROL FOLDER, like page.mjs. Names and the API's terms are not translated.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { accessible, enter, open, screens } from "./browser.mjs";

const [entrance, , folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const { browser, tab, wrong } = await open();
const language = () => tab.evaluate(() => document.documentElement.lang);

try {
  const page = await enter(tab, entrance);
  await tab.getByRole("combobox", { name: "Language" }).selectOption("한국어");
  await tab.getByRole("combobox", { name: "언어" }).waitFor();
  assert.equal(await language(), "ko");
  await tab.getByTestId("sums").getByText("노드 60개").waitFor(); // the cluster has been read
  const sums = /^시간당 \$\d+\.\d{4} · 월 \$[\d,]+ · 노드 60개 · 파드 720개 실행 중, 0개 대기 중$/;
  assert.match(await tab.getByTestId("sums").textContent(), sums);
  await tab.getByRole("link", { name: "노드 풀" }).click();
  await tab.getByRole("heading", { name: "general", exact: true }).waitFor();

  for (const view of screens) {
    await tab.goto(`${page}/#view=${view}`);
    await tab.locator(`nav a[aria-current=page][href="${view === "cluster" ? "#" : "#view=" + view}"]`).waitFor({ state: "attached" });
    await tab.waitForFunction(() => !/…$/.test(document.querySelector("main [role=status]")?.textContent ?? "")); // until everything is loaded
    assert.deepEqual(await tab.evaluate(english), [], `English on the screen ${view}`);
    await accessible(tab, `${view} in Korean`);
    await tab.screenshot({ path: join(folder, `korean-${view}.png`) });
  }

  await tab.evaluate(() => {
    const draw = CanvasRenderingContext2D.prototype.fillText;
    window.drawn = new Set();
    CanvasRenderingContext2D.prototype.fillText = function (text, ...where) { // what is drawn is not in the document
      window.drawn.add(text);
      draw.call(this, text, ...where);
    };
  });
  await tab.evaluate(() => (location.hash = "#group=odd"));
  await tab.waitForFunction(() => [...window.drawn].some((text) => text.startsWith("노드 60개")));
  assert.deepEqual(await tab.evaluate(() => [window.drawn.has("(없음)"), window.drawn.has("(none)")]), [true, false], "the head of the group without a name");

  await tab.reload(); // the browser remembers the choice
  await tab.getByRole("combobox", { name: "언어" }).waitFor();
  await tab.keyboard.press("Control+k");
  await tab.keyboard.type("english");
  await tab.getByRole("option", { name: "언어 English", selected: true }).waitFor();
  await tab.keyboard.press("Enter");
  await tab.getByRole("combobox", { name: "Language" }).waitFor();
  assert.equal(await language(), "en");

  const korean = await browser.newContext({ locale: "ko-KR", storageState: await tab.context().storageState() });
  const fresh = await korean.newPage(); // a Korean browser without a choice
  await fresh.addInitScript(() => localStorage.removeItem("language"));
  await fresh.goto(page + "/");
  await fresh.getByRole("combobox", { name: "언어" }).waitFor();
  assert.deepEqual(wrong.filter((w) => !/status of 501/.test(w)), [], "errors that the browser saw");
} finally {
  await browser.close();
}

/** english returns the visible texts with three English words or more, except what others wrote: names, commands, and records of this cluster. */
function english() {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  for (let n = texts.nextNode(); n; n = texts.nextNode()) {
    const text = n.textContent.trim(), e = n.parentElement;
    if (/[a-z]+ [a-z]+ [a-z]+/i.test(text) && !/[가-힣]/.test(text) && e.checkVisibility() && !e.closest("code, pre, script, style, .list td, p.bad")) found.push(text);
  }
  return found;
}
