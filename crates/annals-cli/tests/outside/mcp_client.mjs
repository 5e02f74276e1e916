// Talks to Annals as an MCP server with the TypeScript SDK and prints what it saw as one line of JSON.
// `mcp_client.mjs COMMAND ARGS ENV` starts the server; with ANNALS_URL and ANNALS_TOKEN set, it talks to `/mcp` there.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

function transport() {
  const { ANNALS_URL: url, ANNALS_TOKEN: token } = process.env;
  if (url) {
    const requestInit = { headers: { Authorization: `Bearer ${token}` } };
    return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
  }
  const [command, args, env] = [process.argv[2], JSON.parse(process.argv[3]), JSON.parse(process.argv[4])];
  return new StdioClientTransport({ command, args, env, stderr: "ignore" });
}

const client = new Client({ name: "test", version: "1" });
const connection = transport();
await client.connect(connection);
const tools = await client.listTools();
const signs = [];
const asked = await client.callTool(
  { name: "annals_ask", arguments: { prompt: "Write the report." } },
  undefined,
  { onprogress: (progress) => signs.push(progress.message) },
);
const told = asked.structuredContent;
const read = await client.callTool({
  name: "annals_read",
  arguments: { conversation: told.conversation, path: told.files[0].path },
});
const resource = await client.readResource({ uri: told.files[0].uri });
console.log(JSON.stringify({
  session: connection.sessionId,
  tools: tools.tools.map((tool) => tool.name),
  told,
  read: read.content[0].text,
  resource: resource.contents[0].text,
  signs: signs.length,
}));
await connection.terminateSession?.();
await client.close();
