import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import type { RepairReport } from '../../src/archive/integrity/repair-report.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readSegments } from '../../src/archive/journal/coverage.ts';
import { readLostWindows } from '../../src/archive/journal/gap-records.ts';
import { readSymbol } from '../../src/archive/journal/symbols.ts';
import { type Archive, openArchive } from '../../src/archive/open-archive.ts';
import { intersect, union, type Window } from '../../src/base/window.ts';
import { filledArchive, groupRows, repairNow, symbols } from '../archive/damaged.ts';
import {
  answer,
  append,
  dayMs,
  hashes,
  hourMs,
  now,
  publishedRows,
  publishedTicks,
  publishNow,
  upstreamName,
} from '../archive/scratch.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// Damage by chance: bits, blocks, ends and whole files, several at once. Nothing of it may go unnoticed; what a repair
// leaves is a part of what was there, and every tick that is gone is known to be lost.

let template: string;
let truth: {
  readonly ticks: readonly string[];
  readonly rows: ReadonlyMap<string, readonly string[]>;
  readonly covered: ReadonlyMap<string, Window[]>;
};
const texts = ['manifest.json', 'SHA256SUMS', 'README.md', 'views.sql'];
const others = ['orderbooks', 'markets', 'conflicts'] as const;

beforeAll(async () => {
  template = await filledArchive();
  const covered = coverageOf(template);
  truth = {
    ticks: publishedTicks(template),
    rows: new Map(others.map((name) => [name, publishedRows(template, name).map((row) => JSON.stringify(row))])),
    covered: new Map([...covered].map(([symbol, list]) => [symbol, union(list)])),
  };
  return () => rmSync(template, { recursive: true, force: true });
});

const coverageOf = (root: string) =>
  Map.groupBy(
    publishedRows(root, 'coverage')
      .filter((row) => row[0] === 'ticks')
      .map(
        ([, symbol, from, to, ticks]) => ({ symbol, from, to, ticks }) as Window & { symbol: string; ticks: number },
      ),
    ({ symbol }) => symbol,
  );

/** Damages one file; what it does not change is no damage. */
function spoil(root: string, draw: Draw, paths: readonly string[]): void {
  const path = draw.one(paths);
  const at = join(root, path);
  if (!existsSync(at)) return;
  const bytes = readFileSync(at);
  // An empty one was cut before.
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
  const options = { root, create: false, upstream: upstreamName, parts: 1, writer: 'oddslake test', settleMs: hourMs };
  return openArchive({ ...options, groupRows, mends: true }, systemDisk);
}

test(
  'damage of any kind is found, and what a repair keeps and what it says is lost are all there was',
  async () => {
    await search({ name: 'damage', least: 120, share: 0.1 }, one);
  },
  searchMsMax,
);

test(
  'no flipped bit and no truncation is silent',
  async () => {
    await search({ name: 'silent', least: 12, share: 0.05 }, silent);
  },
  searchMsMax,
);

/** Changes of each kind that one seed tries, one at a time. */
const changesEach = 40;

async function silent(seed: number): Promise<void> {
  const draw = drawFrom(seed);
  const root = mkdtempSync(join(tmpdir(), 'oddslake-silent-'));
  cpSync(template, root, { recursive: true });
  const archive = open(root);
  try {
    const paths = [...globSync('*/**/*.parquet', { cwd: root }), ...texts.slice(1)].sort();
    const look = async (path: string, bytes: Buffer, changed: Uint8Array): Promise<void> => {
      writeFileSync(join(root, path), changed);
      expect((await verifyArchive(archive, null)).findings, path).toEqual([{ path, kind: 'checksum mismatch' }]);
      writeFileSync(join(root, path), bytes);
    };
    for (let n = 0; n < changesEach; n++) {
      const path = draw.one(paths);
      const bytes = readFileSync(join(root, path));
      const changed = Buffer.from(bytes);
      changed[draw.below(bytes.length)]! ^= 1 << draw.below(8);
      await look(path, bytes, changed);
    }
    const path = draw.one(paths);
    const bytes = readFileSync(join(root, path));
    const from = draw.below(bytes.length);
    for (let length = from; length < Math.min(bytes.length, from + changesEach); length++)
      await look(path, bytes, bytes.subarray(0, length));
    expect((await verifyArchive(archive, null)).findings).toEqual([]);
  } finally {
    archive.close();
    rmSync(root, { recursive: true, force: true });
  }
}

async function one(seed: number): Promise<void> {
  const draw = drawFrom(seed);
  const root = mkdtempSync(join(tmpdir(), 'oddslake-damage-'));
  try {
    cpSync(template, root, { recursive: true });
    const paths = globSync('*/**/*.parquet', { cwd: root }).sort();
    for (let n = 1 + draw.below(4); n > 0; n--) spoil(root, draw, draw.chance(0.85) ? paths : texts);
    const archive = open(root);
    try {
      // As one that an older version left: nothing is known of its row groups.
      const blind = draw.chance(0.1);
      if (blind) archive.state.db.run('delete from row_groups');
      await judge(root, archive);
    } finally {
      archive.close();
    }
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

async function judge(root: string, archive: Archive): Promise<void> {
  const was = { ...hashes(template, '**/*.parquet'), ...hashes(template, '*') };
  // A file beside the datasets is read by nobody.
  const is = { ...hashes(root, '*/**/*.parquet'), ...hashes(root, `{${texts.join(',')}}`) };
  const changed = Object.keys({ ...was, ...is }).filter((path) => was[path] !== is[path]);
  const repaired = await repairNow(archive);
  // None is silent, and none is invented.
  expect(repaired.repaired.map(({ path }) => path).sort()).toEqual(changed.sort());
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
  expectTicks(root, archive, repaired, changed);
  for (const name of others) {
    const left = publishedRows(root, name).map((row) => JSON.stringify(row));
    const known = new Set(truth.rows.get(name));
    expect(left.filter((row) => !known.has(row))).toEqual([]);
    const gone = repaired.unrecoverable
      .filter(({ dataset }) => dataset === name)
      .reduce((sum, { rows }) => sum + rows, 0);
    expect(known.size - left.length, name).toBe(gone);
  }
  await refetch(root, archive);
}

const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);

function expectTicks(
  root: string,
  archive: Archive,
  { lost, unrecoverable }: RepairReport,
  changed: readonly string[],
): void {
  const left = publishedTicks(root);
  const there = new Set(left);
  expect(there.size).toBe(left.length);
  expect(left).toEqual(truth.ticks.filter((line) => there.has(line)));
  const timesOf = (lines: readonly string[], symbol: string): number[] =>
    lines.map((line) => line.split(' ')).flatMap(([s, t]) => (s === symbol ? [Number(t)] : []));
  expect(unrecoverable.filter(({ dataset }) => dataset === 'ticks')).toEqual([]);
  const coverage = coverageOf(root);
  for (const symbol of symbols) {
    const before = timesOf(truth.ticks, symbol);
    const after = timesOf(left, symbol);
    const mine = lost.filter((window) => window.symbol === symbol);
    const kept = new Set(after);
    for (const t of before)
      if (!kept.has(t))
        expect(
          mine.some((w) => w.from <= t && t < w.to),
          `${symbol} ${t} is silently gone`,
        ).toBe(true);
    for (const [day, windows] of Map.groupBy(mine, ({ from }) => Math.floor(from / dayMs) * dayMs)) {
      const had = windows.map(({ from, to }) => before.filter((t) => from <= t && t < to).length);
      const told = windows.map(({ ticks }) => ticks);
      const isGone = (name: 'coverage' | 'candles_1d'): boolean => changed.includes(toDayPath(name, day, 0));
      // Without coverage nobody knows in which of its windows the ticks of a day were, without candles not how many.
      if (isGone('coverage') && isGone('candles_1d')) expect(Math.min(...told)).toBeGreaterThan(0);
      else if (isGone('coverage')) expect(sum(told)).toBe(sum(had));
      else expect(told).toEqual(had);
    }
    const covered = coverage.get(symbol) ?? [];
    for (const { from, to, ticks } of covered)
      expect(ticks, symbol).toBe(after.filter((t) => from <= t && t < to).length);
    expect(intersect(covered, mine)).toEqual([]);
    expect(union([...covered, ...mine])).toEqual(truth.covered.get(symbol));
    expect(union(readSegments(archive.state.db, symbol))).toEqual(union(covered));
    expect(readSymbol(archive.state.db, symbol)).toMatchObject({
      ticks: after.length,
      firstTick: after[0] ?? null,
      lastTick: after.at(-1) ?? null,
    });
  }
}

/** Gives the archive what it lost: it is as it was, but for what no request brings back. */
async function refetch(root: string, archive: Archive): Promise<void> {
  const lines = truth.ticks.map((line) => line.split(' '));
  for (const { symbol, from, to } of readLostWindows(archive.state.db)) {
    const pairs = lines
      .filter(([s, t]) => s === symbol && from <= Number(t) && Number(t) < to)
      .map(([, t, p]) => [Number(t), Number(p)] as const);
    append(archive, answer(symbol, pairs, { windows: [{ from, to }] }));
  }
  await publishNow(archive, now + 9);
  const same = '{ticks,candles_1h,candles_1d,symbols}/**/*.parquet';
  expect(hashes(root, same)).toEqual(hashes(template, same));
  expect(readLostWindows(archive.state.db)).toEqual([]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
}
