// node driver.js GENERATED_DIR LAYOUT: answers `pp1wire vectors --against` with what Kaitai's JavaScript output decodes.
//
// It sees the layout and nothing else: no checksum, no agreement, no rule that a .ksy cannot say. LAYOUT lists every field of the
// header and of each message, a line each: owner, name, kind, offset of its end in the frame, and the code of an illegal value.
const fs = require("fs");
const path = require("path");
const readline = require("readline");

const [generated, layout] = process.argv.slice(2);
const load = (name) => require(path.resolve(generated, `Pp1${name[0].toUpperCase()}${name.slice(1)}.js`));
const { KaitaiStream } = require("kaitai-struct");
const { FrameHeader, MessageType } = load("common").Pp1Common;
const messages = Object.keys(MessageType).filter((key) => isNaN(key)).map((key) => key.toLowerCase());
const kinds = Object.fromEntries(messages.map((name) => [name, Object.values(load(name))[0]]));
const fields = fs.readFileSync(layout, "utf8").trim().split("\n").map((line) => {
  const [owner, name, kind, end, code] = line.split(" ");
  return { owner, name, kind, end: Number(end), code };
});
// Columns of fixed length: what is behind their count is padding.
const counts = { reply: "entryCount", commit: "tokenCount" };
const camel = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());

function plain(value, kind, count) {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (Array.isArray(value)) return value.slice(0, count);
  // Kaitai's runtime reads 64 bits into a number, so what it has lost by now stays lost.
  return kind === "int" && value > Number.MAX_SAFE_INTEGER ? String(BigInt(value)) : value;
}

function decode(data, columns) {
  const stream = new KaitaiStream(data.buffer.slice(data.byteOffset, data.byteOffset + data.length));
  const message = String(MessageType[data[6]] ?? "").toLowerCase();
  const parameters = message === "reply" ? columns : [];
  try {
    const found = new (kinds[message] ?? FrameHeader)(stream, null, null, ...parameters);
    if (!stream.isEof()) return { reject: "extra_data", path: "frame" };
    const count = found[counts[message]];
    const decoded = {};
    for (const { owner, name, kind } of fields) {
      if (owner === "header") decoded[name] = plain(found.header[camel(name)], kind);
      if (owner === message) decoded[name] = plain(found[camel(name)], kind, count);
    }
    return { message, fields: decoded };
  } catch (error) {
    if (error instanceof KaitaiStream.EOFError) return { reject: "truncated", path: "frame" };
    if (!/^Validation/.test(error.name)) throw error;
    // The stream stands behind the field that was refused; JavaScript's errors do not name it.
    const { owner, name, code } = fields.find((f) => f.end === stream.pos && ["header", message].includes(f.owner));
    return { reject: code, path: `${owner}.${name}` };
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  const [name, , idEntries, qEntries, ...frames] = line.split(" ");
  const data = Buffer.from(frames[frames.length - 1].split(":")[1], "hex");
  console.log(JSON.stringify({ name, ...decode(data, [Number(idEntries), Number(qEntries)]) }));
});
