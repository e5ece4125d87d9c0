import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { job as importJob } from '../../../jobs/import.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { writeExport } from '../../../src/archive/query/export.ts';
import type { ExportFormat } from '../../../src/archive/read/export-file.ts';
import { listGaps } from '../../../src/archive/read/gaps.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import { systemRandom } from '../../../src/base/system.ts';
import { union } from '../../../src/base/window.ts';
import { clockAt, hashes, opened, publishedRows } from '../../archive/scratch.ts';
import { flagsOf } from '../../e2e/import-lake.ts';
import { coverageOf, ticksOf } from '../../e2e/lake.ts';
import { run } from '../../e2e/run-program.ts';
import { serving } from '../../server/serving.ts';
import { archiveFolder, contextOf } from './one-process.ts';
import { type ScriptedService, startScripted, type Tick } from './scripted-service.ts';

/** Names that are difficult in a URL, a path, SQL, a shell, CSV, JSON or a terminal. All of them are different symbols. */
const odd = [
  'A/B',
  '/',
  '//',
  '..',
  '.',
  '../../etc/passwd',
  '..\\..\\x',
  'C:\\x',
  'date=2025-06-03',
  'part-00.parquet',
  ' ',
  ' A',
  'A ',
  'A  B',
  'A\tB',
  'line\nbreak',
  'line\r\nbreak',
  '\n',
  '\u2028',
  '\u00a0',
  '\u200b',
  "it's",
  '"',
  '"quoted"',
  'A,B;C',
  '\\',
  '\\n',
  "'; drop table symbols; --",
  '$1',
  '?',
  ':x',
  '`id`',
  '$(id)',
  '%',
  '%2F',
  '%00',
  '100%25',
  '+',
  'A+B',
  'A&limit=1',
  'A=B',
  'A#B',
  'A?B=C',
  '*',
  '[A]',
  '{A}',
  '|',
  '<b>',
  '&amp;',
  '-',
  '-A',
  '--symbol',
  '@file',
  '~',
  '0',
  '-0',
  '1e400',
  'NaN',
  'null',
  'NULL',
  'undefined',
  'true',
  '[]',
  '__proto__',
  '\u0001',
  '\u001b[31m',
  '\u007f',
  '\u202eabc',
  'constructor',
  'toString',
  'A',
  'a',
  'Ä',
  'é',
  'e\u0301',
  '漢字',
  '😀',
  '👩‍👩‍👧',
  '\ud83d\ude00\ufe0f',
  '\uffff',
  '\ue000',
  'Z'.repeat(300),
  '漢'.repeat(300),
  '😀'.repeat(150),
  `${'../../'.repeat(99)}x`,
];

const hourMs = 3_600_000;
const before = Date.UTC(2025, 5, 3, 22);
const { output, remove } = archiveFolder();
let box: ScriptedService;
let start: number;

const truthOf = (symbol: string): Tick[] => box.truth(symbol, start, box.nowMs);
const inOrder = [...odd].sort(compareUtf8);
const wanted = () => inOrder.map((symbol) => [symbol, truthOf(symbol)]);

async function night(set: readonly string[] = []) {
  const context = await contextOf(output, box.url, () => box.nowMs, ['source.first_lookback_days=0.1', ...set]);
  return nightly.run(context, { day: null });
}

/** Published ticks, from the reader of the archive. */
const held = () => [...ticksOf(output)].sort(([a], [b]) => compareUtf8(a, b));

beforeAll(async () => {
  box = await startScripted(before, odd);
  start = before - 0.1 * 24 * hourMs;
  expect(new Set(odd).size).toBe(odd.length);
  // Two publishes: one before the end of the day, and one that merges with published files.
  for (let i = 0; i < 2; i++) {
    const summary = await night();
    expect(summary, JSON.stringify(summary, null, 1)).toMatchObject({ exit_code: 0, warnings: [], failures: [] });
    expect(summary.symbols).toMatchObject({ planned: odd.length, done: odd.length });
    if (i === 0) box.nowMs += 3 * hourMs;
  }
});
afterAll(async () => {
  await box.stop();
  remove();
});

describe('symbols of any name', () => {
  test('are requested and published unchanged and in order', () => {
    const requested = new Set(box.requests.map((path) => new URL(path, 'http://box').searchParams.get('symbol')));
    requested.delete(null);
    expect([...requested].sort()).toEqual([...odd].sort());
    // The names are unchanged after URL encoding.
    for (const path of box.requests) expect(path).toMatch(/^\/api\/v1\/(ticks|markets)\?[!-~]*$/);
    expect(held()).toEqual(wanted());
    for (const symbol of odd) {
      const covered = coverageOf(output).filter((row) => row.symbol === symbol);
      expect(union(covered)).toEqual([{ from: start, to: box.nowMs }]);
    }
    expect(publishedRows(output, 'symbols').map((row) => row[0])).toEqual(inOrder);
  });

  test('are the same in DuckDB', async () => {
    const connection = await (await DuckDBInstance.create(':memory:')).connect();
    const read = await connection.runAndReadAll(
      `select symbol, epoch_ms(t)::double, p from read_parquet('${output}/ticks/date=*/*.parquet') order by encode(symbol), t`,
    );
    const rows = read.getRows().map(([symbol, t, p]) => ({ symbol, t, p }));
    connection.closeSync();
    expect(rows).toEqual(inOrder.flatMap((symbol) => truthOf(symbol).map((tick) => ({ symbol, ...tick }))));
  });

  test('have separate gaps, which the next night fills', async () => {
    const healthy = box.script;
    const sick = new Set(odd.filter((_, i) => i % 2 === 0));
    box.nowMs += hourMs;
    box.script = { ticks: (honest, { symbol }) => (sick.has(symbol) ? 'null' : honest) };
    const bad = await night(['upstream.retry_attempts_max=1', 'poll.overlap_minutes=0', 'poll.settle_hours=0']);
    expect(bad).toMatchObject({ exit_code: 4, failures_count: sick.size });
    for (const { symbol, reason } of bad.failures) {
      expect(sick.has(symbol!), JSON.stringify(symbol)).toBe(true);
      expect(reason).toMatch(/JSON that is not an object/);
    }
    const archive = opened({ root: output, upstream: 'box', create: false });
    const gaps = listGaps(
      archive,
      { from: null, to: null, symbols: [] },
      {
        namedSymbols: null,
        views: [],
        lifetimeRules: { lookbackMs: 7 * 86_400_000, lingerMs: 7 * 86_400_000 },
      },
      box.nowMs,
    );
    archive.close();
    expect(gaps.gaps.map(({ symbol }) => symbol).sort()).toEqual([...sick].sort());
    box.script = healthy;
    expect(await night()).toMatchObject({ exit_code: 0 });
    expect(held()).toEqual(wanted());
  });

  test.each<ExportFormat>(['parquet', 'csv', 'ndjson'])('come back from an export as %s', async (format) => {
    const folder = mkdtempSync(join(tmpdir(), 'oddslake-odd-'));
    const back = archiveFolder();
    const archive = opened({ root: output, upstream: 'box', create: false });
    try {
      const watching = { random: systemRandom, signal: new AbortController().signal, progress() {} };
      const requested = { dataset: 'ticks', symbols: [], from: null, to: null, format } as const;
      const file = join(folder, `all.${format}`);
      await writeExport(archive, { ...requested, file }, watching);
      for (const symbol of ['\u0001', '../../etc/passwd', '漢'.repeat(300), '%00', ' ']) {
        const one = await writeExport(
          archive,
          { ...requested, symbols: [symbol], file: join(folder, 'one') },
          watching,
        );
        expect(one.rows, JSON.stringify(symbol)).toBe(truthOf(symbol).length);
      }
      if (format === 'ndjson') {
        const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
        expect(lines.map((line) => (JSON.parse(line) as { symbol: string }).symbol)).toEqual(
          inOrder.flatMap((symbol) => truthOf(symbol).map(() => symbol)),
        );
      }
      const context = await contextOf(back.output, box.url, () => box.nowMs);
      const summary = await importJob.run(context, flagsOf([file]));
      expect(summary, JSON.stringify(summary, null, 1)).toMatchObject({
        exit_code: 0,
        warnings: [],
        ticks: { quarantined: 0 },
      });
      expect(hashes(back.output, 'ticks/**/*')).toEqual(hashes(output, 'ticks/**/*'));
    } finally {
      archive.close();
      back.remove();
      rmSync(folder, { recursive: true });
    }
  });

  test('are served under their names', async () => {
    const archive = opened({ root: output, upstream: 'box', create: false });
    const { json } = await serving(archive, { clock: clockAt(box.nowMs) });
    for (const symbol of odd) {
      const query = `symbol=${encodeURIComponent(symbol)}&from=${start}&limit=10000`;
      const live = await json<{ symbol: string; ticks: Tick[] }>(`/api/v1/ticks?${query}`);
      expect(live, JSON.stringify(symbol)).toMatchObject({ status: 200, body: { symbol, ticks: truthOf(symbol) } });
      const past = await json<{ ticks: (Tick & { symbol: string })[] }>(`/api/v1/historical/ticks?${query}`);
      expect(past.body.ticks).toEqual(truthOf(symbol).map((tick) => ({ symbol, ...tick })));
    }
    const { body } = await json<{ markets: { symbol: string }[] }>('/api/v1/markets?limit=1000');
    expect(body.markets.map(({ symbol }) => symbol).sort()).toEqual([...odd].sort());
  });

  test('are accepted on the command line', async () => {
    const args = odd.map((symbol) => `--symbol=${symbol}`);
    const file = join(tmpdir(), `oddslake-odd-${process.pid}.ndjson`);
    try {
      const ended = await run(['export', '--output', output, '--out', file, '--json', ...args]);
      expect(ended.code, ended.stderr).toBe(0);
      const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
      const found = new Set(lines.map((line) => (JSON.parse(line) as { symbol: string }).symbol));
      expect([...found].sort()).toEqual([...odd].sort());
    } finally {
      rmSync(file, { force: true });
    }
    const listed = await run(['symbols', '--output', output, '--rows', '1000']);
    // A name cannot send control sequences to the terminal.
    for (const control of ['\u0001', '\u001b', '\u007f', '\u202e']) expect(listed.stdout).not.toContain(control);
    expect((await run(['verify', '--output', output])).code).toBe(0);
  });
});
