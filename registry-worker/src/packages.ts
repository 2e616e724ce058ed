/** Reading one plugin, the revocations and the state from D1. */
import type { Manifest, Revoked, VersionRecord } from "./schema";

export interface Package {
  name: string;
  git_url: string;
  latest_tag: string;
  manifest: Manifest;
  readme_md: string;
  stars: number;
  versions: VersionRecord[];
}

interface Row {
  name: string;
  git_url: string;
  latest_tag: string;
  manifest: string;
  readme_md: string;
  stars: number;
}

export async function read(db: D1Database, name: string): Promise<Package | null> {
  const [plugins, versions] = await db.batch([
    db.prepare("SELECT name, git_url, latest_tag, manifest, readme_md, stars FROM plugins WHERE name = ?1").bind(name),
    db
      .prepare(
        `SELECT tag, date, changelog, "commit", digest, signature, yanked FROM versions
         WHERE plugin = (SELECT id FROM plugins WHERE name = ?1) ORDER BY place`,
      )
      .bind(name),
  ]);
  const row = plugins?.results[0] as Row | undefined;
  if (row === undefined) return null;
  const { name: found, git_url, latest_tag, manifest, readme_md, stars } = row;
  return {
    name: found,
    git_url,
    latest_tag,
    manifest: JSON.parse(manifest) as Manifest,
    readme_md,
    stars,
    versions: (versions?.results ?? []) as VersionRecord[],
  };
}

export async function revoked(db: D1Database): Promise<Revoked> {
  const [keys, versions] = await db.batch([
    db.prepare("SELECT fingerprint, reason, date FROM revoked_keys ORDER BY fingerprint"),
    db.prepare("SELECT name, tag, reason, date FROM revoked_versions ORDER BY name, tag"),
  ]);
  return { keys: keys?.results ?? [], versions: versions?.results ?? [] } as Revoked;
}

export interface Health {
  status: "ok";
  plugins: number;
  updated: string | null;
}

export async function health(db: D1Database): Promise<Health> {
  const [count, state] = await db.batch([
    db.prepare("SELECT count(*) AS plugins FROM plugins"),
    db.prepare("SELECT value FROM state WHERE key = 'updated'"),
  ]);
  const plugins = (count?.results[0] as { plugins: number } | undefined)?.plugins ?? 0;
  const updated = (state?.results[0] as { value: string } | undefined)?.value ?? null;
  return { status: "ok", plugins, updated };
}

export interface Claim {
  name: string;
  owner: string;
  git_url: string;
}

/** Return the plugin that has this name or one that looks like it. */
export async function claimed(db: D1Database, name: string, skeleton: string): Promise<Claim | null> {
  return db
    .prepare("SELECT name, owner, git_url FROM plugins WHERE name = ?1 OR skeleton = ?2 ORDER BY name = ?1 DESC LIMIT 1")
    .bind(name, skeleton)
    .first<Claim>();
}
