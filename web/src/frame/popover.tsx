/** A pill of the header that opens: what is chosen, and a panel to choose otherwise. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface Props {
  readonly label: string;
  readonly value: ComponentChildren;
  readonly title: string;
  readonly fixed?: boolean;
  readonly right?: boolean;
  readonly set?: boolean;
  readonly class?: string;
  readonly children: (close: () => void) => ComponentChildren;
}

export function Pill({
  label,
  value,
  title,
  fixed = false,
  right = false,
  set = false,
  class: name = "",
  children,
}: Props) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) =>
      event.target instanceof Node && !box.current?.contains(event.target) && setOpen(false);
    addEventListener("pointerdown", outside);
    addEventListener("focusin", outside);
    // What a panel sets is in the address, too: only another view closes it.
    const view = () => location.hash.split("?")[0];
    const before = view();
    const left = () => view() !== before && setOpen(false);
    addEventListener("hashchange", left);
    box.current?.querySelector<HTMLElement>("[autofocus], .panel input, .panel button, .panel a")?.focus();
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("focusin", outside);
      removeEventListener("hashchange", left);
    };
  }, [open]);
  const shown = (
    <>
      <i>{label}</i>
      <span>{value}</span>
    </>
  );
  if (fixed) return <span class={`pill fixed ${name}`}>{shown}</span>;
  return (
    <div
      class={`pill-box ${name}`}
      ref={box}
      onKeyDown={(event) => event.key === "Escape" && open && (event.stopPropagation(), close())}
    >
      <button
        ref={button}
        class={`pill${set ? " set" : ""}`}
        aria-expanded={open}
        aria-haspopup="dialog"
        onClick={() => setOpen(!open)}
      >
        {shown}
      </button>
      {open && (
        <div class={`panel${right ? " right" : ""}`} role="dialog" aria-label={`Choose: ${title.toLowerCase()}`}>
          <h2>{title}</h2>
          {children(close)}
        </div>
      )}
    </div>
  );
}
