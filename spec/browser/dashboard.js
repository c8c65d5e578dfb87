// dashboard.js - node dashboard.js MANAGEMENT GATEWAY ROUTES-FILE [FOLDER]: the dashboard as a person uses it. FOLDER
// takes pictures of it.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { run, until, complaints, sleep } = require("./checks.js");

const [management, gateway, routes, shots] = process.argv.slice(2);
const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const NEEDLE = "/needle/in/the/hay";

const text = (page, selector) => page.textContent(selector);

async function open(browser, options) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const wrong = complaints(page);
  await page.goto(management);
  await until("the first poll", async () => (await text(page, "#health")) !== "loading");
  return { page, wrong };
}

// Requests against the gateway until stop is called.
function load() {
  let running = true;
  const ended = (async () => {
    for (let i = 0; running; i++) {
      await (await fetch(`${gateway}/?n=${i}`)).arrayBuffer();
      if (i % 5 === 0) await (await fetch(`${gateway}/missing-${i}`)).arrayBuffer();
      await sleep(5);
    }
  })();
  return async () => { running = false; await ended; };
}

async function shoot(page, name) {
  if (shots) await page.screenshot({ path: path.join(shots, `${name}.png`), fullPage: true });
}

async function violations(page) {
  await page.evaluate(AXE);
  const result = await page.evaluate(() => window.axe.run());
  return result.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`).join("; ");
}

const rate = async (page) => parseFloat((await text(page, "#numbers li b")).replace(",", ""));

async function watchNumbers(page, check) {
  await check("numbers and plots move under load", async () => {
    const stop = load();
    try {
      const first = await until("a rate above none", () => rate(page));
      const drawn = await page.getAttribute("#rate path.s2", "d");
      await until("another rate", async () => (await rate(page)) !== first);
      await until("a longer plot", async () => (await page.getAttribute("#rate path.s2", "d")).length > drawn.length);
      return /2xx [\d.,]+\/s, .*4xx [\d.,]+\/s/.test(await page.getAttribute("#rate", "aria-label")) ? null : "the plot's label has no numbers";
    } finally {
      await stop();
    }
  });
}

async function searchFor(page, fields) {
  for (const id of ["by-id", "by-path", "by-status"]) await page.fill(`#${id}`, fields[id] || "");
  await page.click("#search button");
  await until("an answer", async () => !["searching", ""].includes(await text(page, "#found")));
  return page.locator("#exchanges tbody tr").allInnerTexts();
}

async function searching(page, check) {
  await (await fetch(gateway + NEEDLE, { method: "POST", body: "what was sent", headers: { authorization: "Bearer hunter2" } })).arrayBuffer();
  await check("search finds an exchange by path, status and id", async () => {
    const byPath = await until("the exchange in the journal", async () => {
      const rows = await searchFor(page, { "by-path": NEEDLE });
      return rows.length && rows;
    });
    if (byPath.length !== 1 || !byPath[0].includes(`POST ${NEEDLE}`)) return byPath.join("; ");
    const id = await page.getAttribute("#exchanges tbody button", "title");
    const byStatus = await searchFor(page, { "by-status": "4xx", "by-path": NEEDLE });
    if (byStatus.length !== 1) return `by status: ${byStatus}`;
    const none = await searchFor(page, { "by-status": "5xx" });
    if (none.length || (await text(page, "#found")) !== "no exchange is like that") return `5xx: ${none}`;
    const byId = await searchFor(page, { "by-id": id });
    return byId.length === 1 ? null : `by id: ${byId}`;
  });
  await check("its four messages are shown, as recorded", async () => {
    await page.waitForSelector("#detail .messages");
    const detail = await page.innerText("#detail"), found = (word) => detail.includes(word);
    const missing = ["What the client sent", "What the upstream was sent", "What the upstream answered", "What the client got",
      `POST ${NEEDLE} HTTP/1.1`, "HTTP/1.1 404", "X-Forwarded-For", "management.show_bodies"].filter((word) => !found(word));
    if (missing.length) return `missing: ${missing}`;
    return found("hunter2") || found("what was sent") ? "a secret or a body is shown" : null;
  });
  await check("a wrong question is answered in words", async () => {
    await searchFor(page, { "by-status": "abc" });
    const answer = await text(page, "#found");
    return answer.includes("status takes 404 or 5xx") ? null : answer;
  });
  await searchFor(page, {});
}

async function reloading(page, check) {
  await check("a rejected reload is explained", async () => {
    const good = fs.readFileSync(routes);
    fs.writeFileSync(routes, "routes:\n  - id: all\n    match: [ { PathPrefx: { prefix: / } } ]\n");
    const answer = await fetch(`${management}/reload`, { method: "POST" });
    if (answer.status !== 409) return `the reload is ${answer.status}`;
    await until("the problem", async () => (await text(page, "#problems")).includes("configuration:"));
    const reason = await text(page, "#load pre");
    fs.writeFileSync(routes, good);
    if (!/routes\.yaml:3:\d+: .*PathPrefx.*did you mean PathPrefix/.test(reason)) return reason;
    await fetch(`${management}/reload`, { method: "POST" });
    await until("the problem's end", async () => (await text(page, "#health")).includes("OK"));
    return (await text(page, "#load")).includes("last refused") ? null : "the last refusal is forgotten";
  });
}

// What has the focus: its id, or its tag and text; and whether that can be seen.
const focused = (page) => page.evaluate(() => {
  const node = document.activeElement, style = getComputedStyle(node);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return { name: node.id || `${node.tagName} ${node.textContent.slice(0, 20)}`, seen, body: node === document.body };
});

async function keyboard(page, check) {
  await check("the keyboard reaches everything, and shows where it is", async () => {
    await page.reload(); // the walk begins at the top
    await until("some exchanges", () => page.locator("#exchanges tbody button").count());
    const wanted = await page.evaluate(() => [...document.querySelectorAll("select, input, button, summary, [tabindex='0']")]
      .filter((node) => node.offsetParent).length);
    const names = new Set();
    for (let i = 0; i < wanted + 5; i++) {
      await page.keyboard.press("Tab");
      const now = await focused(page);
      if (now.body) break;
      if (!now.seen) return `the focus on ${now.name} cannot be seen`;
      names.add(now.name);
    }
    const missing = ["scope", "find", "by-id", "by-status", "exchanges", "targets", "every"].filter((id) => !names.has(id));
    return missing.length ? `not reached: ${missing}` : null;
  });
  await check("a route opens, a search runs and a detail closes by keyboard alone", async () => {
    await page.focus("#routes summary");
    await page.keyboard.press("Enter");
    if (!await page.locator("#routes details[open]").count()) return "Enter does not open a route";
    await page.focus("#by-path");
    await page.keyboard.type(NEEDLE);
    await page.keyboard.press("Enter");
    await until("one row", async () => (await page.locator("#exchanges tbody tr").count()) === 1);
    await page.focus("#exchanges tbody button");
    await page.keyboard.press("Enter");
    await page.waitForSelector("#detail .messages");
    const title = await focused(page);
    if (!title.name.startsWith("H3 Exchange")) return `the focus is on ${title.name}, not on the detail`;
    await page.keyboard.press("Escape");
    if (await page.locator("#detail .messages").count()) return "Escape does not close it";
    const back = await focused(page);
    return back.name.startsWith("BUTTON") ? null : `afterwards the focus is on ${back.name}`;
  });
}

async function openAll(page) {
  await page.locator("#routes summary").first().click();
  await page.check("#every");
  await until("some exchanges", () => page.locator("#exchanges tbody button").count());
  await page.locator("#exchanges tbody button").first().click();
  await page.waitForSelector("#detail .messages");
}

async function accessible(browser, check, scheme, width) {
  const { page, wrong } = await open(browser, { colorScheme: scheme, viewport: { width, height: 844 } });
  await openAll(page);
  await sleep(2500); // a poll later the numbers of the open route are there
  await check(`axe has nothing to say, ${scheme}, ${width} pixels wide`, () => violations(page));
  await check(`nothing is wider than ${width} pixels, ${scheme}`, async () => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    return wide <= width ? null : `the page is ${wide} pixels wide`;
  });
  await shoot(page, `${scheme}-${width}`);
  await check(`no complaint, ${scheme}, ${width} pixels wide`, async () => wrong.join("; "));
  await page.close();
}

async function stale(browser, check) {
  const { page } = await open(browser, {});
  await page.route("**/status.json", (route) => route.abort());
  await check("a page without news says STALE", async () => {
    await until("STALE", async () => (await text(page, "#health")).includes("STALE"), 15000);
    return (await text(page, "#fresh")).startsWith("STALE") ? null : "only half of it does";
  });
  await page.close();
}

run(async (browser, check) => {
  const waiting = stale(browser, check);
  const { page, wrong } = await open(browser, {});
  await watchNumbers(page, check);
  await searching(page, check);
  wrong.splice(0, wrong.length, ...wrong.filter((one) => !/400/.test(one))); // the wrong question's
  await keyboard(page, check);
  await reloading(page, check);
  await check("no complaint on the way", async () => wrong.join("; "));
  await page.close();
  const looks = [["light", 1280], ["dark", 1280], ["light", 390], ["dark", 390]];
  await Promise.all([waiting, ...looks.map(([scheme, width]) => accessible(browser, check, scheme, width))]);
});
