import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { authenticate, hashed } from "../src/auth";
import type { Check } from "../src/checks";
import type { Entry } from "../src/schema";
import { sync } from "../src/sync";
import { putRevoked } from "../src/write";
import { hex } from "../src/http";
import { FakeGitHub } from "./github";
import { ask, entry, env, fill, version } from "./support";

const COMMIT = "c".repeat(40);
const DIGEST = `sha256:${"d".repeat(64)}`;
const ADA = "ghp_ada_0123456789abcdef";
const AUTHOR = `lumia_${"x".repeat(43)}`;
const MANIFEST = { name: "dice", description: "Rolls dice", license: "MIT" };

let github: FakeGitHub;
let account = 0;

beforeEach(async () => {
  github = new FakeGitHub();
  github.repos["ada/dice"] = {
    owner: "ada",
    tags: { "v1.0.0": COMMIT },
    files: { "manifest.json": JSON.stringify(MANIFEST), "plugin.py": "import lumia\n", LICENSE: "MIT License" },
    pushers: ["ada"],
  };
  // One account may submit ten times a minute, so each test has one of its own.
  account += 1;
  github.users[ADA] = { id: account, login: "ada" };
  vi.stubGlobal("fetch", github.fetch);
  for (const table of ["plugins", "versions", "words", "grams", "tokens", "state", "revoked_keys", "revoked_versions"]) {
    await env.DB.prepare(`DELETE FROM ${table}`).run();
  }
});
afterEach(() => vi.unstubAllGlobals());

function submission(more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    git_url: "https://github.test/ada/dice.git",
    tag: "v1.0.0",
    manifest: MANIFEST,
    commit: COMMIT,
    digest: DIGEST,
    size: 100,
    licence: "MIT",
    readme_md: "# Dice",
    changelog: "First.",
    validation: { errors: 0, tool: "lumia 0.2.0" },
    ...more,
  };
}

async function send(body: unknown, token: string | null = ADA, more: Record<string, string> = {}): Promise<Response> {
  const headers: Record<string, string> = { "Content-Type": "application/json", ...more };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  return ask("/pkg", { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
}

async function failing(response: Response): Promise<string[]> {
  const { checks } = await response.json<{ checks: Check[] }>();
  return checks.filter(({ ok }) => !ok).map(({ name, text }) => `${name}: ${text}`);
}

describe("who may submit", () => {
  it.each([
    ["nobody", null],
    ["a word", "secret"],
    ["an unknown author token", `lumia_${"y".repeat(43)}`],
    ["a GitHub token that GitHub doesn't know", "ghp_unknown_0123456789"],
  ])("%s is 401 with a challenge, and nothing is read", async (_, token) => {
    const response = await send(submission(), token);
    expect(response.status).toBe(401);
    expect(response.headers.get("WWW-Authenticate")).toContain("Bearer");
    expect(github.pulls).toEqual([]);
  });

  it("an author token opens the door until it is revoked, and only its hash is stored", async () => {
    const insert = env.DB.prepare("INSERT INTO tokens VALUES (?1, 'ada', '2026-11-01', NULL)");
    await insert.bind(await hashed(AUTHOR)).run();
    expect((await send(submission(), AUTHOR)).status).toBe(202);
    await env.DB.prepare("UPDATE tokens SET revoked = '2026-11-02'").run();
    const response = await send(submission(), AUTHOR);
    expect(response.status).toBe(401);
    expect(await response.text()).toContain("revoked");
    const stored = await env.DB.prepare("SELECT * FROM tokens").all();
    expect(JSON.stringify(stored.results)).not.toContain(AUTHOR);
  });

  it("without an application of its own takes no GitHub token, and says what it takes", async () => {
    for (const GITHUB_CLIENT_ID of ["", undefined as unknown as string]) {
      const asked = new Request("http://x", { headers: { Authorization: `Bearer ${ADA}` } });
      await expect(authenticate(asked, { ...env, GITHUB_CLIENT_ID })).rejects.toThrow("ask its operator for an author token");
      const help = { ...env, GITHUB_CLIENT_ID, TOKEN_HELP: "Ask at https://example.org." };
      await expect(authenticate(asked, help)).rejects.toThrow("(lumia_…). Ask at https://example.org.");
    }
    expect(github.calls).toEqual([]);
  });

  it("with an application of its own set, asks GitHub whether the token was made for it", async () => {
    const asks = (token: string): Request => new Request("http://x", { headers: { Authorization: `Bearer ${token}` } });
    expect(await authenticate(asks(ADA), env)).toMatchObject({ owner: `github:${account}`, login: "ada" });
    await expect(authenticate(asks("gho_of_another_application"), env)).rejects.toThrow("another application");
    expect(github.calls).toEqual(Array(2).fill("POST /applications/app1/token"));
  });

  // A minute may begin in between, so more are sent than two minutes allow.
  it("stops an account after ten submissions a minute, whatever its address", async () => {
    const statuses = new Set<number>();
    for (let count = 0; count < 21; count++) statuses.add((await send("{}")).status);
    expect([...statuses].sort()).toEqual([422, 429]);
  });

  it("stops guessing of tokens from one address", async () => {
    const guess = (): Promise<Response> => send("{}", "ghp_wrong_0123456789", { "CF-Connecting-IP": "203.0.113.9" });
    const statuses = new Set<number>();
    for (let count = 0; count < 21; count++) statuses.add((await guess()).status);
    expect([...statuses].sort()).toEqual([401, 429]);
    expect(github.calls.length, "GitHub is not asked for what is over the limit").toBeLessThan(21);
  });
});

describe("what is no submission", () => {
  it("is 400 when it is no JSON, 415 when it doesn't say JSON, 413 when it is too long", async () => {
    expect((await send("{")).status).toBe(400);
    expect((await send(submission(), ADA, { "Content-Type": "text/plain" })).status).toBe(415);
    expect((await send(submission({ readme_md: "x".repeat(1_100_000) }))).status).toBe(413);
  });

  it("is 422 with the check 'schema' alone, and nothing is asked of anybody", async () => {
    const response = await send({ git_url: "--upload-pack=touch /tmp/x", tag: "v1", manifest: { name: "Bad Name" } });
    expect(response.status).toBe(422);
    const [problem] = await failing(response);
    expect(problem).toContain("schema:");
    expect(github.calls).toEqual(["POST /applications/app1/token"]);
  });

  it.each([
    ["a manifest with a version", { manifest: { ...MANIFEST, version: "1.0" } }],
    ["a name with a Cyrillic letter", { manifest: { ...MANIFEST, name: "d\u0456ce" } }],
    ["text that turns direction", { manifest: { ...MANIFEST, description: "safe \u202eexe" } }],
    ["a terminal's escape code", { manifest: { ...MANIFEST, description: "\u001b[2J" } }],
    ["a path out of the folder", { manifest: { ...MANIFEST, config_schema: "../../etc/passwd" } }],
    ["an unknown key", { pull_request: "https://x" }],
  ])("refuses %s", async (_, more) => {
    const response = await send(submission(more));
    expect([response.status, (await failing(response)).length]).toEqual([422, 1]);
  });
});

describe("the checks", () => {
  it("all pass for a good plugin: 202, a pull request with the report, the entry in it", async () => {
    const response = await send(submission());
    expect(response.status).toBe(202);
    const { pull_request, checks } = await response.json<{ pull_request: string; checks: Check[] }>();
    expect(checks.map(({ name }) => name)).toEqual(
      "schema name owner version tag manifest size files licence validation signature".split(" "),
    );
    expect(pull_request).toBe("https://github.test/lumia/index/pull/1");
    const [pull] = github.pulls;
    expect(pull?.title).toBe("Add dice v1.0.0");
    expect(pull?.body).toContain("ok     tag        v1.0.0 is commit cccccccccccc.");
    const written = JSON.parse(github.index[pull?.head ?? ""]?.["plugins/dice.json"] ?? "") as Entry;
    expect(written).toMatchObject({ name: "dice", owner: `github:${account}`, manifest: MANIFEST });
    expect(written.versions[0]).toMatchObject({ tag: "v1.0.0", commit: COMMIT, digest: DIGEST, signature: null });
    expect(JSON.stringify([pull, written])).not.toContain(ADA);
  });

  it("submitting the same again is the same pull request", async () => {
    await send(submission());
    const again = await send(submission({ changelog: "First, told better." }));
    expect((await again.json<{ pull_request: string }>()).pull_request).toMatch(/pull\/1$/);
    expect(github.pulls.length).toBe(1);
    expect(github.index[github.pulls[0]?.head ?? ""]?.["plugins/dice.json"]).toContain("told better");
  });

  const repo = (): FakeGitHub["repos"][string] => github.repos["ada/dice"]!;
  it.each<[string, () => void, Record<string, unknown>, string]>([
    ["no such tag", () => {}, { tag: "v9.9.9" }, "tag: There is no tag v9.9.9"],
    ["another commit", () => {}, { commit: "e".repeat(40) }, "tag: v1.0.0 is commit cccccccccccc there"],
    ["no such repository", () => {}, { git_url: "https://github.test/ada/gone" }, "tag: https://github.test/ada/gone can't be read"],
    ["an address that needs an account", () => {}, { git_url: "git@github.test:ada/dice.git" }, "name its https address"],
    ["a private repository", () => (repo().private = true), {}, "can't be read without an account"],
    ["another manifest", () => {}, { manifest: { ...MANIFEST, permissions: ["mcp"] } }, "manifest: manifest.json at this tag differs"],
    ["no manifest", () => delete repo().files["manifest.json"], {}, "manifest: There is no manifest.json"],
    ["a huge file", () => (repo().sizes = { "plugin.py": 20_000_000 }), {}, "size: plugin.py has 19.1 MiB"],
    ["too much in all", () => (repo().sizes = { "plugin.py": 16_000_000, LICENSE: 60_000_000 }), {}, "size: 3 files"],
    ["a submodule", () => (repo().modes = { "plugin.py": "160000" }), {}, "files: plugin.py is a submodule"],
    ["names that differ in case", () => (repo().files["PLUGIN.py"] = ""), {}, "files: plugin.py and PLUGIN.py"],
    ["an invisible file name", () => (repo().files["a\u202e.py"] = ""), {}, "files: The file name"],
    ["no licence file", () => delete repo().files.LICENSE, {}, "licence: There is no LICENSE file"],
    ["another licence", () => {}, { licence: "GPL-3.0-only" }, "licence: The submission says GPL-3.0-only"],
    ["no SPDX", () => {}, { licence: "free for all!" }, "licence: free for all! is no SPDX"],
    ["no validation", () => {}, { validation: undefined }, "validation: The submission has no report"],
    ["failed validation", () => {}, { validation: { errors: 2, tool: "lumia" } }, "validation: `pkg dev validate` found 2"],
    ["not a version", () => {}, { tag: "1-beta-of-something" }, "version: 1-beta-of-something is no version"],
    ["a stranger's repository", () => (repo().pushers = []), {}, "owner: ada may not push"],
    ["a damaged signature", () => {}, { signature: "ed25519:SHA256x:AAAA:BBBB" }, "signature: The signature is not one"],
  ])("tell of %s, and open no pull request", async (_, change, more, expected) => {
    change();
    const response = await send(submission(more));
    expect(response.status).toBe(422);
    expect((await failing(response)).join("\n")).toContain(expected);
    expect(github.pulls).toEqual([]);
  });

  it("a name that looks like another one, or belongs to another account, is refused", async () => {
    await fill([entry("d-1ce", { owner: "github:9" })]);
    expect((await failing(await send(submission()))).join()).toContain("too easily taken for d-1ce");
    await env.DB.prepare("DELETE FROM plugins").run();
    await fill([entry("dice", { owner: "github:9" })]);
    expect((await failing(await send(submission({ tag: "v1.0.0" })))).join()).toContain("dice belongs to another account");
  });

  it("a published version never changes", async () => {
    await fill([entry("dice", { owner: `github:${account}`, versions: [version("1.0")] })]);
    expect((await failing(await send(submission()))).join()).toContain("dice 1.0 is in the registry already");
  });

  it("says 502 when GitHub is down, and opens nothing", async () => {
    const insert = env.DB.prepare("INSERT INTO tokens VALUES (?1, 'ada', '2026-11-01', NULL)");
    await insert.bind(await hashed(AUTHOR)).run();
    github.down = 503;
    expect((await send(submission(), AUTHOR)).status).toBe(502);
  });
});

describe("signatures", () => {
  async function key(): Promise<{ sign(digest: string): Promise<string> }> {
    const pair = (await crypto.subtle.generateKey({ name: "Ed25519" }, true, ["sign", "verify"])) as CryptoKeyPair;
    const raw = (await crypto.subtle.exportKey("raw", pair.publicKey)) as ArrayBuffer;
    const base64 = (bytes: ArrayBuffer): string => btoa(String.fromCharCode(...new Uint8Array(bytes)));
    const fingerprint = hex(await crypto.subtle.digest("SHA-256", raw));
    return {
      async sign(digest) {
        const text = new TextEncoder().encode(`lumia-package-v1\ndice\nv1.0.0\n${digest}\n`);
        return `ed25519:${fingerprint}:${base64(raw)}:${base64(await crypto.subtle.sign("Ed25519", pair.privateKey, text))}`;
      },
    };
  }

  it("passes what the key signed, and refuses the same over another digest", async () => {
    const { sign } = await key();
    expect((await send(submission({ signature: await sign(DIGEST) }))).status).toBe(202);
    const other = await sign(`sha256:${"0".repeat(64)}`);
    expect((await failing(await send(submission({ signature: other })))).join()).toContain("is not one over this");
  });

  it("refuses a revoked key, and an unsigned version after a signed one", async () => {
    const signature = await (await key()).sign(DIGEST);
    const fingerprint = signature.split(":")[1] ?? "";
    const date = "2026-11-02T00:00:00Z";
    await env.DB.batch(putRevoked(env.DB, { keys: [{ fingerprint, reason: "stolen", date }], versions: [] }));
    expect((await failing(await send(submission({ signature })))).join()).toContain("was revoked: stolen");
    await fill([entry("dice", { owner: `github:${account}`, versions: [version("v0.9", { signature })] })]);
    expect((await failing(await send(submission()))).join()).toContain("Earlier versions are signed");
  });
});

describe("from a merged pull request to the answers", () => {
  it("the clock brings it in, changes it and takes it out", async () => {
    await send(submission());
    github.merge(1);
    github.repos["ada/dice"]!.stars = 5;
    const first = await sync(env, new Date("2026-11-03T00:00:00Z"));
    expect(first).toMatchObject({ put: ["dice"], removed: [], refused: [] });
    const shown = await (await ask("/pkg/dice")).json<Record<string, unknown>>();
    expect(shown).toMatchObject({ latest_tag: "v1.0.0", stars: 5, readme_md: "# Dice" });
    expect(await (await ask("/health")).json()).toMatchObject({ plugins: 1, updated: "2026-11-03T00:00:00.000Z" });
    expect((await sync(env, new Date())).put).toEqual([]);
    const yanked = JSON.parse(github.index.main!["plugins/dice.json"]!) as Entry;
    yanked.versions[0]!.yanked = "broken";
    github.index.main!["plugins/dice.json"] = JSON.stringify(yanked);
    github.index.main!["revoked.json"] = JSON.stringify({ keys: [], versions: [{ name: "dice", tag: "v1.0.0", reason: "x", date: "2026-11-03T00:00:00Z" }] });
    expect((await sync(env, new Date())).put).toEqual(["dice"]);
    expect(await (await ask("/pkg/dice")).json()).toMatchObject({ versions: [{ yanked: "broken" }] });
    expect(await (await ask("/revoked")).json()).toMatchObject({ versions: [{ name: "dice" }] });
    delete github.index.main!["plugins/dice.json"];
    expect((await sync(env, new Date())).removed).toEqual(["dice"]);
    expect((await ask("/pkg/dice")).status).toBe(404);
    expect(await (await ask("/search?q=dice")).json()).toEqual([]);
  });

  it("keeps what it has when an entry is damaged or the index is suddenly empty", async () => {
    await fill(Array.from({ length: 40 }, (_, number) => entry(`many-${"abcdefghij"[number % 10]}${number}`)));
    github.index.main!["plugins/broken.json"] = "{}";
    const { refused, removed } = await sync(env, new Date());
    expect(removed).toEqual([]);
    expect(refused.join("\n")).toContain("the index lost 40 of 40 plugins at once");
    expect(refused.join("\n")).toContain("plugins/broken.json:");
  });
});
