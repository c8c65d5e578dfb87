// site.js - a small site: a page with a style, a script and twenty pictures that do not compress.
"use strict";
const crypto = require("node:crypto");
const http = require("node:http");
const zlib = require("node:zlib");

const PICTURES = 20, SIDE = 96;

function chunk(type, data) {
  const head = Buffer.alloc(8), sum = Buffer.alloc(4), body = Buffer.concat([Buffer.from(type), data]);
  head.writeUInt32BE(data.length);
  head.write(type, 4);
  sum.writeUInt32BE(zlib.crc32 ? zlib.crc32(body) : crc32(body));
  return Buffer.concat([head, data, sum]);
}

// Node before 22 has no zlib.crc32.
function crc32(bytes) {
  let sum = ~0;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  return ~sum >>> 0;
}

// A picture of noise: PNG, 8 bits of red, green and blue.
function picture() {
  const header = Buffer.alloc(13), rows = [];
  header.writeUInt32BE(SIDE, 0);
  header.writeUInt32BE(SIDE, 4);
  header.set([8, 2, 0, 0, 0], 8);
  for (let i = 0; i < SIDE; i++) rows.push(Buffer.from([0]), crypto.randomBytes(SIDE * 3));
  return Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), chunk("IHDR", header),
    chunk("IDAT", zlib.deflateSync(Buffer.concat(rows))), chunk("IEND", Buffer.alloc(0))]);
}

const names = Array.from({ length: PICTURES }, (_, i) => `/picture-${i}.png`);
const files = new Map(names.map((name) => [name, ["image/png", picture()]]));
files.set("/", ["text/html; charset=utf-8", `<!doctype html><html lang="en"><title>site</title><link rel="stylesheet" href="/style.css">
  <h1>site</h1>${names.map((name) => `<img alt="" src="${name}">`).join("")}<p id="said"></p><script src="/script.js"></script></html>`]);
files.set("/style.css", ["text/css", "h1 { color: rgb(1, 2, 3) }"]);
files.set("/script.js", ["text/javascript", 'document.getElementById("said").textContent = "the script ran";']);
files.set("/favicon.ico", ["image/png", picture()]);

const server = http.createServer((request, response) => {
  const file = files.get(request.url.split("?")[0]);
  response.writeHead(file ? 200 : 404, { "content-type": file ? file[0] : "text/plain" });
  response.end(file ? file[1] : "nothing here\n");
});
server.listen(0, "127.0.0.1", () => console.log(`listening on 127.0.0.1:${server.address().port}`));
