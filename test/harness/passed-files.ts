import { existsSync, readFileSync } from 'node:fs';
import { dirname, relative } from 'node:path';
import { isWithoutPostgres } from './needs.ts';

// Tests that have passed already: .ci/run runs the quick ones in a clean clone, and test/check.sh does not repeat them.

/** Environment variable: the JSON results of an earlier run, in the root folder of the tree in which it ran. */
export const passedVariable = 'PASSED_TESTS';

/** The part of a file of vitest's JSON reporter that is read here. */
interface Results {
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly assertionResults: readonly TestResult[];
  }[];
}

interface TestResult {
  readonly status: string;
  readonly fullName: string;
  readonly meta: { readonly missing?: string };
}

interface PassedFiles {
  /** Relative to the root folder. */
  readonly files: readonly string[];
  readonly tests: number;
}

/** Whether a test was skipped for lack of PostgreSQL. */
const needsPostgres = ({ status, fullName, meta }: TestResult): boolean =>
  status === 'skipped' && /PostgreSQL/.test(`${fullName} ${meta.missing}`);

/**
 * The files of a run of which every test passed. A file with a failed or a skipped test, or without any, is none. None
 * without results.
 * @param isWithout whether tests over PostgreSQL are left out, so that skipped ones need not be repeated
 */
export function listPassedFiles(path: string | undefined, isWithout = isWithoutPostgres): PassedFiles {
  if (path === undefined || path === '' || !existsSync(path)) return { files: [], tests: 0 };
  const { testResults } = JSON.parse(readFileSync(path, 'utf8')) as Results;
  const passed = testResults.filter(
    ({ status, assertionResults: tests }) =>
      status === 'passed' &&
      tests.length > 0 &&
      tests.every((test) => test.status === 'passed' || (isWithout && needsPostgres(test))),
  );
  return {
    files: passed.map(({ name }) => relative(dirname(path), name)).sort(),
    tests: passed.flatMap(({ assertionResults }) => assertionResults.filter(({ status }) => status === 'passed'))
      .length,
  };
}
