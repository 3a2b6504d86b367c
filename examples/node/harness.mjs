// A whole harness in plain Node, written from docs/protocol.md: no SDK, no dependency, nothing to build.
//
//   node harness.mjs      `memory-sidecar` must be on the PATH; MEMORY_SIDECAR names another command

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** JSON-RPC over the pipes of `child`: requests out, answers matched by id, all of them failed when it ends. */
function connect(child, token) {
  // There is no handshake: each request says the revision of MCP, and presents the ticket.
  const always = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
      extensions: { "memory-sidecar/harness": { ticket: token, default_run: false } },
    },
  };
  const waiting = new Map();
  let last = 0, ended;
  const end = (how) => {
    ended ??= new Error(`the memory sidecar ${how}`);
    for (const { reject } of waiting.values()) reject(ended);
  };
  child.on("error", (error) => end(`cannot run: ${error.message}`));
  const closed = new Promise((resolve) => child.on("close", resolve));
  child.on("close", (status, signal) => end(`ended with ${signal ?? `status ${status}`}; its log may say why`));
  child.stdin.on("error", () => {}); // it died while it was written to; "close" follows
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line);
    if (id == null) end(`could not read a request: ${error?.message}`); // whichever of those that wait
    else if (error) waiting.get(id)?.reject(Object.assign(new Error(error.message), { code: error.code }));
    else waiting.get(id)?.resolve(result);
    waiting.delete(id);
  });
  const request = (method, { _meta, ...params } = {}) => new Promise((resolve, reject) => {
    if (ended) throw ended;
    const id = (last += 1);
    const frame = { jsonrpc: "2.0", id, method, params: { ...params, _meta: { ...always, ..._meta } } };
    waiting.set(id, { resolve, reject });
    child.stdin.write(`${JSON.stringify(frame)}\n`);
  });
  const close = () => {
    child.stdin.end(); // it suspends what is open, and ends
    setTimeout(() => child.kill("SIGKILL"), 20_000).unref();
    return closed;
  };
  return { request, close };
}

/** Launch the sidecar and open `run`, which is resumed if it exists. */
async function launch([program, ...args], run) {
  const token = randomBytes(32).toString("base64url");
  const place = await mkdtemp(join(tmpdir(), "memory-sidecar-"));
  const env = { ...process.env, MEMORY_SIDECAR_TICKET: join(place, "ticket") };
  try {
    await writeFile(env.MEMORY_SIDECAR_TICKET, token, { mode: 0o600, flag: "wx" });
    const memory = connect(spawn(program, args, { env, stdio: ["pipe", "pipe", "inherit"], detached: true }), token);
    return { ...memory, ...(await memory.request("memory-sidecar/run/open", { run })) };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
}

const sidecar = (process.env.MEMORY_SIDECAR ?? "memory-sidecar").split(" ");
const command = [...sidecar, "serve", "--store-dir", "state", "--default-identity", "plain-node"];
const { run, resumed, tools, request, close } = await launch(command, "first");
try {
  // Give the model `tools` and, in its system prompt, `instructions`; hand its calls to `call`.
  const call = async (name, args) =>
    (await request("tools/call", { name, arguments: args, _meta: { "memory-sidecar/run": run } })).content[0].text;
  console.log(resumed ? "Resumed," : "Started,", "with", tools.map((tool) => tool.name).join(", "));
  console.log(await call("memory_write", { key: "greeting", description: "How to greet", content: "Say hello." }));
  console.log(await call("memory_list", {}));
} finally {
  await close(); // the run is suspended; the next launch resumes it
}
