// Memory for an agent of @openai/agents: function tools over the official MCP client, which presents the ticket. The
// SDK's own MCPServerStdio has no place for client capabilities, so it is refused.

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Agent, run, setTracingDisabled, tool } from "@openai/agents";

import { launch } from "./ticket.ts";

setTracingDisabled(true); // traces go to OpenAI, and would take memories with them

async function ask(question: string): Promise<string> {
  const { server, capabilities, remove } = await launch("--identity", "assistant", "--store-dir", "state");
  const memory = new Client({ name: "assistant", version: "1.0.0" }, { capabilities });
  await memory.connect(new StdioClientTransport(server)).finally(remove);
  try {
    const tools = (await memory.listTools()).tools.map(({ name, description = "", inputSchema }) =>
      tool({
        name,
        description,
        parameters: inputSchema as never,
        strict: false,
        execute: async (input) => {
          const result = await memory.callTool({ name, arguments: input as Record<string, unknown> });
          return result.content.map((part) => (part.type === "text" ? part.text : "")).join("");
        },
      }),
    );
    const agent = new Agent({ name: "Assistant", model: "gpt-5.2", instructions: memory.getInstructions() ?? "", tools });
    return (await run(agent, question)).finalOutput ?? "";
  } finally {
    await memory.close();
  }
}

console.log(await ask("We deploy on Tuesdays. Please note that."));
console.log(await ask("When do we deploy?"));
