import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

// A copy of the project in which one line at a time is changed, and the tests that have to see it.

export interface Mutant {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

export const root = new URL('../..', import.meta.url).pathname;

/** Several times what the longest of the commands takes. */
const secondsMax = 1800;

/** Calls `work` with a copy of the project, which is removed afterwards. */
export async function withCopy<T>(work: (copy: string) => Promise<T> | T): Promise<T> {
  const copy = mkdtempSync(join(tmpdir(), 'oddslake-mutants-'));
  try {
    const skipped = new Set(['node_modules', 'output', '.git', '.node', '.venv', 'dist']);
    cpSync(root, copy, { recursive: true, filter: (path) => !skipped.has(basename(path)) });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    return await work(copy);
  } finally {
    unlinkSync(join(copy, 'node_modules'));
    rmSync(copy, { recursive: true, force: true });
  }
}

/** Which of the calls of vitest fails first with this line changed, and by which test; null where all pass. */
export function caughtBy(mutant: Mutant, copy: string, calls: readonly (readonly string[])[]): [number, string] | null {
  const path = join(copy, mutant.file);
  const text = readFileSync(path, 'utf8');
  const lines = text.split('\n');
  lines[mutant.line - 1] = mutant.after;
  writeFileSync(path, lines.join('\n'));
  try {
    for (const [at, args] of calls.entries()) {
      const env = { ...process.env, SEED: process.env.SEED || '20261120' };
      // A mutant may go round for ever; timeout(1) ends the workers of vitest too, which would outlive it.
      const bounded = [
        '--kill-after=5',
        String(secondsMax),
        join(root, 'node_modules/.bin/vitest'),
        ...args,
        '--bail=1',
      ];
      const ended = spawnSync('timeout', bounded, { cwd: copy, encoding: 'utf8', env, maxBuffer: 2 ** 28 });
      if (ended.status !== 0) return [at, /FAIL\s+(.*)/.exec(ended.stdout + ended.stderr)?.[1] ?? 'the run itself'];
    }
    return null;
  } finally {
    writeFileSync(path, text);
  }
}
