/** The index repository read into D1, by the clock: what was merged since is put, what left it is removed. */
import type { Env } from "./env";
import { call, decoded, repositoryOf } from "./github";
import { type Entry, invisible, misfits, type Revoked } from "./schema";
import { skeleton } from "./terms";
import { putRevoked, put, remove, setStars, setState } from "./write";

/** A worker may make 50 calls in one go on the free plan. */
const FILES_A_TIME = 30;
const STARS_A_TIME = 10;
/** An index that lost more than this at once was damaged rather than edited. */
const MOST_LOST = 0.05;
const FEW = 20;

export interface Outcome {
  put: string[];
  removed: string[];
  /** File and reason of what was left as it was. */
  refused: string[];
  /** Files that wait for the next time. */
  left: number;
}

interface Listed {
  tree: { path: string; type: string; sha: string }[];
  truncated: boolean;
}

export async function sync(env: Env, now: Date): Promise<Outcome> {
  const outcome: Outcome = { put: [], removed: [], refused: [], left: 0 };
  if (env.INDEX_REPOSITORY === "") return outcome;
  const token = env.GITHUB_TOKEN ?? null;
  const base = `/repos/${env.INDEX_REPOSITORY}`;
  const branch = encodeURIComponent(env.INDEX_BRANCH);
  const listed = await call<Listed>(env, token, "GET", `${base}/git/trees/${branch}?recursive=1`);
  if (listed.status !== 200 || listed.body.truncated) {
    throw new Error(`GitHub can't list ${env.INDEX_REPOSITORY} at ${env.INDEX_BRANCH}: ${listed.status}`);
  }
  const files = new Map<string, string>();
  for (const { path, type, sha } of listed.body.tree) if (type === "blob") files.set(path, sha);
  const blob = async (sha: string): Promise<unknown> => {
    const { status, body } = await call<{ content: string }>(env, token, "GET", `${base}/git/blobs/${sha}`);
    if (status !== 200) throw new Error(`GitHub answered ${status} for a file of the index`);
    return JSON.parse(decoded(body.content));
  };
  await syncRevoked(env, files.get("revoked.json"), blob, outcome);
  await syncPlugins(env, files, blob, outcome);
  await syncStars(env, token);
  await setState(env.DB, "updated", now.toISOString()).run();
  return outcome;
}

type Blob = (sha: string) => Promise<unknown>;

async function syncRevoked(env: Env, sha: string | undefined, blob: Blob, outcome: Outcome): Promise<void> {
  const known = await env.DB.prepare("SELECT value FROM state WHERE key = 'revoked'").first<string>("value");
  if (sha === undefined || sha === known) return;
  const data = await blob(sha).catch((error: unknown) => String(error));
  const problems = misfits("revoked", data);
  if (problems.length) {
    outcome.refused.push(`revoked.json: ${problems.join("; ")}`);
    return;
  }
  await env.DB.batch([...putRevoked(env.DB, data as Revoked), setState(env.DB, "revoked", sha)]);
}

async function syncPlugins(env: Env, files: Map<string, string>, blob: Blob, outcome: Outcome): Promise<void> {
  const { results } = await env.DB.prepare("SELECT name, blob, skeleton FROM plugins").all<Known>();
  const known = new Map(results.map((row) => [row.name, row]));
  const wanted = new Map<string, string>();
  for (const [path, sha] of files) {
    const name = /^plugins\/([a-z0-9-]+)\.json$/.exec(path)?.[1];
    if (name !== undefined) wanted.set(name, sha);
  }
  const lost = [...known.keys()].filter((name) => !wanted.has(name));
  if (lost.length > FEW && lost.length > known.size * MOST_LOST) {
    outcome.refused.push(`the index lost ${lost.length} of ${known.size} plugins at once; nothing was removed`);
  } else if (lost.length) {
    for (const name of lost) await env.DB.batch(remove(env.DB, name));
    outcome.removed.push(...lost);
  }
  const unfit = await refusedBefore(env);
  const changed = [...wanted].filter(([name, sha]) => known.get(name)?.blob !== sha && unfit[name] !== sha);
  outcome.left = Math.max(0, changed.length - FILES_A_TIME);
  for (const [name, sha] of changed.slice(0, FILES_A_TIME)) {
    const problem = await one(env, name, sha, blob);
    if (problem === null) outcome.put.push(name);
    else outcome.refused.push(`plugins/${name}.json: ${problem.text}`);
    if (problem?.lasting) unfit[name] = sha;
  }
  const still = Object.fromEntries(Object.entries(unfit).filter(([name, sha]) => wanted.get(name) === sha));
  await setState(env.DB, "refused", JSON.stringify(still)).run();
}

/** Name → file that didn't fit: it is not read again until it changes, so it never takes the place of others. */
async function refusedBefore(env: Env): Promise<Record<string, string>> {
  const text = await env.DB.prepare("SELECT value FROM state WHERE key = 'refused'").first<string>("value");
  return text === null ? {} : (JSON.parse(text) as Record<string, string>);
}

interface Trouble {
  text: string;
  lasting: boolean;
}

interface Known {
  name: string;
  blob: string;
  skeleton: string;
}

async function one(env: Env, name: string, sha: string, blob: Blob): Promise<Trouble | null> {
  const lasting = (text: string): Trouble => ({ text, lasting: true });
  try {
    const data = await blob(sha);
    const problems = misfits("entry", data);
    if (problems.length) return lasting(problems.join("; "));
    const entry = data as Entry;
    if (entry.name !== name || entry.manifest.name !== name) {
      return lasting("the file, the entry and the manifest differ in the name");
    }
    const odd = invisible(entry.manifest);
    if (odd !== null) return lasting(odd);
    const twin = await env.DB.prepare("SELECT name FROM plugins WHERE skeleton = ?1 AND name != ?2")
      .bind(skeleton(name), name)
      .first<string>("name");
    if (twin !== null) return lasting(`the name is too easily taken for ${twin}`);
    await env.DB.batch(put(env.DB, [{ entry, blob: sha, stars: null }]));
    return null;
  } catch (error) {
    return { text: error instanceof Error ? error.message : "unknown", lasting: false };
  }
}

/** Some plugins' stars each time, in turn. */
async function syncStars(env: Env, token: string | null): Promise<void> {
  const last = (await env.DB.prepare("SELECT value FROM state WHERE key = 'stars'").first<string>("value")) ?? "";
  const { results } = await env.DB.prepare("SELECT name, git_url FROM plugins WHERE name > ?1 ORDER BY name LIMIT ?2")
    .bind(last, STARS_A_TIME)
    .all<{ name: string; git_url: string }>();
  const counted: D1PreparedStatement[] = [];
  for (const { name, git_url } of results) {
    const repository = repositoryOf(env, git_url);
    if (repository === null) continue;
    const { status, body } = await call<{ stargazers_count: number }>(
      env,
      token,
      "GET",
      `/repos/${repository.owner}/${repository.name}`,
    );
    if (status === 200) counted.push(setStars(env.DB, name, body.stargazers_count));
  }
  const next = results.length < STARS_A_TIME ? "" : (results.at(-1)?.name ?? "");
  await env.DB.batch([...counted, setState(env.DB, "stars", next)]);
}
