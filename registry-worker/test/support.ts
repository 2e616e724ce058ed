/** What the tests share: the worker's bindings, requests to it, entries to fill it with. */
import { env as bindings, exports } from "cloudflare:workers";
import type { Env } from "../src/env";
import type { Entry, Manifest, VersionRecord } from "../src/schema";
import { put } from "../src/write";

export const env = bindings as unknown as Env;

type Fetcher = { fetch(input: string, init?: RequestInit): Promise<Response> };

/** Each test file's requests come from an address of their own unless they say otherwise: limits are per address. */
export function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const worker = (exports as unknown as { default: Fetcher }).default;
  const headers = new Headers(init.headers);
  if (!headers.has("CF-Connecting-IP")) headers.set("CF-Connecting-IP", `192.0.2.${Math.floor(Math.random() * 255)}`);
  return worker.fetch(`http://registry.test${path}`, { ...init, headers });
}

export function version(tag: string, more: Partial<VersionRecord> = {}): VersionRecord {
  return {
    tag,
    date: "2026-11-01T10:00:00Z",
    changelog: "",
    commit: "a".repeat(40),
    digest: `sha256:${"b".repeat(64)}`,
    signature: null,
    yanked: null,
    ...more,
  };
}

export function entry(name: string, more: Partial<Entry> = {}, manifest: Partial<Manifest> = {}): Entry {
  return {
    name,
    git_url: `https://github.test/ada/${name}`,
    owner: "github:1",
    manifest: { name, ...manifest },
    readme_md: "",
    versions: [version("v1.0.0")],
    ...more,
  };
}

export async function fill(entries: Entry[], stars: Record<string, number> = {}): Promise<void> {
  await env.DB.batch(
    put(
      env.DB,
      entries.map((one) => ({ entry: one, blob: "blob", stars: stars[one.name] ?? 0 })),
    ),
  );
}
