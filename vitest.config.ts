import { configDefaults, defineConfig } from 'vitest/config';
import { limitMs } from './test/harness/limits.ts';
import { orderLongestFirst } from './test/harness/longest-first.ts';
import { requireNode } from './test/harness/node-version.ts';
import { listPassedFiles, passedVariable } from './test/harness/passed-files.ts';
import { runEnvironment } from './test/harness/run-folder.ts';

requireNode(process.version);

/** What holds for every test, of the search for faults too. */
export const common = {
  maxWorkers: 2,
  testTimeout: limitMs,
  hookTimeout: limitMs,
  teardownTimeout: limitMs / 5,
  globalSetup: './test/harness/run-folder.ts',
  setupFiles: './test/harness/cpu-time.ts',
  reporters: [
    'default',
    './test/harness/reporter.ts',
    ...(process.env.TEST_RESULTS === undefined ? [] : [['json', { outputFile: process.env.TEST_RESULTS }] as const]),
  ] as (string | ['json', { outputFile: string }])[],
  env: {
    // Unless one is set, a zone with half hours and daylight saving: code that reads local time by accident fails here.
    TZ: process.env.TZ ?? 'America/St_Johns',
    ...runEnvironment(process.pid),
  },
};

/**
 * Left to `make check`, with what vitest.torture.config.ts and test/readers have: files that take more than two seconds of
 * CPU time, and all that run the program.
 */
const long = ['test/e2e/**/*.test.ts', 'test/**/*.long.test.ts'];
const elsewhere = [
  ...configDefaults.exclude,
  ...['test/faults/**', 'test/readers/**', 'test/clients/**'],
  // Torture begins with the same requests and generates more.
  'test/server/generated.long.test.ts',
];
/** Quick tests that .ci/run has run in another clone of this commit. */
const passed = listPassedFiles(process.env[passedVariable]).files;
// Tests that start a run of their own mean all of it.
delete process.env[passedVariable];

/** Small files that take half a minute or more. */
const longest = ['green-implies-whole', 'recheck-nights', 'pages', 'adversary', 'push-faults', 'backtests'].map(
  (name) => `${name}.long.test.ts`,
);

// To start a process and to load the program takes about a second, as long as many a file takes: so the files share two
// processes, and what one changes of its process it has to put back.
const project = (name: string, include: string[], exclude: string[]) => ({
  extends: true as const,
  test: { name, include, exclude: [...elsewhere, ...exclude], isolate: false },
});

export default defineConfig({
  test: {
    ...common,
    sequence: { sequencer: orderLongestFirst(longest) },
    projects: [project('quick', ['test/**/*.test.ts'], [...long, ...passed]), project('long', long, [])],
  },
});
