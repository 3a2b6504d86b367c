// One session of the official client over the transport that it ships, in the mode that is asked for.
// Prints one JSON object: what was served, or the error.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, ticket, ...command] = process.argv.slice(2);
const PIN = "2026-07-28";
const modes = { default: undefined, auto: { mode: "auto" }, pinned: { mode: { pin: PIN } } };
const extensions = ticket ? { "memory-sidecar/harness": { ticket } } : {};
const client = new Client(
  { name: "tests", version: "1" },
  { capabilities: { extensions }, versionNegotiation: modes[mode] },
);
const env = { ...process.env };
const transport = new StdioClientTransport({ command: command[0], args: command.slice(1), env });
const said = {};
try {
  await client.connect(transport);
  said.instructions = client.getInstructions();
  said.version = client.getNegotiatedProtocolVersion?.();
  said.tools = (await client.listTools()).tools.map((tool) => tool.name);
  const note = { key: "k", description: "d", content: "c" };
  const call = async (name, args) => (await client.callTool({ name, arguments: args })).structuredContent;
  said.written = await call("memory_write", note);
  said.read = await call("memory_read", { key: "k" });
  const cancel = new AbortController();
  const cancelled = client.callTool({ name: "memory_list", arguments: {} }, { signal: cancel.signal });
  cancel.abort("changed its mind");
  said.cancelled = await cancelled.then(() => "served", (error) => error.message);
  said.after = await call("memory_list", {});
} catch (error) {
  said.error = error.message;
  said.code = error.code;
}
await client.close();
console.log(JSON.stringify(said));
