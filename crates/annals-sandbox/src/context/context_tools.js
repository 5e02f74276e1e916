// Artifacts of the conversation, from inside executed code.
//   const { fetchCtx } = require("context_tools");
//   const { text, mime, path } = await fetchCtx("tc:turn_1.c1.result");   // .bytes for anything but text
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const net = require("net");
const path = require("path");

class ContextError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "ContextError";
    this.code = code;
  }
}

// A request that nobody answers is written again, and given up after a while.
const AGAIN_MS = 2000;
const PATIENCE_MS = 60000;

function askBySocket(address, request) {
  return new Promise((resolve, reject) => {
    const pieces = [];
    const connection = net.createConnection(address, () => connection.write(request + "\n"));
    connection.on("error", reject);
    connection.on("data", (piece) => pieces.push(piece));
    connection.on("end", () => resolve(Buffer.concat(pieces)));
  });
}

async function askByMail(folder, request) {
  const name = `${process.pid}-${crypto.randomBytes(8).toString("hex")}`;
  const line = `${name} ${Buffer.from(request).toString("base64")}\n`;
  if (line.length > 4096) throw new ContextError("invalid_request", "the path is too long");
  const [answer, started] = [path.join(folder, name), Date.now()];
  let asked = 0;
  while (Date.now() - started < PATIENCE_MS) {
    if (Date.now() - asked > AGAIN_MS && post(path.join(folder, "requests"), line)) asked = Date.now();
    if (fs.existsSync(answer)) {
      const bytes = fs.readFileSync(answer);
      fs.unlinkSync(answer);
      return bytes;
    }
    await new Promise((wake) => setTimeout(wake, 5));
  }
  throw new ContextError("context_not_available", "no answer");
}

// Whether somebody reads the pipe.
function post(pipe, line) {
  try {
    const file = fs.openSync(pipe, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
    try {
      return fs.writeSync(file, line) === line.length;
    } finally {
      fs.closeSync(file);
    }
  } catch (error) {
    if (["ENXIO", "ENOENT", "EAGAIN"].includes(error.code)) return false;
    throw error;
  }
}

async function fetchCtx(logicalPath) {
  const { ANNALS_CTX_SOCKET: address, ANNALS_CTX_DIR: folder } = process.env;
  const unavailable = (message) => new ContextError("context_not_available", message);
  if (!address && !folder) throw unavailable("the conversation cannot be read from here");
  const request = JSON.stringify({ path: logicalPath });
  const answer = await (address ? askBySocket(address, request) : askByMail(folder, request));
  const end = answer.indexOf(10);
  if (end < 0) throw unavailable("no answer");
  const head = JSON.parse(answer.subarray(0, end).toString());
  if (!head.ok) throw new ContextError(head.error.code, head.error.message);
  const body = answer.subarray(end + 1);
  if (body.length !== head.size_bytes) throw unavailable("the answer ended early");
  const content = { path: head.path, mime: head.mime };
  if (head.kind === "text") content.text = body.toString("utf8");
  else content.bytes = body;
  return content;
}

module.exports = { fetchCtx, fetch_ctx: fetchCtx, ContextError };

if (require.main === module) {
  const [verb, ...paths] = process.argv.slice(2);
  if (verb !== "fetch" || paths.length === 0) {
    process.stderr.write("usage: annals-ctx fetch PATH...\n");
    process.exitCode = 2;
  } else {
    (async () => {
      for (const path of paths) {
        const content = await fetchCtx(path);
        process.stdout.write(content.text ?? content.bytes);
      }
    })().catch((error) => {
      process.stderr.write(`annals-ctx: ${error.message}\n`);
      process.exitCode = 1;
    });
  }
}
