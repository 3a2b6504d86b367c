// What an MCP client of a framework needs to be the harness of a memory: a command with a fresh ticket in its
// environment, and the client capability that presents the ticket. docs/protocol.md tells why.

import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** One launch. `remove` deletes the ticket: call it once the client is connected, or could not connect. */
export interface Launch {
  server: { command: string; args: string[]; env: Record<string, string> };
  capabilities: { extensions: Record<string, { ticket: string }> };
  remove: () => Promise<void>;
}

/** `options` are those of `memory-sidecar serve`. MEMORY_SIDECAR names a command that is not on the PATH. */
export async function launch(...options: string[]): Promise<Launch> {
  const place = await mkdtemp(join(tmpdir(), "memory-sidecar-"));
  const path = join(place, "ticket");
  const token = randomBytes(32).toString("base64url");
  await writeFile(path, token, { mode: 0o600, flag: "wx" });
  const [command = "", ...args] = (process.env["MEMORY_SIDECAR"] ?? "memory-sidecar").split(" ");
  const env = { ...process.env, MEMORY_SIDECAR_TICKET: path } as Record<string, string>;
  return {
    server: { command, args: [...args, "serve", ...options], env },
    capabilities: { extensions: { "memory-sidecar/harness": { ticket: token } } },
    remove: () => rm(place, { recursive: true, force: true }),
  };
}
