import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { createDisk, systemCalls, systemDisk } from '../../src/archive/disk/file-system.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { finishRun, startRun } from '../../src/archive/journal/runs.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { abandonState, faultDatabase } from '../faults/fault-database.ts';
import { faultCalls } from '../faults/fault-disk.ts';
import { type FaultKind, startFaults } from '../faults/fault-points.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import {
  appendQuotes,
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
  publishNow,
  scratchFolder,
  upstreamName,
} from './scratch.ts';
import { listTexts } from './texts.ts';
import { countTrades, publishedTrades, trade, tradeAnswer, tradeConflicts, tradeCoverage } from './trades.ts';

// A publish of quotes and trades beside ticks and order books, with a fault at each of its calls.

const symbols = ['AAA', 'BBB', '🚀 x'];
const everything =
  '{ticks,symbols,orderbooks,quotes,quote_conflicts,trades,trade_conflicts,candles_1h,coverage,conflicts}/**/*.parquet';

const options = (root: string, create = false) => ({
  root,
  create,
  upstream: upstreamName,
  parts: 2,
  writer: 'oddslake test',
  settleMs: hourMs,
  groupRows: 4,
});

/** Quotes around a midnight. `bid` differs from import to import. */
const listQuotes = (runId: string, bid: number, observedAt: number) =>
  symbols.map((symbol) => {
    const from = day0 + dayMs - 3 * hourMs;
    const quotes = Array.from({ length: 6 }, (_, i) => quote(from + i * hourMs, i % 2 === 0 ? bid : 0.5));
    const windows = [{ from, to: from + 6 * hourMs }];
    return quoteAnswer(symbol, quotes, { runId, observedAt, windows });
  });

/** Trades around a midnight, two in each millisecond, of which one has the identifier of its place in every import. */
const listTrades = (runId: string, price: number, observedAt: number) =>
  symbols.map((symbol) => {
    const from = day0 + dayMs - 3 * hourMs;
    const trades = Array.from({ length: 6 }, (_, i) => [
      trade(from + i * hourMs, `${i}`, i % 2 === 0 ? price : 0.5, 2, { aggressor: 'buy' }),
      trade(from + i * hourMs, `${runId}-${i}`, 0.5),
    ]).flat();
    const windows = [{ from, to: from + 6 * hourMs }];
    return tradeAnswer(symbol, trades, { runId, observedAt, windows });
  });

/** What the first run published, and the second journals and publishes. */
const first = [...listQuotes('first', 0.1, now), ...listTrades('first', 0.1, now)];
const second = [
  ...listTrades('second', 0.2, now + 1),
  ...listQuotes('second', 0.2, now + 1),
  ...listQuotes('second', 0.3, now - 1),
  // New quotes within what is covered: coverage counts them as soon as it is replaced.
  ...symbols.map((symbol) => quoteAnswer(symbol, [quote(day0 + dayMs - hourMs / 2, 0.5)], { runId: 'second' })),
  quoteAnswer('NEW', [quote(day0 + dayMs, 0.4)], { runId: 'second', rejected: [{ reason: 'bad', raw: '{}' }] }),
];

/** One publish of quotes, and a journal of ticks and order books. */
async function fill(root: string): Promise<void> {
  const archive = openArchive(options(root, true), systemDisk);
  appendQuotes(archive, ...first);
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0 + dayMs, 0.5]], { runId: 'first' })));
  await publishNow(archive, now, 'first', { candles: ['1h'] });
  append(archive, ...symbols.map((symbol) => answer(symbol, [[day0 + dayMs + 1, 0.6]], { runId: 'first' })));
  const bids = toBookSide([{ price: 0.3, quantity: 1 }], 'highest');
  const book = { t: day0 + dayMs, bids, asks: toBookSide([], 'lowest') };
  appendBooks(archive.state, [
    { runId: 'first', symbol: 'AAA', observedAt: day0 + dayMs, snapshots: [book], rejected: [], understood: true },
  ]);
  finishRun(archive.state.db, 'first', now, 0, '{}');
  archive.close();
}

/** Journals the second import and publishes. `onJournaled` is called once it is durable. */
async function publishSecond(archive: Archive, onJournaled: () => void): Promise<void> {
  startRun(archive.state.db, 'second', 'test', process.pid, now);
  appendQuotes(archive, ...second);
  onJournaled();
  await publishNow(archive, now, 'second', { candles: ['1h'] });
}

let template = '';
/** The files without the second import, and with it. */
let expected: { readonly without: object; readonly complete: object };
beforeAll(async () => {
  const folder = mkdtempSync(join(scratchRoot, 'oddslake-quotes-'));
  template = join(folder, 'template');
  await fill(template);
  const finish = async (withSecond: boolean): Promise<object> => {
    const root = join(folder, String(withSecond));
    cpSync(template, root, { recursive: true });
    const archive = openArchive(options(root), systemDisk);
    if (withSecond) await publishSecond(archive, () => {});
    else await publishNow(archive, now, 'third', { candles: ['1h'] });
    archive.close();
    return hashes(root, everything);
  };
  expected = { without: await finish(false), complete: await finish(true) };
  return () => rmSync(folder, { recursive: true });
});

/** Errors that a reader of the files can see at this moment: a key twice, a lost row, coverage without its rows. */
function findReaderErrors(root: string): string[] {
  const rows = publishedQuotes(root);
  const keys = rows.map(([symbol, t]) => `${symbol} ${t}`);
  const known = new Set(keys);
  const trades = publishedTrades(root);
  const tradeKeys = new Set(trades.map((row) => `${row[0]} ${row[2]}`));
  const lostTrades = first
    .filter(({ dataset }) => dataset === 'trades')
    .flatMap(({ symbol, rows: { texts } }) => listTexts(texts[0]!).map((id) => `${symbol} ${id}`))
    .filter((key) => !tradeKeys.has(key));
  const lost = first
    .filter(({ dataset }) => dataset === 'quotes')
    .flatMap(({ symbol, rows: { t } }) => [...t].map((time) => `${symbol} ${time}`))
    .filter((key) => !known.has(key));
  const conflicts = [quoteConflicts(root), tradeConflicts(root)].flatMap((rows, dataset) =>
    rows.map((row) => JSON.stringify([dataset, ...row.slice(0, 4)])),
  );
  return [
    ...(known.size === keys.length ? [] : ['a key twice']),
    ...(new Set(conflicts).size === conflicts.length ? [] : ['a conflict twice']),
    ...[...lost, ...lostTrades].map((key) => `${key} is lost`),
    ...(tradeKeys.size === trades.length ? [] : ['a trade twice']),
    ...tradeCoverage(root).flatMap(([, symbol, from, to, count]) => {
      const inside = trades.filter(([of, t]) => of === symbol && from! <= t! && t! < to!).length;
      return inside >= Number(count) ? [] : [`${symbol}: ${inside} of ${count} trades within what is covered`];
    }),
    ...quoteCoverage(root).flatMap(([, symbol, from, to, ticks]) => {
      const inside = rows.filter(([of, t]) => of === symbol && from! <= t! && t! < to!).length;
      return inside >= Number(ticks) ? [] : [`${symbol}: ${inside} of ${ticks} quotes within what is covered`];
    }),
    ...globSync('{quote,trade}*/**/*', { cwd: root, withFileTypes: true }).flatMap((entry) =>
      entry.isFile() && !/^part-\d\d\.parquet$/.test(entry.name) ? [`${entry.name} is left behind`] : [],
    ),
  ];
}

interface Struck {
  /** The names of the calls that were made. */
  readonly calls: readonly string[];
  /** Whether the fault happened. */
  readonly isStruck: boolean;
  readonly isDead: boolean;
  readonly error: unknown;
  readonly isJournaled: boolean;
  readonly root: string;
}

/** Publishes the second import, with a fault at one call. */
async function strike(at: number, kind: FaultKind): Promise<Struck> {
  const root = scratchFolder();
  cpSync(template, root, { recursive: true });
  const faults = startFaults({ at, kind });
  const open = faultDatabase(faults);
  let isJournaled = false;
  let archive: Archive | undefined;
  let error: unknown = null;
  try {
    archive = openArchive(options(root), createDisk(faultCalls(faults, systemCalls)), (path) => open(path, 100));
    await publishSecond(archive, () => {
      isJournaled = true;
    });
  } catch (thrown) {
    error = thrown;
  }
  try {
    archive?.close();
  } catch {}
  abandonState(root, 2 ** 31 - 2);
  return { calls: faults.calls, isStruck: faults.struck, isDead: faults.isDead, error, isJournaled, root };
}

/** The numbers, from 1, of the calls without a fault to which this kind applies. */
async function listCalls(kind: FaultKind): Promise<number[]> {
  const { calls } = await strike(Number.POSITIVE_INFINITY, 'EIO');
  return calls.flatMap((name, i) => (kind.endsWith('write') && !name.startsWith('write ') ? [] : [i + 1]));
}

/** Errors after the next run. */
async function findErrorsAfter({ root, isJournaled, error }: Struck): Promise<string[]> {
  const before = findReaderErrors(root);
  const archive = openArchive(options(root), systemDisk);
  try {
    startRun(archive.state.db, 'third', 'test', process.pid, now);
    await publishNow(archive, now, 'third', { candles: ['1h'] });
    const { findings, state } = await verifyArchive(archive, null);
    const found = JSON.stringify(hashes(root, everything));
    const isComplete = found === JSON.stringify(expected.complete);
    const isWithout = found === JSON.stringify(expected.without);
    const journaled = archive.state.db.one<{ n: number }>('select count(*) as n from journal')!.n;
    return [
      ...before,
      ...findReaderErrors(root),
      ...findings.map(({ path, kind }) => `${path}: ${kind}`),
      ...(state === null ? [] : [state]),
      // What was accepted is kept, and what failed before may be gone, but only whole.
      ...(isComplete || (isWithout && !isJournaled) ? [] : ['the files are other ones than without a fault']),
      ...(error === null && !isComplete ? ['nothing failed, and it is not complete'] : []),
      ...(journaled === 0 ? [] : [`${journaled} records are still journaled`]),
      ...findQuoteCountErrors(archive),
      ...['first', 'second', 'third'].flatMap((runId) => {
        const { fetched, accepted, duplicates, conflicts, quarantined } = countTrades(archive, runId);
        return fetched === accepted + duplicates + conflicts + quarantined ? [] : [`${runId}: trades do not add up`];
      }),
    ];
  } finally {
    archive.close();
  }
}

describe('a publish of quotes', () => {
  test.each<[FaultKind, number]>([
    ['crash before', 1],
    ['torn write', 1],
    ['EIO', 2],
    ['short write', 1],
  ])('with the fault "%s" at any call leaves old or new files, and the next run completes it', async (kind, every) => {
    const calls = await listCalls(kind);
    expect(calls.length).toBeGreaterThan(kind.endsWith('write') ? 15 : 100);
    const wrong: string[] = [];
    let strikes = 0;
    let isOld = 0;
    for (let i = 0; i < calls.length; i += every) {
      const at = calls[i]!;
      const struck = await strike(at, kind);
      if (struck.isStruck) {
        strikes++;
        if (!struck.isJournaled) isOld++;
        if (kind === 'crash before')
          expect([struck.isDead, struck.error], `call ${at}`).toEqual([
            true,
            expect.objectContaining({ name: 'Crash' }),
          ]);
        for (const fault of await findErrorsAfter(struck)) wrong.push(`${kind} at call ${at}: ${fault}`);
      }
      rmSync(struck.root, { recursive: true });
    }
    expect(wrong).toEqual([]);
    expect(strikes).toBeGreaterThan(calls.length / every / 2);
    if (kind === 'crash before') expect(isOld).toBeGreaterThan(0);
  });

  test('on a disk that is full from any call on fails with one sentence, and the next run completes it', async () => {
    const calls = await listCalls('ENOSPC');
    const wrong: string[] = [];
    let strikes = 0;
    for (let at = 1; at <= calls.length; at += 3) {
      const struck = await strike(at, 'ENOSPC');
      if (struck.isStruck) {
        strikes++;
        expect(struck.error, `call ${at}`).toMatchObject({
          exitCode: 1,
          message: expect.stringMatching(/disk is full/),
        });
        for (const fault of await findErrorsAfter(struck)) wrong.push(`full at call ${at}: ${fault}`);
      }
      rmSync(struck.root, { recursive: true });
    }
    expect(wrong).toEqual([]);
    expect(strikes).toBeGreaterThan(5);
  });

  test('stays journaled if the publish is stopped, and is complete after the next one', async () => {
    const root = scratchFolder();
    cpSync(template, root, { recursive: true });
    const archive = openArchive(options(root), systemDisk);
    const stop = new AbortController();
    startRun(archive.state.db, 'second', 'test', process.pid, now);
    appendQuotes(archive, ...second);
    const before = hashes(root, everything);
    stop.abort(new Error('stopped'));
    await expect(publishNow(archive, now, 'second', { signal: stop.signal })).rejects.toThrow('stopped');
    expect(hashes(root, everything)).toEqual(before);
    // Stopped in the middle of it.
    for (let turns = 1; turns < 12; turns += 2) {
      const later = new AbortController();
      const publishing = publishNow(archive, now, 'second', { signal: later.signal, candles: ['1h'] }).catch(
        (error: unknown) => error,
      );
      for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve));
      later.abort(new Error('stopped'));
      await publishing;
      expect(findReaderErrors(root)).toEqual([]);
      const found = JSON.stringify(hashes(root, everything));
      expect([JSON.stringify(before), JSON.stringify(expected.complete)]).toContain(found);
    }
    await publishNow(archive, now, 'second', { candles: ['1h'] });
    expect(hashes(root, everything)).toEqual(expected.complete);
    expect(
      existsSync(join(root, '.oddslake/staging'))
        ? globSync('**/*.parquet', { cwd: join(root, '.oddslake/staging') })
        : [],
    ).toEqual([]);
    expect(readFileSync(join(root, 'SHA256SUMS'), 'utf8')).toContain('quote_conflicts/');
    archive.close();
  });

  test('while more is journaled takes whole imports, and the next publish the rest', async () => {
    const root = scratchFolder();
    cpSync(template, root, { recursive: true });
    const archive = openArchive(options(root), systemDisk);
    startRun(archive.state.db, 'second', 'test', process.pid, now);
    for (const record of second) {
      const publishing = publishNow(archive, now, 'second', { candles: ['1h'] });
      await new Promise((resolve) => setImmediate(resolve));
      appendQuotes(archive, record);
      await publishing;
      expect(findReaderErrors(root)).toEqual([]);
      expect(findQuoteCountErrors(archive)).toEqual([]);
    }
    await publishNow(archive, now, 'second', { candles: ['1h'] });
    const tables = '{ticks,quotes,trades,coverage}/**/*.parquet';
    const complete = Object.fromEntries(
      Object.entries(expected.complete).filter(([path]) => /^(ticks|quotes|trades|coverage)\//.test(path)),
    );
    expect(hashes(root, tables)).toEqual(complete);
    archive.close();
  });
});
