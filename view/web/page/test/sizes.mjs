// What clusters of different sizes look like: node sizes.mjs FOLDER NODES=LINK… Pictures of each, light and dark, on a desktop and on a
// phone, are saved in FOLDER, together with two sheets of all of them, which the documentation shows.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { enter, open } from "./browser.mjs";

const [folder, ...clusters] = process.argv.slice(2);
const screens = { desk: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };
const { browser, tab, wrong } = await open();
const pictures = { desk: [], phone: [] };
try {
  tab.setDefaultTimeout(60_000);
  for (const cluster of clusters) {
    const nodes = cluster.slice(0, cluster.indexOf("=")), page = await enter(tab, cluster.slice(nodes.length + 1));
    for (const scheme of ["light", "dark"]) {
      await tab.emulateMedia({ colorScheme: scheme });
      for (const [screen, size] of Object.entries(screens)) {
        await tab.setViewportSize(size);
        await tab.goto("about:blank");
        await tab.goto(page + (nodes > 1000 ? "/#scale=0.5" : "/"));
        if (nodes === "0") await tab.getByText("from NodePool general-purpose").waitFor();
        else await tab.locator(`[role=application][aria-label^="${nodes} of ${nodes} nodes"]`).waitFor();
        await tab.waitForTimeout(700); // until the chart is drawn
        const png = await tab.screenshot({ path: join(folder, `sizes-${nodes}-${scheme}-${size.width}.png`) });
        pictures[screen].push({ png: png.toString("base64"), title: `${Number(nodes).toLocaleString("en-US")} nodes, ${scheme}` });
      }
    }
  }
  for (const [screen, columns, by] of [["desk", 2, 0.5], ["phone", 4, 0.7]]) {
    writeFileSync(join(folder, `sizes-${screen}.png`), Buffer.from(await sheet(pictures[screen], columns, by), "base64"));
  }
  if (wrong.length > 0) throw new Error("the browser saw " + wrong.join("; "));
} finally {
  await browser.close();
}

/** sheet returns one picture, in base64, of pictures side by side, each scaled by the given factor. */
async function sheet(list, columns, by) {
  await tab.goto("about:blank");
  return tab.evaluate(async ([list, columns, by]) => {
    const images = await Promise.all(list.map(async ({ png }) => createImageBitmap(new Blob([Uint8Array.from(atob(png), (c) => c.charCodeAt(0))], { type: "image/png" }))));
    const wide = Math.round(images[0].width * by), tall = Math.round(images[0].height * by), gap = 12, line = 24;
    const canvas = Object.assign(document.createElement("canvas"), { width: columns * (wide + gap) + gap, height: Math.ceil(list.length / columns) * (tall + gap + line) + gap });
    const g = canvas.getContext("2d");
    g.fillStyle = "#8793a1";
    g.fillRect(0, 0, canvas.width, canvas.height);
    g.font = "600 15px system-ui, sans-serif";
    g.imageSmoothingQuality = "high";
    images.forEach((image, i) => {
      const x = gap + (i % columns) * (wide + gap), y = gap + Math.floor(i / columns) * (tall + gap + line);
      g.fillStyle = "#14171b";
      g.fillText(list[i].title, x, y + 15);
      g.drawImage(image, x, y + line, wide, tall);
    });
    return canvas.toDataURL("image/png").split(",")[1];
  }, [list, columns, by]);
}
