// Artifacts of the conversation, from inside executed code.
//   const { fetchCtx } = require("context_tools");
//   const { text, mime, path } = await fetchCtx("tc:turn_1.c1.result");   // .bytes for anything but text
"use strict";
const net = require("net");

class ContextError extends Error {
  constructor(code, message) {
    super(message);
    this.name = "ContextError";
    this.code = code;
  }
}

function fetchCtx(path) {
  return new Promise((resolve, reject) => {
    const address = process.env.ANNALS_CTX_SOCKET;
    const unavailable = (message) => reject(new ContextError("context_not_available", message));
    if (!address) return unavailable("the conversation cannot be read from here");
    const pieces = [];
    const connection = net.createConnection(address, () => connection.write(JSON.stringify({ path }) + "\n"));
    connection.on("error", reject);
    connection.on("data", (piece) => pieces.push(piece));
    connection.on("end", () => {
      const answer = Buffer.concat(pieces);
      const end = answer.indexOf(10);
      if (end < 0) return unavailable("no answer");
      const head = JSON.parse(answer.subarray(0, end).toString());
      if (!head.ok) return reject(new ContextError(head.error.code, head.error.message));
      const body = answer.subarray(end + 1);
      if (body.length !== head.size_bytes) return unavailable("the answer ended early");
      const content = { path: head.path, mime: head.mime };
      if (head.kind === "text") content.text = body.toString("utf8");
      else content.bytes = body;
      resolve(content);
    });
  });
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
