import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { union } from '../../src/base/window.ts';
import { bookCoverage, booksOf } from './books.ts';
import { expectDone, folder, manifestOf, minuteMs, sandbox, ticksOf } from './lake.ts';
import { runJob as job } from './run-program.ts';
import { serve } from './served.ts';

const hourMs = 60 * minuteMs;
// A world in which two symbols still tick at the end and can fail, and in which the first day is full: where it is not, the service
// shows a horizon, before which a copy claims nothing.
const seed = 11;
const day = (n: number): number => Date.UTC(2025, 5, n);
const named = (n: number): string => `2025-06-${String(n).padStart(2, '0')}`;

/** An archive that is hard to mirror: late ticks, gaps, failures, resolved and vanished markets, order books. */
async function collected(): Promise<string> {
  const output = folder();
  const lateOptions = { lateShare: 0.2, lateDelayMsMax: 2 * hourMs };
  const box = await sandbox({ seed, markets: 10, ticksPerDay: 150, ...lateOptions, nowMs: day(8) + hourMs });
  await expectDone(job('backfill', box.url, output, '--from', named(5), '--to', named(7)));
  // Of the days up to the tenth only the fifth and the sixth are covered.
  const lookback = ['--set', 'source.first_lookback_days=1'];
  box.set({ nowMs: day(11) + hourMs });
  await expectDone(job('nightly', box.url, output, '--date', named(10), ...lookback));
  const alive = [...ticksOf(output)].filter(([, ticks]) => ticks.at(-1)!.t > day(10) + 12 * hourMs);
  const [failing, missing, ...remaining] = alive.map(([symbol]) => symbol);
  box.set({
    nowMs: day(12) + hourMs,
    faultSymbols: { [failing!]: 500, [missing!]: 404 },
    bookShapes: ['list', 'outcomes'],
  });
  const night = await job('nightly', box.url, output, '--date', named(11));
  expect(night.summary).toMatchObject({ exit_code: 4, symbols: { failed: 2 } });
  await expectDone(job('orderbook', box.url, output, ...remaining.flatMap((symbol) => ['--symbol', symbol])));
  return output;
}

type Row = readonly unknown[];

const coverageRows = (output: string, dataset: string): Row[] =>
  globSync('coverage/date=*/*.parquet', { cwd: output })
    .sort()
    .flatMap((path) => decodeRows(datasets.coverage.columns, readFileSync(join(output, path))))
    .filter((row) => row[0] === dataset);

/** Covered windows of each symbol, from any run. */
const covered = (output: string) =>
  [...Map.groupBy(coverageRows(output, 'ticks'), (row) => row[1] as string)]
    .map(
      ([symbol, rows]) =>
        [symbol, union(rows.map((row) => ({ from: row[2] as number, to: row[3] as number })))] as const,
    )
    .sort(([a], [b]) => (a < b ? -1 : 1));

/** The markets of the last poll, without earlier observation times. */
function lastMarkets(output: string): Row[] {
  const rows = globSync('markets/date=*/*.parquet', { cwd: output }).flatMap((path) =>
    decodeRows(datasets.markets.columns, readFileSync(join(output, path))),
  );
  const last = Math.max(...rows.map((row) => row[12] as number));
  return rows.filter((row) => row[12] === last).map((row) => row.toSpliced(11, 1));
}

/** The last snapshot of every symbol. */
const lastBooks = (output: string) => new Map([...booksOf(output)].map(([symbol, books]) => [symbol, books.at(-1)]));

// A dozen processes, one after another.
test('the collector alone mirrors an archive through the service to an equal one', async () => {
  const output = await collected();
  const { job: mirror } = await serve(output);
  const copy = folder();
  const books = `orderbooks.symbols=${JSON.stringify([...booksOf(output).keys()])}`;
  const night = await mirror('nightly', copy, '--set', books);
  expect(night.summary, night.stderr).toMatchObject({ exit_code: 0, failures: [] });
  // The lists name them as active, and they were last polled long ago.
  expect(night.summary.warnings).toEqual([
    expect.stringMatching(/^The service is behind: .* since .* for \d+ symbols/),
  ]);
  // Symbols that no list names any more are known by name only.
  const file = join(folder(), 'symbols.txt');
  writeFileSync(
    file,
    covered(output)
      .map(([symbol]) => symbol)
      .join('\n'),
  );
  const window = ['--from', named(1), '--to', named(20)];
  const back = await mirror('backfill', copy, '--all-known', ...window, '--symbols-file', file);
  // The mirror has the same gaps as the archive, and reports them.
  expect(back.summary).toMatchObject({ exit_code: 4, symbols: { failed: 0 } });
  expect(back.summary.failures[0]!.reason).toBe('the service states that it has no data for this window');
  expect(ticksOf(copy)).toEqual(ticksOf(output));
  expect(covered(copy)).toEqual(covered(output));
  expect(lastMarkets(copy)).toEqual(lastMarkets(output));
  expect(lastMarkets(copy).length).toBeGreaterThan(5);
  expect(lastBooks(copy)).toEqual(lastBooks(output));
  expect(lastBooks(copy).size).toBeGreaterThan(3);
  // Every order book response of the mirror is one of the archive's.
  expect(coverageRows(output, 'orderbooks').map((row) => JSON.stringify(row.slice(0, 4)))).toEqual(
    expect.arrayContaining(bookCoverage(copy).map((row) => JSON.stringify(row.slice(0, 4)))),
  );
  expect(manifestOf(copy).datasets.conflicts.files.map(({ rows }) => rows)).toEqual([0]);
});
