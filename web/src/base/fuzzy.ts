/** How well what was typed fits a text: each word somewhere in it, as a whole or letter by letter in this order. */

const START = 40;
const WHOLE = 60;
const INITIALS = 80;

/** Higher is better; 0: some word is not there. Short texts, whole words and their beginnings come first. */
export function fits(typed: string, text: string): number {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const lower = text.toLowerCase();
  let total = 1;
  for (const word of words) {
    const score = fitsWord(word, lower);
    if (!score) return 0;
    total += score;
  }
  return total - Math.min(20, text.length / 10);
}

function fitsWord(word: string, text: string): number {
  const at = text.search(new RegExp(`(?<![a-z0-9])${escaped(word)}`));
  if (at >= 0) return WHOLE + START + (at === 0 ? 10 : 0);
  if (text.includes(word)) return WHOLE;
  let [score, place, initials] = [30, -1, true];
  for (const letter of word) {
    const next = text.indexOf(letter, place + 1);
    if (next < 0) return 0;
    // A letter that begins a word costs nothing, one far from the last costs most.
    const begins = next === 0 || !/[a-z0-9]/.test(text[next - 1] ?? "");
    if (next !== place + 1 && !begins) score -= 4;
    initials &&= begins;
    place = next;
  }
  return initials ? INITIALS : Math.max(0, score);
}

const escaped = (word: string) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
