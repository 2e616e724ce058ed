import { createExecutionContext } from "cloudflare:test";
import { beforeAll, describe, expect, it } from "vitest";
import worker from "../src/index";
import { putRevoked } from "../src/write";
import { ask, entry, env, fill, version } from "./support";

beforeAll(async () => {
  const versions = [version("v2.0.0rc1"), version("v1.10.0", { signature: `ed25519:SHA256abc:AAAA:BBBB` }), version("v1.9.0")];
  await fill(
    [
      entry("memory-graph", { versions, readme_md: "# Memory" }, { display_name: "Memory Graph", description: "Remembers" }),
      entry("dice", {}, { description: "Rolls dice" }),
    ],
    { dice: 7 },
  );
});

describe("GET /pkg/<name>", () => {
  it("has what spec §13.1 says, the versions newest first, and the highest released tag as the latest", async () => {
    const response = await ask("/pkg/memory-graph");
    expect(response.status).toBe(200);
    const body = await response.json<Record<string, unknown>>();
    expect(Object.keys(body)).toEqual(["name", "git_url", "latest_tag", "manifest", "readme_md", "stars", "versions"]);
    expect(body.latest_tag).toBe("v1.10.0");
    expect((body.versions as { tag: string }[]).map(({ tag }) => tag)).toEqual(["v2.0.0rc1", "v1.10.0", "v1.9.0"]);
  });

  it("names the closest plugin when there is none", async () => {
    const response = await ask("/pkg/memry-graph");
    expect(response.status).toBe(404);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    expect((await response.json<{ detail: string }>()).detail).toContain("did you mean memory-graph?");
  });

  it.each(["/pkg/..%2fx", "/pkg/A'--", "/pkg/%00", "/pkg/a/b"])("answers %s with 404", async (path) => {
    expect((await ask(path)).status).toBe(404);
  });
});

describe("caching", () => {
  it("answers 304 to the ETag it gave, also among others and weak ones", async () => {
    const first = await ask("/pkg/dice");
    const etag = first.headers.get("ETag") ?? "";
    expect(etag).toMatch(/^"[0-9a-f]{32}"$/);
    for (const known of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const again = await ask("/pkg/dice", { headers: { "If-None-Match": known } });
      expect([again.status, await again.text()]).toEqual([304, ""]);
    }
    expect((await ask("/pkg/dice", { headers: { "If-None-Match": '"other"' } })).status).toBe(200);
  });

  it("says how long an answer may be kept, and that an old one may be used while the registry is down", async () => {
    const control = (await ask("/search?q=dice")).headers.get("Cache-Control");
    expect(control).toMatch(/public, max-age=\d+, stale-while-revalidate=\d+, stale-if-error=\d+/);
  });

  it("changes the ETag with the content", async () => {
    const before = (await ask("/pkg/dice")).headers.get("ETag");
    await fill([entry("dice", { versions: [version("v1.0.1"), version("v1.0.0")] })], { dice: 7 });
    expect((await ask("/pkg/dice")).headers.get("ETag")).not.toBe(before);
  });
});

describe("methods, paths and limits", () => {
  it.each([
    ["DELETE", "/pkg/dice", 405, "GET, HEAD"],
    ["POST", "/search", 405, "GET, HEAD"],
    ["GET", "/pkg", 405, "POST"],
    ["PUT", "/pkg", 405, "POST"],
  ])("%s %s is %i and says what is allowed", async (method, path, status, allowed) => {
    const response = await ask(path, { method });
    expect([response.status, response.headers.get("Allow")]).toEqual([status, allowed]);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  });

  it("answers HEAD without a body", async () => {
    const response = await ask("/search?q=dice", { method: "HEAD" });
    expect([response.status, await response.text(), response.headers.get("X-Total-Count")]).toEqual([200, "", "1"]);
  });

  it.each(["/nothing", "/search/x", "/pkg/dice/v1", "//pkg"])("knows no %s", async (path) => {
    expect((await ask(path)).status).toBe(404);
  });

  it("stops who asks too often, telling when to come back, and nobody else", async () => {
    const counted = new Map<string, number>();
    const READS = {
      async limit({ key }: { key: string }): Promise<{ success: boolean }> {
        counted.set(key, (counted.get(key) ?? 0) + 1);
        return { success: (counted.get(key) ?? 0) <= 3 };
      },
    };
    const from = async (address: string): Promise<Response> => {
      const headers = { "CF-Connecting-IP": address };
      const request = new Request("http://x/revoked", { headers }) as Request<unknown, IncomingRequestCfProperties>;
      return worker.fetch(request, { ...env, READS }, createExecutionContext());
    };
    const statuses = [];
    for (let count = 0; count < 4; count++) statuses.push((await from("198.51.100.1")).status);
    expect(statuses).toEqual([200, 200, 200, 429]);
    expect((await from("198.51.100.1")).headers.get("Retry-After")).toBe("60");
    expect((await from("198.51.100.2")).status).toBe(200);
  });
});

it("lists revoked keys and versions", async () => {
  const date = "2026-11-02T00:00:00Z";
  const keys = [{ fingerprint: "SHA256abc", reason: "stolen", date }];
  const versions = [{ name: "dice", tag: "v1.0.0", reason: "sends messages away", date }];
  await env.DB.batch(putRevoked(env.DB, { keys, versions }));
  expect(await (await ask("/revoked")).json()).toEqual({ keys, versions });
});

it("is healthy and never kept", async () => {
  const response = await ask("/health");
  expect(await response.json()).toEqual({ status: "ok", plugins: 2, updated: null });
  expect(response.headers.get("Cache-Control")).toBe("no-store");
});
