import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { readSymbolCoverage } from '../../src/archive/journal/coverage-store.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { countJournaledTicks } from '../../src/archive/journal/journal-rows.ts';
import { readRunCounts } from '../../src/archive/journal/runs.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { readArchiveStatus } from '../../src/archive/read/archive-status.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  market,
  now,
  opened,
  publishNow,
  scratchFolder,
} from './scratch.ts';

const today = day0 + 3 * dayMs;
const minuteMs = 60_000;
/** Every published file, except the page of the run. */
const files = (archive: Archive) => hashes(archive.layout.root, '*{,/**/*}.{parquet,json,md,sql}');
const ticksA = [
  [today + hourMs, 0.5],
  [today + 2 * hourMs, 0.6],
] as const;
const first = answer('A', ticksA, {
  windows: [{ from: today, to: today + 3 * hourMs }],
  observedAt: today + 3 * hourMs,
});
/** The last tick again, and an hour more of coverage. */
const repeated = (toMs = today + 4 * hourMs, rest: Parameters<typeof answer>[2] = {}) =>
  answer('A', ticksA.slice(1), {
    windows: [{ from: today + 2 * hourMs, to: toMs }],
    observedAt: toMs,
    runId: 'second',
    ...rest,
  });
const publishQuietly = (archive: Archive, nowMs = now) =>
  publishNow(archive, nowMs, 'second', { quietWindowsMax: 100 });

async function published(root = scratchFolder()): Promise<Archive> {
  const archive = opened({ root });
  append(archive, first, answer('B', [[today + hourMs, 0.1]]));
  await publishNow(archive);
  return archive;
}

describe('a poll that brings nothing new', () => {
  test('changes no file, and its coverage stays in the journal', async () => {
    const archive = await published();
    const before = files(archive);
    append(archive, repeated());
    const { manifest, files: changed } = await publishQuietly(archive);
    expect(changed).toEqual([]);
    expect(manifest.generation).toBe(1);
    expect(files(archive)).toEqual(before);
    expect(hashes(archive.layout.root, '.oddslake/staging/**/*')).toEqual({});
    expect(readSymbolCoverage(archive.state.db, 'A')).toMatchObject([{ from: today, to: today + 4 * hourMs }]);
  });

  test('counts its ticks as duplicates once, and keeps none of them in the journal', async () => {
    const archive = await published();
    append(archive, repeated());
    for (let i = 0; i < 2; i++) {
      await publishQuietly(archive);
      expect(readRunCounts(archive.state.db, 'second')).toMatchObject({ fetched: 1, accepted: 0, duplicates: 1 });
      expect(countJournaledTicks(archive.state.db)).toBe(0);
    }
    await publishNow(archive);
    expect(readRunCounts(archive.state.db, 'second')).toMatchObject({ fetched: 1, accepted: 0, duplicates: 1 });
  });

  test('moves the status on, until the next commit has what it covers', async () => {
    const archive = opened();
    const rules = { namedSymbols: new Set(['A']) };
    append(archive, first);
    await publishNow(archive, now, 'run', rules);
    const { reached } = readArchiveStatus(archive, now);
    expect(reached).toBe(today + 3 * hourMs);
    append(archive, repeated());
    await publishNow(archive, now, 'second', { ...rules, quietWindowsMax: 100 });
    expect(archive.readManifest()).toMatchObject({ generation: 1, reached });
    expect(readArchiveStatus(archive, now).reached).toBe(today + 4 * hourMs);
    await publishNow(archive, now, 'run', rules);
    expect(archive.readManifest()).toMatchObject({ generation: 2, reached: today + 4 * hourMs });
    expect(readArchiveStatus(archive, now).reached).toBe(today + 4 * hourMs);
  });

  test('is published later with the bytes that one publish of everything has', async () => {
    const [late, once] = [await published(), opened()];
    append(once, first, answer('B', [[today + hourMs, 0.1]]));
    for (let i = 1; i <= 5; i++) {
      const poll = repeated(today + 3 * hourMs + i * minuteMs, { runId: `poll ${i}` });
      append(late, poll);
      append(once, poll);
      await publishQuietly(late);
    }
    expect(late.readManifest().generation).toBe(1);
    await publishNow(late);
    await publishNow(once);
    const rows = '{ticks,coverage,candles_1h,candles_1d}/**/*.parquet';
    expect(hashes(late.layout.root, rows)).toEqual(hashes(once.layout.root, rows));
  });

  test('is published by the first job after the day', async () => {
    const archive = await published();
    append(archive, repeated());
    await publishQuietly(archive);
    const { manifest } = await publishQuietly(archive, today + dayMs + 1);
    expect(manifest.generation).toBe(2);
  });

  test('is published if the journal has too many windows', async () => {
    const archive = await published();
    for (const [count, generation] of [
      [2, 1],
      [3, 2],
    ] as const) {
      append(archive, repeated(today + (3 + count) * hourMs));
      if (count === 2) append(archive, repeated(today + 4 * hourMs));
      const { manifest } = await publishNow(archive, now, 'second', { quietWindowsMax: 2 });
      expect(manifest.generation).toBe(generation);
    }
  });

  test('is fetched again if the state is lost', async () => {
    const root = scratchFolder();
    const archive = await published(root);
    append(archive, repeated());
    await publishQuietly(archive);
    archive.close();
    archive.disk.remove(archive.layout.privateFolder);
    const again = opened({ root });
    expect(readSymbolCoverage(again.state.db, 'A')).toMatchObject([{ from: today, to: today + 3 * hourMs }]);
  });
});

describe('a poll that brings something new is published', () => {
  const yesterday = today - dayMs;
  test.for<[what: string, bring: (archive: Archive) => void]>([
    ['a tick', (archive) => append(archive, answer('A', [[today + 3.5 * hourMs, 0.5]]))],
    [
      'another price of a tick',
      (archive) => append(archive, repeated(now, { ticks: oneTick(today + 2 * hourMs, 0.9) })),
    ],
    [
      'coverage of an earlier day',
      (archive) => append(archive, answer('A', [], { windows: [{ from: yesterday, to: today }] })),
    ],
    ['a new symbol', (archive) => append(archive, answer('C', [], { windows: [{ from: today, to: now }] }))],
    [
      'a withdrawal',
      (archive) => append(archive, repeated(now, { covered: [], withdrawn: [{ from: today, to: today + hourMs }] })),
    ],
    [
      'an unusable tick',
      (archive) => append(archive, repeated(now, { rejected: [{ reason: 'p is a string', raw: '{"t":1,"p":"x"}' }] })),
    ],
  ])('%s', async ([, bring]) => {
    const archive = await published();
    append(archive, repeated());
    await publishQuietly(archive);
    bring(archive);
    const { manifest } = await publishQuietly(archive);
    expect(manifest.generation).toBe(2);
    expect(readSymbolCoverage(archive.state.db, 'A').length).toBeGreaterThan(0);
  });

  test('a gap that appears, and one that closes, without a tick', async () => {
    const archive = opened();
    const rules = { namedSymbols: new Set(['A']), quietWindowsMax: 100 };
    append(archive, first);
    await publishNow(archive, now, 'run', rules);
    for (const [i, window] of [
      { from: today + 5 * hourMs, to: now },
      { from: today + 3 * hourMs, to: today + 5 * hourMs },
    ].entries()) {
      append(archive, answer('A', [], { windows: [window], runId: 'second' }));
      expect((await publishNow(archive, now, 'second', rules)).manifest.generation).toBe(2 + i);
    }
    expect(archive.readManifest().completeness!.gaps['never asked']).toBe(0);
  });

  test('a candle interval that was not published', async () => {
    const archive = opened();
    append(archive, first);
    await publishNow(archive, now, 'run', { candles: ['1h'] });
    append(archive, repeated());
    const { manifest } = await publishNow(archive, now, 'second', { candles: ['1h', '1d'], quietWindowsMax: 100 });
    expect(manifest.generation).toBe(2);
  });
});

const oneTick = (t: number, p: number) => ({ t: Float64Array.of(t), p: Float64Array.of(p) });

describe('polls of the market lists', () => {
  const poll = (archive: Archive, observedAt: number, ...markets: ReturnType<typeof market>[]): void => {
    appendMarkets(archive.state, { runId: 'second', observedAt, markets }, []);
    recordMarkets(archive.state.db, markets, observedAt, true, null);
  };
  const countPolls = (archive: Archive): number =>
    archive.state.db.one<{ n: number }>('select count(*) as n from journal_markets')!.n;

  test('that repeat the last one stay in the journal, one of them', async () => {
    const archive = await published();
    poll(archive, now, market('A'), market('B'));
    await publishNow(archive);
    const before = files(archive);
    for (let i = 1; i <= 3; i++) {
      poll(archive, now + i * minuteMs, market('A'), market('B'));
      await publishQuietly(archive, now + i * minuteMs);
      expect(countPolls(archive)).toBe(1);
    }
    expect(files(archive)).toEqual(before);
  });

  test.for<[what: string, ...markets: ReturnType<typeof market>[]]>([
    ['another question', market('A', { question: 'Will it?' }), market('B')],
    ['a resolution', market('A', { outcome: 1, resolvedAt: now }), market('B')],
    ['another confidence', market('A', { confidence: 0.5 }), market('B')],
    ['another field without a column', market('A', { extra: '{"volume":1}' }), market('B')],
    ['a market that is gone', market('B')],
    ['a new market', market('A'), market('B'), market('C')],
  ])('with %s are published', async ([, ...markets]) => {
    const archive = await published();
    poll(archive, now, market('A'), market('B'));
    await publishNow(archive);
    poll(archive, now + minuteMs, market('A'), market('B'));
    await publishQuietly(archive, now + minuteMs);
    poll(archive, now + 2 * minuteMs, ...markets);
    const { manifest } = await publishQuietly(archive, now + 2 * minuteMs);
    expect(manifest.generation).toBe(3);
    expect(countPolls(archive)).toBe(0);
  });

  test('that repeat the last one are published with a finding, with the bytes of a publish that is never quiet', async () => {
    const publishAll = async (quiet: { quietWindowsMax?: number }) => {
      const archive = opened();
      const rules = { namedSymbols: new Set(['A']), ...quiet };
      append(archive, first);
      poll(archive, now, market('A', { views: ['live', 'closing'] }), market('B'));
      await publishNow(archive, now, 'run', rules);
      append(archive, answer('A', [], { windows: [{ from: today + 5 * hourMs, to: now }], runId: 'second' }));
      poll(archive, now + minuteMs, market('A', { views: ['live', 'closing'] }), market('B'));
      const { manifest } = await publishNow(archive, now + minuteMs, 'second', rules);
      expect(manifest.generation).toBe(2);
      expect(countPolls(archive)).toBe(0);
      return archive;
    };
    const [quick, plain] = [await publishAll({ quietWindowsMax: 100 }), await publishAll({})];
    const parts = '**/*.parquet';
    expect(hashes(quick.layout.root, parts)).toEqual(hashes(plain.layout.root, parts));
    expect(quick.readManifest().datasets).toEqual(plain.readManifest().datasets);
  });
});
