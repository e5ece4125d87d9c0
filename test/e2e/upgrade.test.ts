import { join } from 'node:path';
import { expect, test } from 'vitest';
import { formatVersion } from '../../src/archive/format/manifest.ts';
import { tryLock } from '../../src/archive/journal/lock.ts';
import { turnedBack } from '../archive/older.ts';
import { jobHere as job, runHere } from './here.ts';
import { expectSentence, fixedDay, fixedNow, folder, hashes, manifestOf, run, sandbox } from './lake.ts';

test('reads an older archive, and publishes into it only after oddslake upgrade', async () => {
  const output = folder();
  const box = await sandbox({ seed: 12, nowMs: fixedNow, markets: 4, ticksPerDay: 100 });
  expect((await job('backfill', box.url, output, '--from', '2025-06-13', '--to', '2025-06-14')).code).toBe(0);
  turnedBack(output);
  const before = hashes(output, 'ticks');
  const asked = box.stats().requests;

  const readers = [['status'], ['gaps'], ['symbols'], ['changes', '--since', '0'], ['verify']];
  const reads = await Promise.all(
    [...readers, ['sql', 'SELECT count(*) FROM ticks']].map((args) => run([...args, '--output', output])),
  );
  for (const { code, stderr } of reads) expect(code, stderr).toBe(0);

  for (const refused of [
    await job('nightly', box.url, output, '--date', fixedDay),
    await job('backfill', box.url, output, '--from', '2025-06-12', '--to', '2025-06-13'),
    await job('publish', box.url, output),
  ]) {
    expectSentence(refused, 2, /has format 1, and this oddslake writes format \d+.*oddslake upgrade/);
    expect(refused.summary).toMatchObject({ outcome: 'usage', requests: 0 });
  }
  expect(box.stats().requests).toBe(asked);
  expect(manifestOf(output).format_version).toBe(1);

  const upgraded = await runHere(['upgrade', '--output', output, '--json']);
  expect(upgraded.code, upgraded.stderr).toBe(0);
  expect(JSON.parse(upgraded.stdout)).toMatchObject({
    archive: output,
    from_format: 1,
    to_format: formatVersion,
    generation: 2,
    inferred: { windows: expect.any(Number), symbols: expect.any(Number), expected_requests: expect.any(Number) },
  });
  expect(hashes(output, 'ticks')).toEqual(before);
  const again = await runHere(['upgrade', '--output', output]);
  expect([again.code, again.stdout]).toEqual([0, `${output} already has format ${formatVersion}: nothing to do\n`]);
  expect((await runHere(['verify', '--output', output])).code).toBe(0);
  expect((await job('nightly', box.url, output, '--date', fixedDay)).code).toBe(0);
});

test('of two concurrent upgrades one does the work; without waiting it exits 5', async () => {
  const output = folder();
  const box = await sandbox({ seed: 13, nowMs: fixedNow, markets: 2, ticksPerDay: 50 });
  expect((await job('backfill', box.url, output, '--from', '2025-06-13', '--to', '2025-06-14')).code).toBe(0);
  turnedBack(output);
  const lock = tryLock(join(output, '.oddslake', 'lock.sqlite'))!;
  const impatient = await run(['upgrade', '--output', output, '--wait', '0']);
  expect([impatient.code, impatient.stderr]).toEqual([
    5,
    expect.stringMatching(/^oddslake: Another run is still writing/),
  ]);
  const both = [run(['upgrade', '--output', output]), run(['upgrade', '--output', output])];
  // By then both have started and read the archive.
  await run(['status', '--output', output]);
  lock.release();
  const ended = await Promise.all(both);
  expect(ended.map(({ code }) => code)).toEqual([0, 0]);
  expect(ended.map(({ stdout }) => stdout).sort()).toEqual([
    expect.stringMatching(`${output} already has format ${formatVersion}: nothing to do`),
    expect.stringMatching(
      `${output}: upgraded from format 1 to ${formatVersion}, generation 2, .* written\nThe coverage of [\\s\\S]* --recheck inferred`,
    ),
  ]);
});
