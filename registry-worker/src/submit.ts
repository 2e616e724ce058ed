/** POST /pkg: who, what, checks, pull request. */
import { authenticate } from "./auth";
import { examine } from "./checks";
import type { Env } from "./env";
import { answer, bodyOf, refuse } from "./http";
import { open } from "./pull_request";
import type { Submission } from "./schema";

const MOST_BYTES = 1024 * 1024;

export async function submit(request: Request, env: Env, address: string): Promise<Response> {
  // Before anything is asked of D1 or GitHub: whoever floods this address must not flood those.
  await spend(env, `address:${address}`);
  const account = await authenticate(request, env);
  await spend(env, account.owner);
  const type = request.headers.get("Content-Type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") refuse(415, "No JSON", "A submission is sent as application/json.");
  const data = parsed(await bodyOf(request, MOST_BYTES));
  const checks = await examine(env, account, data);
  const ok = checks.every((check) => check.ok);
  if (!ok) return answer(422, { pull_request: null, checks });
  const pull = await open(env, account, data as Submission, checks);
  return answer(202, { pull_request: pull, checks });
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    return refuse(400, "No JSON", `The body is no JSON: ${error instanceof Error ? error.message : "unknown"}`);
  }
}

async function spend(env: Env, key: string): Promise<void> {
  const { success } = await env.SUBMISSIONS.limit({ key });
  if (!success) refuse(429, "Too many submissions", "Wait a minute, then try again.", { "Retry-After": "60" });
}
