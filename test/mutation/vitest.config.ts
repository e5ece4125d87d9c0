import { defineConfig } from 'vitest/config';

// The tests that judge a mutant: those of its own room and of those that stand on it, run in threads.
export default defineConfig({
  test: {
    include: ['test/{core,state,archive,ingest}/**/*.test.ts'],
    // A thread's time zone cannot be set; and one that measures requests takes long when every branch is counted.
    exclude: ['test/core/time.test.ts', 'test/ingest/requests.test.ts'],
    testTimeout: 120_000,
  },
});
