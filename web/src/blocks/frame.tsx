/** What blocks have in common: a heading, tools at its right, a note beneath; and links. */

import type { ComponentChildren } from "preact";
import type { Link } from "../api/blocks";
import { printable, words } from "../base/text";
import { useProps } from "../base/props";
import { addressOf } from "../frame/follow";

interface Props {
  readonly title: string;
  readonly note?: string;
  readonly name: string;
  readonly tools?: ComponentChildren;
  readonly children: ComponentChildren;
}

export function Frame({ title, note = "", name, tools, children }: Props) {
  return (
    <section class={`block block-${name}`}>
      {(title || tools) && (
        <div class="block-head">
          {title && <h2>{words(title)}</h2>}
          {tools && <div class="tools">{tools}</div>}
        </div>
      )}
      {children}
      {note && <p class="note">{words(note)}</p>}
    </section>
  );
}

/** A link in words. */
export function To({ link, children }: { link: Partial<Link>; children?: ComponentChildren }) {
  const { follow } = useProps();
  const click = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    follow(link);
  };
  return (
    <a href={addressOf(link)} onClick={click}>
      {children ?? printable(link.text ?? "")}
    </a>
  );
}

/** What makes a mark of a picture a link, if it has one: click, Enter, and its words. */
export function useLink(): (link: Partial<Link> | null | undefined, label: string, name?: string) => object {
  const { follow } = useProps();
  return (link, label, name = "mark") =>
    link
      ? {
          role: "button",
          tabIndex: 0,
          "aria-label": label,
          class: `${name} leads`,
          onClick: () => follow(link),
          onKeyDown: (event: KeyboardEvent) => event.key === "Enter" && follow(link),
        }
      : { class: name };
}
