/** What pictures are drawn with: a canvas on the page, or a text that becomes an SVG file. */

export type Pen = Pick<
  CanvasRenderingContext2D,
  | "fillStyle"
  | "strokeStyle"
  | "lineWidth"
  | "globalAlpha"
  | "font"
  | "textAlign"
  | "fillRect"
  | "strokeRect"
  | "fillText"
  | "save"
  | "restore"
  | "beginPath"
  | "rect"
  | "clip"
  | "moveTo"
  | "lineTo"
  | "arc"
  | "fill"
  | "stroke"
>;

const ANCHOR: Record<string, string> = { center: "middle", right: "end", end: "end" };

/** The picture as an SVG file, on the colour of the page. */
export function svgOf(draw: (pen: Pen, width: number) => void, width: number, height: number, background: string) {
  const pen = new Written();
  draw(pen, width);
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<rect width="100%" height="100%" fill="${escaped(background)}"/>${pen.parts.join("")}${"</g>".repeat(pen.open)}</svg>`
  );
}

class Written implements Pen {
  fillStyle: Pen["fillStyle"] = "#000";
  strokeStyle: Pen["strokeStyle"] = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "12px sans-serif";
  textAlign: CanvasTextAlign = "start";
  readonly parts: string[] = [];
  open = 0;
  private readonly opened: number[] = [];
  private area: readonly number[] = [];
  private path = "";

  fillRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect ${box(x, y, width, height)} fill="${escaped(String(this.fillStyle))}"${this.alpha()}/>`);
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    const stroke = `stroke="${escaped(String(this.strokeStyle))}" stroke-width="${this.lineWidth}"`;
    this.parts.push(`<rect ${box(x, y, width, height)} fill="none" ${stroke}${this.alpha()}/>`);
  }

  /** The middle of the text is at y, as on our canvases. */
  fillText(text: string, x: number, y: number): void {
    const size = /(\d+(?:\.\d+)?)px/.exec(this.font)?.[1] ?? "12";
    const anchor = ANCHOR[this.textAlign];
    this.parts.push(
      `<text x="${short(x)}" y="${short(y)}" dy="0.35em" font-size="${size}" font-family="system-ui, sans-serif"` +
        `${anchor ? ` text-anchor="${anchor}"` : ""} fill="${escaped(String(this.fillStyle))}"${this.alpha()}>` +
        `${escaped(text)}</text>`,
    );
  }

  save(): void {
    this.opened.push(this.open);
  }

  restore(): void {
    const before = this.opened.pop() ?? 0;
    for (; this.open > before; this.open--) this.parts.push("</g>");
  }

  beginPath(): void {
    this.area = [];
    this.path = "";
  }

  moveTo(x: number, y: number): void {
    this.path += `M${short(x)} ${short(y)}`;
  }

  lineTo(x: number, y: number): void {
    this.path += `L${short(x)} ${short(y)}`;
  }

  /** Whole circles only: none of our pictures has another arc. */
  arc(x: number, y: number, radius: number): void {
    const half = `a${short(radius)} ${short(radius)} 0 0 1`;
    this.path += `M${short(x - radius)} ${short(y)}${half} ${short(2 * radius)} 0${half} ${short(-2 * radius)} 0`;
  }

  fill(): void {
    this.parts.push(`<path d="${this.path}" fill="${escaped(String(this.fillStyle))}"${this.alpha()}/>`);
  }

  stroke(): void {
    const stroke = `stroke="${escaped(String(this.strokeStyle))}" stroke-width="${this.lineWidth}"`;
    this.parts.push(`<path d="${this.path}" fill="none" ${stroke}${this.alpha()}/>`);
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.area = [x, y, width, height];
  }

  clip(): void {
    const [x = 0, y = 0, width = 0, height = 0] = this.area;
    const id = `clip${this.parts.length}`;
    this.parts.push(`<clipPath id="${id}"><rect ${box(x, y, width, height)}/></clipPath><g clip-path="url(#${id})">`);
    this.open++;
  }

  private alpha(): string {
    return this.globalAlpha < 1 ? ` opacity="${this.globalAlpha}"` : "";
  }
}

const short = (value: number): string => String(Math.round(value * 100) / 100);

const box = (x: number, y: number, width: number, height: number): string =>
  `x="${short(x)}" y="${short(y)}" width="${short(Math.max(0, width))}" height="${short(Math.max(0, height))}"`;

const escaped = (text: string): string => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
