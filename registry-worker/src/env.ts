/** What the worker is bound to: wrangler.jsonc and its secrets. */
export interface Env {
  DB: D1Database;
  READS: RateLimit;
  SUBMISSIONS: RateLimit;
  INDEX_REPOSITORY: string;
  INDEX_BRANCH: string;
  GITHUB_API: string;
  GITHUB_HOST: string;
  GITHUB_CLIENT_ID: string;
  CACHE_SECONDS: string;
  /** A sentence for who has no token: where to ask for one. */
  TOKEN_HELP?: string;
  GITHUB_TOKEN?: string;
  GITHUB_CLIENT_SECRET?: string;
}

interface RateLimit {
  limit(options: { key: string }): Promise<{ success: boolean }>;
}
