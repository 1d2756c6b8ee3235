/** Texts that are cut to the room they have. */

/** Widths of texts in one font, measured once a character. */
export class Measure {
  private readonly wide = new Map<string, number>();

  constructor(private readonly ask: (text: string) => number) {}

  private of(letter: string): number {
    let wide = this.wide.get(letter);
    if (wide === undefined) {
      if (this.wide.size > 4000) this.wide.clear();
      wide = this.ask(letter);
      this.wide.set(letter, wide);
    }
    return wide;
  }

  /** The text if it fits in `room` pixels, else as much of it as fits with an ellipsis, else "". */
  fit(text: string, room: number): string {
    const dots = this.of("…");
    let used = 0;
    let keep = 0;
    let at = 0;
    for (const letter of text) {
      used += this.of(letter);
      at += letter.length;
      if (used > room) return keep > 1 ? `${text.slice(0, keep).trimEnd()}…` : "";
      if (used + dots <= room) keep = at;
    }
    return text;
  }

  width(text: string): number {
    let used = 0;
    for (const letter of text) used += this.of(letter);
    return used;
  }
}
