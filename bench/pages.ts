/**
 * Writes saved responses of GET /api/v1/ticks as benchmark input, one per file: generated from a seed, or cut from a
 * recording. Run:
 * - node bench/pages.ts generated FOLDER [--pages 1000] [--seed 1]
 * - node bench/pages.ts recorded FOLDER --recording FOLDER
 * A recording is `*-ticks.parquet` (symbol, t, p) and `*-markets.parquet` in one folder.
 */
import { globSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readRecording } from '../src/archive/query/tick-recording.ts';
import { dayMs, floorToDay, type Window } from '../src/base/window.ts';
import { formatTickPage, type SandboxTickPage } from '../src/sandbox/page-formats.ts';
import { createRecordedFeed, type Recording } from '../src/sandbox/recorded-feed.ts';
import { generatedPages, ticksPerPage } from './generated-pages.ts';

interface WrittenPages {
  readonly pages: number;
  /** Rows of all pages, duplicates included. */
  readonly ticks: number;
  readonly bytes: number;
}

/** Writes the pages to files named in their order; creates `folder`. */
export async function writePages(
  folder: string,
  pages: Iterable<SandboxTickPage> | AsyncIterable<SandboxTickPage>,
): Promise<WrittenPages> {
  mkdirSync(folder, { recursive: true });
  let [count, ticks, bytes] = [0, 0, 0];
  for await (const page of pages) {
    const text = formatTickPage(page, 'compact');
    writeFileSync(join(folder, `page-${String(count).padStart(6, '0')}.json`), text, { flag: 'wx' });
    count++;
    ticks += page.t.length;
    bytes += Buffer.byteLength(text);
  }
  return { pages: count, ticks, bytes };
}

/** How much of the previous day a night reads again. */
const overlapMs = 3_600_000;

/** The two files of a recording in a folder; undefined if they are missing. */
export function findRecording(folder: string): { readonly ticks: string; readonly markets: string } | undefined {
  const [ticks] = globSync('*-ticks.parquet', { cwd: folder });
  const [markets] = globSync('*-markets.parquet', { cwd: folder });
  return ticks === undefined || markets === undefined
    ? undefined
    : { ticks: join(folder, ticks), markets: join(folder, markets) };
}

/** Pages of the recording in a folder. Holds the recording in memory. */
export async function* recordedPages(folder: string): AsyncGenerator<SandboxTickPage, void, undefined> {
  const files = findRecording(folder);
  if (files === undefined) throw new Error(`${folder} contains no recording`);
  yield* nightlyPages(await readRecording(files.ticks, files.markets));
}

/**
 * What a nightly run at each UTC midnight would have fetched, symbol by symbol; a symbol without ticks yields no page.
 */
export function* nightlyPages(recording: Recording): Generator<SandboxTickPage, void, undefined> {
  const feed = createRecordedFeed(recording, { shift: 'own', nowMs: 0 });
  const first = recording.t.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const last = recording.t.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  for (let day = floorToDay(first); day <= last; day += dayMs) {
    for (const symbol of recording.symbols) {
      const window = { from: day - overlapMs, to: day + dayMs };
      yield* splitPages(symbol, feed.ticks(symbol, window), window);
    }
  }
}

function* splitPages(
  symbol: string,
  { t, p }: Pick<SandboxTickPage, 't' | 'p'>,
  window: Window,
): Generator<SandboxTickPage> {
  for (let row = 0; row < t.length; row += ticksPerPage) {
    const end = Math.min(row + ticksPerPage, t.length);
    const covered = { from: row === 0 ? window.from : t[row]!, to: t[end] ?? window.to };
    const columns = { t: t.subarray(row, end), p: p.subarray(row, end) };
    yield { symbol, ...columns, count: end - row, ...covered, generatedAt: window.to + 1 };
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      pages: { type: 'string', default: '1000' },
      seed: { type: 'string', default: '1' },
      recording: { type: 'string', default: '' },
    },
  });
  const [mode, folder] = positionals;
  const numbers = [values.pages, values.seed].every((text) => /^[1-9]\d{0,8}$/.test(text));
  if (folder === undefined || !numbers || (mode !== 'generated' && mode !== 'recorded')) {
    console.error('usage: node bench/pages.ts generated|recorded FOLDER [--pages N] [--seed N] [--recording FOLDER]');
    process.exit(2);
  }
  const pages =
    mode === 'generated'
      ? generatedPages({ pages: Number(values.pages), seed: Number(values.seed) })
      : recordedPages(values.recording);
  const written = await writePages(folder, pages);
  console.log(
    `${written.pages} pages, ${written.ticks.toLocaleString('en-US')} ticks, ${(written.bytes / 1e6).toFixed(1)} MB`,
  );
}
