import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// Requirements of tests on the machine. A test without its requirement is skipped, and the end of the run says why
// (test/harness/reporter.ts); in CI a skipped test fails the run.

declare module 'vitest' {
  interface TaskMeta {
    /** Why the test was skipped. */
    missing?: string;
  }
}

/** Whether test/check.sh leaves out the tests over PostgreSQL, and their reason: also in CI they may be skipped then. */
export const isWithoutPostgres = Boolean(process.env.WITHOUT_POSTGRES);
export const withoutPostgres = 'PostgreSQL is left out: its code did not change';

/** Options of a test or a describe block that is skipped with this reason; null runs it. */
export const skipWithReason = (missing: string | null): { skip?: true; meta?: { missing: string } } =>
  missing === null ? {} : { skip: true, meta: { missing } };

const isInstalled = (command: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' }).status === 0;

/** Options of a test that runs these commands. */
export function needsCommands(...commands: string[]): ReturnType<typeof skipWithReason> {
  const missing = commands.filter((command) => !isInstalled(command));
  return skipWithReason(missing.length === 0 ? null : `${missing.join(', ')} is not installed`);
}

/** Options of a test that reads a file or folder. */
export const needsPath = (path: string, missing: string): ReturnType<typeof skipWithReason> =>
  skipWithReason(existsSync(path) ? null : missing);

/** Options of a test that starts versitygw, an S3 server. */
export function needsObjectStorage(): ReturnType<typeof skipWithReason> {
  const script = new URL('../versitygw.sh', import.meta.url).pathname;
  const { status } = spawnSync(script, ['--check'], { stdio: 'ignore' });
  return skipWithReason(status === 0 ? null : 'versitygw is not built, and there is no Go of version 1.25 or newer');
}
