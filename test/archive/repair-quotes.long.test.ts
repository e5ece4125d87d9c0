import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import type { RepairReport } from '../../src/archive/integrity/repair.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import type { SeriesRecord } from '../../src/archive/journal/journal-series.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { readSeriesCounts } from '../../src/archive/journal/series-counts.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import type { FileRecord } from '../../src/archive/parquet/row-group-index.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { covers, subtract, union, type Window } from '../../src/base/window.ts';
import { printSeed } from '../harness/properties.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { share } from '../harness/share.ts';
import { findWrongCandles } from './candle-files.ts';
import { repairNow } from './damaged.ts';
import {
  appendQuotes,
  countQuotes,
  findQuoteCountErrors,
  publishedQuotes,
  quote,
  quoteAnswer,
  quoteConflicts,
  quoteCoverage,
} from './quotes.ts';
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
  publishNow,
  scratchFolder,
  upstreamName,
} from './scratch.ts';
import { publishedTrades, trade, tradeAnswer, tradeCoverage } from './trades.ts';

const seed = printSeed('repair-quotes');

const groupRows = 8;
const parts = 2;
const names = [...Array.from({ length: 9 }, (_, i) => `S${i}`), 'Ünï 🚀'];
const path = toDayPath('quotes', day0, 0);
const mine = names.toSorted(compareUtf8).slice(0, 5);
const everything =
  '{ticks,symbols,markets,orderbooks,quotes,quote_conflicts,trades,candles_1h,candles_1d,coverage,conflicts}/**/*.parquet';
/** All files but those that a repair of quotes or trades may change; candles depend on both. */
const others = '{ticks,symbols,orderbooks,quote_conflicts,conflicts}/**/*.parquet';

type Dataset = 'quotes' | 'trades';

/** Rows of a symbol, in windows of nearly two hours, which are not joined: each second one has no rows. */
function listRecords(symbol: string, dataset: Dataset = 'quotes'): SeriesRecord[] {
  return [0, 2, 4, 6, 8, 10].map((from) => {
    const window = { from: day0 + from * hourMs, to: day0 + (from + 2) * hourMs - 60_000 };
    const count = from % 4 === 0 ? 3 + ((from + symbol.charCodeAt(1)) % 5) : 0;
    const indexes = Array.from({ length: count }, (_, i) => i);
    const how = { windows: [window], observedAt: now + from };
    if (dataset === 'quotes') {
      const quotes = indexes.map((i) => quote(window.from + (i + 1) * 600_000, (i + from) / 100));
      return quoteAnswer(symbol, quotes, how);
    }
    // Three trades in each millisecond: row groups end within one.
    const trades = indexes.map((i) => trade(window.from + Math.floor(i / 3) * 600_000, `${from}-${i}`, i / 100));
    return tradeAnswer(symbol, trades, how);
  });
}

/** Rows outside of all coverage, of another day too. */
const listUncovered = (symbol: string, dataset: Dataset = 'quotes'): SeriesRecord =>
  dataset === 'quotes'
    ? quoteAnswer(symbol, [quote(day0 + 20 * hourMs, 0.9), quote(day0 + dayMs, 0.8)])
    : tradeAnswer(symbol, [trade(day0 + 20 * hourMs, 'x'), trade(day0 + dayMs, 'y')]);

/** Quotes, trades, ticks and order books of two days in two parts, with conflicts. */
async function filled(root: string): Promise<Archive> {
  const options = { root, create: true, upstream: upstreamName, parts, writer: 'oddslake test' };
  const archive = openArchive({ ...options, groupRows }, systemDisk);
  for (const symbol of names) {
    append(
      archive,
      answer(symbol, [
        [day0 + 1, 0.5],
        [day0 + dayMs + 1, 0.6],
      ]),
    );
    append(archive, answer(symbol, [[day0 + 1, 0.4]], { observedAt: now - 1, windows: [] }));
    for (const dataset of ['quotes', 'trades'] as const)
      appendQuotes(archive, ...listRecords(symbol, dataset), listUncovered(symbol, dataset));
  }
  const bids = toBookSide([{ price: 0.3, quantity: 1 }], 'highest');
  const book = { t: day0, bids, asks: toBookSide([], 'lowest') };
  appendBooks(archive.state, [
    { runId: 'run', symbol: names[0]!, observedAt: day0 + 5, snapshots: [book], rejected: [], understood: true },
  ]);
  await publishNow(archive);
  appendQuotes(archive, ...listDropped());
  await publishNow(archive);
  return archive;
}

/** Two quotes of each symbol that are dropped. */
const listDropped = (): SeriesRecord[] =>
  names.flatMap((symbol) =>
    [0.2, 0.1].map((bid) => quoteAnswer(symbol, [quote(day0 + 600_000, bid)], { observedAt: now - 9 })),
  );

let template = '';
beforeAll(async () => {
  const archive = await filled(mkdtempSync(join(scratchRoot, 'oddslake-quotes-')));
  archive.close();
  template = archive.layout.root;
  return () => rmSync(template, { recursive: true });
});

/** A copy of such an archive. */
function copied(): Archive {
  const root = scratchFolder();
  cpSync(template, root, { recursive: true });
  return opened({ root, parts, groupRows, mends: true });
}

const recordOf = ({ state, readManifest }: Archive, of: string): FileRecord => {
  const { sha256 } = listManifestFiles(readManifest()).find((file) => file.path === of)!;
  return readRowGroups(state.db, of, sha256)!;
};

/** Flips a bit inside each of these row groups. */
function damageGroups(archive: Archive, of: string, groups: readonly number[]): void {
  const at = join(archive.layout.root, of);
  const bytes = readFileSync(at);
  for (const group of groups) {
    const { start, end } = recordOf(archive, of).groups[group]!;
    bytes[start + ((end - start) >> 1)]! ^= 4;
  }
  writeFileSync(at, bytes);
}

type Row = readonly (string | number | null)[];
const toTexts = (rows: readonly Row[]): string[] => rows.map((row) => JSON.stringify(row));
const windowsOf = (rows: readonly (readonly unknown[])[], symbol: string): Window[] =>
  rows.filter((row) => row[1] === symbol).map((row) => ({ from: row[2] as number, to: row[3] as number }));

/** Checks that no window counts as covered without all of its rows, and that no other window lost its coverage. */
function checkCoverage(
  root: string,
  before: { rows: readonly Row[]; coverage: readonly (readonly unknown[])[] },
  dataset: Dataset = 'quotes',
): void {
  const { rows, coverage } = read(root, dataset);
  const left = new Set(toTexts(rows));
  const lost = before.rows.filter((row) => !left.has(JSON.stringify(row)));
  for (const row of coverage) {
    const [, symbol, from, to, ticks] = row as [string, string, number, number, number];
    const isInside = ([of, t]: Row): boolean => of === symbol && from <= Number(t) && Number(t) < to;
    expect(rows.filter(isInside).length, `${symbol} ${from}`).toBe(ticks);
    expect(lost.filter(isInside), `${symbol} ${from}`).toEqual([]);
  }
  for (const symbol of names) {
    const was = windowsOf(before.coverage, symbol);
    const is = windowsOf(coverage, symbol);
    for (const window of is) expect(covers(was, window)).toBe(true);
    // What lost its coverage is of windows with lost rows, and has no row that is left.
    for (const gone of subtract(union(was), is)) {
      const whole = was.filter((window) => window.from < gone.to && gone.from < window.to);
      const isHit = (window: Window): boolean =>
        lost.some(([of, t]) => of === symbol && window.from <= Number(t) && Number(t) < window.to);
      expect(whole.every(isHit), `${symbol} ${gone.from} to ${gone.to} lost no row`).toBe(true);
      // A millisecond that lost one of its trades is lost.
      const isLost = (time: Row[number]): boolean => lost.some(([of, t]) => of === symbol && t === time);
      const isLeft = ([of, t]: Row): boolean =>
        of === symbol && gone.from <= Number(t) && Number(t) < gone.to && !isLost(t!);
      expect(rows.filter(isLeft)).toEqual([]);
    }
  }
}

/** Expects that the report names as many lost rows as are gone, and that the archive is clean afterwards. */
async function checkReport(
  archive: Archive,
  report: RepairReport,
  before: readonly Row[],
  dataset: Dataset = 'quotes',
): Promise<void> {
  const gone = before.length - read(archive.layout.root, dataset).rows.length;
  const unrecoverable = report.unrecoverable.filter((lost) => lost.dataset === dataset);
  expect(unrecoverable.reduce((sum, { rows }) => sum + rows, 0)).toBe(gone);
  expect(
    report.repaired
      .filter(({ path: of }) => of.startsWith(`${dataset}/`))
      .reduce((sum, { rows_lost: rows }) => sum + rows!, 0),
  ).toBe(gone);
  expect(findWrongCandles(archive)).toEqual([]);
  // They are no ticks that a request could bring again.
  expect(report.lost).toEqual([]);
  expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  expect((await repairNow(archive)).repaired).toEqual([]);
}

const read = (root: string, dataset: Dataset = 'quotes') => ({
  // Without the numbers of the trades in a millisecond, of which a repair leaves no gap.
  rows: dataset === 'quotes' ? publishedQuotes(root) : publishedTrades(root).map((row) => row.toSpliced(8, 1) as Row),
  coverage: dataset === 'quotes' ? quoteCoverage(root) : tradeCoverage(root),
  others: hashes(root, others),
});

describe.each(['quotes', 'trades'] as const)('a damaged file of %s', (dataset) => {
  const path = toDayPath(dataset, day0, 0);

  test('keeps the row groups that are intact, and only the coverage that has all of its rows', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 2 ** 12 - 1 }), async (mask) => {
        const archive = copied();
        const { root } = archive.layout;
        const before = read(root, dataset);
        const { groups } = recordOf(archive, path);
        expect(groups.length).toBeGreaterThan(4);
        const damaged = groups.flatMap((_, i) => ((mask >> (i % 12)) % 2 === 1 ? [i] : []));
        damageGroups(archive, path, damaged);
        const report = await repairNow(archive);
        const lostRows = damaged.reduce((sum, i) => sum + groups[i]!.rows, 0);
        const ofPart = before.rows.filter(([symbol, t]) => mine.includes(symbol as string) && Number(t) < day0 + dayMs);
        const lost = new Set(damaged.flatMap((i) => toTexts(ofPart.slice(i * groupRows, (i + 1) * groupRows))));
        expect(lost.size).toBe(lostRows);
        expect(toTexts(read(root, dataset).rows)).toEqual(toTexts(before.rows).filter((row) => !lost.has(row)));
        expect(hashes(root, others)).toEqual(before.others);
        checkCoverage(root, before, dataset);
        const [first, last] = [groups[damaged[0]!]!.first, groups[damaged.at(-1)!]!.last];
        expect(report.unrecoverable).toEqual([{ dataset, path, rows: lostRows, first, last }]);
        expect(report.repaired).toEqual([
          expect.objectContaining({
            path,
            outcome: damaged.length === groups.length ? 'removed' : 'salvaged',
            rows_lost: lostRows,
          }),
        ]);
        await checkReport(archive, report, before.rows, dataset);
        archive.close();
        rmSync(root, { recursive: true });
      }),
      { seed, numRuns: Math.ceil(share * 15), examples: [[2 ** 12 - 1], [1], [0b101]] },
    );
  });

  test('is whole again after the same rows are imported again, byte for byte', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = hashes(root, everything);
    damageGroups(archive, path, [0, 2, 3]);
    await repairNow(archive);
    const lost = 3 * groupRows;
    const records = names.flatMap((symbol) => [...listRecords(symbol, dataset), listUncovered(symbol, dataset)]);
    appendQuotes(archive, ...records.map((record) => ({ ...record, runId: 'again' })));
    await publishNow(archive, now, 'again');
    expect(hashes(root, everything)).toEqual(before);
    expect(readSeriesCounts(archive.state.db, 'again', dataset)).toMatchObject({ accepted: lost, conflicts: 0 });
  });
});

describe('a damaged file of quotes', () => {
  test.each<[string, (at: string) => void]>([
    ['is missing', (at) => rmSync(at)],
    ['is empty', (at) => truncateSync(at, 0)],
    ['is another file', (at) => writeFileSync(at, 'PAR1')],
  ])(
    'that %s loses its rows and the coverage that had rows, and no other part or dataset changes',
    async (_, damage) => {
      const archive = copied();
      const { root } = archive.layout;
      const before = read(root);
      damage(join(root, path));
      const report = await repairNow(archive);
      expect(publishedQuotes(root)).toEqual(
        before.rows.filter(([symbol, t]) => !mine.includes(symbol as string) || Number(t) >= day0 + dayMs),
      );
      expect(hashes(root, others)).toEqual(before.others);
      checkCoverage(root, before);
      for (const symbol of names) {
        const isLost = mine.includes(symbol);
        const was = before.coverage.filter((row) => row[1] === symbol);
        const quiet = was.filter((row) => row[4] === 0);
        expect(quiet.length).toBeGreaterThan(0);
        expect(quoteCoverage(root).filter((row) => row[1] === symbol)).toEqual(
          expect.arrayContaining(isLost ? quiet : was),
        );
      }
      await checkReport(archive, report, before.rows);
    },
  );

  test('that was removed comes back byte for byte with the same import', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = hashes(root, everything);
    for (const part of [0, 1]) rmSync(join(root, toDayPath('quotes', day0, part)));
    await repairNow(archive);
    expect(archive.readManifest().removed).toHaveLength(2);
    appendQuotes(archive, ...names.flatMap((symbol) => [...listRecords(symbol), listUncovered(symbol)]));
    await publishNow(archive);
    expect(hashes(root, everything)).toEqual(before);
    expect(archive.readManifest().removed).toBeUndefined();
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });

  test('of which nothing is recorded loses everything, and says so without keys', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = read(root);
    damageGroups(archive, path, [1]);
    archive.state.db.run('delete from row_groups where path = ?', path);
    const report = await repairNow(archive);
    const rows = before.rows.filter(
      ([symbol, t]) => mine.includes(symbol as string) && Number(t) < day0 + dayMs,
    ).length;
    expect(report.unrecoverable).toEqual([{ dataset: 'quotes', path, rows, first: null, last: null }]);
    checkCoverage(root, before);
    for (const row of before.coverage.filter((one) => one[4] === 0)) expect(quoteCoverage(root)).toContainEqual(row);
    await checkReport(archive, report, before.rows);
  });

  test('is restored byte for byte if its row groups are intact', async () => {
    for (const damage of [
      (at: string): void => writeFileSync(at, 'more', { flag: 'a' }),
      (at: string): void => truncateSync(at, readFileSync(at).length - 7),
      (at: string): void => writeFileSync(at, Buffer.concat([Buffer.from('x'), readFileSync(at)])),
    ]) {
      const archive = copied();
      const before = hashes(archive.layout.root, everything);
      damage(join(archive.layout.root, path));
      expect(await repairNow(archive)).toMatchObject({ generation: 2, unrecoverable: [], lost: [] });
      expect(hashes(archive.layout.root, everything)).toEqual(before);
      archive.close();
    }
  });

  test('does not hold up what is journaled for it: it is merged after the repair', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = read(root);
    damageGroups(archive, path, [1]);
    const symbol = mine[0]!;
    appendQuotes(archive, quoteAnswer(symbol, [quote(day0 + 21 * hourMs, 0.3)], { runId: 'later' }));
    expect((await publishNow(archive, now, 'later')).refused).toHaveLength(1);
    await repairNow(archive);
    expect((await publishNow(archive, now, 'later')).refused).toEqual([]);
    expect(publishedQuotes(root)).toContainEqual([symbol, day0 + 21 * hourMs, 0.3, null, null, null]);
    expect(publishedQuotes(root).length).toBe(before.rows.length - groupRows + 1);
    expect(countQuotes(archive, 'later')).toMatchObject({ fetched: 1, accepted: 1 });
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });
});

describe('beside damaged ticks', () => {
  test('quotes stay byte for byte, and coverage of both loses only what is gone', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = hashes(root, '{quotes,quote_conflicts}/**/*');
    const coverage = quoteCoverage(root);
    rmSync(join(root, toDayPath('ticks', day0, 0)));
    const { lost } = await repairNow(archive);
    expect(new Set(lost.map(({ symbol }) => symbol))).toEqual(new Set(mine));
    expect(hashes(root, '{quotes,quote_conflicts}/**/*')).toEqual(before);
    expect(quoteCoverage(root)).toEqual(coverage);
  });

  test('damaged quotes of the same part are repaired in the same generation', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = read(root);
    rmSync(join(root, toDayPath('ticks', day0, 0)));
    damageGroups(archive, path, [0]);
    const report = await repairNow(archive);
    expect(report.generation).toBe(3);
    expect(report.lost.every(({ dataset }) => dataset === 'ticks')).toBe(true);
    checkCoverage(root, before);
    expect(publishedQuotes(root).length).toBe(before.rows.length - groupRows);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });
});

describe('damaged quote_conflicts', () => {
  const conflictPath = toDayPath('quote_conflicts', day0, 0);

  test('are listed again once the dropped quotes are imported again, numbered as before', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = hashes(root, everything);
    damageGroups(archive, conflictPath, [0, 1]);
    await repairNow(archive);
    appendQuotes(archive, ...listDropped());
    await publishNow(archive);
    expect(hashes(root, everything)).toEqual(before);
  });

  test('that are missing are gone, and quotes of the day are published as before', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const ofOthers = quoteConflicts(root).filter(([symbol]) => !mine.includes(symbol as string));
    const [symbol] = mine as [string];
    rmSync(join(root, conflictPath));
    const report = await repairNow(archive);
    expect(report.unrecoverable.map(({ dataset }) => dataset)).toContain('quote_conflicts');
    expect(quoteConflicts(root)).toEqual(ofOthers);
    appendQuotes(archive, quoteAnswer(symbol, [quote(day0 + 600_000, 0.77)], { observedAt: now - 8 }));
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(quoteConflicts(root)).toEqual([[symbol, day0 + 600_000, now - 8, 0, 0.77, null, null, null], ...ofOthers]);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });
});

describe('a damaged coverage file', () => {
  const coveragePath = toDayPath('coverage', day0, 0);

  test('leaves quotes byte for byte, keeps its intact rows, and reports the others', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = { ...read(root), quotes: hashes(root, 'quotes/**/*') };
    const { groups } = recordOf(archive, coveragePath);
    // Rows of quotes, and not of ticks, which the state has too.
    const ofQuotes = groups.flatMap((group, i) =>
      group.first[0] === 'quotes' && group.last[0] === 'quotes' ? [i] : [],
    );
    expect(ofQuotes.length).toBeGreaterThan(1);
    damageGroups(archive, coveragePath, ofQuotes.slice(0, 2));
    const report = await repairNow(archive);
    expect(hashes(root, 'quotes/**/*')).toEqual(before.quotes);
    expect(hashes(root, others)).toEqual(before.others);
    const left = new Set(quoteCoverage(root).map((row) => JSON.stringify(row)));
    expect(left.size).toBe(before.coverage.length - 2 * groupRows);
    for (const row of left) expect(before.coverage.map((one) => JSON.stringify(one))).toContain(row);
    expect(report.unrecoverable).toEqual([expect.objectContaining({ dataset: 'coverage', rows: 2 * groupRows })]);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
  });

  test('and damaged quotes of its day are repaired together', async () => {
    const archive = copied();
    const { root } = archive.layout;
    const before = read(root);
    rmSync(join(root, coveragePath));
    damageGroups(archive, path, [1]);
    const report = await repairNow(archive);
    expect(publishedQuotes(root).length).toBe(before.rows.length - groupRows);
    expect(quoteCoverage(root)).toEqual(before.coverage.filter(([, symbol]) => !mine.includes(symbol as string)));
    expect(new Set(report.unrecoverable.map(({ dataset }) => dataset))).toEqual(new Set(['quotes', 'coverage']));
    expect(hashes(root, others)).toEqual(before.others);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    // Nothing claims to be covered that is not, and an import brings all of it again.
    appendQuotes(archive, ...names.flatMap((symbol) => listRecords(symbol)));
    await publishNow(archive);
    expect(quoteCoverage(root)).toEqual(before.coverage);
  });
});

describe('after the loss of .oddslake', () => {
  function loseState(archive: Archive): Archive {
    archive.close();
    const { root } = archive.layout;
    rmSync(join(root, '.oddslake'), { recursive: true });
    return opened({ root, parts, groupRows, create: false, mends: true });
  }

  test('quotes stay, and the same import again changes no byte of them and counts as duplicates', async () => {
    const archive = loseState(copied());
    const { root } = archive.layout;
    const before = hashes(root, everything);
    expect(await verifyArchive(archive, null)).toMatchObject({ findings: [], state: null });
    await publishNow(archive);
    expect(hashes(root, everything)).toEqual(before);
    const records = names.flatMap((symbol) => listRecords(symbol)).map((record) => ({ ...record, runId: 'again' }));
    for (const round of [1, 2]) {
      appendQuotes(archive, ...records);
      await publishNow(archive, now, 'again');
      expect(hashes(root, everything)).toEqual(before);
      const rows = round * records.reduce((sum, { rows: { t } }) => sum + t.length, 0);
      expect(countQuotes(archive, 'again')).toEqual({
        fetched: rows,
        accepted: 0,
        duplicates: rows,
        conflicts: 0,
        quarantined: 0,
        recovered: 0,
      });
    }
    expect(findQuoteCountErrors(archive, publishedQuotes(root).length)).toEqual([]);
  });

  test("coverage's origin and fetched_at stand in for the precedence of a quote", async () => {
    const archive = loseState(copied());
    const { root } = archive.layout;
    const symbol = names[3]!;
    const covered = day0 + 600_000;
    const uncovered = day0 + 20 * hourMs;
    const bidAt = (t: number) => publishedQuotes(root).find(([of, time]) => of === symbol && time === t)![2];
    expect([bidAt(covered), bidAt(uncovered)]).toEqual([0, 0.9]);
    // Observed before the file that covers it; without coverage, any observation is later.
    const other = (observedAt: number) =>
      [covered, uncovered].map((t) => quoteAnswer(symbol, [quote(t, 0.33)], { observedAt }));
    appendQuotes(archive, ...other(now - 1));
    await publishNow(archive);
    expect([bidAt(covered), bidAt(uncovered)]).toEqual([0, 0.33]);
    appendQuotes(archive, ...other(now + 50));
    await publishNow(archive);
    expect([bidAt(covered), bidAt(uncovered)]).toEqual([0.33, 0.33]);
  });

  test('a verification records what a repair needs to keep the intact row groups', async () => {
    const archive = loseState(copied());
    const { root } = archive.layout;
    const before = read(root);
    await verifyArchive(archive, null);
    damageGroups(archive, path, [1]);
    await repairNow(archive);
    expect(publishedQuotes(root).length).toBe(before.rows.length - groupRows);
    checkCoverage(root, before);
    expect(hashes(root, others)).toEqual(before.others);
    expect(publishedRows(root, 'symbols').length).toBe(names.length);
  });
});
