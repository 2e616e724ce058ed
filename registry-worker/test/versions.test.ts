import { expect, it } from "vitest";
import vectors from "./vectors/versions.json";
import { compare, latest, parse } from "../src/versions";

it("orders versions as PEP 440 does", () => {
  const known = vectors.ordered.map((text) => parse(text));
  for (const [place, version] of known.entries()) {
    expect(version, vectors.ordered[place]).not.toBeNull();
    const next = known[place + 1];
    if (version !== null && next != null) {
      expect(compare(version, next), `${vectors.ordered[place]} < ${vectors.ordered[place + 1]}`).toBeLessThan(0);
      expect(compare(next, version)).toBeGreaterThan(0);
    }
  }
});

it.each(vectors.same)("%s is %s", (one, other) => {
  expect(compare(parse(one)!, parse(other)!)).toBe(0);
});

it.each(vectors.none)("%s is no version", (text) => {
  expect(parse(text)).toBeNull();
});

it("takes the highest released one for the latest, a prerelease only when there is nothing else", () => {
  expect(latest(["v1.9.0", "v1.10.0", "v2.0.0rc1", "nonsense"])).toBe("v1.10.0");
  expect(latest(["v0.1.0a1", "v0.1.0rc1"])).toBe("v0.1.0rc1");
  expect(latest(["nonsense"])).toBeNull();
});
