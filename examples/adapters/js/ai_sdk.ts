// Memory for an agent of the Vercel AI SDK: its own MCP client, its own stdio transport, and the launch's ticket.

import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { openai } from "@ai-sdk/openai";
import { generateText, isStepCount } from "ai";

import { launch } from "./ticket.ts";

async function ask(question: string): Promise<string> {
  const { server, capabilities, remove } = await launch("--identity", "assistant", "--store-dir", "state");
  const memory = await createMCPClient({ transport: new StdioTransport(server), capabilities }).finally(remove);
  try {
    const { text } = await generateText({
      model: openai("gpt-5.2"),
      system: memory.instructions,
      tools: await memory.tools(),
      stopWhen: isStepCount(9),
      prompt: question,
    });
    return text;
  } finally {
    await memory.close();
  }
}

console.log(await ask("We deploy on Tuesdays. Please note that."));
console.log(await ask("When do we deploy?"));
