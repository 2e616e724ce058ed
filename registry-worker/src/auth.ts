/** Who submits: the holder of an author token of this registry, or of a GitHub OAuth token made for it. */
import type { Env } from "./env";
import { call } from "./github";
import { hex, refuse } from "./http";

export interface Account {
  /** What an entry's `owner` says: github:<number> or author:<login>. */
  owner: string;
  login: string;
  /** The GitHub token it came with; null for an author token. */
  token: string | null;
}

const CHALLENGE = { "WWW-Authenticate": 'Bearer realm="lumia-registry"' };
const AUTHOR = /^lumia_[A-Za-z0-9_-]{43}$/;
const GITHUB = /^[A-Za-z0-9_.-]{20,255}$/;

/** `env` is read for what this registry's operator tells authors who need a token. */
function unauthorized(env: Env, detail: string): never {
  return refuse(401, "Not authorized", [detail, env.TOKEN_HELP].filter(Boolean).join(" "), CHALLENGE);
}

export async function hashed(token: string): Promise<string> {
  return hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token)));
}

/** Return who asks; refuses with 401 what is no valid token, saying how to get one. */
export async function authenticate(request: Request, env: Env): Promise<Account> {
  const match = /^(?:Bearer|token) +(\S+)$/i.exec(request.headers.get("Authorization") ?? "");
  const token = match?.[1];
  if (token === undefined) {
    unauthorized(env, `Submitting needs a token: ${kinds(env)}.`);
  }
  if (AUTHOR.test(token)) return author(env, token);
  if (token.startsWith("lumia_") || !GITHUB.test(token)) {
    unauthorized(env, `This is no token; copy it whole: ${kinds(env)}.`);
  }
  return onGitHub(env, token);
}

function kinds({ GITHUB_CLIENT_ID }: Env): string {
  const own = "an author token (lumia_…), which the registry's operator gives";
  return GITHUB_CLIENT_ID ? `${own}, or a GitHub token made for this registry's application` : own;
}

async function author(env: Env, token: string): Promise<Account> {
  const row = await env.DB
    .prepare("SELECT login, revoked FROM tokens WHERE hash = ?1")
    .bind(await hashed(token))
    .first<{ login: string; revoked: string | null }>();
  if (row === null) unauthorized(env, "This author token is unknown; ask the registry's operator for one.");
  if (row.revoked !== null) unauthorized(env, "This author token was revoked; ask the registry's operator for a new one.");
  return { owner: `author:${row.login}`, login: row.login, token: null };
}

interface User {
  id: number;
  login: string;
}

async function onGitHub(env: Env, token: string): Promise<Account> {
  if (!env.GITHUB_CLIENT_ID) {
    unauthorized(env, "This registry takes no GitHub tokens; ask its operator for an author token (lumia_…).");
  }
  const user = await ourApp(env, token);
  if (user === null) {
    unauthorized(env, "GitHub doesn't know this token, it has ended, or it was made for another application.");
  }
  return { owner: `github:${user.id}`, login: user.login, token };
}

/** A token given to another application must not open this one, so GitHub is asked as the application. */
async function ourApp(env: Env, token: string): Promise<User | null> {
  const path = `/applications/${encodeURIComponent(env.GITHUB_CLIENT_ID)}/token`;
  const basic = btoa(`${env.GITHUB_CLIENT_ID}:${env.GITHUB_CLIENT_SECRET ?? ""}`);
  const headers = { Authorization: `Basic ${basic}` };
  const { status, body } = await call<{ user: User }>(env, null, "POST", path, { access_token: token }, headers);
  return status === 200 ? body.user : null;
}
