/** A submission that passed becomes a pull request on the index repository; a person merges it. */
import type { Account } from "./auth";
import { hashed } from "./auth";
import type { Check } from "./checks";
import type { Env } from "./env";
import { call, decoded, encoded, type Reply } from "./github";
import { refuse } from "./http";
import { type Entry, misfits, type Submission, type VersionRecord } from "./schema";
import { compare, parse } from "./versions";

const MOST_VERSIONS = 500;

interface Pointer {
  object: { sha: string };
}

interface Pull {
  html_url: string;
  number: number;
}

/** Return the address of the pull request, made now or open already for the same version of the same account. */
export async function open(env: Env, account: Account, submission: Submission, checks: Check[]): Promise<string> {
  const { name } = submission.manifest;
  const index = new Index(env);
  const path = `plugins/${name}.json`;
  const before = await index.file(path);
  const entry = merged(before?.entry ?? null, account, submission);
  const branch = `submit/${name}/${submission.tag}/${(await hashed(account.owner)).slice(0, 8)}`;
  await index.branch(branch);
  const title = before === null ? `Add ${name} ${submission.tag}` : `${name} ${submission.tag}`;
  await index.write(branch, path, `${JSON.stringify(entry, null, 2)}\n`, title);
  return index.propose(branch, title, report(account, submission, checks));
}

function merged(before: Entry | null, account: Account, submission: Submission): Entry {
  if (before !== null && before.owner !== account.owner) {
    refuse(409, "Not yours", `${before.name} belongs to another account in the index repository.`);
  }
  const { manifest, git_url, tag, commit, digest, changelog = "", readme_md = "", signature = null } = submission;
  const date = new Date().toISOString().replace(/\.\d+Z$/, "Z");
  const version: VersionRecord = { tag, date, changelog, commit, digest, signature, yanked: null };
  const others = (before?.versions ?? []).filter((one) => one.tag !== tag);
  const versions = [version, ...others].sort(newestFirst).slice(0, MOST_VERSIONS);
  const newest = versions[0]?.tag === tag;
  return {
    name: manifest.name,
    git_url,
    owner: before?.owner ?? account.owner,
    manifest: newest || before === null ? manifest : before.manifest,
    readme_md: newest || before === null ? readme_md : before.readme_md,
    versions,
  };
}

function newestFirst(a: VersionRecord, b: VersionRecord): number {
  const [ours, theirs] = [parse(a.tag), parse(b.tag)];
  return ours === null || theirs === null ? 0 : compare(theirs, ours);
}

/** Text from strangers stands in a code block, where nothing of it is a link, a mention or markup. */
export function report(account: Account, submission: Submission, checks: Check[]): string {
  const { manifest, tag, git_url, commit, digest, signature } = submission;
  const facts = [
    `plugin     ${manifest.name} ${tag}`,
    `submitter  ${account.login} (${account.owner})`,
    `repository ${git_url}`,
    `commit     ${commit}`,
    `digest     ${digest}`,
    `signature  ${signature ?? "none"}`,
  ];
  const lines = checks.map(({ name, ok, text }) => `${ok ? "ok    " : "FAILED"} ${name.padEnd(10)} ${text}`);
  const plain = [...facts, "", ...lines].join("\n").replaceAll("```", "'''");
  return `The automatic checks passed. Compare the files at the tag, then merge.\n\n\`\`\`text\n${plain}\n\`\`\`\n`;
}

class Index {
  private readonly base: string;
  private readonly token: string;

  constructor(private readonly env: Env) {
    if (env.INDEX_REPOSITORY === "" || env.GITHUB_TOKEN === undefined || env.GITHUB_TOKEN === "") {
      refuse(503, "Takes no submissions", "This registry has no index repository (INDEX_REPOSITORY and GITHUB_TOKEN).");
    }
    this.base = `/repos/${env.INDEX_REPOSITORY}`;
    this.token = env.GITHUB_TOKEN;
  }

  private async ask<T>(method: string, path: string, expected: number[], body?: unknown): Promise<Reply<T>> {
    const reply = await call<T>(this.env, this.token, method, `${this.base}${path}`, body);
    if (!expected.includes(reply.status)) {
      const detail = `GitHub answered ${reply.status} to ${method} ${path}; the registry's operator has to look at it.`;
      refuse(502, "The index repository refused", detail);
    }
    return reply;
  }

  async file(path: string, branch = this.env.INDEX_BRANCH): Promise<{ entry: Entry; sha: string } | null> {
    type Content = { content: string; sha: string };
    const reply = await this.ask<Content>("GET", `/contents/${path}?ref=${encodeURIComponent(branch)}`, [200, 404]);
    if (reply.status === 404) return null;
    const entry: unknown = JSON.parse(decoded(reply.body.content));
    const problems = misfits("entry", entry);
    if (problems.length) refuse(502, "The index is damaged", `${path} doesn't fit its schema: ${problems.join("; ")}`);
    return { entry: entry as Entry, sha: reply.body.sha };
  }

  /** Make the branch start at the published one, also when it is there from an earlier try. */
  async branch(name: string): Promise<void> {
    const head = await this.ask<Pointer>("GET", `/git/ref/heads/${this.env.INDEX_BRANCH}`, [200]);
    const { sha } = head.body.object;
    const made = await this.ask("POST", "/git/refs", [201, 422], { ref: `refs/heads/${name}`, sha });
    if (made.status === 422) await this.ask("PATCH", `/git/refs/heads/${name}`, [200], { sha, force: true });
  }

  async write(branch: string, path: string, text: string, message: string): Promise<void> {
    type Content = { sha: string };
    const there = await this.ask<Content>("GET", `/contents/${path}?ref=${encodeURIComponent(branch)}`, [200, 404]);
    const sha = there.status === 200 ? { sha: there.body.sha } : {};
    await this.ask("PUT", `/contents/${path}`, [200, 201], { message, content: encoded(text), branch, ...sha });
  }

  async propose(branch: string, title: string, body: string): Promise<string> {
    const owner = this.env.INDEX_REPOSITORY.split("/")[0];
    const head = encodeURIComponent(`${owner}:${branch}`);
    const open = await this.ask<Pull[]>("GET", `/pulls?state=open&head=${head}`, [200]);
    const [pull] = open.body;
    if (pull !== undefined) {
      await this.ask("PATCH", `/pulls/${pull.number}`, [200], { title, body });
      return pull.html_url;
    }
    const base = this.env.INDEX_BRANCH;
    const made = await this.ask<Pull>("POST", "/pulls", [201], { title, body, head: branch, base, maintainer_can_modify: true });
    return made.body.html_url;
  }
}
