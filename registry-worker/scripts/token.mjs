// An author token: printed once for the author, and the SQL that lets the registry know its hash.
//
//   npm run token -- ada
import { createHash, randomBytes } from "node:crypto";

const login = process.argv[2];
if (!/^[A-Za-z0-9-]{1,39}$/.test(login ?? "")) {
  console.error("usage: npm run token -- LOGIN   (the author's GitHub login: letters, digits and hyphens)");
  process.exit(2);
}
const token = `lumia_${randomBytes(32).toString("base64url")}`;
const hash = createHash("sha256").update(token).digest("hex");
const sql = `INSERT INTO tokens VALUES ('${hash}', '${login}', '${new Date().toISOString()}', NULL)`;
console.log(`For ${login}, shown only now: ${token}\n`);
console.log(`npx wrangler d1 execute DB --remote --command "${sql}"`);
