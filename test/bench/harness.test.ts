import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { alternate, type Contender, computeSpeedup, type Outcome, summarise } from '../../bench/harness.ts';
import { findAccounting } from '../../bench/measure.ts';
import { skipWithReason } from '../harness/needs.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

const accounting = findAccounting();

function workplace() {
  const cwd = mkdtempSync(join(scratchRoot, 'oddslake-harness-'));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  const reported: string[] = [];
  return {
    cwd,
    reported,
    /** A shell script as a contender; OUT is the folder that it may create. */
    shell: (name: string, script: string): Contender => {
      const out = join(cwd, `${name}-out`);
      const env = { PATH: process.env.PATH, OUT: out, LOG: join(cwd, 'log') };
      return { name, command: { argv: ['/bin/sh', '-c', script], cwd, env }, out };
    },
    log: () => readFileSync(join(cwd, 'log'), 'utf8').trim().split('\n').join(' '),
    options: (runs: number) => ({ accounting, runs, tell: (line: string) => reported.push(line) }),
  };
}

test('alternates the runs, discards the warm-up, and deletes earlier output', async () => {
  const { shell, log, options } = workplace();
  const script = (name: string) => `mkdir "$OUT" && echo ${name} >> "$LOG"`;
  const both = [shell('a', script('a')), shell('b', script('b'))];
  const outcomes = await alternate(both, options(3));
  expect(log()).toBe('a b a b a b a b');
  expect(outcomes.map((outcome) => 'runs' in outcome && outcome.runs.length)).toEqual([3, 3]);
  expect(both.some(({ out }) => existsSync(out!))).toBe(false);
});

test('turns the order of every other round', async () => {
  const { shell, log, options } = workplace();
  const both = [shell('a', 'echo a >> "$LOG"'), shell('b', 'echo b >> "$LOG"')];
  await alternate(both, { ...options(3), turns: true });
  expect(log()).toBe('a b a b b a a b');
});

test('a contender with fewer rounds takes part in the first ones', async () => {
  const { shell, log, options } = workplace();
  const both = [shell('a', 'echo a >> "$LOG"'), { ...shell('b', 'echo b >> "$LOG"'), runsMax: 1 }];
  const outcomes = await alternate(both, options(2));
  expect(log()).toBe('a b a b a');
  expect(outcomes.map((outcome) => 'runs' in outcome && outcome.runs.length)).toEqual([2, 1]);
});

test('excludes a failing contender with its reason and continues with the others', async () => {
  const { shell, log, reported, options } = workplace();
  const script = 'echo b >> "$LOG"; [ "$(grep -c b "$LOG")" -lt 3 ] || { echo "no room" >&2; exit 9; }';
  const outcomes = await alternate([shell('a', 'echo a >> "$LOG"'), shell('b', script)], options(3));
  expect(outcomes[0]).toMatchObject({ name: 'a', runs: { length: 3 } });
  expect(outcomes[1]).toEqual({ name: 'b', failed: 'exited with 9' });
  expect(log()).toBe('a b a b a b a');
  expect(reported).toContain('b exited with 9:\nno room');
});

test('reports a missing program as a failure', async () => {
  const { cwd, reported, options } = workplace();
  const command = { argv: [join(cwd, 'missing')] as const, cwd, env: {} };
  const [outcome] = await alternate([{ name: 'a', command, out: null }], options(1));
  expect(outcome).toHaveProperty('failed');
  expect(reported.join()).toContain('missing');
});

test('the check sees the output of the warm-up runs and excludes contenders', async () => {
  const { shell, log, options } = workplace();
  const script = (name: string) => `mkdir "$OUT" && echo ${name} > "$OUT/said" && echo ${name} >> "$LOG"`;
  const outputs: string[] = [];
  const outcomes = await alternate([shell('a', script('a')), shell('b', script('b'))], {
    ...options(1),
    async check(standing) {
      for (const { out } of standing) outputs.push(readFileSync(`${out}/said`, 'utf8').trim());
      return new Map([['b', 'wrote other rows']]);
    },
  });
  expect(outputs).toEqual(['a', 'b']);
  expect(outcomes[1]).toEqual({ name: 'b', failed: 'wrote other rows' });
  expect(log()).toBe('a b a');
});

const counts = accounting.name === 'GNU time' || accounting.name.startsWith('wait4');

test(
  'CPU time and memory include child processes',
  skipWithReason(counts ? null : 'neither GNU time nor python3 is installed'),
  async () => {
    const { cwd, options } = workplace();
    appendFileSync(
      join(cwd, 'busy.mjs'),
      'const held = Buffer.alloc(2 ** 27, 1); while (process.cpuUsage().user < 3e5) for (let i = 0; i < 1e5; i++) Math.sqrt(i); held.fill(2);',
    );
    const argv = ['/bin/sh', '-c', `"${process.execPath}" busy.mjs; true`] as const;
    const [outcome] = await alternate([{ name: 'a', command: { argv, cwd, env: {} }, out: null }], options(1));
    const { cpuMs, peakMiB, wallMs } = (outcome as Extract<Outcome, { runs: unknown }>).runs[0]!;
    expect(cpuMs).toBeGreaterThan(290);
    expect(wallMs).toBeGreaterThan(290);
    expect(peakMiB).toBeGreaterThan(128);
    expect(peakMiB).toBeLessThan(512);
  },
);

test('medians skip figures that the machine cannot measure; ratios give the speed relative to a peer', () => {
  const run = (wallMs: number) => ({ wallMs, cpuMs: wallMs * 2, peakMiB: null });
  expect(summarise([run(10), run(30), run(20)])).toEqual({
    wallMs: 20,
    cpuMs: 40,
    peakMiB: null,
    wallSpread: { median: 20, min: 10, max: 30 },
  });
  // A slow peer takes part in the first rounds only.
  expect(computeSpeedup([run(10), run(20), run(90)], [run(30), run(40)])).toEqual({ median: 2.5, min: 2, max: 3 });
  expect(computeSpeedup([run(10), run(20)], [run(30), run(40)])).toEqual({ median: 2.5, min: 2, max: 3 });
});
