/** What the checks look at in a plugin's repository: the tag, the tree, the manifest and the licence file. */
import type { Env } from "./env";
import { call, decoded, type Repository, repositoryOf } from "./github";

export interface Tree {
  size: number;
  files: number;
  /** The largest file. */
  largest: { path: string; size: number };
  links: string[];
  submodules: string[];
  licenceFile: string | null;
  paths: string[];
  /** GitHub cut the list: there are more files than it tells. */
  cut: boolean;
}

export interface Source {
  host: "github" | "git";
  /** The commit the tag leads to; null when there is no such tag. */
  commit: string | null;
  /** null where only git's own protocol is spoken: the tree is then for the reviewer. */
  tree: Tree | null;
  manifest: string | null;
  /** What GitHub lets the submitter do there; null when nobody can tell. */
  mayPush: boolean | null;
  ownerLogin: string | null;
}

const LICENCE = /^(licen[cs]e|copying|unlicense)([.-].*)?$/i;

/** Return what the repository at `url` holds at `tag`; null when there is no repository anybody can read. */
export async function look(env: Env, url: string, tag: string, token: string | null): Promise<Source | null> {
  const repository = repositoryOf(env, url);
  if (repository === null) {
    const refs = await overHttp(url);
    if (refs === null) return null;
    const commit = refs.get(`refs/tags/${tag}^{}`) ?? refs.get(`refs/tags/${tag}`) ?? null;
    return { host: "git", commit, tree: null, manifest: null, mayPush: null, ownerLogin: null };
  }
  return onGitHub(env, repository, tag, token);
}

async function onGitHub(env: Env, { owner, name }: Repository, tag: string, token: string | null): Promise<Source | null> {
  const asking = token ?? env.GITHUB_TOKEN ?? null;
  const base = `/repos/${owner}/${name}`;
  const about = await call<About>(env, asking, "GET", base);
  if (about.status !== 200 || about.body.private) return null;
  const mayPush = token === null ? null : about.body.permissions?.push === true;
  const found: Source = { host: "github", commit: null, tree: null, manifest: null, mayPush, ownerLogin: about.body.owner.login };
  const commit = await commitOf(env, base, tag, asking);
  if (commit === null) return found;
  const listed = await call<Listed>(env, asking, "GET", `${base}/git/trees/${commit}?recursive=1`);
  const tree = listed.status === 200 ? summed(listed.body) : null;
  const manifest = await call<Content>(env, asking, "GET", `${base}/contents/manifest.json?ref=${commit}`);
  const text = manifest.status === 200 && manifest.body.encoding === "base64" ? decoded(manifest.body.content) : null;
  return { ...found, commit, tree, manifest: text };
}

interface About {
  private: boolean;
  owner: { login: string };
  permissions?: { push: boolean };
}

interface Pointer {
  object: { type: string; sha: string };
}

interface Listed {
  truncated: boolean;
  tree: { path: string; mode: string; type: string; size?: number }[];
}

interface Content {
  encoding: string;
  content: string;
}

async function commitOf(env: Env, base: string, tag: string, token: string | null): Promise<string | null> {
  let found = await call<Pointer>(env, token, "GET", `${base}/git/ref/tags/${encodeURIComponent(tag)}`);
  for (let hops = 0; found.status === 200 && found.body.object.type === "tag" && hops < 3; hops++) {
    found = await call<Pointer>(env, token, "GET", `${base}/git/tags/${found.body.object.sha}`);
  }
  return found.status === 200 && found.body.object.type === "commit" ? found.body.object.sha : null;
}

function summed({ tree, truncated }: Listed): Tree {
  const blobs = tree.filter(({ type }) => type === "blob");
  const largest = blobs.reduce((most, { path, size = 0 }) => (size > most.size ? { path, size } : most), { path: "", size: 0 });
  return {
    size: blobs.reduce((sum, { size = 0 }) => sum + size, 0),
    files: blobs.length,
    largest,
    links: tree.filter(({ mode }) => mode === "120000").map(({ path }) => path),
    submodules: tree.filter(({ type, path }) => type === "commit" || path === ".gitmodules").map(({ path }) => path),
    licenceFile: blobs.find(({ path }) => LICENCE.test(path))?.path ?? null,
    paths: tree.map(({ path }) => path),
    cut: truncated,
  };
}

const MOST_REFS = 4 * 1024 * 1024;

/** Ask any git server for its refs, as `git ls-remote` does (protocol version 0 over HTTP). */
async function overHttp(url: string): Promise<Map<string, string> | null> {
  let response: Response;
  try {
    response = await fetch(`${url.replace(/\/$/, "")}/info/refs?service=git-upload-pack`, {
      headers: { "User-Agent": "git/lumia-registry" },
      redirect: "manual",
      signal: AbortSignal.timeout(10_000),
    });
  } catch {
    return null;
  }
  const type = response.headers.get("Content-Type") ?? "";
  if (response.status !== 200 || !type.startsWith("application/x-git-upload-pack-advertisement")) {
    await response.body?.cancel();
    return null;
  }
  const text = await upTo(response, MOST_REFS);
  return text === null ? null : refsIn(text);
}

async function upTo(response: Response, limit: number): Promise<string | null> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const part of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    text += decoder.decode(part, { stream: true });
    if (text.length > limit) return null;
  }
  return text;
}

/** Read pkt-lines: four hex digits of length, then `<commit> <ref>`, with capabilities after a NUL on the first. */
export function refsIn(text: string): Map<string, string> {
  const refs = new Map<string, string>();
  for (const [, commit, ref] of text.matchAll(/[0-9a-f]{4}([0-9a-f]{40}) (refs\/[^\0\n]+)/g)) {
    if (commit !== undefined && ref !== undefined) refs.set(ref, commit);
  }
  return refs;
}
