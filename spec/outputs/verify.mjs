// verify.mjs - node verify.mjs warc FILE... | har FILE | index FILE.cdxj FOLDER
// Reads what moongate's outputs wrote with other people's code; prints what it found as JSON, or what is wrong and
// ends with 1. WARC files may be plain or gzip by record.
import { createHash } from "node:crypto";
import { createReadStream, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";
import { WARCParser } from "warcio";

function fail(what) {
  console.error(what);
  process.exit(1);
}

function base32(bytes) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  let bits = "", out = "";
  for (const byte of bytes) bits += byte.toString(2).padStart(8, "0");
  while (bits.length % 5) bits += "0";
  for (let i = 0; i < bits.length; i += 5) out += digits[parseInt(bits.slice(i, i + 5), 2)];
  return out + "=".repeat((8 - (out.length % 8)) % 8);
}

function digest(bytes) {
  return "sha256:" + base32(createHash("sha256").update(bytes).digest());
}

function endOfHead(block) {
  const at = Buffer.from(block).indexOf("\r\n\r\n");
  if (at < 0) fail("an HTTP message without the end of its head");
  return at + 4;
}

function checkDigests(record, block, found) {
  const header = (name) => record.warcHeaders.headers.get(name);
  const id = header("WARC-Record-ID");
  if (header("WARC-Block-Digest") !== digest(block)) fail(`${id}: the block's digest is another`);
  found.blockDigests++;
  const payload = header("WARC-Payload-Digest");
  if (!payload || header("WARC-Type") === "revisit") return;
  const body = block.slice(endOfHead(block));
  if (body.length === 0 && header("WARC-Truncated")) return; // the body is with the other message of its side
  if (payload !== digest(body)) fail(`${id}: the payload's digest is another`);
  found.payloadDigests++;
}

// The records of an exchange stand together, count from 0, name the first, and the last says that it is.
function checkGroup(record, group) {
  const header = (name) => record.warcHeaders.headers.get(name);
  const id = header("WARC-Record-ID"), sequence = Number(header("WARC-Moongate-Sequence"));
  if (sequence === 0) {
    if (group.open) fail(`${id}: the group before has no end`);
    Object.assign(group, { open: true, first: id, request: header("WARC-Moongate-Request-Id"), next: 0 });
  } else if (header("WARC-Concurrent-To") !== group.first) fail(`${id}: names ${header("WARC-Concurrent-To")}`);
  if (!group.open || sequence !== group.next) fail(`${id}: is number ${sequence}, ${group.next} was expected`);
  if (header("WARC-Moongate-Request-Id") !== group.request) fail(`${id}: is of another exchange`);
  group.next++;
  if (header("WARC-Moongate-Group-End") === "true") group.open = false;
}

async function warc(files) {
  const found = { records: 0, exchanges: 0, types: {}, statuses: {}, truncated: {}, blockDigests: 0, payloadDigests: 0 };
  const payloads = new Set(), ids = new Set();
  for (const file of files) {
    const group = { open: false };
    const parser = new WARCParser(createReadStream(file), { keepHeadersCase: true, parseHttp: false });
    for await (const record of parser) {
      const block = await record.readFully(false);
      const header = (name) => record.warcHeaders.headers.get(name);
      const type = header("WARC-Type"), id = header("WARC-Record-ID");
      if (ids.has(id)) fail(`${id}: comes twice`);
      ids.add(id);
      found.records++;
      found.types[type] = (found.types[type] ?? 0) + 1;
      if (type === "warcinfo") continue;
      if (Number(header("Content-Length")) !== block.length) fail(`${id}: is not as long as it says`);
      checkDigests(record, block, found);
      checkGroup(record, group);
      if (type === "revisit" && !payloads.has(header("WARC-Payload-Digest"))) fail(`${id}: revisits what is not there`);
      if (type !== "revisit" && header("WARC-Payload-Digest")) payloads.add(header("WARC-Payload-Digest"));
      const cut = header("WARC-Truncated");
      if (cut) found.truncated[cut] = (found.truncated[cut] ?? 0) + 1;
      if (!group.open) {
        found.exchanges++;
        const status = Buffer.from(block).toString("latin1").split(" ")[1];
        found.statuses[status] = (found.statuses[status] ?? 0) + 1;
      }
    }
    if (group.open) fail(`${file}: ends inside an exchange`);
  }
  return found;
}

function har(file) {
  const require = createRequire(import.meta.url);
  const Ajv = require("ajv").default;
  const ajv = new Ajv({ strict: false, allErrors: true });
  ajv.addMetaSchema(require("ajv/dist/refs/json-schema-draft-06.json"));
  require("ajv-formats").default(ajv);
  for (const schema of Object.values(require("har-schema"))) ajv.addSchema(schema);
  const document = JSON.parse(readFileSync(file, "utf8"));
  const validate = ajv.getSchema("har.json#");
  if (!validate(document)) fail(JSON.stringify(validate.errors.slice(0, 5), null, 1));
  for (const { time, timings } of document.log.entries) {
    const sum = timings.blocked + timings.send + timings.wait + timings.receive;
    if (Math.abs(sum - time) > 0.01) fail(`timings are ${sum}, the entry took ${time}`);
  }
  const base64 = document.log.entries.filter((entry) => entry.response.content.encoding === "base64");
  return {
    entries: document.log.entries.length, base64: base64.length,
    bodies: Object.fromEntries(document.log.entries.filter((entry) => entry.response.content.text !== undefined).map(
      ({ _id, response: { content: { text, encoding } } }) =>
        [_id, createHash("sha256").update(Buffer.from(text, encoding ?? "utf8")).digest("hex")])),
  };
}

// Each line of an index stands in order and leads to the record that it describes.
function index([file, folder]) {
  const lines = readFileSync(file, "utf8").trimEnd().split("\n");
  lines.forEach((line, i) => {
    if (i && Buffer.compare(Buffer.from(lines[i - 1]), Buffer.from(line)) > 0) fail(`line ${i + 1} is out of order`);
    const entry = JSON.parse(line.slice(line.indexOf("{")));
    const from = Number(entry.offset), bytes = readFileSync(`${folder}/${entry.filename}`);
    const record = gunzipSync(bytes.subarray(from, from + Number(entry.length))).toString("latin1");
    if (!record.includes(`WARC-Target-URI: ${entry.url}\r\n`)) fail(`line ${i + 1} leads to another record`);
    if (!/^WARC\/1\.1\r\nWARC-Type: (response|revisit)\r\n/.test(record)) fail(`line ${i + 1} leads to no response`);
    if (entry.digest && !record.includes(`WARC-Payload-Digest: ${entry.digest}\r\n`)) fail(`line ${i + 1}: digest`);
  });
  return { lines: lines.length };
}

const [, , what, ...files] = process.argv;
const run = { warc, har: ([file]) => har(file), index }[what] ?? (() => fail("warc, har or index?"));
console.log(JSON.stringify(await run(files)));
