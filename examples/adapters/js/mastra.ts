// Memory for an agent of Mastra: its own MCP client, and the launch's ticket among the client's capabilities.

import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

import { launch } from "./ticket.ts";

async function ask(question: string): Promise<string> {
  const { server, capabilities, remove } = await launch("--identity", "assistant", "--store-dir", "state");
  const client = new MCPClient({ servers: { memory: { ...server, capabilities } } });
  try {
    const { memory: tools } = await client.listToolsets().finally(remove); // by their own names, without a prefix
    const instructions = client.getServerInstructions()["memory"] ?? "";
    const agent = new Agent({ id: "assistant", name: "assistant", model: "openai/gpt-5.2", instructions, tools });
    return (await agent.generate(question, { maxSteps: 9 })).text;
  } finally {
    await client.disconnect();
  }
}

console.log(await ask("We deploy on Tuesdays. Please note that."));
console.log(await ask("When do we deploy?"));
