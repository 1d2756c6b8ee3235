/** The column beside the picture: what is listed there stays while events are selected. */

import type { ComponentChildren } from "preact";

interface Props {
  readonly title: string;
  readonly close: () => void;
  readonly children: ComponentChildren;
}

export function Side({ title, close, children }: Props) {
  return (
    <aside class="tl-side" aria-label={title}>
      <div class="tl-side-head">
        <h2>{title}</h2>
        <button class="tl-close" aria-label={`Close: ${title}`} onClick={close}>
          ×
        </button>
      </div>
      {children}
    </aside>
  );
}
