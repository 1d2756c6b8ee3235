import type { Note } from "../api/blocks";
import { words } from "../base/text";
import { Frame, To } from "./frame";

export function NoteBlock({ title, text, link, alert }: Note) {
  return (
    <Frame title={title} name={alert ? "note alert" : "note"}>
      {text.split("\n").map((line) => (
        <p class="words" key={line}>
          {words(line)} {link && line === text.split("\n").at(-1) && <To link={link} />}
        </p>
      ))}
    </Frame>
  );
}
