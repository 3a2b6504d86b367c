// The official client of JavaScript as another writer of the bucket: a line of JSON in, a line of JSON out.
import { createInterface } from "node:readline";
import { connect } from "@nats-io/transport-node";
import { Kvm } from "@nats-io/kv";

const [servers, bucket] = process.argv.slice(2);
const connection = await connect({ servers });
const kv = await new Kvm(connection).open(bucket);

const calls = {
  put: async ({ key, text }) => ({ revision: await kv.put(key, text) }),
  create: async ({ key, text }) => {
    try {
      return { revision: await kv.create(key, text) };
    } catch (error) {
      return { refused: String(error) };
    }
  },
  delete: async ({ key }) => (await kv.delete(key), {}),
  purge: async ({ key }) => (await kv.purge(key), {}),
  get: async ({ key }) => {
    const entry = await kv.get(key);
    return { text: entry && entry.operation === "PUT" ? entry.string() : null };
  },
  keys: async () => {
    const names = [];
    for await (const name of await kv.keys()) names.push(name);
    return { names };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { call, ...given } = JSON.parse(line);
  console.log(JSON.stringify(await calls[call](given)));
}
await connection.close();
