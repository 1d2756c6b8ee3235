/** One tip for the whole page: what an element with `data-tip` means, on hover and on focus. Always text. */

import { printable } from "./text";

const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "tooltip");
tip.hidden = true;

let of: Element | null = null;

export function showTip(x: number, y: number, text: string): void {
  if (!tip.isConnected) document.body.append(tip);
  tip.textContent = text.split("\n").map(printable).join("\n");
  tip.hidden = !text;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(x + 12, innerWidth - width - 8);
  const above = y + 18 + height > innerHeight - 8;
  tip.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(8, above ? y - height - 10 : y + 18)}px)`;
}

export function hideTip(): void {
  tip.hidden = true;
  of?.removeAttribute("aria-describedby");
  of = null;
}

/** The words for an element: `data-tip`, and `data-tip-cut` only where it is cut off. */
function wordsOf(target: EventTarget | null): [Element, string] | null {
  const found = target instanceof Element ? target.closest("[data-tip],[data-tip-cut]") : null;
  if (!found) return null;
  const always = found.getAttribute("data-tip");
  const head = found.querySelector(".name-head") ?? found;
  const cut = found.getAttribute("data-tip-cut");
  const text = always ?? (cut && head.scrollWidth > head.clientWidth ? cut : "");
  return text ? [found, text] : null;
}

addEventListener("pointermove", (event) => {
  const found = wordsOf(event.target);
  if (found) {
    of = found[0];
    showTip(event.clientX, event.clientY, found[1]);
  } else if (of) hideTip();
});
addEventListener("focusin", (event) => {
  const found = wordsOf(event.target);
  if (!found || !(event.target instanceof Element) || !event.target.matches(":focus-visible")) return;
  of = found[0];
  const box = of.getBoundingClientRect();
  showTip(box.left - 12, box.bottom - 12, found[1]);
  of.setAttribute("aria-describedby", tip.id);
});
addEventListener("focusout", hideTip);
addEventListener("scroll", hideTip, { capture: true, passive: true });
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
