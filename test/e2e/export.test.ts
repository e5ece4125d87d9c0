import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import { decodeArrowTable, decodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { systemClock } from '../../src/base/system.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { coverageOf, dayMs, type Ended, expectDone, fixedNow, folder, manifestOf, ticksOf } from './lake.ts';
import { runJob as job, run } from './run-program.ts';

const base = mkdtempSync(join(scratchRoot, 'oddslake-export-'));
const lake = join(base, 'lake');
const from = Date.UTC(2025, 5, 11, 7);
const to = Date.UTC(2025, 5, 13, 19);
let symbols: string[] = [];

beforeAll(async () => {
  const box = await startSandbox({ seed: 9, nowMs: fixedNow, markets: 12, ticksPerDay: 300 }, { clock: systemClock });
  try {
    for (const [start, end] of [
      ['10', '12'],
      ['12', '14'],
    ])
      await expectDone(job('backfill', box.url, lake, '--from', `2025-06-${start}`, '--to', `2025-06-${end}`));
  } finally {
    await box.stop();
  }
  symbols = [...ticksOf(lake).keys()].sort();
});

afterAll(() => rmSync(base, { recursive: true, force: true }));

interface Printed {
  readonly file: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

async function exported(file: string, ...flags: string[]): Promise<Printed> {
  const { stdout } = await expectDone(run(['export', '--output', lake, '--out', file, '--json', ...flags]));
  const printed = JSON.parse(stdout) as Printed;
  const bytes = readFileSync(file);
  expect(printed).toMatchObject({ file, bytes: bytes.length, generation: 2 });
  expect(printed.sha256).toBe(createHash('sha256').update(bytes).digest('hex'));
  return printed;
}

/** `symbol t p` of the published ticks in the window, in the order of the dataset. */
const truth = (chosen: readonly string[], window = { from, to }): string[] =>
  symbols
    .filter((symbol) => chosen.includes(symbol))
    .flatMap((symbol) =>
      ticksOf(lake)
        .get(symbol)!
        .filter(({ t }) => window.from <= t && t < window.to)
        .map(({ t, p }) => `${symbol} ${t} ${p}`),
    );

function ticksIn(bytes: Uint8Array): string[] {
  const { symbols: names, offsets, t, p } = decodeTicks(bytes);
  return names.flatMap((symbol, i) =>
    [...t.subarray(offsets[i]!, offsets[i + 1]!)].map((time, k) => `${symbol} ${time} ${p[offsets[i]! + k]}`),
  );
}

const windowFlags = ['--from', '2025-06-11T07:00Z', '--to', String(to)];
const types = (schema: { fields: unknown[] }): string[] => schema.fields.map(String);

describe('exports the same sorted rows in every format', () => {
  test('Parquet has the types of the archive', async () => {
    const file = join(base, 'slice.parquet');
    const wanted = truth(symbols);
    expect((await exported(file, ...windowFlags)).rows).toBe(wanted.length);
    expect(ticksIn(readFileSync(file))).toEqual(wanted);
    const part = join(lake, manifestOf(lake).datasets.ticks.files[0]!.path);
    expect(types(decodeArrowTable(readFileSync(file)).schema)).toEqual(
      types(decodeArrowTable(readFileSync(part)).schema),
    );
    // A repeated export gives the same file.
    const { sha256 } = await exported(join(base, 'again.parquet'), ...windowFlags);
    expect(sha256).toBe((await exported(file, ...windowFlags)).sha256);
  });

  test('Arrow has them too, for both extensions', async () => {
    const chosen = [symbols[3]!, symbols[0]!];
    const file = join(base, 'slice.feather');
    await exported(file, ...windowFlags, ...chosen.flatMap((symbol) => ['--symbol', symbol]));
    const table = tableFromIPC(readFileSync(file));
    expect(types(table.schema)).toEqual(['symbol: Utf8', 't: Timestamp<MILLISECOND, UTC>', 'p: Float64'].map(String));
    expect(table.toArray().map((row) => `${row.symbol} ${row.t} ${row.p}`)).toEqual(truth(chosen));
  });

  test('CSV and NDJSON have ISO times in UTC', async () => {
    const one = symbols[1]!;
    const lines = (name: string): string[] => readFileSync(join(base, name), 'utf8').trimEnd().split('\n');
    await exported(join(base, 'slice.csv'), ...windowFlags, '--symbol', one);
    const [head, ...rows] = lines('slice.csv').map((line) => line.split(','));
    expect(head).toEqual(['symbol', 't', 'p']);
    expect(rows.every(([, t]) => t!.endsWith('Z'))).toBe(true);
    expect(rows.map(([symbol, t, p]) => `${symbol} ${Date.parse(t!)} ${Number(p)}`)).toEqual(truth([one]));
    await exported(join(base, 'slice.jsonl'), ...windowFlags, '--symbol', one);
    const objects = lines('slice.jsonl').map((line) => JSON.parse(line) as { symbol: string; t: string; p: number });
    expect(objects.map(({ symbol, t, p }) => `${symbol} ${Date.parse(t)} ${p}`)).toEqual(truth([one]));
  });

  test('--format overrides the extension', async () => {
    await exported(join(base, 'slice.txt'), '--format', 'csv', '--symbol', symbols[0]!);
    expect(readFileSync(join(base, 'slice.txt'), 'utf8')).toMatch(/^symbol,t,p\n/);
  });
});

test('exports rows of coverage and markets that overlap the window', async () => {
  const file = join(base, 'coverage.parquet');
  const overlapping = coverageOf(lake).filter((row) => row.from < to && row.to > from);
  expect((await exported(file, '--dataset', 'coverage', ...windowFlags)).rows).toBe(overlapping.length);
  const rows = decodeRows(datasets.coverage.columns, readFileSync(file));
  const names = rows.map((row) => row[1] as string);
  expect(names).toEqual([...names].sort());
  // The window ends at the start of the first row, which is therefore excluded.
  const first = Math.min(...coverageOf(lake).map((row) => row.from));
  expect((await exported(file, '--dataset', 'coverage', '--to', String(first))).rows).toBe(0);

  const markets = join(base, 'markets.parquet');
  const all = await exported(markets, '--dataset', 'markets');
  const lastSeen = Math.max(
    ...decodeRows(datasets.markets.columns, readFileSync(markets)).map((row) => row[12] as number),
  );
  expect((await exported(markets, '--dataset', 'markets', '--from', String(lastSeen))).rows).toBe(all.rows);
  expect((await exported(markets, '--dataset', 'markets', '--from', String(lastSeen + 1))).rows).toBe(0);
  expect((await exported(join(base, 'symbols.csv'), '--dataset', 'symbols')).rows).toBe(symbols.length);
});

test('an empty slice is a file without rows, with header or schema', async () => {
  const empty = ['--from', String(fixedNow + dayMs)];
  const names = ['none.parquet', 'none.arrow', 'none.csv', 'none.ndjson'];
  const printed: Printed[] = [];
  for (const name of names) printed.push(await exported(join(base, name), ...empty));
  expect(printed.map(({ rows }) => rows)).toEqual([0, 0, 0, 0]);
  expect(decodeRows(datasets.ticks.columns, readFileSync(join(base, 'none.parquet')))).toEqual([]);
  expect(tableFromIPC(readFileSync(join(base, 'none.arrow'))).schema.fields).toHaveLength(3);
  expect(readFileSync(join(base, 'none.csv'), 'utf8')).toBe('symbol,t,p\n');
  expect(readFileSync(join(base, 'none.ndjson'), 'utf8')).toBe('');
});

test('replaces an existing file atomically, and keeps it if the export fails', async () => {
  const place = folder();
  const file = join(place, 'ticks.parquet');
  writeFileSync(file, 'old');
  writeFileSync(join(place, '.ticks.parquet.oddslake-2147483646-x'), 'of one that was killed');
  await exported(file, '--symbol', symbols[0]!);
  const good = readFileSync(file);
  expect(ticksIn(good)).toEqual(truth([symbols[0]!], { from: 0, to: fixedNow }));

  const damaged = join(folder(), 'lake');
  await expectDone(run(['snapshot', damaged, '--output', lake]));
  const { path, bytes } = manifestOf(damaged).datasets.ticks.files[0]!;
  rmSync(join(damaged, path));
  writeFileSync(join(damaged, path), Buffer.alloc(bytes));
  const failed = await run(['export', '--output', damaged, '--out', file]);
  expect(failed.code, failed.stderr).toBe(6);
  expect(failed.stderr).toContain(path);
  expect(readFileSync(file)).toEqual(good);
  expect(readdirSync(place)).toEqual(['ticks.parquet']);
  expect(readdirSync(join(damaged, '.oddslake/pins'))).toEqual([]);
});

test('exits 2 for an invalid selection or target', async () => {
  const place = folder();
  mkdirSync(join(place, 'folder.csv'));
  const file = join(place, 'x.csv');
  const cases: [string[], RegExp][] = [
    [['--out', file, '--symbol', 'nobody'], /--symbol nobody is not known/],
    [['--out', file, '--dataset', 'tick'], /--dataset tick: expected one of ticks, symbols/],
    [
      ['--out', file, '--dataset', 'symbols', '--from', '2025-06-01'],
      /--from and --to cannot be used with --dataset symbols/,
    ],
    [['--out', file, '--from', '2025-06-02', '--to', '2025-06-02'], /--from must be before --to/],
    [['--out', file, '--from', 'some day'], /--from "some day"/],
    [['--out', file, '--since', '24h', '--from', '2025-06-01'], /--since <time>' cannot be used with option '--from/],
    [['--out', file, '--since', 'now'], /--since must be in the past/],
    [['--out', join(place, 'x.parquet.gz')], /parquet is compressed inside/],
    [['--out', join(place, 'x.xlsx')], /has none of the known extensions/],
    [['--out', join(place, 'none/x.csv'), '--symbol', 'nobody'], /--symbol nobody is not known/],
    [['--out', join(place, 'folder.csv')], /is not a regular file/],
    [['--out', '/dev/null', '--format', 'csv'], /is not a regular file/],
    [['--out', join(lake, 'ticks/x.parquet')], /inside the archive/],
    [['--format', 'csv'], /--out/],
  ];
  // A rejected export also exits.
  const ended: Ended[] = [await run(['export', '--output', lake, ...cases[0]![0]])];
  for (const [flags] of cases.slice(1)) ended.push(await run(['export', '--output', lake, ...flags]));
  for (const [i, { code, stdout, stderr }] of ended.entries()) {
    expect([code, stdout], stderr).toEqual([2, '']);
    expect(stderr).toMatch(cases[i]![1]);
  }
  expect(readdirSync(place)).toEqual(['folder.csv']);
});
