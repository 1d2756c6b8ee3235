import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** A small panel beneath a button; closes on Escape and outside. */
export function Menu({
  label,
  tip,
  children,
  end = true,
}: {
  label: ComponentChildren;
  tip: string;
  children: ComponentChildren;
  end?: boolean;
}) {
  const box = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const close = (event: Event) => {
      const element = box.current;
      if (element?.open && event.target instanceof Node && !element.contains(event.target)) element.open = false;
    };
    addEventListener("pointerdown", close);
    addEventListener("focusin", close);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("focusin", close);
    };
  }, []);
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !box.current?.open) return;
    box.current.open = false;
    box.current.querySelector("summary")?.focus();
    event.stopPropagation();
  };
  return (
    <details class="menu-box" ref={box} onKeyDown={escape}>
      <summary data-tip={tip}>{label}</summary>
      <div class={`panel${end ? " right" : ""}`}>{children}</div>
    </details>
  );
}
