import { beforeAll, describe, expect, it } from "vitest";
import vectors from "./vectors/terms.json";
import ranking from "./vectors/ranking.json";
import { asked, indexed, skeleton } from "../src/terms";
import { ask, entry, fill } from "./support";

interface Card {
  name: string;
  latest_tag: string;
}

async function names(query: string, page = 1): Promise<string[]> {
  const response = await ask(`/search?${new URLSearchParams({ q: query, page: String(page) })}`);
  expect(response.status).toBe(200);
  return (await response.json<Card[]>()).map(({ name }) => name);
}

describe("words", () => {
  it.each(vectors)("$text", ({ text, indexed: words, asked: query }) => {
    expect(indexed(text)).toBe(words);
    expect(asked(text)).toBe(query);
  });

  it("sees through look-alikes in names", () => {
    expect(new Set(["memory-graph", "memorygraph", "mem0ry-graph", "rnemory-graph"].map(skeleton)).size).toBe(1);
    expect(skeleton("dice")).not.toBe(skeleton("mice"));
  });
});

describe("ranking", () => {
  beforeAll(async () => {
    const stars = Object.fromEntries(ranking.plugins.map(({ name, stars }) => [name, stars]));
    await fill(
      ranking.plugins.map(({ name, display_name, description, author }) =>
        entry(name, {}, { display_name, description, author }),
      ),
      stars,
    );
  });

  it.each(ranking.searches)("$why: $q", async ({ q, found }) => {
    expect(await names(q)).toEqual(found);
  });

  it.each(['"', "*", "a AND", "NEAR(", "name:dice", "x OR 1=1 --", "^", "(((", "\u0000", "%", "{a}", "-dice"])(
    "takes %s for words, not for a query language",
    async (text) => {
      expect(Array.isArray(await names(text))).toBe(true);
    },
  );

  it.each(["0", "-1", "1.5", "x", "1001", "99999999"])("refuses page=%s", async (page) => {
    expect((await ask(`/search?q=&page=${page}`)).status).toBe(400);
  });

  it("refuses a search of a book's length", async () => {
    expect((await ask(`/search?q=${"x".repeat(201)}`)).status).toBe(400);
  });
});

describe("pages", () => {
  beforeAll(async () => {
    const many = Array.from({ length: 120 }, (_, number) => entry(`zebra-${number}`, {}, { description: "stripes" }));
    await fill(many);
    await fill(Array.from({ length: 1600 }, (_, number) => entry(`lot-${number}`, {}, { description: "crowd" })));
  });

  it("are 50 long, hold everything once, and name each other", async () => {
    const seen: string[] = [];
    for (const page of [1, 2, 3]) seen.push(...(await names("stripes", page)));
    expect([seen.length, new Set(seen).size]).toEqual([120, 120]);
    const second = await ask("/search?q=stripes&page=2");
    expect(second.headers.get("X-Total-Count")).toBe("120");
    expect(second.headers.get("Link")).toBe(
      '</search?q=stripes&page=3>; rel="next", </search?q=stripes&page=1>; rel="prev"',
    );
    expect(await names("stripes", 4)).toEqual([]);
  });

  it("of a word that nearly all have are consistent, too: names first, then by stars", async () => {
    await fill([entry("crowd-control"), entry("calm", {}, { description: "crowd" })], { calm: 99 });
    const first = await ask("/search?q=crowd");
    expect(first.headers.get("X-Total-Count")).toBe("1602");
    expect((await names("crowd")).slice(0, 2)).toEqual(["crowd-control", "calm"]);
    const all: string[] = [];
    for (let page = 1; page <= 33; page++) all.push(...(await names("crowd", page)));
    expect([all.length, new Set(all).size]).toEqual([1602, 1602]);
  });
});
