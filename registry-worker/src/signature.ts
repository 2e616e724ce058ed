/** Ed25519 signatures of versions (docs/signing.md): `ed25519:<SHA-256 of the key>:<base64 key>:<base64 signature>`. */
import { hex } from "./http";

export interface Parts {
  fingerprint: string;
  key: Uint8Array;
  signature: Uint8Array;
}

export function parts(text: string): Parts | null {
  const match = /^ed25519:(\S+):([A-Za-z0-9+/=_-]+):([A-Za-z0-9+/=_-]+)$/.exec(text);
  const [, fingerprint, key, signature] = match ?? [];
  if (fingerprint === undefined || key === undefined || signature === undefined) return null;
  try {
    return { fingerprint, key: bytes(key), signature: bytes(signature) };
  } catch {
    return null;
  }
}

function bytes(base64: string): Uint8Array {
  const standard = base64.replaceAll("-", "+").replaceAll("_", "/");
  return Uint8Array.from(atob(standard), (letter) => letter.charCodeAt(0));
}

/** Tell whether the key really signed this version of this plugin. */
export async function holds(
  name: string,
  tag: string,
  digest: string,
  { fingerprint, key, signature }: Parts,
): Promise<boolean> {
  if (key.length !== 32 || signature.length !== 64) return false;
  if (fingerprint !== hex(await crypto.subtle.digest("SHA-256", key))) return false;
  const signed = new TextEncoder().encode(`lumia-package-v1\n${name}\n${tag}\n${digest}\n`);
  const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, signed);
}
