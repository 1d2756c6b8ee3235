/** Pictures of ours: drawn as SVG to the width there is, saved as SVG or PNG. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { INK } from "../base/colour";
import { download } from "../base/download";
import { isDark } from "../base/theme";
import { Menu } from "../frame/menu";

/** The width of an element, as it changes. */
export function useWidth<E extends Element>(): [(element: E | null) => void, number] {
  const [width, set] = useState(0);
  const watch = useRef<ResizeObserver | null>(null);
  const at = useRef<E | null>(null);
  const ref = useRef((element: E | null) => {
    if (element === at.current) return;
    at.current = element;
    watch.current?.disconnect();
    if (!element) return;
    set(Math.floor(element.getBoundingClientRect().width));
    watch.current = new ResizeObserver(([entry]) => entry && set(Math.floor(entry.contentRect.width)));
    watch.current.observe(element);
  });
  useLayoutEffect(() => () => watch.current?.disconnect(), []);
  return [ref.current, width];
}

interface SvgProps {
  readonly height: number;
  readonly label: string;
  readonly draw: (width: number) => ComponentChildren;
  readonly svg?: { current: SVGSVGElement | null };
}

export function Svg({ height, label, draw, svg }: SvgProps) {
  const [ref, width] = useWidth<HTMLDivElement>();
  return (
    <div ref={ref} class="picture" style={{ height: `${height}px` }}>
      {width > 0 && (
        <svg
          ref={(element) => void (svg && (svg.current = element))}
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="group"
          aria-label={label}
        >
          {draw(width)}
        </svg>
      )}
    </div>
  );
}

export interface Key {
  readonly colour: string;
  readonly label: string;
}

/** Save as: for a picture that can give itself as SVG, as a canvas, or both. */
export function SaveMenu({
  name,
  svg,
  png,
}: {
  name: string;
  svg?: (() => Promise<string>) | undefined;
  png: () => Promise<Blob | null>;
}) {
  const file =
    name
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .replace(/^-|-$/g, "") || "chart";
  return (
    <Menu label="Save" tip="Save the picture">
      <ul class="choices">
        <li>
          <button onClick={() => void png().then((blob) => blob && download(blob, `${file}.png`))}>PNG</button>
        </li>
        {svg && (
          <li>
            <button
              onClick={() =>
                void svg().then((text) => download(new Blob([text], { type: "image/svg+xml" }), `${file}.svg`))
              }
            >
              SVG
            </button>
          </li>
        )}
      </ul>
    </Menu>
  );
}

export function SaveSvg({
  name,
  svg,
  keys = [],
}: {
  name: string;
  svg: { current: SVGSVGElement | null };
  keys?: readonly Key[];
}) {
  const text = () => standalone(svg.current, name, keys);
  return <SaveMenu name={name} svg={async () => text()} png={() => rendered(text())} />;
}

const MARGIN = 16;
const NS = "http://www.w3.org/2000/svg";

/** The picture with its title and key, that needs no style sheet. */
function standalone(svg: SVGSVGElement | null, title: string, keys: readonly Key[]): string {
  const ink = INK[isDark() ? "dark" : "light"];
  const [width, height] = [svg?.width.baseVal.value ?? 0, svg?.height.baseVal.value ?? 0];
  const whole = document.createElementNS(NS, "svg");
  const top = MARGIN + 24;
  const add = (name: string, facts: Record<string, string | number>, text = "") => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(facts)) element.setAttribute(key, String(value));
    element.textContent = text;
    whole.append(element);
    return element;
  };
  add("rect", { width: "100%", height: "100%", fill: ink.bg });
  add("text", { x: MARGIN, y: MARGIN + 12, fill: ink.ink, "font-size": 14, "font-weight": 600 }, title);
  if (svg) {
    const copy = svg.cloneNode(true) as SVGSVGElement;
    copy.setAttribute("x", String(MARGIN));
    copy.setAttribute("y", String(top));
    whole.append(copy);
  }
  let x = MARGIN;
  let y = top + height + 24;
  for (const { colour, label } of keys) {
    const wide = 24 + label.length * 7;
    if (x + wide > width + MARGIN && x > MARGIN) [x, y] = [MARGIN, y + 20];
    add("rect", { x, y: y - 9, width: 10, height: 10, rx: 2, fill: colour });
    add("text", { x: x + 16, y, fill: ink.ink, "font-size": 12 }, label);
    x += wide + 8;
  }
  const tall = keys.length ? y + MARGIN : top + height + MARGIN;
  whole.setAttribute("xmlns", NS);
  whole.setAttribute("width", String(width + 2 * MARGIN));
  whole.setAttribute("height", String(tall));
  whole.setAttribute("font-family", "system-ui, sans-serif");
  return new XMLSerializer().serializeToString(whole);
}

async function rendered(svg: string): Promise<Blob | null> {
  const image = new Image();
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth * 2;
    canvas.height = image.naturalHeight * 2;
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done));
  } finally {
    URL.revokeObjectURL(address);
  }
}
