/** GitHub's API as far as the registry uses it: repositories with tags and files, branches and pull requests. */
import { decoded, encoded } from "../src/github";

export interface Repo {
  owner: string;
  tags: Record<string, string>;
  files: Record<string, string>;
  pushers: string[];
  modes?: Record<string, string>;
  sizes?: Record<string, number>;
  private?: boolean;
  stars?: number;
}

interface Pull {
  number: number;
  title: string;
  body: string;
  head: string;
}

const API = "https://api.github.test";

export class FakeGitHub {
  users: Record<string, { id: number; login: string }> = { "ghp_ada_0123456789abcdef": { id: 1, login: "ada" } };
  repos: Record<string, Repo> = {};
  /** branch → path → text, of the index repository. */
  index: Record<string, Record<string, string>> = { main: {} };
  pulls: Pull[] = [];
  calls: string[] = [];
  down: number | null = null;

  readonly fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    const url = new URL(request.url);
    const path = url.pathname + url.search;
    this.calls.push(`${request.method} ${url.origin === API ? "" : url.origin}${path}`);
    if (this.down !== null) return json(this.down, {});
    if (url.origin !== API) return new Response("", { status: 404 });
    const body = request.method === "GET" ? null : await request.json();
    return this.answer(request, url, body as Record<string, string>);
  };

  private answer(request: Request, url: URL, body: Record<string, string>): Response {
    const token = request.headers.get("Authorization")?.replace(/^Bearer /, "") ?? "";
    const at = `${request.method} ${url.pathname}`;
    if (at === "GET /user") return token in this.users ? json(200, this.users[token]) : json(401, {});
    const app = /^POST \/applications\/(\w+)\/token$/.exec(at);
    if (app) return body.access_token! in this.users ? json(200, { user: this.users[body.access_token!] }) : json(404, {});
    const [, owner, name, rest = ""] = /^\/repos\/([^/]+)\/([^/]+)(\/.*)?$/.exec(url.pathname) ?? [];
    if (`${owner}/${name}` === "lumia/index") return this.indexed(request.method, rest, url, body);
    const repo = this.repos[`${owner}/${name}`];
    if (repo === undefined) return json(404, {});
    return this.repository(repo, rest, this.users[token]?.login);
  }

  private repository(repo: Repo, rest: string, login: string | undefined): Response {
    if (rest === "") {
      const permissions = login === undefined ? undefined : { push: repo.pushers.includes(login) };
      const about = { owner: { login: repo.owner }, private: repo.private ?? false, stargazers_count: repo.stars ?? 0 };
      return json(200, { ...about, permissions });
    }
    const tag = /^\/git\/ref\/tags\/(.+)$/.exec(rest)?.[1];
    if (tag !== undefined) {
      return tag in repo.tags ? json(200, { object: { type: "tag", sha: "f".repeat(40) } }) : json(404, {});
    }
    if (rest.startsWith("/git/tags/")) return json(200, { object: { type: "commit", sha: Object.values(repo.tags)[0] } });
    if (rest.startsWith("/git/trees/")) {
      const tree = Object.entries(repo.files).map(([path, text]) => ({
        path,
        mode: repo.modes?.[path] ?? "100644",
        type: repo.modes?.[path] === "160000" ? "commit" : "blob",
        size: repo.sizes?.[path] ?? new TextEncoder().encode(text).length,
      }));
      return json(200, { truncated: false, tree });
    }
    const file = /^\/contents\/(.+)$/.exec(rest)?.[1] ?? "";
    return file in repo.files ? json(200, { encoding: "base64", content: encoded(repo.files[file]!) }) : json(404, {});
  }

  private indexed(method: string, rest: string, url: URL, body: Record<string, string>): Response {
    if (rest === "/git/ref/heads/main") return json(200, { object: { sha: "1".repeat(40) } });
    if (method === "POST" && rest === "/git/refs") {
      const branch = body.ref!.replace("refs/heads/", "");
      if (branch in this.index) return json(422, { message: "Reference already exists" });
      this.index[branch] = { ...this.index.main };
      return json(201, {});
    }
    if (method === "PATCH" && rest.startsWith("/git/refs/heads/")) {
      this.index[rest.replace("/git/refs/heads/", "")] = { ...this.index.main };
      return json(200, {});
    }
    const path = /^\/contents\/(.+)$/.exec(rest)?.[1];
    if (path !== undefined && method === "GET") {
      const text = this.index[url.searchParams.get("ref") ?? "main"]?.[path];
      return text === undefined ? json(404, {}) : json(200, { content: encoded(text), sha: hash(text) });
    }
    if (path !== undefined && method === "PUT") {
      const files = this.index[body.branch!]!;
      if (path in files && body.sha !== hash(files[path]!)) return json(409, { message: "sha wasn't supplied" });
      files[path] = decoded(body.content!);
      return json(201, {});
    }
    if (rest === "/pulls" && method === "GET") {
      const head = url.searchParams.get("head")?.replace("lumia:", "");
      return json(200, this.pulls.filter((pull) => pull.head === head).map(shown));
    }
    if (rest === "/pulls") {
      const pull = { number: this.pulls.length + 1, title: body.title!, body: body.body!, head: body.head! };
      this.pulls.push(pull);
      return json(201, shown(pull));
    }
    const number = /^\/pulls\/(\d+)$/.exec(rest)?.[1];
    if (number !== undefined) {
      Object.assign(this.pulls[Number(number) - 1]!, body);
      return json(200, {});
    }
    if (rest === "/git/trees/main") {
      const tree = Object.entries(this.index.main!).map(([path, text]) => ({ path, type: "blob", sha: hash(text) }));
      return json(200, { truncated: false, tree });
    }
    const text = Object.values(this.index.main!).find((one) => rest === `/git/blobs/${hash(one)}`);
    return text === undefined ? json(404, {}) : json(200, { content: encoded(text) });
  }

  /** What a reviewer does. */
  merge(number: number): void {
    const { head } = this.pulls[number - 1]!;
    this.index.main = { ...this.index[head] };
    this.pulls.splice(number - 1, 1);
  }
}

function shown({ number }: Pull): { number: number; html_url: string } {
  return { number, html_url: `https://github.test/lumia/index/pull/${number}` };
}

function json(status: number, body: unknown): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}

function hash(text: string): string {
  let sum = 7;
  for (const letter of text) sum = (sum * 31 + letter.charCodeAt(0)) >>> 0;
  return sum.toString(16).padStart(40, "0");
}
