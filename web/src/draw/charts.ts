/** Charts by Vega-Lite, in the colours of the page. */

import type { draw as Draw } from "./vega";
import { KINDS, OWNERS } from "../base/kinds";
import { INK } from "../base/colour";
import { printable } from "../base/text";
import { hideTip, showTip } from "../base/tip";

declare global {
  var KinetoscopeVega: { readonly draw: typeof Draw } | undefined;
}

export type Drawn = Awaited<ReturnType<typeof Draw>>;

let coming: Promise<void> | null = null;

/** Vega, once: a report has it inside. */
async function vega(): Promise<{ draw: typeof Draw }> {
  if (!globalThis.KinetoscopeVega) {
    coming ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = new URL("vega.js", document.baseURI).href;
      script.onload = () => done();
      script.onerror = () => failed(new Error("vega.js could not be loaded"));
      document.head.append(script);
    });
    await coming;
  }
  if (!globalThis.KinetoscopeVega) throw new Error("vega.js could not be loaded");
  return globalThis.KinetoscopeVega;
}

type Spec = Readonly<Record<string, unknown>>;

/** Names at an axis need no title that says they are names; it would stand on them. */
function untitled(spec: Spec): Spec {
  const encoding = spec["encoding"] as Record<string, Spec> | undefined;
  const y = encoding?.["y"];
  return y?.["type"] === "nominal" || y?.["type"] === "ordinal"
    ? { ...spec, encoding: { ...encoding, y: { ...y, title: null } } }
    : spec;
}

export async function chart(
  element: HTMLElement,
  spec: Readonly<Record<string, unknown>>,
  dark: boolean,
): Promise<Drawn> {
  const { draw } = await vega();
  return draw(element, untitled(readable(spec, dark) as Spec), config(dark), (text, event) =>
    text ? showTip(event.clientX, event.clientY, text) : hideTip(),
  );
}

const DARK = new Map([...Object.values(KINDS), ...OWNERS].map(({ light, dark }) => [light, dark]));

/** The same chart with names made safe, and on a dark page with the colours that kinds have there. */
function readable(thing: unknown, dark: boolean): unknown {
  if (typeof thing === "string") return (dark && DARK.get(thing.toLowerCase())) || printable(thing);
  if (Array.isArray(thing)) return thing.map((each) => readable(each, dark));
  if (thing === null || typeof thing !== "object") return thing;
  return Object.fromEntries(
    Object.entries(thing).map(([key, value]) => [key, key === "link" ? value : readable(value, dark)]),
  );
}

function config(dark: boolean): object {
  const ink = INK[dark ? "dark" : "light"];
  const font = "system-ui, sans-serif";
  return {
    background: null,
    font,
    view: { stroke: null },
    axis: {
      labelColor: ink.soft,
      titleColor: ink.soft,
      labelFontSize: 12,
      titleFontSize: 12,
      titleFontWeight: 400,
      gridColor: ink.line,
      domainColor: ink.line,
      tickColor: ink.line,
      labelPadding: 6,
      titlePadding: 8,
    },
    axisX: { grid: false, labelFlush: false },
    axisY: { domain: false, ticks: false },
    legend: {
      labelColor: ink.ink,
      titleColor: ink.soft,
      labelFontSize: 12,
      titleFontSize: 12,
      titleFontWeight: 400,
      orient: "top",
      symbolType: "square",
      symbolSize: 90,
    },
    header: { labelColor: ink.ink, titleColor: ink.soft, labelFontSize: 12, titleFontSize: 12 },
    title: { color: ink.soft, fontSize: 12, fontWeight: 400, anchor: "start" },
    text: { color: ink.ink },
    locale: { number: { decimal: ".", thousands: ",", grouping: [3], currency: ["", ""] } },
    rule: { color: ink.soft },
  };
}
