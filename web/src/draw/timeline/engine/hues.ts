/** Colours by name and by module: a number of a text is a colour, which has no meaning of its own. */

export const COLOURINGS = ["kind", "name", "module"] as const;
export type Colouring = (typeof COLOURINGS)[number];

export const colouringOf = (text: string | undefined): Colouring => COLOURINGS.find((each) => each === text) ?? "kind";

const ANGLES = 32;
/** The golden section of a turn: numbers beside one another are far apart. */
const TURN = 360 * 0.618034;
/** Lightness and chroma of OKLCH: each is told from the ground (3:1), in words on it can be read (4.5:1). */
const SHADES = {
  light: [
    [0.615, 0.13],
    [0.48, 0.11],
    [0.62, 0.07],
  ],
  dark: [
    [0.7, 0.13],
    [0.63, 0.09],
    [0.8, 0.09],
  ],
} as const;

/** The colour of a hue of the server's, 1 to 255; 0 is of what has none. */
export function hueColour(
  hue: number,
  theme: { readonly dark: boolean; readonly kinds: Readonly<Record<string, string>> },
): string {
  if (!hue) return theme.kinds["other"] ?? theme.kinds["host"] ?? "#8a94a6";
  const shades = theme.dark ? SHADES.dark : SHADES.light;
  const [light, chroma] = shades[Math.floor(hue / ANGLES) % shades.length] ?? shades[0];
  return oklch(light, chroma, ((hue % ANGLES) * TURN) % 360);
}

/** OKLCH as sRGB (https://bottosson.github.io/posts/oklab); what is beyond it is clipped. */
function oklch(light: number, chroma: number, angle: number): string {
  const a = chroma * Math.cos((angle * Math.PI) / 180);
  const b = chroma * Math.sin((angle * Math.PI) / 180);
  const l = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (light - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const bytes = linear.map((value) => {
    const part = Math.min(1, Math.max(0, value));
    return Math.round(255 * (part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055));
  });
  return `#${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
