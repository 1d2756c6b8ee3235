/** Lines of code as they are; of a diff, what goes out and what comes in are told apart. */

import type { Code } from "../api/blocks";
import { printable } from "../base/text";
import { Frame } from "./frame";

const CHANGES: Readonly<Record<string, string>> = { "-": "out", "+": "in" };

export function CodeBlock({ title, text, note }: Code) {
  return (
    <Frame title={title} note={note} name="code">
      <Lines text={text} />
    </Frame>
  );
}

export function Lines({ text }: { text: string }) {
  return (
    <p class="change">
      {text.split("\n").map((line) => (
        <code class={CHANGES[line[0] ?? ""] ?? ""}>{printable(line)}</code>
      ))}
    </p>
  );
}
