/** The JSON Schemas of schema/, which `pkg` is tested with, too. */
import { type Schema, Validator } from "@cfworker/json-schema";
import entrySchema from "../schema/entry.json";
import manifestSchema from "../schema/manifest.json";
import revokedSchema from "../schema/revoked.json";
import submissionSchema from "../schema/submission.json";

export interface VersionRecord {
  tag: string;
  date: string;
  changelog: string;
  commit: string;
  digest: string;
  signature: string | null;
  yanked: string | null;
}

export interface Manifest {
  name: string;
  display_name?: string;
  description?: string;
  author?: string;
  license?: string;
  [key: string]: unknown;
}

export interface Entry {
  name: string;
  git_url: string;
  owner: string;
  manifest: Manifest;
  readme_md: string;
  versions: VersionRecord[];
}

export interface Submission {
  git_url: string;
  tag: string;
  manifest: Manifest;
  commit: string;
  digest: string;
  signature?: string | null;
  size: number;
  files?: number;
  licence: string;
  readme_md?: string;
  changelog?: string;
  validation?: { errors: number; warnings?: number; tool: string };
}

export interface Revoked {
  keys: { fingerprint: string; reason: string; date: string }[];
  versions: { name: string; tag: string; reason: string; date: string }[];
}

function validator(schema: unknown): Validator {
  const made = new Validator(schema as Schema, "2020-12", false);
  if (schema !== manifestSchema) made.addSchema(manifestSchema as unknown as Schema);
  return made;
}

const validators = {
  entry: validator(entrySchema),
  manifest: validator(manifestSchema),
  revoked: validator(revokedSchema),
  submission: validator(submissionSchema),
};

/** Return what doesn't fit the schema, in the words of its deepest complaints; nothing when all fits. */
export function misfits(kind: keyof typeof validators, value: unknown): string[] {
  const { valid, errors } = validators[kind].validate(value);
  if (valid) return [];
  const inner = errors.filter(
    ({ instanceLocation, keyword }) =>
      !["properties", "items", "additionalProperties", "$ref"].includes(keyword) ||
      !errors.some((other) => other.instanceLocation.startsWith(`${instanceLocation}/`)),
  );
  const told = (inner.length ? inner : errors).map(({ instanceLocation, error }) => {
    const place = instanceLocation.replace(/^#\/?/, "").replaceAll("/", ".");
    return place === "" ? error : `${place}: ${error}`;
  });
  return [...new Set(told)].slice(0, 5);
}

/** Return the first character in `value` (and where) that nobody can see: controls and direction marks. */
export function invisible(value: unknown, place = ""): string | null {
  if (typeof value === "string") {
    const odd = /[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u.exec(value);
    if (odd === null) return null;
    const code = (odd[0].codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
    return `${place || "the text"} holds the invisible character U+${code}`;
  }
  if (typeof value !== "object" || value === null) return null;
  for (const [key, inner] of Object.entries(value)) {
    const where = place === "" ? key : `${place}.${key}`;
    const problem = invisible(key, "a key") ?? invisible(inner, where);
    if (problem !== null) return problem;
  }
  return null;
}
