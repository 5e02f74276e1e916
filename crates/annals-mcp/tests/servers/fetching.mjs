// An MCP server whose one tool fetches with Node's own `fetch`, which knows of a proxy only by its environment.
import { createInterface } from "node:readline";

const tool = { name: "get", description: "Fetches.", inputSchema: { type: "object", properties: { url: { type: "string" } } } };

async function fetched(url) {
  try {
    const answer = await fetch(url);
    return `${answer.status}: ${await answer.text()}`;
  } catch (error) {
    return `failed: ${error.message}: ${error.cause?.message ?? ""}`;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const answer = { jsonrpc: "2.0", id };
  if (method === "initialize") {
    const { protocolVersion } = params;
    answer.result = { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "fetching", version: "1" } };
  } else if (method === "tools/list") {
    answer.result = { tools: [tool] };
  } else if (method === "tools/call") {
    answer.result = { content: [{ type: "text", text: await fetched(params.arguments.url) }] };
  } else {
    answer.error = { code: -32601, message: "unknown" };
  }
  console.log(JSON.stringify(answer));
}
