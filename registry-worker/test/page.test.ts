import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { beforeAll, describe, expect, it } from "vitest";
import { markdown } from "../src/markdown";
import worker from "../src/index";
import { ask, entry, env, fill, version } from "./support";

const EVIL = `<img src=x onerror=alert(1)>"'&`;

beforeAll(async () => {
  const more = { readme_md: `# ${EVIL}\n\n[x](javascript:alert(1)) <script>1</script>`, versions: [version("v1.0.0", { changelog: EVIL, yanked: EVIL })] };
  await fill([entry("evil", more, { display_name: EVIL, description: `${EVIL} \u202eabc \u001b[31mred\u001b]0;title\u0007`, author: EVIL })], { evil: 1500 });
  await fill(Array.from({ length: 60 }, (_, number) => entry(`lots-${number}`)));
});

describe("the pages", () => {
  it.each(["/", "/?q=evil", "/plugins/evil", "/plugins/nothing"])("%s has a policy that lets nothing in from elsewhere", async (path) => {
    const response = await ask(path);
    expect(response.headers.get("Content-Type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("X-Content-Type-Options")).toBe("nosniff");
    expect(response.headers.get("Referrer-Policy")).toBe("no-referrer");
    const policy = response.headers.get("Content-Security-Policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toMatch(/unsafe|https?:/);
    const body = await response.text();
    expect(body).not.toMatch(/<script|<img|<[^>]+\ssrc=|@import|url\(/);
    expect(body.match(/<style>/g)?.length).toBe(1);
    const style = /<style>([^]*)<\/style>/.exec(body)?.[1] ?? "";
    const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
    expect(policy).toContain(btoa(String.fromCharCode(...new Uint8Array(hash))));
  });

  it("show what strangers wrote as text", async () => {
    for (const path of ["/?q=evil", "/plugins/evil"]) {
      const body = await (await ask(path)).text();
      expect(body).toContain("&lt;img src=x onerror=alert(1)&gt;");
      expect(body).not.toContain("<img");
      expect(body).not.toMatch(/[\u202e\u001b]|\[31m|0;title/);
      expect(body).not.toContain("javascript:");
    }
    expect((await ask("/plugins/nothing")).status).toBe(404);
  });

  it("repeat a search in its field, escaped", async () => {
    const body = await (await ask(`/?q=${encodeURIComponent('"><b>')}`)).text();
    expect(body).toContain('value="&quot;&gt;&lt;b&gt;"');
  });

  it("lead from page to page", async () => {
    expect(await (await ask("/")).text()).toContain('<a rel="next" href="/?page=2">');
    expect(await (await ask("/?q=lots&page=2")).text()).toContain('<a rel="prev" href="/?q=lots&amp;page=1">');
  });
});

describe("markdown", () => {
  it.each([
    ["# A\n\ntext", "<h2>A</h2>\n<p>text</p>"],
    ["a **b** *c* `d<` [e](https://x.org)", '<p>a <strong>b</strong> <em>c</em> <code>d&lt;</code> <a href="https://x.org" rel="nofollow noopener ugc">e</a></p>'],
    ["```py\n<a>\n```", "<pre><code>&lt;a&gt;</code></pre>"],
    ["- a\n- b", "<ul><li>a</li><li>b</li></ul>"],
    ["1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"],
    ["> q", "<blockquote><p>q</p></blockquote>"],
    ["![i](https://x.org/i.png)", '<p><a href="https://x.org/i.png" rel="nofollow noopener ugc">i</a></p>'],
    ["[x](javascript:alert(1))", "<p>x)</p>"],
    ['[x](https://x.org/"onmouseover=1)', '<p><a href="https://x.org/&quot;onmouseover=1" rel="nofollow noopener ugc">x</a></p>'],
    ["see [guide](docs/guide.md)", "<p>see guide</p>"],
  ])("%j", (source, expected) => {
    expect(markdown(source).text).toBe(expected);
  });

  it.each([
    ["# C#", "<h2>C#</h2>"],
    ["#  A b ##  ", "<h2>A b</h2>"],
    ["## #", "<h3></h3>"],
    ["- - -", "<hr>"],
    ["a\u2028# b", "<p>a</p>\n<h2>b</h2>"],
    ["``a`b`` `c [d](e` f", "<p><code>a`b</code> <code>c [d](e</code> f</p>"],
    ["`a ``b", "<p>`a ``b</p>"],
    ["`a **b` **c**", "<p><code>a **b</code> <strong>c</strong></p>"],
    ['[a](<https://x.org> "t") [b](u "t', '<p><a href="https://x.org" rel="nofollow noopener ugc">a</a> [b](u &quot;t</p>'],
    ["| a | b |\n|---|---|\n| 1 | 2 |", '<div class="wide"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>'],
  ])("%j", (source, expected) => {
    expect(markdown(source).text).toBe(expected);
  });

  it("keeps every letter of a line however long, and halves no character", () => {
    const shown = markdown("\u{1f3b2}x".repeat(9000)).text.replace(/<\/?p>|\n/g, "");
    expect(shown).toBe("\u{1f3b2}x".repeat(9000));
  });

  const END = "a\u2028b";
  it.each<[string, (length: number) => string]>([
    ["a heading of spaces", (length) => `# ${" ".repeat(length)}${END}`],
    ["headings of spaces", (length) => `# ${" ".repeat(2000)}${END}\n`.repeat(length / 2000)],
    ["a heading of hashes", (length) => `# ${"# ".repeat(length / 2)}${END}`],
    ["an item of spaces", (length) => `- ${" ".repeat(length)}${END}`],
    ["a rule that is none", (length) => `${"- ".repeat(length / 2)}${END}`],
    ["a row of spaces", (length) => `|${" ".repeat(length)}${END}`],
    ["pipes", (length) => "|".repeat(length)],
    ["pipes and spaces", (length) => `| ${"|  ".repeat(length / 3)}a`],
    ["quoted spaces", (length) => `> ${" ".repeat(length)}${END}`],
    ["deep quotes", (length) => "> ".repeat(length / 2)],
    ["deep lists", (length) => Array.from({ length: Math.sqrt(length) }, (_, depth) => `${"  ".repeat(depth)}- x`).join("\n")],
    ["a list of empty lines", (length) => `- a${"\n  ".repeat(length / 3)}`],
    ["unfinished links", (length) => "[x](a".repeat(length / 5)],
    ["unfinished links in lines", (length) => `${"[x](a".repeat(800)}\n`.repeat(length / 4000)],
    ["unfinished titles", (length) => '[x](a "'.repeat(length / 7)],
    ["links to spaces", (length) => `[x](${" ".repeat(30)}`.repeat(length / 34)],
    ["open brackets", (length) => "[".repeat(length)],
    ["a long label", (length) => `[${"a".repeat(length)}`],
    ["a long target", (length) => `[x](${"a".repeat(length)}`],
    ["open stars", (length) => "*".repeat(length)],
    ["stars", (length) => "*a\n".repeat(length / 3)],
    ["open strokes", (length) => "__a\n".repeat(length / 4)],
    ["ticks", (length) => "`".repeat(length)],
    ["open ticks", (length) => "`a``".repeat(length / 4)],
    ["ticks of every length", (length) => Array.from({ length: Math.sqrt(2 * length) }, (_, run) => "`".repeat(run)).join("a")],
    ["open fences", (length) => "```\n~~~\n".repeat(length / 8)],
    ["beginnings of addresses", (length) => "https://".repeat(length / 8)],
    ["spaces", (length) => " ".repeat(length)],
    // Another program may take the processor in the wrong moment; what is quadratic is so every time.
  ])("takes time in proportion to the length of %s", { retry: 8 }, (_, made) => {
    const taking = (length: number): number => {
      const source = made(length);
      const times = Array.from({ length: 5 }, () => {
        const from = performance.now();
        markdown(source);
        return performance.now() - from;
      });
      return Math.min(...times);
    };
    taking(50_000);
    // What takes twice as long is linear; quadratic is four times. Below some milliseconds the clock tells nothing.
    const [half, whole] = [taking(48_000), taking(96_000)];
    expect(whole, `${half} ms, then ${whole} ms`).toBeLessThan(3 * half + 20);
  });
});

it("the edge's cache answers while the database is away, and keys by what changes the answer", async () => {
  const asked = async (path: string, db: D1Database): Promise<Response> => {
    const context = createExecutionContext();
    const request = new Request(`http://cached.test${path}`) as Request<unknown, IncomingRequestCfProperties>;
    const response = await worker.fetch(request, { ...env, CACHE_SECONDS: "60", DB: db }, context);
    await waitOnExecutionContext(context);
    return response;
  };
  const away = { batch: () => Promise.reject(new Error("D1_ERROR: away")), prepare: env.DB.prepare.bind(env.DB) };
  const first = await asked("/search?q=evil", env.DB);
  const second = await asked("/search?page=1&q=+evil&utm_source=x", away as unknown as D1Database);
  expect([second.status, await second.text()]).toEqual([200, await first.text()]);
  const other = await asked("/search?q=lots", away as unknown as D1Database);
  expect([other.status, other.headers.get("Content-Type")]).toEqual([500, "application/problem+json"]);
  expect(await other.text()).not.toContain("D1_ERROR");
});
