// Memory for a harness in TypeScript: launch the sidecar with a ticket, open runs, hand the model's calls over.
//
// docs/protocol.md tells what goes over the pipe. The official MCP client speaks most of it, in either era of MCP; the
// four lifecycle methods are requests of this product's own.

import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client, ProtocolError } from "@modelcontextprotocol/client";
import type { CallToolResult, ClientOptions, Tool } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import * as z from "zod";

/** Bytes in an answer: the list of a full memory may need 13 MiB, and the client takes 10 unless it is told. */
const MAX_ANSWER = 16 * 1024 * 1024;
/** What the sidecar answers to arguments that it could not read. The model can mend them. */
const UNREAD: Record<number, string> = {
  [-32600]:
    "The arguments are larger than a call may be. Nothing was changed. A content has at most 65536 bytes: shorten it, " +
    "or split it over several keys.",
  [-32700]:
    "The arguments hold lists and objects nested too deeply, or too large a number. Nothing was changed. Call the tool " +
    "with the arguments that it takes, texts above all.",
};

/**
 * How the client and the sidecar agree on a revision of MCP. `pinned` speaks 2026-07-28 or nothing; `auto` the newest
 * that both know; `default` is the client's own default, the handshake of the revisions before. The first two look
 * what the sidecar speaks in a short-lived second process that gets the same ticket, so they start a little later.
 */
export type Mode = "pinned" | "auto" | "default";

const NEGOTIATION: Record<Mode, ClientOptions["versionNegotiation"]> = {
  pinned: { mode: { pin: "2026-07-28" } },
  auto: { mode: "auto" },
  default: undefined,
};

const Scope = z.object({ store: z.string(), keys: z.record(z.string(), z.string()) });
const Ended = z.object({ run: z.string(), scope: Scope });
const Opened = Ended.extend({
  resumed: z.boolean(),
  instructions: z.string(),
  read_only: z.boolean(),
  tools: z.array(z.custom<Tool>()),
  backend: z.object({ name: z.string(), location: z.string() }),
});

const Runs = z.object({ runs: z.array(z.unknown()) });

export type Scope = z.infer<typeof Scope>;
export type Ending = "completed" | "error" | "budget" | "max_iterations";

export interface OpenOptions {
  /** `require` refuses a run that does not exist yet, `never` one that does. */
  resume?: "auto" | "require" | "never";
  /** The scope that an earlier run of this id returned, if the harness keeps it itself. */
  scope?: Scope;
}

/** An open run: what to tell the model (`tools`, `instructions`), and where to send its calls. */
export class Run {
  constructor(
    private readonly client: Client,
    private readonly opened: z.infer<typeof Opened>,
  ) {}

  get id(): string {
    return this.opened.run;
  }

  get resumed(): boolean {
    return this.opened.resumed;
  }

  get tools(): Tool[] {
    return this.opened.tools;
  }

  get instructions(): string {
    return this.opened.instructions;
  }

  /** The authority as it was when the run was opened. */
  get scope(): Scope {
    return this.opened.scope;
  }

  /**
   * Serve a tool call by the model; aborting `signal` cancels it. Calls of one run are served in order.
   *
   * It rejects with a ProtocolError of code -32602 if there is no such tool or the run has ended, with "Connection
   * closed" if the sidecar died. What that had acknowledged is saved; launch another and open the run again.
   */
  async call(name: string, args: Record<string, unknown> = {}, signal?: AbortSignal): Promise<CallToolResult> {
    const params = { name, arguments: args, _meta: { "memory-sidecar/run": this.id } };
    try {
      return await this.client.callTool(params, signal && { signal });
    } catch (error) {
      // JSON.stringify gives up on what is nested most deeply, with a RangeError.
      const code = error instanceof RangeError ? -32700 : error instanceof ProtocolError ? error.code : 0;
      const text = UNREAD[code];
      if (text === undefined) throw error;
      return { content: [{ type: "text", text }], isError: true };
    }
  }

  /** End the run so that it can be resumed. */
  async suspend(): Promise<Scope> {
    const params = { run: this.id };
    return (await this.client.request({ method: "memory-sidecar/run/suspend", params }, Ended)).scope;
  }

  async finish(reason: Ending, message?: string): Promise<Scope> {
    const params = { run: this.id, reason, ...(message === undefined ? {} : { message }) };
    return (await this.client.request({ method: "memory-sidecar/run/finish", params }, Ended)).scope;
  }
}

/** A launched sidecar. */
export class MemorySidecar {
  private constructor(
    private readonly client: Client,
    /** The process, for a supervisor. */
    readonly pid: number | null,
  ) {}

  /** Start `command`, which is `memory-sidecar serve` and its options, as a subprocess. */
  static async launch(command: string[], mode: Mode = "pinned"): Promise<MemorySidecar> {
    const token = randomBytes(32).toString("base64url");
    const place = await mkdtemp(join(tmpdir(), "memory-sidecar-"));
    const ticket = join(place, "ticket");
    try {
      await writeFile(ticket, token, { mode: 0o600, flag: "wx" });
      const client = new Client(
        { name: "typescript-harness", version: "1.0.0" },
        {
          capabilities: { extensions: { "memory-sidecar/harness": { ticket: token, default_run: false } } },
          ...(mode === "default" ? {} : { versionNegotiation: NEGOTIATION[mode] }),
        },
      );
      const environment = { ...process.env, MEMORY_SIDECAR_TICKET: ticket } as Record<string, string>;
      const [program = "memory-sidecar", ...args] = command;
      const transport = new StdioClientTransport({ command: program, args, env: environment, maxBufferSize: MAX_ANSWER });
      await client.connect(transport);
      // A client that probes in another process is connected before this one has read its ticket; an answer of its own
      // shows that it has, and tells what keeps it from starting.
      await client.request({ method: "memory-sidecar/run/list" }, Runs);
      return new MemorySidecar(client, transport.pid);
    } finally {
      await rm(place, { recursive: true, force: true });
    }
  }

  /** Open a run, or resume it. */
  async open(run: string, options: OpenOptions = {}): Promise<Run> {
    const request = { method: "memory-sidecar/run/open", params: { run, ...options } };
    return new Run(this.client, await this.client.request(request, Opened));
  }

  /** Close the pipe. The sidecar suspends what is still open, and ends. */
  async close(): Promise<void> {
    await this.client.close();
  }
}
