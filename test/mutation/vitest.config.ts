import { defineConfig } from 'vitest/config';

/** The tests that judge the mutants of a room: its own and, of the archive, those of the state that it is written to. */
const judges: Readonly<Record<string, string>> = { core: 'core', archive: '{archive,state}', ingest: 'ingest' };

export default defineConfig({
  test: {
    include: [`test/${judges[process.env.ROOM || 'core']}/**/*.test.ts`],
    // A thread's time zone cannot be set, as these do.
    exclude: ['test/core/time-zones.test.ts'],
    testTimeout: 120_000,
  },
});
