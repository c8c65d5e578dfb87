// page.js - node page.js GATEWAY: a page with all that belongs to it, through the gateway.
"use strict";
const { run, complaints } = require("./checks.js");

const [gateway] = process.argv.slice(2);

run(async (browser, check) => {
  const page = await browser.newPage(), wrong = complaints(page);
  const seen = [];
  page.on("response", (response) => seen.push(new URL(response.url()).pathname));
  await page.goto(gateway, { waitUntil: "load" });

  await check("every picture is there, whole", async () => {
    const sizes = await page.evaluate(() => [...document.images].map((image) => image.complete && image.naturalWidth));
    return sizes.length === 20 && sizes.every((size) => size === 96) ? null : `widths are ${sizes}`;
  });
  await check("the style applies", async () => {
    const colour = await page.evaluate(() => getComputedStyle(document.querySelector("h1")).color);
    return colour === "rgb(1, 2, 3)" ? null : colour;
  });
  await check("the script ran", async () => {
    const text = await page.textContent("#said");
    return text === "the script ran" ? null : text;
  });
  await check("again, over the same connections", async () => {
    seen.length = 0;
    await page.reload({ waitUntil: "load" });
    return seen.length >= 23 ? null : `only ${seen.length} answers came`;
  });
  await check("nothing failed", async () => wrong.join("; "));
});
