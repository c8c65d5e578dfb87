// checks.js - a browser, and checks that are told on standard output: "ok WHAT" or "not ok WHAT: WHY", then "done".
"use strict";
const { chromium } = require("playwright-core");

const EXECUTABLE = process.env.MOONGATE_CHROMIUM || "/usr/bin/chromium";
const WAIT_MS = 20000;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Runs work(browser, check) to its end; every failed check is told, and the exit code is 1 when there was one.
async function run(work) {
  let failed = false;
  const browser = await chromium.launch({ executablePath: EXECUTABLE, args: ["--no-sandbox", "--disable-quic"] });
  const tell = (what, why) => {
    failed = failed || Boolean(why);
    console.log(why ? `not ok ${what}: ${String(why).replaceAll("\n", " ")}` : `ok ${what}`);
  };
  async function check(what, fn) {
    try {
      tell(what, await fn());
    } catch (error) {
      tell(what, error.message);
    }
  }
  try {
    await work(browser, check);
  } catch (error) {
    tell("to the end", error.stack);
  }
  await browser.close();
  console.log("done");
  process.exitCode = failed ? 1 : 0;
}

// Waits until fn gives something true, and gives that.
async function until(what, fn, limit = WAIT_MS) {
  const end = Date.now() + limit;
  for (;;) {
    const value = await fn();
    if (value) return value;
    if (Date.now() > end) throw new Error(`${what} did not come about`);
    await sleep(100);
  }
}

// What goes wrong on a page from now on: console, exceptions, requests.
function complaints(page) {
  const list = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) list.push(message.text()); });
  page.on("pageerror", (error) => list.push(error.message));
  page.on("requestfailed", (request) => list.push(`${request.url()} failed: ${request.failure().errorText}`));
  page.on("response", (response) => { if (response.status() >= 400) list.push(`${response.url()} is ${response.status()}`); });
  return list;
}

module.exports = { run, until, complaints, sleep };
