import { expect, test } from "vitest";
import { svgOf } from "../src/blocks/pen";

test("what is drawn is written, with names as text", () => {
  const svg = svgOf(
    (pen, width) => {
      pen.fillStyle = "#0072b2";
      pen.fillRect(1, 2, width - 1, 3);
      pen.save();
      pen.beginPath();
      pen.rect(0, 0, 10, 10);
      pen.clip();
      pen.textAlign = "center";
      pen.globalAlpha = 0.5;
      pen.fillText("<script>&\"'", 4, 5);
      pen.restore();
      pen.strokeRect(0, 0, 1, 1);
    },
    100,
    50,
    "#fff",
  );
  expect(svg).toContain('<rect x="1" y="2" width="99" height="3" fill="#0072b2"/>');
  expect(svg).toContain("&#60;script&#62;&#38;&#34;&#39;</text></g>");
  expect(svg).toContain('text-anchor="middle"');
  expect(svg).not.toContain("<script>");
  expect(svg.match(/<g /g)?.length).toBe(svg.match(/<\/g>/g)?.length);
});

test("circles and lines become paths", () => {
  const svg = svgOf(
    (pen) => {
      pen.fillStyle = "#123456";
      pen.globalAlpha = 0.5;
      pen.beginPath();
      pen.arc(10, 20, 5, 0, 2 * Math.PI);
      pen.fill();
      pen.beginPath();
      pen.moveTo(0, 0);
      pen.lineTo(3, 4);
      pen.stroke();
    },
    100,
    50,
    "#fff",
  );
  expect(svg).toContain('<path d="M5 20a5 5 0 0 1 10 0a5 5 0 0 1 -10 0" fill="#123456" opacity="0.5"/>');
  expect(svg).toContain('<path d="M0 0L3 4" fill="none"');
});
