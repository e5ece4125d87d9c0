import { statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readRunCounts } from '../../src/archive/journal/runs.ts';
import { quarantineFiles, quarantineLines } from '../harness/quarantine.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
  scratchFolder,
} from './scratch.ts';

describe('publishing', () => {
  test('counts ticks of an ended run as recovered by the run that publishes them', async () => {
    const archive = opened();
    append(
      archive,
      answer(
        'AAA',
        [
          [day0, 0.1],
          [day0 + 1, 0.2],
        ],
        { runId: 'broken' },
      ),
    );
    // A process ID that does not exist.
    archive.state.db.run("update runs set pid = 2147483646 where run_id = 'broken'");
    append(
      archive,
      answer(
        'AAA',
        [
          [day0 + 1, 0.2],
          [day0 + 2, 0.3],
        ],
        { runId: 'next' },
      ),
    );
    await publishNow(archive, now, 'next');
    expect(readRunCounts(archive.state.db, 'next')).toMatchObject({
      fetched: 2,
      accepted: 1,
      duplicates: 1,
      recovered: 2,
    });
    expect(readRunCounts(archive.state.db, 'broken')).toMatchObject({ fetched: 0, accepted: 0, recovered: 0 });
  });

  test('counts the gaps of the first ticks in their own generation, although nothing is covered', async () => {
    const archive = opened();
    const pairs = [day0, day0 + hourMs, day0 + 3 * hourMs].map((t) => [t, 0.5] as const);
    append(archive, answer('AAA', pairs, { windows: [] }));
    const judges = { namedSymbols: new Set(['AAA']) };
    const first = await publishNow(archive, day0 + 4 * hourMs, 'run', judges);
    expect(first.manifest.completeness?.gaps['never asked']).toBeGreaterThan(0);
    // Otherwise the next publish would make another generation without any input.
    const second = await publishNow(archive, day0 + 4 * hourMs, 'run', judges);
    expect(second.manifest.generation).toBe(first.manifest.generation);
  });

  test('cuts coverage at midnight, gives each window one row, and counts the published ticks in it', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const midnight = day0 + dayMs;
    const windows = [{ from: midnight - hourMs, to: midnight + hourMs }];
    append(
      archive,
      answer(
        'AAA',
        [
          [midnight - 1, 0.1],
          [midnight, 0.2],
          [midnight + 5, 0.3],
        ],
        { windows },
      ),
    );
    await publishNow(archive);
    const later = [{ from: midnight + hourMs, to: midnight + 2 * hourMs }];
    append(archive, answer('AAA', [[midnight + hourMs, 0.4]], { windows: later, observedAt: now + 7 }));
    append(archive, answer('AAA', [], { windows: [{ from: midnight + 5 * hourMs, to: midnight + 6 * hourMs }] }));
    await publishNow(archive);
    expect(publishedRows(root, 'coverage')).toEqual([
      ['ticks', 'AAA', midnight - hourMs, midnight, 1, now, 'poll', 'confirmed', null],
      // Adjacent windows of one origin are one row, with the earlier fetched_at.
      ['ticks', 'AAA', midnight, midnight + 2 * hourMs, 3, now, 'poll', 'confirmed', null],
      ['ticks', 'AAA', midnight + 5 * hourMs, midnight + 6 * hourMs, 0, now, 'poll', 'confirmed', null],
    ]);
  });

  test('covers an hour without ticks without writing a tick', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(
      archive,
      answer('AAA', [], {
        windows: [{ from: day0, to: day0 + hourMs }],
        requestedWindow: { from: day0, to: day0 + hourMs },
      }),
    );
    const { manifest } = await publishNow(archive);
    expect(manifest.datasets.ticks.files).toMatchObject([{ rows: 0 }]);
    expect(publishedRows(root, 'coverage')).toHaveLength(1);
  });

  test('without anything new makes no new generation and touches no file', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]]));
    await publishNow(archive);
    const before = hashes(root, '**/*');
    const { files, manifest } = await publishNow(archive, now + dayMs);
    expect(files).toEqual([]);
    expect(manifest.generation).toBe(1);
    expect(hashes(root, '**/*')).toEqual(before);
  });

  test('leaves ticks that are fetched again unchanged, except for fetched_at of their coverage', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(
      archive,
      answer('AAA', [
        [day0, 0.5],
        [day0 + 1, 0.25],
      ]),
    );
    await publishNow(archive);
    const before = hashes(root, 'ticks/**/*');
    append(
      archive,
      answer(
        'AAA',
        [
          [day0 + 1, 0.25],
          [day0, 0.5],
        ],
        { observedAt: now + 9 },
      ),
    );
    const { files } = await publishNow(archive);
    expect(hashes(root, 'ticks/**/*')).toEqual(before);
    expect(files.map((file) => file.path.split('/')[0]).sort()).toEqual(['coverage']);
  });

  test('puts the price that lost into conflicts, with the moment of the later look, once', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0, 0.5]]));
    await publishNow(archive);
    for (const round of [1, 2]) {
      append(archive, answer('AAA', [[day0, 0.6]], { observedAt: now + 5 }));
      await publishNow(archive, now + round);
    }
    expect(publishedTicks(root)).toEqual([`AAA ${day0} 0.6`]);
    expect(publishedRows(root, 'conflicts')).toEqual([['AAA', day0, 0.6, 0.5, now + 5, 0]]);
    append(archive, answer('AAA', [[day0, 0.7]], { observedAt: now + 4 }));
    await publishNow(archive);
    expect(publishedTicks(root)).toEqual([`AAA ${day0} 0.6`]);
    expect(publishedRows(root, 'conflicts')).toContainEqual(['AAA', day0, 0.6, 0.7, now + 4, 0]);
  });

  test('writes rejected rows to the quarantine as received, once', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const rejected = [{ reason: 'not finite', raw: '{"t":1,"p":"NaN \\u0000"}' }];
    append(archive, answer('AAA', [[day0, 0.5]], { rejected }));
    await publishNow(archive);
    await publishNow(archive);
    expect(quarantineFiles(root)).toHaveLength(1);
    expect(quarantineLines(root).map((line) => JSON.parse(line) as object)).toEqual([
      { run_id: 'run', symbol: 'AAA', at: now, ...rejected[0] },
    ]);
  });

  test('drops the oldest files of the quarantine above its size limit', async () => {
    const root = scratchFolder();
    const archive = opened({ root });
    const rejected = [{ reason: 'not finite', raw: 'never '.repeat(100_000) }];
    const publishRejected = (n: number, quarantineBytesMax?: number) => {
      append(archive, answer('AAA', [[day0 + n, 0.5]], { rejected }));
      return publishNow(archive, now, 'run', { quarantineBytesMax });
    };
    for (const n of [1, 2, 3]) await publishRejected(n);
    const [first, ...others] = quarantineFiles(root);
    const { size } = statSync(join(root, first!));
    expect(size).toBeLessThan(rejected[0]!.raw.length / 5);
    await publishRejected(4, Math.ceil(size * 2.5));
    expect(quarantineFiles(root)).toEqual([others[1], expect.stringContaining('000004')]);
  });
});

test('publishes a day with a conflict for every price', async () => {
  const count = 140_000;
  const prices = (p: number): [number, number][] => Array.from({ length: count }, (_, i) => [day0 + i * 600, p]);
  const root = scratchFolder();
  const archive = opened({ root, parts: 1 });
  for (const [seen, price] of [0.25, 0.5].entries()) {
    append(archive, answer('AAA', prices(price), { observedAt: now + seen }));
    await publishNow(archive, now + seen, 'run', { candles: [] });
  }
  expect(publishedRows(root, 'conflicts').length).toBe(count);
  expect(readRunCounts(archive.state.db, 'run')).toMatchObject({ accepted: count, conflicts: count });
});
