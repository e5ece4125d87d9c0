import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import type { RepairReport } from '../../src/archive/integrity/repair.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readPublishedCoverage } from '../../src/archive/journal/coverage-store.ts';
import { readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { intersect, union, type Window } from '../../src/base/window.ts';
import { findWrongCandles } from '../archive/candle-files.ts';
import { filledArchive, groupRows, repairNow, symbols } from '../archive/damaged.ts';
import {
  answer,
  append,
  dayMs,
  hashes,
  now,
  publishedRows,
  publishedTicks,
  publishNow,
  upstreamName,
} from '../archive/scratch.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// Random damage to bits, blocks, file ends and whole files, several at once. verify must find all of it; a repair keeps
// a subset of the rows, and every missing tick is recorded as lost.

let template: string;
let original: {
  readonly ticks: readonly string[];
  readonly rows: ReadonlyMap<string, readonly string[]>;
  readonly covered: ReadonlyMap<string, Window[]>;
};
const texts = ['manifest.json', 'SHA256SUMS', 'README.md', 'views.sql'];
const otherDatasets = [
  'orderbooks',
  'quotes',
  'quote_conflicts',
  'trades',
  'trade_conflicts',
  'markets',
  'conflicts',
] as const;

beforeAll(async () => {
  template = await filledArchive();
  const covered = coverageOf(template);
  original = {
    ticks: publishedTicks(template),
    rows: new Map(
      otherDatasets.map((name) => [name, publishedRows(template, name).map((row) => formatRow(name, row))]),
    ),
    covered: new Map([...covered].map(([symbol, list]) => [symbol, union(list)])),
  };
  return () => rmSync(template, { recursive: true, force: true });
});

/** A row without `seq` of trades, which a repair computes again. */
const formatRow = (name: string, row: readonly unknown[]): string =>
  JSON.stringify(name === 'trades' ? row.toSpliced(8, 1) : row);

const coverageOf = (root: string) =>
  Map.groupBy(
    publishedRows(root, 'coverage')
      .filter((row) => row[0] === 'ticks')
      .map(
        ([, symbol, from, to, ticks]) => ({ symbol, from, to, ticks }) as Window & { symbol: string; ticks: number },
      ),
    ({ symbol }) => symbol,
  );

/** Damages one file; a change without effect does not count as damage. */
function damageFile(root: string, draw: Draw, paths: readonly string[]): void {
  const path = draw.one(paths);
  const at = join(root, path);
  if (!existsSync(at)) return;
  const bytes = readFileSync(at);
  // An earlier damage has emptied the file.
  if (bytes.length === 0) return;
  const place = draw.below(bytes.length);
  const write = (changed: Uint8Array): void => writeFileSync(at, changed);
  const kind = draw.below(10);
  if (kind < 4) {
    bytes[place]! ^= 1 << draw.below(8);
    write(bytes);
  } else if (kind === 4) write(bytes.subarray(0, place));
  else if (kind === 5) write(bytes.fill(draw.below(256), place, Math.min(bytes.length, place + 1 + draw.below(400))));
  else if (kind === 6)
    write(Buffer.concat([bytes.subarray(0, place), Buffer.alloc(1 + draw.below(20)), bytes.subarray(place)]));
  else if (kind === 7) rmSync(at);
  else if (kind === 8) renameSync(at, join(root, `${dirname(path)}/stray-${draw.below(1000)}.parquet`));
  else {
    const other = join(root, draw.one(paths));
    if (!existsSync(other)) return;
    write(readFileSync(other));
    writeFileSync(other, bytes);
  }
}

function open(root: string): Archive {
  const options = { root, create: false, upstream: upstreamName, parts: 1, writer: 'oddslake test' };
  return openArchive({ ...options, groupRows, mends: true }, systemDisk);
}

test(
  'verify finds any damage, and the kept and the lost ticks of a repair are all ticks',
  async () => {
    await search({ name: 'damage', least: 120, share: 0.05 }, one);
  },
  searchMsMax,
);

async function one(seed: number): Promise<void> {
  const draw = drawFrom(seed);
  const root = mkdtempSync(join(tmpdir(), 'oddslake-damage-'));
  try {
    cpSync(template, root, { recursive: true });
    const paths = globSync('*/**/*.parquet', { cwd: root }).sort();
    for (let n = 1 + draw.below(4); n > 0; n--) damageFile(root, draw, draw.chance(0.85) ? paths : texts);
    // Opening restores a manifest that is none.
    const changed = listChanged(root);
    const archive = open(root);
    try {
      // Like a file of an older version, whose row groups are unknown.
      const blind = draw.chance(0.1);
      if (blind) archive.state.db.run('delete from row_groups');
      await checkReport(root, archive, changed);
    } finally {
      archive.close();
    }
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** The paths of files that differ from those of the template. Readers ignore a file outside the datasets. */
function listChanged(root: string): string[] {
  // `hashes` leaves out what is random in a manifest.
  const manifestIn = (folder: string): Record<string, string> => {
    const path = join(folder, 'manifest.json');
    return existsSync(path) ? { 'manifest.json': readFileSync(path, 'latin1') } : {};
  };
  const was = { ...hashes(template, '**/*.parquet'), ...hashes(template, '*'), ...manifestIn(template) };
  const is = { ...hashes(root, '*/**/*.parquet'), ...hashes(root, `{${texts.join(',')}}`), ...manifestIn(root) };
  return Object.keys({ ...was, ...is }).filter((path) => was[path] !== is[path]);
}

async function checkReport(root: string, archive: Archive, changed: readonly string[]): Promise<void> {
  const repaired = await repairNow(archive);
  // No loss is silent and none is invented.
  expect(repaired.repaired.map(({ path }) => path).sort()).toEqual(changed.toSorted());
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
  expectTicks(root, archive, repaired, changed);
  for (const name of otherDatasets) {
    const remaining = publishedRows(root, name).map((row) => formatRow(name, row));
    const known = new Set(original.rows.get(name));
    expect(remaining.filter((row) => !known.has(row))).toEqual([]);
    const gone = repaired.unrecoverable
      .filter(({ dataset }) => dataset === name)
      .reduce((sum, { rows }) => sum + rows, 0);
    expect(known.size - remaining.length, name).toBe(gone);
  }
  const series = { quotes: publishedRows(root, 'quotes'), trades: publishedRows(root, 'trades') };
  for (const [dataset, symbol, from, to, count] of publishedRows(root, 'coverage') as [
    string,
    string,
    number,
    number,
    number,
  ][]) {
    if (dataset !== 'quotes' && dataset !== 'trades') continue;
    // No window counts as covered without all of its rows.
    const isInside = (row: readonly unknown[]): boolean =>
      row[0] === symbol && from <= Number(row[1]) && Number(row[1]) < to;
    const before = original.rows.get(dataset)!.filter((row) => isInside(JSON.parse(row) as unknown[]));
    expect([series[dataset].filter(isInside).length, before.length], `${symbol} ${from}`).toEqual([count, count]);
  }
  await refetch(root, archive);
}

const addUp = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

function expectTicks(
  root: string,
  archive: Archive,
  { lost, unrecoverable }: RepairReport,
  changed: readonly string[],
): void {
  const remaining = publishedTicks(root);
  const remainingSet = new Set(remaining);
  expect(remainingSet.size).toBe(remaining.length);
  expect(remaining).toEqual(original.ticks.filter((line) => remainingSet.has(line)));
  const timesOf = (lines: readonly string[], symbol: string): number[] =>
    lines.map((line) => line.split(' ')).flatMap(([s, t]) => (s === symbol ? [Number(t)] : []));
  expect(unrecoverable.filter(({ dataset }) => dataset === 'ticks')).toEqual([]);
  const coverage = coverageOf(root);
  for (const symbol of symbols) {
    const before = timesOf(original.ticks, symbol);
    const after = timesOf(remaining, symbol);
    const mine = lost.filter((window) => window.symbol === symbol);
    const keptSet = new Set(after);
    for (const t of before)
      if (!keptSet.has(t))
        expect(
          mine.some((w) => w.from <= t && t < w.to),
          `${symbol} ${t} is silently lost`,
        ).toBe(true);
    for (const [day, windows] of Map.groupBy(mine, ({ from }) => Math.floor(from / dayMs) * dayMs)) {
      const ticksBefore = windows.map(({ from, to }) => before.filter((t) => from <= t && t < to).length);
      const ticksReported = windows.map(({ ticks }) => ticks);
      const isGone = (name: 'coverage' | 'candles_1d'): boolean => changed.includes(toDayPath(name, day, 0));
      // Without coverage the windows of a day's ticks are unknown, without candles their number.
      if (isGone('coverage') && isGone('candles_1d')) expect(Math.min(...ticksReported)).toBeGreaterThan(0);
      else if (isGone('coverage')) expect(addUp(ticksReported)).toBe(addUp(ticksBefore));
      else expect(ticksReported).toEqual(ticksBefore);
    }
    const covered = coverage.get(symbol) ?? [];
    for (const { from, to, ticks } of covered)
      expect(ticks, symbol).toBe(after.filter((t) => from <= t && t < to).length);
    expect(intersect(covered, mine)).toEqual([]);
    expect(union([...covered, ...mine])).toEqual(original.covered.get(symbol));
    expect(union(readPublishedCoverage(archive.state.db, symbol))).toEqual(union(covered));
    expect(readSymbol(archive.state.db, symbol)).toMatchObject({
      ticks: after.length,
      firstTick: after[0] ?? null,
      lastTick: after.at(-1) ?? null,
    });
  }
}

/** Gives the archive what it lost. Afterwards it is as before, except for what no request returns. */
async function refetch(root: string, archive: Archive): Promise<void> {
  const lines = original.ticks.map((line) => line.split(' '));
  for (const { symbol, from, to } of readLostWindows(archive.state.db)) {
    const pairs = lines
      .filter(([s, t]) => s === symbol && from <= Number(t) && Number(t) < to)
      .map(([, t, p]) => [Number(t), Number(p)] as const);
    append(archive, answer(symbol, pairs, { windows: [{ from, to }] }));
  }
  await publishNow(archive, now + 9);
  const same = '{ticks,symbols}/**/*.parquet';
  expect(hashes(root, same)).toEqual(hashes(template, same));
  // Lost quotes are not fetched, and candles depend on them.
  expect(findWrongCandles(archive)).toEqual([]);
  expect(readLostWindows(archive.state.db)).toEqual([]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
}
