// Reads and writes headers with npm's `yaml` or `js-yaml`, named by the first argument. The protocol is that of goccy.go.
import { createInterface } from "node:readline";
import * as jsYaml from "js-yaml";
import yaml from "yaml";

const libraries = {
  yaml: { read: (text) => yaml.parse(text), write: (value) => yaml.stringify(value, { lineWidth: 0 }) },
  "js-yaml": { read: (text) => jsYaml.load(text), write: (value) => jsYaml.dump(value, { lineWidth: -1 }) },
};
const { read, write } = libraries[process.argv[2]];

function answer(asked) {
  if (asked.write !== undefined) return { header: write({ description: asked.write }) };
  try {
    const found = read(asked.read);
    return typeof found?.description === "string" ? { text: found.description } : { refused: true };
  } catch {
    return { refused: true };
  }
}

let lines = [];
for await (const line of createInterface({ input: process.stdin, crlfDelay: 0 })) {
  lines.push(JSON.stringify(answer(JSON.parse(line))));
  if (lines.length === 1000) {
    process.stdout.write(lines.join("\n") + "\n");
    lines = [];
  }
}
process.stdout.write(lines.map((line) => line + "\n").join(""));
