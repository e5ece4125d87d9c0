import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles, type PublishedFile } from '../../src/archive/format/manifest.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { type RepairOptions, type RepairReport, repairArchive } from '../../src/archive/integrity/repair.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import type { FileRecord } from '../../src/archive/parquet/row-group-index.ts';
import { appendQuotes, quote, quoteAnswer } from './quotes.ts';
import {
  answer,
  append,
  clockAt,
  day0,
  dayMs,
  hourMs,
  judged,
  market,
  now,
  opened,
  publishNow,
  scratchFolder,
  upstreamName,
} from './scratch.ts';
import { trade, tradeAnswer } from './trades.ts';

// An archive to be damaged: every dataset, and in each of those that can have several row groups some of them.

export const symbols = ['AAA', 'BBB', 'CCC', 'DDD', 'EEE'];
/** Rows of a row group there. */
export const groupRows = 100;
const minuteMs = 60_000;

const ticksOf = (symbol: string, day: number) =>
  Array.from({ length: 150 }, (_, i) => [day + i * 5 * minuteMs + symbol.charCodeAt(0), (i % 97) / 100] as const);

/** Order books of one symbol, three levels a side, ten minutes apart: six rows each, so that row groups cut them. */
const booksOf = (symbol: string) =>
  Array.from({ length: 60 }, (_, i) => {
    const t = day0 + i * 10 * minuteMs;
    const bids = toBookSide(
      [0.3, 0.2, 0.1].map((price) => ({ price, quantity: i })),
      'highest',
    );
    const asks = toBookSide(
      [0.5, 0.6, 0.7].map((price) => ({ price, quantity: i })),
      'lowest',
    );
    const answered = { runId: 'run', observedAt: t + 500, rejected: [], understood: true };
    return { symbol, ...answered, snapshots: [{ t, bids, asks }] };
  });

/** Quotes of one symbol, nine minutes apart, in windows of four hours that are not joined. */
const quotesOf = (symbol: string) =>
  Array.from({ length: 6 }, (_, w) => {
    const window = { from: day0 + 4 * w * hourMs, to: day0 + 4 * (w + 1) * hourMs - 1 };
    const quotes = Array.from({ length: 26 }, (__, i) =>
      quote(window.from + i * 9 * minuteMs, (i % 9) / 10, i % 4 === 0 ? Number.NaN : 0.95),
    );
    return quoteAnswer(symbol, quotes, { windows: [window] });
  });

/** Trades of one symbol, three in each minute, in windows of four hours that are not joined. */
const tradesOf = (symbol: string, price = 0.5) =>
  Array.from({ length: 6 }, (_, w) => {
    const window = { from: day0 + 4 * w * hourMs, to: day0 + 4 * (w + 1) * hourMs - 1 };
    const trades = Array.from({ length: 30 }, (__, i) =>
      trade(window.from + Math.floor(i / 3) * minuteMs, `${w}-${i}`, price, 1 + i, { aggressor: i % 2 ? 'buy' : null }),
    );
    return tradeAnswer(symbol, trades, { windows: [window] });
  });

/** A folder with an archive of two days, one generation, closed. Whoever asks for it removes it. */
export async function filledArchive(): Promise<string> {
  const root = mkdtempSync(join(tmpdir(), 'oddslake-damaged-'));
  const options = { root, create: true, upstream: upstreamName, parts: 1, writer: 'oddslake test' };
  const archive = openArchive({ ...options, groupRows }, systemDisk);
  for (const day of [day0, day0 + dayMs])
    for (const symbol of symbols)
      append(archive, answer(symbol, ticksOf(symbol, day), { windows: [{ from: day, to: day + dayMs }] }));
  const other = ticksOf('AAA', day0).map(([t, p]) => [t, p + 0.001] as const);
  append(archive, answer('AAA', other, { observedAt: now - 1, windows: [] }));
  const markets = Array.from({ length: 250 }, (_, i) => market(`M${String(i).padStart(3, '0')}`));
  appendMarkets(archive.state, { runId: 'run', observedAt: now, markets }, []);
  for (const symbol of ['AAA', 'BBB']) {
    appendBooks(archive.state, booksOf(symbol));
    appendQuotes(archive, ...quotesOf(symbol));
    // Each of them is dropped.
    const others = quotesOf(symbol).map((record) => ({
      ...record,
      rows: {
        ...record.rows,
        values: record.rows.values.with(
          0,
          record.rows.t.map(() => 0.94),
        ),
      },
      covered: [],
      observedAt: now - 1,
    }));
    appendQuotes(archive, ...others);
    appendQuotes(archive, ...tradesOf(symbol));
    appendQuotes(archive, ...tradesOf(symbol, 0.4).map((one) => ({ ...one, covered: [], observedAt: now - 1 })));
  }
  await publishNow(archive);
  archive.close();
  return root;
}

export const repairNow = (archive: Archive, rest: Partial<RepairOptions> = {}): Promise<RepairReport> =>
  repairArchive(archive, {
    clock: clockAt(now + 5),
    waitMs: 0,
    ...judged,
    ...rest,
  });

interface Lake {
  readonly root: string;
  readonly archive: Archive;
  file(path: string): PublishedFile;
  /** What the state knows of a published file. */
  record(path: string): FileRecord;
}

/** Copies, one for each call of `lake`, of an archive of two days, five symbols, one part and many row groups. */
export function damagedLake(): { readonly lake: () => Lake; readonly template: () => string } {
  let template = '';
  beforeAll(async () => {
    template = await filledArchive();
    return () => rmSync(template, { recursive: true, force: true });
  });
  const lake = (): Lake => {
    const root = scratchFolder();
    cpSync(template, root, { recursive: true });
    const archive = opened({ root, groupRows, mends: true });
    const file = (path: string): PublishedFile =>
      listManifestFiles(archive.readManifest()).find((one) => one.path === path)!;
    return { root, archive, file, record: (path) => readRowGroups(archive.state.db, path, file(path).sha256)! };
  };
  return { lake, template: () => template };
}

/** Flips a bit of a file, by default in its middle. Returns its bytes before. */
export function flip(path: string, at?: number): Uint8Array {
  const bytes = readFileSync(path);
  const place = at ?? bytes.length >> 1;
  writeFileSync(path, bytes.with(place, bytes[place]! ^ 4));
  return bytes;
}
