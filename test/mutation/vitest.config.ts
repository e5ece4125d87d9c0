import { defineConfig } from 'vitest/config';

// The tests that judge a mutant: those of its own room and of those that stand on it, run in threads.
export default defineConfig({
  test: {
    include: ['test/{core,state,archive,ingest}/**/*.test.ts'],
    // A thread's time zone cannot be set.
    exclude: ['test/core/time.test.ts'],
    testTimeout: 120_000,
  },
});
