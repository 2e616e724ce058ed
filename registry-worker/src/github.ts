/** The few calls of GitHub's REST API that the registry makes. */
import type { Env } from "./env";
import { refuse } from "./http";

const SECONDS = 10;

export interface Reply<T> {
  status: number;
  body: T;
  etag: string | null;
}

/** Call the API. `token` null asks as nobody. Only 5xx, 403 and 429 and no answer at all are errors. */
export async function call<T>(
  env: Env,
  token: string | null,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Reply<T>> {
  const sent: Record<string, string> = {
    Accept: "application/vnd.github+json",
    "User-Agent": "lumia-registry",
    "X-GitHub-Api-Version": "2022-11-28",
    ...headers,
  };
  if (token !== null && sent.Authorization === undefined) sent.Authorization = `Bearer ${token}`;
  let response: Response;
  try {
    response = await fetch(`${env.GITHUB_API}${path}`, {
      method,
      headers: sent,
      redirect: method === "GET" ? "follow" : "manual",
      signal: AbortSignal.timeout(SECONDS * 1000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (error) {
    return refuse(502, "GitHub can't be reached", `No answer within ${SECONDS} s; try again. (${kind(error)})`);
  }
  if (response.status >= 500 || response.status === 403 || response.status === 429) {
    await response.body?.cancel();
    refuse(502, "GitHub can't be asked", `GitHub answered ${response.status} to ${method} ${path}; try again later.`);
  }
  const text = await response.text();
  let parsed: unknown = null;
  if (text !== "") {
    try {
      parsed = JSON.parse(text);
    } catch {
      refuse(502, "GitHub can't be understood", `GitHub's answer to ${method} ${path} is no JSON.`);
    }
  }
  return { status: response.status, body: parsed as T, etag: response.headers.get("ETag") };
}

function kind(error: unknown): string {
  return error instanceof Error ? error.name : "unknown";
}

export interface Repository {
  owner: string;
  name: string;
}

/** Return the repository a clone URL names on GitHub; null for one that is elsewhere. */
export function repositoryOf(env: Env, url: string): Repository | null {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return null;
  }
  if (parsed.protocol !== "https:" || parsed.host !== env.GITHUB_HOST) return null;
  const match = /^\/([A-Za-z0-9-]{1,39})\/([A-Za-z0-9._-]{1,100}?)(?:\.git)?\/?$/.exec(parsed.pathname);
  const [, owner, name] = match ?? [];
  return owner === undefined || name === undefined || name === "." || name === ".." ? null : { owner, name };
}

/** Return the text of base64 as GitHub writes it, in lines. */
export function decoded(base64: string): string {
  const bytes = Uint8Array.from(atob(base64.replace(/\s/g, "")), (letter) => letter.charCodeAt(0));
  return new TextDecoder().decode(bytes);
}

export function encoded(text: string): string {
  const bytes = new TextEncoder().encode(text);
  let letters = "";
  for (let at = 0; at < bytes.length; at += 8192) letters += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(letters);
}
