import { expect, test } from "vitest";
import type { ListedRun } from "../src/api/answers";
import { byLikeness } from "../src/frame/pickers";

const runs = ["resnet/a100", "mi300/Qwen2", "h100/Qwen2", "h100/owlv2"].map((name) => ({ name }) as ListedRun);

test("runs that are called most alike come first, others stay in order", () => {
  expect(byLikeness(runs, "a100/Qwen2").map((run) => run.name)).toEqual([
    "resnet/a100",
    "mi300/Qwen2",
    "h100/Qwen2",
    "h100/owlv2",
  ]);
  expect(byLikeness(runs, "mi300x/Qwen2/h100").map((run) => run.name)[0]).toBe("h100/Qwen2");
  expect(byLikeness(runs, "").map((run) => run.name)).toEqual(runs.map((run) => run.name));
});
