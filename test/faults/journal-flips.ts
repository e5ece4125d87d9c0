import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Archive } from '../../src/archive/archive.ts';
import { systemDisk } from '../../src/archive/disk/file-system.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { journalRowColumns } from '../../src/archive/journal/journal-rows.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';
import { openArchive } from '../../src/archive/open-archive.ts';
import { appendQuotes, publishedQuotes, quote, quoteAnswer } from '../archive/quotes.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  market,
  now,
  publishedRows,
  publishedTicks,
  publishNow,
  upstreamName,
} from '../archive/scratch.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import type { Draw } from './draw.ts';

// Flips bits of the journal between acceptance and publish.

/**
 * The effect of a flip: everything was published, something was quarantined, or the publish was refused with exit code
 * 6.
 */
export type FlipOutcome = 'whole' | 'quarantined' | 'refused';

interface FlipLake {
  /** Flips a bit of a database page with journal tables or indices. */
  flipPage(draw: Draw): Promise<Flipped>;
  /** Flips a bit of one column in one row. */
  flipValue(draw: Draw): Promise<Flipped>;
}

interface Flipped {
  readonly what: string;
  readonly outcome: FlipOutcome;
  /** Published rows that were never journaled, and coverage without its rows. */
  readonly wrong: readonly string[];
}

const options = (root: string) => ({
  root,
  upstream: upstreamName,
  parts: 2,
  writer: 'oddslake test',
});
const symbols = ['AAA', 'BBB', 'Ünï', 'KX-1', 'KX-2', 'KX-3'];

export async function flipLake(folder: string): Promise<FlipLake> {
  const base = join(folder, 'base');
  const clean = join(folder, 'clean');
  const place = join(folder, 'place');
  makeBase(base);
  const database = toStateFilePath(join(base, '.oddslake'));
  const pages = journalPages(database);
  const bytes = readFileSync(database);
  createFresh(database, clean);
  await published(clean);
  const expected = readContents(clean);

  async function look(description: string): Promise<Flipped> {
    try {
      const quarantined = await published(place);
      const wrong = findErrors(expected, readContents(place));
      return { what: description, outcome: quarantined ? 'quarantined' : 'whole', wrong };
    } catch (error) {
      const isStated = (error as { exitCode?: number }).exitCode === 6;
      const wrong = findErrors(expected, readContents(place));
      return {
        what: description,
        outcome: 'refused',
        wrong: isStated ? wrong : [...wrong, String((error as Error).stack)],
      };
    }
  }

  return {
    flipPage(draw) {
      const { page, name } = draw.one(pages);
      const at = (page - 1) * pageBytes + draw.below(pageBytes);
      const bit = draw.below(8);
      const flipped = Buffer.from(bytes);
      flipped[at]! ^= 1 << bit;
      createFresh(database, place);
      writeFileSync(toStateFilePath(join(place, '.oddslake')), flipped);
      return look(`bit ${bit} of byte ${at % pageBytes} of page ${page} (${name})`);
    },
    flipValue(draw) {
      createFresh(database, place);
      const tables = {
        ...journalRowColumns,
        journal: ['run_id', 'symbol', 'requested_from', 'observed_at', 'rank', 'rows', 'origin'],
      };
      const table = draw.one(Object.keys(tables)) as keyof typeof tables;
      const column = draw.one([...tables[table], 'checksum']);
      const db = new DatabaseSync(toStateFilePath(join(place, '.oddslake')));
      const rows = db.prepare(`select rowid as id, ${column} as value from ${table} where ${column} is not null`).all();
      const row = draw.one(rows) as { id: number; value: string | number | Uint8Array } | undefined;
      if (row !== undefined)
        db.prepare(`update ${table} set ${column} = ? where rowid = ?`).run(flippedValue(row.value, draw), row.id);
      db.close();
      return look(`${column} of row ${row?.id} of ${table}`);
    },
  };
}

const pageBytes = 4096;

function makeBase(root: string): void {
  const archive = openArchive({ ...options(root), create: true }, systemDisk);
  for (const [s, symbol] of symbols.entries()) {
    for (const day of [day0, day0 + dayMs]) {
      // Some rows have overflow pages.
      const count = s === 0 ? 400 : 20;
      const pairs = Array.from({ length: count }, (_, i) => [day + s + i * 60_000, (i % 97) / 100 + s / 1000] as const);
      const rejected = s % 2 === 0 ? [{ reason: 'no number', raw: `{"t":${s}}` }] : [];
      const page = { windows: [{ from: day, to: day + dayMs }], rejected };
      append(archive, answer(symbol, pairs.slice(0, count / 2), { ...page, windows: [], rejected: [] }));
      append(archive, answer(symbol, pairs.slice(count / 2), page));
    }
  }
  const sides = {
    bids: toBookSide([{ price: 0.3, quantity: 5 }], 'highest'),
    asks: toBookSide([{ price: 0.4, quantity: 7 }], 'lowest'),
  };
  appendBooks(
    archive.state,
    symbols.map((symbol, s) => ({
      runId: 'run',
      symbol,
      observedAt: day0 + s,
      rejected: [],
      understood: true,
      snapshots: [{ t: day0 + s, ...sides }],
    })),
  );
  for (const [s, symbol] of symbols.entries()) {
    // Across a midnight; some rows have overflow pages.
    const quotes = Array.from({ length: s === 0 ? 200 : 6 }, (_, i) =>
      quote(day0 + dayMs + (i - 3) * 60_000 + s, (i % 97) / 100, i % 3 === 0 ? Number.NaN : 0.99),
    );
    const windows = [{ from: day0, to: day0 + 2 * dayMs }];
    const rejected = s % 2 === 0 ? [{ reason: 'no bid', raw: `{"quote":${s}}` }] : [];
    appendQuotes(
      archive,
      quoteAnswer(symbol, quotes.slice(0, 4)),
      quoteAnswer(symbol, quotes.slice(3), { windows, rejected }),
    );
  }
  appendMarkets(archive.state, { runId: 'run', observedAt: now, markets: symbols.map((symbol) => market(symbol)) }, []);
  archive.state.db.all('pragma wal_checkpoint(truncate)');
  archive.close();
}

/** The pages of the journal's tables and indices. */
function journalPages(path: string): { page: number; name: string }[] {
  const db = new DatabaseSync(path);
  const pages = db.prepare("select pageno as page, name from dbstat where name like 'journal%' order by pageno").all();
  db.close();
  return pages as { page: number; name: string }[];
}

function createFresh(database: string, root: string): void {
  rmSync(root, { recursive: true, force: true });
  mkdirSync(join(root, '.oddslake'), { recursive: true });
  copyFileSync(database, toStateFilePath(join(root, '.oddslake')));
}

/** Publishes; returns whether something was quarantined. */
async function published(root: string): Promise<boolean> {
  let archive: Archive | undefined;
  try {
    archive = openArchive({ ...options(root), create: false }, systemDisk);
    return (await publishNow(archive, now, 'run', { candles: [] })).quarantined !== null;
  } finally {
    archive?.close();
  }
}

interface Contents {
  readonly rows: ReadonlySet<string>;
  readonly ticks: readonly (readonly [symbol: string, t: number])[];
  readonly books: readonly (readonly [symbol: string, t: number])[];
  readonly quotes: readonly (readonly [symbol: string, t: number])[];
  readonly covered: readonly (readonly [dataset: string, symbol: string, from: number, to: number])[];
}

function readContents(root: string): Contents {
  const ticks = publishedTicks(root);
  const keys = ticks.map((line) => [line.split(' ')[0]!, Number(line.split(' ')[1])] as const);
  const books = publishedRows(root, 'orderbooks');
  const quotes = publishedQuotes(root);
  const coverage = publishedRows(root, 'coverage');
  const markets = publishedRows(root, 'markets');
  const quarantine = quarantineLines(root);
  const text = (rows: readonly unknown[]) =>
    rows.map((row) => JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
  return {
    rows: new Set([...ticks, ...text(books), ...text(quotes), ...text(markets), ...quarantine]),
    ticks: keys,
    books: books.map((row) => [String(row[0]), Number(row[1])] as const),
    quotes: quotes.map((row) => [String(row[0]), Number(row[1])] as const),
    covered: coverage.map((row) => [String(row[0]), String(row[1]), Number(row[2]), Number(row[3])] as const),
  };
}

function findErrors(expected: Contents, found: Contents): string[] {
  const wrong: string[] = [];
  for (const row of found.rows) if (!expected.rows.has(row)) wrong.push(`published ${row}`);
  for (const [dataset, symbol, from, to] of found.covered) {
    const inside = ([other, t]: readonly [string, number]): boolean => other === symbol && from <= t && t < to;
    const known = expected.covered.some(([d, s, a, b]) => d === dataset && s === symbol && a <= from && to <= b);
    if (!known) wrong.push(`claims ${dataset} ${symbol} ${from} ${to}`);
    const of = dataset === 'orderbooks' ? 'books' : (dataset as 'ticks' | 'quotes');
    const publishedCount = found[of].filter(inside).length;
    const claimed = expected[of].filter(inside).length;
    if (publishedCount !== claimed)
      wrong.push(`${dataset} ${symbol}: ${publishedCount} of ${claimed} within what is covered`);
  }
  return wrong;
}

function flippedValue(value: string | number | Uint8Array, draw: Draw): string | number | Uint8Array {
  if (typeof value === 'number') return Number(BigInt(value) ^ (1n << BigInt(draw.below(41))));
  const bytes = Buffer.from(typeof value === 'string' ? Buffer.from(value) : value);
  const at = draw.below(bytes.length);
  // In a text, one of the lower bits, so that it stays valid text.
  bytes[at]! ^= 1 << draw.below(typeof value === 'string' ? 4 : 8);
  return typeof value === 'string' ? bytes.toString('utf8') : bytes;
}
