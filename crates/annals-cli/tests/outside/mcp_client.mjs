// Talks to `annals mcp serve` with the TypeScript SDK and prints what it saw as one line of JSON.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, args, env] = [process.argv[2], JSON.parse(process.argv[3]), JSON.parse(process.argv[4])];
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }));
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
  tools: tools.tools.map((tool) => tool.name),
  told,
  read: read.content[0].text,
  resource: resource.contents[0].text,
  signs: signs.length,
}));
await client.close();
