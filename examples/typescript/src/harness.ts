// A harness at work: it launches a memory, its model writes, the run is suspended, resumed, and completed. Then the
// same command is started as any MCP client would start it, and refuses.
//
//   npm ci && node dist/harness.js [pinned|auto|default]
//
// The word is how a revision of MCP is agreed on. `memory-sidecar` must be on the PATH; MEMORY_SIDECAR names another
// command.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { MemorySidecar, type Mode } from "./memory.js";

const CONFIG = `\
identity: typescript-harness
harness:
  memory:
    enabled: true
    options:
      require_read_before_update: true
`;

async function monday(command: string[], mode: Mode): Promise<void> {
  const memory = await MemorySidecar.launch(command, mode);
  try {
    const run = await memory.open("research");
    console.log("Monday's tools:", run.tools.map((tool) => tool.name).join(", "));
    const note = { key: "layout", description: "Where things are", content: "The parser is in src/parse." };
    console.log("Monday writes:", JSON.stringify((await run.call("memory_write", note)).structuredContent));
    const again = (await run.call("memory_write", note)).structuredContent as { code: string };
    console.log("Monday writes it again, refused:", again.code);
    console.log("Monday is suspended, with authority over:", Object.keys((await run.suspend()).keys).join(", "));
  } finally {
    await memory.close();
  }
}

async function friday(command: string[], mode: Mode): Promise<void> {
  const memory = await MemorySidecar.launch(command, mode);
  try {
    const run = await memory.open("research", { resume: "require" });
    console.log("Friday resumes, with authority over:", Object.keys(run.scope.keys).join(", "));
    console.log("Friday's index:", run.instructions.split("\n").find((line) => line.startsWith("- ")));
    const note = { key: "layout", description: "Where things are", content: "It is in lib/parse.", overwrite: true };
    console.log("Friday overwrites:", JSON.stringify((await run.call("memory_write", note)).structuredContent));
    const read = (await run.call("memory_read", { key: "layout" })).structuredContent as { content: string };
    console.log("Friday reads:", read.content);
    await run.finish("completed");
  } finally {
    await memory.close();
  }
}

async function stranger(command: string[], environment: Record<string, string>): Promise<void> {
  const [program = "", ...args] = command;
  const transport = new StdioClientTransport({
    command: program,
    args,
    env: { ...process.env, ...environment } as Record<string, string>,
    stderr: "pipe",
  });
  const log = text(transport.stderr as Readable);
  try {
    await new Client({ name: "stranger", version: "1.0.0" }).connect(transport);
    console.log("A stranger was served: this must not happen");
    process.exitCode = 1;
  } catch (error) {
    console.log("A stranger is refused:", (error as Error).message);
    console.log("  and the log says:", (await log).trim());
  }
}

const mode = (process.argv[2] ?? "pinned") as Mode;
const place = await mkdtemp(join(tmpdir(), "memory-"));
try {
  const config = join(place, "memory.yaml");
  await writeFile(config, CONFIG);
  const sidecar = (process.env["MEMORY_SIDECAR"] ?? "memory-sidecar").split(" ");
  const command = [...sidecar, "serve", "--config", config, "--store-dir", place];
  await monday(command, mode);
  await friday(command, mode);
  await stranger(command, {});
  await stranger(command, { MEMORY_SIDECAR_TICKET: join(place, "made-up") });
} finally {
  await rm(place, { recursive: true, force: true });
}
