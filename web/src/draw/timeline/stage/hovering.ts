/** What a mark is, beside the pointer: an element of its own, so that moving the pointer draws nothing else anew. */

import { shown } from "../../../base/numbers";
import { printable } from "../../../base/text";
import { kindWords } from "./theme";
import { level } from "../engine/titles";
import type { Mark } from "../engine/types";

const KEPT = 1000;
const PAUSE = 70;

export class Hovering {
  readonly element = document.createElement("div");
  private readonly name = document.createElement("b");
  private readonly facts = document.createElement("span");
  /** Several ranks are drawn: it says which one a mark is of. */
  several = false;
  private readonly names = new Map<string, string>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private now = "";

  constructor(
    private readonly within: HTMLElement,
    private readonly ask: (rank: number, row: number) => Promise<string>,
  ) {
    this.element.className = "tl-tip";
    this.element.hidden = true;
    this.element.setAttribute("aria-hidden", "true");
    this.element.append(this.name, this.facts);
    within.append(this.element);
  }

  show(mark: Mark | null, x: number, y: number): void {
    if (!mark) {
      clearTimeout(this.timer);
      this.now = "";
      this.element.hidden = true;
      return;
    }
    const key = `${mark.rank}/${mark.row}`;
    const fresh = `${key} ${mark.count} ${mark.end}`;
    if (this.now !== fresh) {
      this.now = fresh;
      clearTimeout(this.timer);
      const name = mark.name || (mark.row < 0 ? kindWords(mark.kind) : (this.names.get(key) ?? ""));
      this.write(mark, name);
      if (!name) this.timer = setTimeout(() => void this.fetch(mark, key, fresh), PAUSE);
    }
    this.place(x, y);
  }

  private place(x: number, y: number): void {
    this.element.hidden = false;
    const wide = this.element.offsetWidth;
    const room = this.within.clientWidth;
    const left = x + 14 + wide > room ? Math.max(4, x - wide - 14) : x + 14;
    const below = y + 20 + this.element.offsetHeight < this.within.clientHeight + 60;
    this.element.style.transform = `translate(${left}px, ${below ? y + 18 : y - this.element.offsetHeight - 10}px)`;
  }

  /** Words that are at hand, beside the pointer. */
  words(name: string, facts: string, x: number, y: number): void {
    this.now = `${name} ${facts}`;
    clearTimeout(this.timer);
    this.name.textContent = name;
    this.facts.textContent = facts;
    this.place(x, y);
  }

  private write(mark: Mark, name: string): void {
    const words = [
      mark.cut ? `more than ${shown(mark.end - mark.start, "ns")}` : shown(mark.end - mark.start, "ns"),
      kindWords(mark.kind),
    ];
    if (mark.level) {
      const { mean, max, unit } = mark.level;
      this.name.textContent = printable(mark.name);
      this.facts.textContent =
        mean < max ? `${level(mean, unit)} on average, up to ${level(max, unit)}` : level(mean, unit);
      return;
    }
    if (mark.count > 1) {
      this.name.textContent = `${mark.count} marks too narrow to tell apart here`;
      words.unshift(name ? `longest: ${printable(name)}` : "…");
    } else this.name.textContent = printable(name) || "…";
    if (this.several) words.unshift(`rank ${mark.rank}`);
    this.facts.textContent = words.join(" · ");
  }

  /** The name of a mark, asked for if no tile has said it. */
  async called(mark: Mark): Promise<string> {
    const key = `${mark.rank}/${mark.row}`;
    return mark.name || this.names.get(key) || (await this.named(mark, key));
  }

  private async named(mark: Mark, key: string): Promise<string> {
    let name = "";
    try {
      name = await this.ask(mark.rank, mark.row);
    } catch {
      name = "(its name is not at hand)";
    }
    if (this.names.size > KEPT) this.names.clear();
    this.names.set(key, name);
    return name;
  }

  private async fetch(mark: Mark, key: string, fresh: string): Promise<void> {
    const name = await this.named(mark, key);
    if (this.now === fresh) this.write(mark, name);
  }

  close(): void {
    clearTimeout(this.timer);
    this.element.remove();
  }
}
