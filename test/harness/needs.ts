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

/** Options of a test or a describe block that is skipped with this reason; null runs it. */
export const skippedFor = (missing: string | null): { skip?: true; meta?: { missing: string } } =>
  missing === null ? {} : { skip: true, meta: { missing } };

const isHere = (command: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${command}`], { stdio: 'ignore' }).status === 0;

/** Options of a test that runs these commands. */
export function needsCommands(...commands: string[]): ReturnType<typeof skippedFor> {
  const missing = commands.filter((command) => !isHere(command));
  return skippedFor(missing.length === 0 ? null : `${missing.join(', ')} is not installed`);
}

/** Options of a test that reads a file or folder. */
export const needsPath = (path: string, missing: string): ReturnType<typeof skippedFor> =>
  skippedFor(existsSync(path) ? null : missing);
