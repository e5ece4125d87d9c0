import { configDefaults, defineConfig } from 'vitest/config';

/** What holds for every test, of the search for faults too. */
export const usual = {
  maxWorkers: 2,
  testTimeout: 20_000,
  hookTimeout: 20_000,
  // A zone with half hours and daylight saving: code that reads local time by accident fails here.
  env: { TZ: 'America/St_Johns' },
};

/** Files that put another module in the place of one of ours, which those that ran before them have loaded already. */
const replacing = ['test/app/raw.test.ts'];
// The rest search, and take their time: see vitest.torture.config.ts.
const elsewhere = [...configDefaults.exclude, 'test/faults/**', 'test/readers/**'];

export default defineConfig({
  test: {
    ...usual,
    projects: [
      // To start a process and to load the program takes about a second, as long as many a file takes: so the files share
      // two processes, and what one changes of its process it has to put back.
      {
        extends: true,
        test: {
          ...{ name: 'shared', isolate: false },
          ...{ include: ['test/**/*.test.ts'], exclude: [...elsewhere, ...replacing] },
        },
      },
      { extends: true, test: { name: 'alone', include: replacing, exclude: elsewhere } },
    ],
  },
});
