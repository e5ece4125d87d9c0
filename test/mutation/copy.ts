import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

// Mutation testing in a copy of the project: one change at a time, and the tests that have to fail.

export interface Mutant {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

/** A rule of the source broken on purpose. */
export interface SourceBreak {
  readonly name: string;
  /** `before` occurs exactly once in `file`. */
  readonly edits: readonly (readonly [file: string, before: string, after: string])[];
}

export const root = new URL('../..', import.meta.url).pathname;

/** Several times the duration of the longest command. */
const secondsMax = 60 * Number(process.env.MINUTES || 30);

/** Calls `work` with a copy of a checkout and removes the copy afterwards. */
export async function withCopy<T>(work: (copy: string) => Promise<T> | T, project = root): Promise<T> {
  const copy = mkdtempSync(join(tmpdir(), 'oddslake-mutants-'));
  try {
    const skipped = new Set(['node_modules', 'output', '.git', '.node', '.venv', 'dist']);
    cpSync(project, copy, { recursive: true, filter: (path) => !skipped.has(basename(path)) });
    symlinkSync(join(project, 'node_modules'), join(copy, 'node_modules'));
    return await work(copy);
  } finally {
    unlinkSync(join(copy, 'node_modules'));
    rmSync(copy, { recursive: true, force: true });
  }
}

/** The first vitest call that fails with the mutated line: its index and the failing test. Null if all calls pass. */
export function findCatchingTest(
  mutant: Mutant,
  copy: string,
  calls: readonly (readonly string[])[],
): [number, string] | null {
  const path = join(copy, mutant.file);
  const text = readFileSync(path, 'utf8');
  const lines = text.split('\n');
  lines[mutant.line - 1] = mutant.after;
  writeFileSync(path, lines.join('\n'));
  try {
    for (const [at, args] of calls.entries()) {
      const env = { ...process.env, SEED: process.env.SEED || '20261120' };
      // A mutant may loop forever. timeout(1) also ends the vitest workers, which would otherwise keep running.
      const bounded = [
        '--kill-after=5',
        String(secondsMax),
        join(copy, 'node_modules/.bin/vitest'),
        ...args,
        '--bail=1',
      ];
      const result = spawnSync('timeout', bounded, { cwd: copy, encoding: 'utf8', env, maxBuffer: 2 ** 28 });
      if (result.status !== 0) return [at, nameFailure(result.status, result.stdout + result.stderr)];
    }
    return null;
  } finally {
    writeFileSync(path, text);
  }
}

/**
 * What failed in a run of vitest.
 * @throws if no test did: a run that could not begin detects nothing
 */
function nameFailure(status: number | null, output: string): string {
  const text = stripVTControlCharacters(output);
  const test = /FAIL\s+(.*)/.exec(text)?.[1];
  if (test !== undefined) return test;
  if (status === 124 || status === 137) return 'the time limit';
  if (/Unhandled (Error|Rejection)/.test(text)) return 'an unhandled error';
  throw new Error(`vitest ended with ${status}, and no test failed:\n${text.slice(-2000)}`);
}

/** Calls `work` while the break is applied to the copy. */
export function withBreak<T>({ edits }: SourceBreak, copy: string, work: () => T): T {
  const originals = new Map<string, string>();
  try {
    for (const [file, before, after] of edits) {
      const path = join(copy, file);
      const text = readFileSync(path, 'utf8');
      const occurrences = text.split(before).length - 1;
      if (occurrences !== 1) throw new Error(`${file} contains ${occurrences} times, not once: ${before}`);
      if (!originals.has(path)) originals.set(path, text);
      writeFileSync(
        path,
        text.replace(before, () => after),
      );
    }
    return work();
  } finally {
    for (const [path, text] of originals) writeFileSync(path, text);
  }
}
