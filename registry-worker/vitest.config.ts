import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";

export default defineConfig(async () => ({
  plugins: [
    cloudflareTest({
      wrangler: { configPath: "./wrangler.jsonc" },
      miniflare: {
        bindings: {
          TEST_MIGRATIONS: await readD1Migrations("./migrations"),
          INDEX_REPOSITORY: "lumia/index",
          GITHUB_API: "https://api.github.test",
          GITHUB_HOST: "github.test",
          GITHUB_CLIENT_ID: "app1",
          GITHUB_CLIENT_SECRET: "app-secret",
          GITHUB_TOKEN: "bot-token-of-the-registry",
          CACHE_SECONDS: "0",
        },
      },
    }),
  ],
  test: { setupFiles: ["./test/setup.ts"], testTimeout: 20_000 },
}));
