import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { precedenceRanks } from '../../src/archive/format/precedence.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { takeWriteLock } from '../../src/archive/journal/lock.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { type ImportBuffer, openImportBuffer } from '../../src/archive/publish/import-buffer.ts';
import { openSpillFile } from '../../src/archive/publish/spill-file.ts';
import { checkAsyncProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { flip } from './damaged.ts';
import {
  appendQuotes,
  countQuotes,
  findQuoteCountErrors,
  publishedQuotes,
  type Quote,
  quote,
  quoteAnswer,
  quoteConflicts,
  quoteCoverage,
} from './quotes.ts';
import { clockAt, day0, dayMs, hashes, hourMs, now, opened, publishNow, scratchFolder } from './scratch.ts';

// Quotes of an import, which a publish takes from scratch files instead of the journal.

/** The input of a publish with these quotes, all of them of one run and with the rank of an import. */
function createIntake(records: readonly SeriesRecord[], runId = 'run'): ImportBuffer {
  const intake = openImportBuffer(runId, precedenceRanks.import);
  const file = openSpillFile(join(scratchFolder(), 'quotes'));
  for (const { symbol, observedAt, rows, covered } of records) {
    intake.series.add('quotes', { symbol, observedAt, spilled: file.append(rows) });
    for (const window of covered) intake.series.addCoverage('quotes', symbol, { ...window, origin: 'import' });
  }
  file.close();
  return intake;
}

async function publishIntake(archive: Archive, records: readonly SeriesRecord[], runId = 'run') {
  const { db } = archive.state;
  if (db.one('select 1 from runs where run_id = ?', runId) === undefined)
    startRun(db, runId, 'import', process.pid, now);
  return publishNow(archive, now, runId, { candles: [], intake: createIntake(records, runId) });
}

const anyNumber = fc.constantFrom(Number.NaN, 0, -0, 0.1, 0.5);
const anyQuotes = fc
  .record({
    symbol: fc.constantFrom('AAA', 'BBB', '🚀 x'),
    rows: fc.array(fc.tuple(fc.integer({ min: -20, max: 20 }), anyNumber, anyNumber, anyNumber, anyNumber), {
      minLength: 1,
      maxLength: 10,
    }),
    seen: fc.integer({ min: 0, max: 2 }),
  })
  .map(({ symbol, rows, seen }) => {
    const quotes = rows.map(([at, ...rest]): Quote => [day0 + dayMs + at * hourMs, ...rest]);
    const windows = quotes.map(([t]) => ({ from: t, to: t + 1 }));
    return quoteAnswer(symbol, quotes, { observedAt: now + seen, windows });
  });

const files = '{quotes,coverage}/**/*.parquet';

describe('quotes of an import', () => {
  test('give the same bytes and counts from scratch files as from the journal, or from both', async () => {
    await checkAsyncProperty(
      [fc.array(fc.tuple(anyQuotes, fc.boolean()), { minLength: 1, maxLength: 8 })],
      share * 20,
      async (drawn) => {
        const records = drawn.map(([record]) => record);
        const journaled = opened({ parts: 2 });
        appendQuotes(journaled, ...records);
        await publishNow(journaled, now, 'run', { candles: [] });
        const taken = opened({ parts: 2 });
        await publishIntake(taken, records);
        const both = opened({ parts: 2 });
        appendQuotes(both, ...drawn.flatMap(([record, isJournaled]) => (isJournaled ? [record] : [])));
        await publishIntake(
          both,
          drawn.flatMap(([record, isJournaled]) => (isJournaled ? [] : [record])),
        );
        const expected = hashes(journaled.layout.root, '{quotes,coverage,quote_conflicts}/**/*.parquet');
        for (const archive of [taken, both]) {
          expect(hashes(archive.layout.root, '{quotes,coverage,quote_conflicts}/**/*.parquet')).toEqual(expected);
          expect(findQuoteCountErrors(archive)).toEqual([]);
          expect(countQuotes(archive)).toMatchObject({ fetched: countQuotes(journaled).fetched });
          expect(archive.state.db.one('select count(*) as n from journal')).toEqual({ n: 0 });
        }
        expect(countQuotes(taken)).toEqual(countQuotes(journaled));
        for (const archive of [journaled, taken, both]) archive.close();
      },
    );
  });

  test('are in the state only once they are published', () => {
    const archive = opened();
    createIntake([quoteAnswer('A', [quote(day0, 0.5)], { windows: [{ from: day0, to: day0 + 1 }] })]);
    for (const table of ['journal', 'journal_series', 'journal_series_coverage', 'series_counts', 'symbols'])
      expect(archive.state.db.one(`select count(*) as n from ${table}`), table).toEqual({ n: 0 });
  });

  const twoDays = [
    quoteAnswer('A', [quote(day0 + 1, 0.5), quote(day0 + dayMs, 0.5)], {
      windows: [{ from: day0 + 1, to: day0 + 2 * dayMs }],
    }),
  ];

  test.each(['quotes', 'coverage'] as const)(
    'of a day with damaged %s are journaled with their coverage, and merged later',
    async (dataset) => {
      const archive = opened({ parts: 1 });
      const { root } = archive.layout;
      await publishIntake(archive, [quoteAnswer('A', [quote(day0, 0.4)], { windows: [{ from: day0, to: day0 + 1 }] })]);
      const at = join(root, toDayPath(dataset, day0, 0));
      const bytes = flip(at);
      const { refused } = await publishIntake(archive, twoDays, 'import');
      expect(refused).toHaveLength(1);
      // Whole bins of rows and coverage: the damaged day's, and no other.
      for (const table of ['journal_series', 'journal_series_coverage'])
        expect(archive.state.db.all(`select day from ${table}`), table).toEqual([{ day: day0 }]);
      expect(countQuotes(archive, 'import')).toMatchObject({ fetched: 2, accepted: 2 });
      writeFileSync(at, bytes);
      expect(publishedQuotes(root).map((row) => row[1])).toEqual([day0, day0 + dayMs]);
      await publishNow(archive, now, 'later', { candles: [] });
      expect(publishedQuotes(root).map((row) => row[1])).toEqual([day0, day0 + 1, day0 + dayMs]);
      expect(quoteCoverage(root).map((row) => row.slice(2, 5))).toEqual([
        [day0, day0 + dayMs, 2],
        [day0 + dayMs, day0 + 2 * dayMs, 1],
      ]);
      expect(countQuotes(archive, 'import')).toMatchObject({ fetched: 2, accepted: 2 });
      expect(findQuoteCountErrors(archive)).toEqual([]);
      expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    },
  );

  test('are journaled with their coverage if another run holds the lock', async () => {
    const archive = opened({ parts: 2 });
    const lock = await takeWriteLock(archive.layout.lockPath, 0, clockAt(now));
    await expect(publishIntake(archive, twoDays)).rejects.toMatchObject({ exitCode: 5 });
    lock.release();
    expect(archive.state.db.one('select sum(n) as n from journal_series')).toEqual({ n: 2 });
    expect(archive.state.db.one('select count(*) as n from journal_series_coverage')).toEqual({ n: 2 });
    await publishNow(archive);
    const direct = opened({ parts: 2 });
    await publishIntake(direct, twoDays);
    expect(hashes(archive.layout.root, files)).toEqual(hashes(direct.layout.root, files));
    expect(countQuotes(archive)).toEqual(countQuotes(direct));
  });

  test('that were all dropped leave one row each in quote_conflicts, and no other change', async () => {
    const archive = opened({ parts: 1 });
    const { root } = archive.layout;
    await publishIntake(archive, [quoteAnswer('A', [quote(day0, 0.4)], { observedAt: now + 5 })]);
    const before = hashes(root, files);
    const dropped = [quoteAnswer('A', [quote(day0, 0.6), quote(day0, 0.5), quote(day0, 0.6)])];
    for (const runId of ['one', 'two']) {
      await publishIntake(archive, dropped, runId);
      expect(countQuotes(archive, runId)).toMatchObject({ fetched: 3, accepted: 0, conflicts: 3 });
      expect(quoteConflicts(root).map((row) => row.slice(0, 5))).toEqual([
        ['A', day0, now, 0, 0.5],
        ['A', day0, now, 1, 0.6],
      ]);
    }
    expect(hashes(root, files)).toEqual(before);
  });

  test('give a symbol the same first_seen in its file and in the state, if its ticks were seen at another time', async () => {
    const archive = opened({ parts: 1 });
    const { db } = archive.state;
    startRun(db, 'run', 'import', process.pid, now);
    const intake = createIntake([quoteAnswer('A', [quote(day0, 0.5)], { observedAt: now - 7 })]);
    const file = openSpillFile(join(scratchFolder(), 'ticks'));
    const spilled = file.append({ t: Float64Array.of(day0), values: [Float64Array.of(0.5)], texts: [] });
    intake.ticks.add('ticks', { symbol: 'A', observedAt: now - 5, spilled });
    file.close();
    await publishNow(archive, now, 'run', { intake, candles: [] });
    const before = hashes(archive.layout.root, 'symbols/**/*');
    expect(db.one("select first_seen from symbols where symbol = 'A'")).toEqual({ first_seen: now - 7 });
    // Any other publish writes the symbols of the state.
    appendQuotes(archive, quoteAnswer('A', [quote(day0 + 1, 0.5)]));
    await publishNow(archive, now, 'run', { candles: [] });
    expect(hashes(archive.layout.root, 'symbols/**/*')).toEqual(before);
  });

  test('whose scratch file is gone or cut are not published', async () => {
    const archive = opened({ parts: 1 });
    startRun(archive.state.db, 'run', 'import', process.pid, now);
    for (const damage of [(at: string) => rmSync(at), (at: string) => writeFileSync(at, new Uint8Array(9))]) {
      const intake = createIntake(twoDays);
      const [chunk] = intake.series.readPart({ day: day0, part: 0, from: 'A', to: 'Z' })[0]!.chunks;
      damage(chunk!.spilled.path);
      await expect(publishNow(archive, now, 'run', { intake })).rejects.toThrow();
      expect(archive.readManifest().generation).toBe(0);
      expect(archive.state.db.one('select count(*) as n from series_counts')).toEqual({ n: 0 });
    }
  });
});
