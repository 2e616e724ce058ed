/** Answers: JSON, HTML, problems (RFC 9457), and the headers that let others keep them. */

export interface Problem {
  status: number;
  title: string;
  detail: string;
  headers?: Record<string, string>;
}

/** Thrown anywhere, answered as application/problem+json. */
export class Refusal extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

export function refuse(status: number, title: string, detail: string, headers: Record<string, string> = {}): never {
  throw new Refusal({ status, title, detail, headers });
}

/** What every answer says, whatever it is. */
export const COMMON = {
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": "ETag, Link, Retry-After, X-Total-Count",
};

export function problem({ status, title, detail, headers }: Problem): Response {
  const body = JSON.stringify({ type: "about:blank", title, status, detail });
  return new Response(body, {
    status,
    headers: { ...COMMON, "Content-Type": "application/problem+json", "Cache-Control": "no-store", ...headers },
  });
}

export function answer(status: number, body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...COMMON, "Content-Type": "application/json", "Cache-Control": "no-store", ...headers },
  });
}

/** An answer that anybody may keep for `seconds`, and asks for again with its ETag afterwards. */
export async function cacheable(
  body: string,
  type: string,
  seconds: number,
  headers: Record<string, string> = {},
): Promise<Response> {
  return new Response(body, {
    headers: {
      ...COMMON,
      "Content-Type": type,
      "Cache-Control": `public, max-age=${seconds}, stale-while-revalidate=600, stale-if-error=86400`,
      ETag: await etag(body),
      ...headers,
    },
  });
}

async function etag(body: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  return `"${hex(digest).slice(0, 32)}"`;
}

export function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return 304 when the asker has this answer already, and no body for HEAD. */
export function conditional(request: Request, response: Response): Response {
  const tag = response.headers.get("ETag");
  const known = request.headers.get("If-None-Match");
  if (tag !== null && known !== null && matches(known, tag)) {
    return new Response(null, { status: 304, headers: response.headers });
  }
  return request.method === "HEAD" ? new Response(null, response) : response;
}

function matches(known: string, tag: string): boolean {
  const weak = (text: string): string => text.trim().replace(/^W\//, "");
  return known.trim() === "*" || known.split(",").some((one) => weak(one) === weak(tag));
}

/** Return the body, or refuse it once it is longer than `limit` bytes: a declared length is only a hint. */
export async function bodyOf(request: Request, limit: number): Promise<string> {
  const tooLarge = (): never =>
    refuse(413, "Too large", `A submission has at most ${limit} bytes; shorten the README or the changelog.`);
  if (Number(request.headers.get("Content-Length") ?? 0) > limit) tooLarge();
  if (request.body === null) return "";
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of request.body as ReadableStream<Uint8Array>) {
    length += part.byteLength;
    if (length > limit) tooLarge();
    parts.push(part);
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.byteLength;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(whole);
  } catch {
    return refuse(400, "No UTF-8", "The body is not UTF-8.");
  }
}
