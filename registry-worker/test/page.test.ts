import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { beforeAll, describe, expect, it } from "vitest";
import { markdown } from "../src/markdown";
import worker from "../src/index";
import { ask, entry, env, fill, version } from "./support";

const EVIL = `<img src=x onerror=alert(1)>"'&`;

beforeAll(async () => {
  const more = { readme_md: `# ${EVIL}\n\n[x](javascript:alert(1)) <script>1</script>`, versions: [version("v1.0.0", { changelog: EVIL, yanked: EVIL })] };
  await fill([entry("evil", more, { display_name: EVIL, description: `${EVIL} \u202eabc`, author: EVIL })], { evil: 1500 });
  await fill(Array.from({ length: 60 }, (_, number) => entry(`lots-${number}`)));
});

describe("the pages", () => {
  it.each(["/", "/?q=evil", "/plugins/evil", "/plugins/nothing"])("%s has a policy that lets nothing in from elsewhere", async (path) => {
    const response = await ask(path);
    expect(response.headers.get("Content-Type")).toBe("text/html; charset=utf-8");
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
      expect(body).not.toContain("\u202e");
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
    ["deep quotes", "> ".repeat(5000)],
    ["deep lists", Array.from({ length: 2000 }, (_, depth) => `${"  ".repeat(depth)}- x`).join("\n")],
    ["open brackets", "[".repeat(50_000)],
    ["open stars", "*".repeat(50_000)],
    ["open ticks", "`a".repeat(20_000)],
    ["pipes", "|".repeat(50_000)],
  ])("is done in a moment with %s", (_, source) => {
    const from = Date.now();
    markdown(source);
    expect(Date.now() - from).toBeLessThan(2000);
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
