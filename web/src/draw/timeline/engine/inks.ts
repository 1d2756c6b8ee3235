/** The colours of marks: of a kind, lighter with depth on the host, lighter where a mark is not filled. */

import { hueColour } from "./hues";
import type { Theme } from "./types";

type Rgb = [number, number, number];

export function rgb(colour: string): Rgb {
  const hex = /^#([0-9a-f]{3,8})$/i.exec(colour.trim())?.[1];
  if (hex) {
    const full = hex.length < 6 ? [...hex].map((digit) => digit + digit).join("") : hex;
    return [0, 2, 4].map((at) => parseInt(full.slice(at, at + 2), 16)) as Rgb;
  }
  const parts = colour.match(/[\d.]+/g)?.map(Number) ?? [];
  return [parts[0] ?? 128, parts[1] ?? 128, parts[2] ?? 128];
}

/** `share` of `one`, the rest of `other`. */
export function mix(one: string, other: string, share: number): string {
  const a = rgb(one);
  const b = rgb(other);
  const [red, green, blue] = a.map((value, at) => Math.round(value * share + (b[at] ?? 0) * (1 - share))) as Rgb;
  return `rgb(${red},${green},${blue})`;
}

/** Relative luminance, 0 to 1. */
export function luminance(colour: string): number {
  const [red, green, blue] = rgb(colour).map((value) => {
    const part = value / 255;
    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** White or near black, whichever reads better on `colour`. */
export function inkOn(colour: string): string {
  const light = luminance(colour);
  return 1.05 / (light + 0.05) > (light + 0.05) / (luminance("#14171a") + 0.05) ? "#ffffff" : "#14171a";
}

export const LEVELS = 5;
const SHADES = [1, 0.82, 0.68, 0.56, 0.46, 0.4];

export class Inks {
  readonly css: string[] = [];
  readonly text: string[] = [];
  private readonly places = new Map<string, number>();

  constructor(private readonly theme: Theme) {}

  /** Place of the lightest of `LEVELS` colours of a kind at a depth; the fullest is `LEVELS − 1` places further. */
  of(kind: string, depth: number): number {
    const host = kind === "host" || kind === "python";
    const shade = host ? Math.min(depth, SHADES.length - 1) : 0;
    const key = `${kind} ${shade}`;
    const known = this.places.get(key);
    if (known !== undefined) return known;
    const { kinds, ground } = this.theme;
    const pure = mix(
      kinds[kind] ?? kinds[host ? "host" : "other"] ?? kinds.host ?? "#8a94a6",
      ground,
      SHADES[shade] ?? 1,
    );
    return this.added(key, pure);
  }

  /** The same of a hue: a name's or a module's. */
  hue(hue: number): number {
    const key = `hue ${hue}`;
    return this.places.get(key) ?? this.added(key, hueColour(hue, this.theme));
  }

  private added(key: string, pure: string): number {
    const place = this.css.length;
    const { ground } = this.theme;
    for (let level = 1; level <= LEVELS; level++) {
      const colour = mix(pure, ground, 0.16 + (0.84 * level) / LEVELS);
      this.css.push(colour);
      this.text.push(inkOn(colour));
    }
    this.places.set(key, place);
    return place;
  }
}

/** Rectangles by colour, so that a frame sets each colour once. */
export class Rects {
  private readonly bins: Float32Array[] = [];
  private readonly used: number[] = [];
  count = 0;

  add(ink: number, x: number, y: number, width: number, height: number): void {
    let at = this.used[ink] ?? 0;
    let bin = this.bins[ink];
    if (!bin || at + 4 > bin.length) {
      const more = new Float32Array(Math.max(256, (bin?.length ?? 0) * 2));
      if (bin) more.set(bin);
      this.bins[ink] = bin = more;
    }
    bin[at++] = x;
    bin[at++] = y;
    bin[at++] = width;
    bin[at++] = height;
    this.used[ink] = at;
    this.count++;
  }

  draw(on: Brush, css: readonly string[]): void {
    for (let ink = 0; ink < this.used.length; ink++) {
      const bin = this.bins[ink];
      const used = this.used[ink] ?? 0;
      if (!bin || !used) continue;
      on.fillStyle = css[ink] ?? "#888888";
      for (let at = 0; at < used; at += 4)
        on.fillRect(bin[at] ?? 0, bin[at + 1] ?? 0, bin[at + 2] ?? 0, bin[at + 3] ?? 0);
      this.used[ink] = 0;
    }
    this.count = 0;
  }
}

/** A picture that is not on the page: in a worker, or on a page that knows no other way. */
export function sheet(width: number, height: number): OffscreenCanvas | HTMLCanvasElement {
  if (typeof OffscreenCanvas !== "undefined") return new OffscreenCanvas(width, height);
  return Object.assign(document.createElement("canvas"), { width, height });
}

export function pngOf(picture: OffscreenCanvas | HTMLCanvasElement): Promise<Blob | null> {
  if ("convertToBlob" in picture) return picture.convertToBlob({ type: "image/png" });
  return new Promise((done) => picture.toBlob(done, "image/png"));
}

export type Brush = OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D;
