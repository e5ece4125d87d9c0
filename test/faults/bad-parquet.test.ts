import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { indexTickFile } from '../../src/archive/parquet/ticks-file.ts';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { DamageError, UsageError } from '../../src/base/errors.ts';
import { answer, append, day0, opened, publishedTicks, publishNow } from '../archive/scratch.ts';
import { importInto } from '../e2e/import-lake.ts';
import { limitMs, MachineTooSlow } from '../harness/limits.ts';
import { badFiles, createFile, goodTicks, readable } from './bad-parquet.ts';
import { fastScratch } from './damage-lake.ts';

// Invalid Parquet files as input of an import and in place of published part files: the program prints an error,
// without a crash, a hang, or unbounded memory.

const ticksOf = (root: string): string[] => publishedTicks(root).sort();

/** The output of an import of one file, and what it leaves. */
async function imported(bytes: Uint8Array) {
  const [root, path] = [fastScratch(), join(fastScratch(), 'a.parquet')];
  writeFileSync(path, bytes);
  try {
    const { exit_code, failures, ticks } = await importInto(root, [path]);
    return { code: exit_code, printed: failures.map(({ reason }) => reason).join(), fetched: ticks.fetched, root };
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return { code: 2, printed: error.message, fetched: 0, root };
  }
}

describe('an import of a file with', () => {
  test('no defect accepts its ticks', async () => {
    const { code, root } = await imported(createFile());
    expect([code, ticksOf(root)]).toEqual([0, [...goodTicks].sort()]);
  });

  test.each([...badFiles])('%s reports that the file is unreadable, and accepts nothing', async (name, bytes) => {
    const { code, printed, fetched, root } = await imported(bytes);
    if (readable.has(name) && code === 0) {
      expect(ticksOf(root)).toEqual([...readable.get(name)!].sort());
      return;
    }
    expect([2, 4], printed).toContain(code);
    expect(printed).toMatch(/a\.parquet: (cannot be read|column|missing column)/);
    expect(printed).not.toContain('\n');
    expect([fetched, ticksOf(root)]).toEqual([0, []]);
  });
});

/** Files from which no tick may be accepted. */
const unreadable = [...badFiles].filter(([name]) => !readable.has(name));

const memoryKbMax = 700_000;

test('one process imports a folder of bad files with little memory and accepts the good one', async () => {
  const [root, files] = [fastScratch(), fastScratch()];
  const bad = unreadable.map(([, bytes]) => bytes);
  for (const [i, bytes] of [...bad, createFile()].entries()) writeFileSync(join(files, `${100 + i}.parquet`), bytes);
  const program = new URL('./measured-main.ts', import.meta.url).pathname;
  const args = ['import', files, '--output', root, '--set', 'source.name=box', '--json', '--quiet'];
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, ...args], {
    env: { PATH: process.env.PATH },
    timeout: limitMs / 2,
    killSignal: 'SIGKILL',
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (data) => (stdout += String(data)));
  child.stderr.on('data', (data) => (stderr += String(data)));
  const [code, signal] = await once(child, 'close');
  if (signal === 'SIGKILL') throw new MachineTooSlow('the end of an import of bad files', limitMs / 2);
  expect([code, signal], stderr).toEqual([4, null]);
  const summary = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Summary;
  expect(summary.failures_count).toBe(bad.length);
  expect(ticksOf(root)).toEqual([...goodTicks].sort());
  const kb = Number(/^maxrss (\d+)$/m.exec(stderr)?.[1]);
  console.log(`${bad.length} bad files in ${Math.round(kb / 1000)} MB`);
  expect(kb).toBeGreaterThan(0);
  expect(kb).toBeLessThan(memoryKbMax);
});

test('verify reports each in place of a published part file, and a publish and sql refuse it', async () => {
  const root = fastScratch();
  const archive = opened({ root, parts: 1 });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  append(archive, answer('AAA', [[day0 + 1, 0.5]]));
  const path = 'ticks/date=2026-06-01/part-00.parquet';
  for (const [name, bytes] of badFiles) {
    writeFileSync(join(root, path), bytes);
    expect((await verifyArchive(archive, null)).findings, name).toEqual([{ path, kind: 'checksum mismatch' }]);
    expect((await publishNow(archive)).refused, name).toEqual([expect.stringContaining(`${path} is damaged`)]);
    await expect(openArchiveQuery(archive, 'FROM ticks', Math.random), name).rejects.toThrow(DamageError);
  }
});

test.each(unreadable)('a part file with %s yields no tick index, even if its hash matches the manifest', (_, bytes) => {
  // The index never claims more than the file contains, and reports the error at once.
  const began = process.memoryUsage().rss;
  try {
    const { keyIndexes, offsets } = indexTickFile(bytes);
    expect(offsets.length).toBe(keyIndexes.size + 1);
  } catch (error) {
    expect(error).toBeInstanceOf(Error);
    expect(error).not.toBeInstanceOf(TypeError);
  }
  expect(process.memoryUsage().rss - began).toBeLessThan(500_000_000);
});
