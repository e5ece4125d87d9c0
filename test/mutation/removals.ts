/**
 * Takes out, one at a time, what makes the archive durable and its readers careful: each sync, rename, link, folder and
 * lock, and turns each comparison of checksums; then some test has to fail. Those of the rooms are run first, then the
 * search for crash points. Run: make mutants; ONLY=commit for files of that name, LIST=1 to see what would be tried.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';

interface Mutant {
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly before: string;
  readonly after: string;
}

const root = new URL('../..', import.meta.url).pathname;
/** A call, whatever its arguments call themselves. */
const durable =
  /\b(?:\w+\.)*(?:disk|calls|lock)\.(?:sync|syncFolder|rename|link|makeFolder|release)\((?:[^()]|\([^()]*\))*\)/;
const checksum = /sha256.*(?:!==|===)|(?:!==|===).*(?:sha256|hash)\b/;

function mutantsOf(file: string): Mutant[] {
  const lines = readFileSync(join(root, file), 'utf8').split('\n');
  return lines.flatMap((before, at): Mutant[] => {
    if (/^\s*(\*|\/\/|\/\*)/.test(before)) return [];
    const found = (after: string): Mutant[] => [{ file, line: at + 1, before, after }];
    if (durable.test(before)) return found(before.replace(durable, 'undefined'));
    if (!checksum.test(before)) return [];
    return found(before.replace(/!==|===/, (sign) => (sign === '===' ? '!==' : '===')));
  });
}

/** Whether some test fails in a copy of the project with this line changed. */
function isCaught(mutant: Mutant, copy: string): string | null {
  const path = join(copy, mutant.file);
  const text = readFileSync(path, 'utf8');
  const lines = text.split('\n');
  lines[mutant.line - 1] = mutant.after;
  writeFileSync(path, lines.join('\n'));
  try {
    for (const args of [
      ['run', '--bail=1', 'test/archive', 'test/state', 'test/reading'],
      ['run', '--bail=1', '--config', 'vitest.torture.config.ts', ...sweeps],
    ]) {
      const env = { ...process.env, SEED: process.env.SEED || '1' };
      // A mutant may go round for ever; timeout(1) ends the workers of vitest too, which would outlive it.
      const bounded = ['--kill-after=5', String(secondsMax), join(root, 'node_modules/.bin/vitest'), ...args];
      const ended = spawnSync('timeout', bounded, { cwd: copy, encoding: 'utf8', env });
      if (ended.status !== 0) return /FAIL\s+(.*)/.exec(ended.stdout + ended.stderr)?.[1] ?? 'the run itself';
    }
    return null;
  } finally {
    writeFileSync(path, text);
  }
}

/** For the tests of the rooms, and again for the searches: several times what they take. */
const secondsMax = 1800;

/** The searches that look at every crash point, and at damage. */
const sweeps = ['test/faults/sweep', 'test/faults/damage'];

const files = globSync('src/{archive,state}/**/*.ts', { cwd: root }).sort();
const only = process.env.ONLY ?? '';
const mutants = files.filter((file) => basename(file).includes(only)).flatMap(mutantsOf);
if (process.env.LIST) {
  for (const { file, line, before } of mutants) console.log(`${file}:${line}  ${before.trim()}`);
} else {
  const copy = mkdtempSync(join(tmpdir(), 'oddslake-mutants-'));
  const left: Mutant[] = [];
  try {
    const skipped = new Set(['node_modules', 'output', '.git', '.node', 'dist']);
    cpSync(root, copy, { recursive: true, filter: (path) => !skipped.has(basename(path)) });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    for (const [n, mutant] of mutants.entries()) {
      const by = isCaught(mutant, copy);
      if (by === null) left.push(mutant);
      const what = `${mutant.file}:${mutant.line}  ${mutant.before.trim()}`;
      console.log(
        `${n + 1}/${mutants.length} ${by === null ? 'SURVIVED' : 'caught'}  ${what}${by === null ? '' : `  (${by})`}`,
      );
    }
  } finally {
    unlinkSync(join(copy, 'node_modules'));
    rmSync(copy, { recursive: true, force: true });
  }
  console.log(`${mutants.length - left.length} of ${mutants.length} caught`);
}
