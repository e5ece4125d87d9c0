import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['**/some-of-each.ts'], reporters: [new URL('../reporter.ts', import.meta.url).pathname] },
});
