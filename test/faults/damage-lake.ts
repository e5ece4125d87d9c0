import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, onTestFinished } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { listManifestFiles, type Manifest } from '../../src/archive/format/manifest.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';
import { appendQuotes, quote, quoteAnswer } from '../archive/quotes.ts';
import { answer, append, day0, dayMs, hourMs, market, now, opened, publishNow } from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { drawFrom } from './seeds.ts';

// A small archive with every dataset: two days in two part files, order books, candles, conflicts.

export const symbols = ['AAA', 'BBB', 'CCC', 'DDD'];
const dates = [0, 1];

/** A folder where syncs are free, if the machine has one: these tests write some ten thousand files. */
const fastFolder = scratchRoot;

/** A folder that is deleted after the test. */
export function fastScratch(): string {
  const path = mkdtempSync(join(fastFolder, 'oddslake-damage-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** By the number of rows in a row group. */
const archives = new Map<number, Promise<string>>();

afterAll(async () => {
  for (const folder of archives.values()) rmSync(await folder, { recursive: true, force: true });
});

/** A copy of the archive, which is built once per test file. */
export async function copyDamageLake(root = join(fastScratch(), 'lake'), groupRows = rowGroupRows): Promise<Archive> {
  const folder = archives.get(groupRows) ?? createArchive(groupRows);
  archives.set(groupRows, folder);
  cpSync(await folder, root, { recursive: true });
  return opened({ root, parts: 2, groupRows });
}

async function createArchive(groupRows: number): Promise<string> {
  const folder = mkdtempSync(join(fastFolder, 'oddslake-damage-'));
  const archive = opened({ root: folder, parts: 2, groupRows });
  for (const day of dates) journalDay(archive, day, 0);
  await publishNow(archive);
  // The earlier prices lose and become conflicts.
  for (const day of dates) journalDay(archive, day, 1);
  await publishNow(archive, now + 1);
  archive.close();
  return folder;
}

/** Journals rows for every file of a day; every `round` has other prices and one more tick. */
export function journalDay(archive: Archive, day: number, round: number): void {
  const start = day0 + day * dayMs;
  const observedAt = now + round;
  const ticks = symbols.map((symbol, s) => {
    const draw = drawFrom(1000 * day + s);
    // Enough random doubles for a part file of several disk pages.
    const rows = Array.from({ length: 800 }, (_, i) => [start + i * 60_000 + s, draw()] as const);
    const drawRevised = drawFrom(1_000_000 * round + 1000 * day + s);
    const revised = rows.slice(0, 3).map(([t]) => [t, drawRevised()] as const);
    const more = [start + 23 * hourMs + round, 0.5] as const;
    return answer(symbol, round === 0 ? rows : [...revised, more], {
      observedAt,
      windows: [{ from: start, to: start + 24 * hourMs - day }],
    });
  });
  append(archive, ...ticks);
  const markets = symbols.map((symbol) => market(symbol, { question: `${symbol}?`, category: `round ${round}` }));
  appendMarkets(archive.state, { runId: 'run', observedAt: start + hourMs + round, markets }, []);
  recordMarkets(archive.state.db, markets, start + hourMs + round, true);
  const quotes = symbols.map((symbol) => {
    const rows = Array.from({ length: round === 0 ? 300 : 3 }, (_, i) =>
      quote(start + i * 60_000, (i % 90) / 100, 0.9 + round / 100),
    );
    return quoteAnswer(symbol, rows, { observedAt, windows: [{ from: start, to: start + 6 * hourMs }] });
  });
  const trades = symbols.map((symbol) => {
    const rows = Array.from({ length: round === 0 ? 200 : 3 }, (_, i) =>
      trade(start + Math.floor(i / 2) * 60_000, `${day}-${i}`, (i % 90) / 100, 1 + round),
    );
    return tradeAnswer(symbol, rows, { observedAt, windows: [{ from: start, to: start + 6 * hourMs }] });
  });
  appendQuotes(archive, ...quotes, ...trades);
  const levels = (price: number) => [{ price, quantity: round + 1 }];
  const snapshots = [0, 1, 2].map((i) => ({
    t: start + i * hourMs + round,
    bids: toBookSide(levels(0.4), 'highest'),
    asks: toBookSide(levels(0.6), 'lowest'),
  }));
  appendBooks(
    archive.state,
    symbols.map((symbol) => ({ runId: 'run', symbol, observedAt, snapshots, rejected: [], understood: true })),
  );
}

/** The published files and the texts at the root that verify compares with the last publish. */
export const withLock = (manifest: Manifest): string[] => [
  ...listManifestFiles(manifest).map(({ path }) => path),
  'manifest.json',
  'SHA256SUMS',
  'README.md',
  'views.sql',
];

export const bytesOf = (archive: Archive, path: string): Buffer => readFileSync(join(archive.layout.root, path));
