import { configDefaults, defineConfig } from 'vitest/config';
import { limitMs } from './test/harness/limits.ts';

/** What holds for every test, of the search for faults too. */
export const common = {
  maxWorkers: 2,
  testTimeout: limitMs,
  hookTimeout: limitMs,
  teardownTimeout: limitMs,
  // A zone with half hours and daylight saving: code that reads local time by accident fails here.
  env: { TZ: 'America/St_Johns' },
};

/** The long part of `make check`: whole processes at every turn, pages that are typed, long properties, and files so named. */
const long = ['test/e2e/**/*.test.ts', 'test/**/*.long.test.ts'];
/** The one end-to-end path that `make test` takes. */
const path = 'test/e2e/path.test.ts';
/** Files that put another module in the place of one of ours, which those that ran before them have loaded already. */
const replacing = ['test/app/raw.test.ts'];
// `make torture` and `make test-readers`.
const elsewhere = [...configDefaults.exclude, 'test/faults/**', 'test/readers/**'];

// To start a process and to load the program takes about a second, as long as many a file takes: so the files share two
// processes, and what one changes of its process it has to put back.
const project = (name: string, include: string[], exclude: string[], isolate = false) => ({
  extends: true as const,
  test: { name, include, exclude: [...elsewhere, ...exclude], isolate },
});

export default defineConfig({
  test: {
    ...common,
    projects: [
      project(
        'quick',
        ['test/**/*.test.ts'],
        [...long.filter((each) => !each.includes('e2e')), 'test/e2e/!(path).test.ts', ...replacing],
      ),
      project('long', long, [path]),
      project('alone', replacing, [], true),
    ],
  },
});
