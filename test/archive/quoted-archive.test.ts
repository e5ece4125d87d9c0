import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasets, isDated } from '../../src/archive/format/datasets.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { createFileFilter, listChangedFiles } from '../../src/archive/publish/prune-files.ts';
import { readArchiveStatus } from '../../src/archive/read/archive-status.ts';
import { pinGeneration } from '../../src/archive/read/pin-generation.ts';
import { takeSnapshot } from '../../src/archive/read/snapshot.ts';
import { readStatus } from '../../src/archive/read/status.ts';
import { renderArchiveReport } from '../../src/report/archive-page.ts';
import { readReportData } from '../../src/report/data/report-data.ts';
import { computeTotals } from '../../src/server/web/document.ts';
import { appendQuotes, quote } from './quote-records.ts';
import {
  day0,
  dayMs,
  hashes,
  hourMs,
  judged,
  now,
  opened,
  pathOfSymbol,
  publishedRows,
  publishNow,
  scratchFolder,
} from './scratch.ts';
import { readOwn } from './views-folder.ts';

// An archive that has quotes and nothing else, read by everything that lists datasets.

const symbols = ['AAA', 'BBB', 'CCC', 'DDD', 'EEE'];
const quotes = symbols.flatMap((symbol, i) => [
  quote(symbol, day0 + i, 0.25, 0.5, 10),
  quote(symbol, day0 + dayMs + i, 0.25, null),
]);

async function published(root = scratchFolder()): Promise<Archive> {
  const archive = opened({ root });
  appendQuotes(archive, quotes);
  await publishNow(archive);
  return archive;
}

/** Publishes another quote of one symbol at the time of its first, which has precedence. */
async function publishConflict(archive: Archive): Promise<void> {
  appendQuotes(archive, [quote('AAA', day0, 0.375, 0.5, 10)], { observedAt: now + 1 });
  await publishNow(archive, now + hourMs);
}

test('one file for each day and part has the quotes, and selections find them', async () => {
  const archive = await published();
  const { datasets: held } = archive.readManifest();
  const paths = globSync('quotes/**/*.parquet', { cwd: archive.layout.root }).sort();
  expect(held.quotes.files.map(({ path }) => path)).toEqual(paths);
  expect(held.quotes.files.reduce((sum, { rows }) => sum + rows, 0)).toBe(quotes.length);
  for (const symbol of symbols)
    for (const [day, from] of [day0, day0 + dayMs].entries()) {
      const isWanted = createFileFilter('quotes', [symbol], { from, to: from + 5 });
      const [file, ...others] = held.quotes.files.filter(isWanted);
      expect([file?.date, others]).toEqual([`2026-06-0${day + 1}`, []]);
      const rows = decodeRows(datasets.quotes.columns, readFileSync(join(archive.layout.root, file!.path)));
      expect(rows.map(([name]) => name)).toContain(symbol);
    }
});

test('a pinned generation keeps its quotes while another one is published', async () => {
  const archive = await published();
  const pin = pinGeneration(archive, ['quotes', 'quote_conflicts'], 'test');
  await publishConflict(archive);
  const rows = pin.listPaths('quotes').flatMap((path) => decodeRows(datasets.quotes.columns, readFileSync(path)));
  expect(rows).toContainEqual(['AAA', day0, 0.25, 0.5, 10, 10, null, null]);
  const conflicts = pin.listPaths('quote_conflicts').map((path) => readFileSync(path));
  expect(conflicts.map((bytes) => decodeRows(datasets.quote_conflicts.columns, bytes))).toEqual([[]]);
  pin.release();
  expect(publishedRows(archive.layout.root, 'quotes')).toContainEqual(['AAA', day0, 0.375, 0.5, 10, 10, null, null]);
});

test('changes list the files of quotes and their conflicts, and only those of later generations', async () => {
  const archive = await published();
  const listed = (since: number) =>
    listChangedFiles(archive.readManifest(), since)
      .filter(({ dataset }) => dataset.startsWith('quote'))
      .map(({ path }) => path);
  expect(listed(0)).toEqual([
    ...archive.readManifest().datasets.quotes.files.map(({ path }) => path),
    'quote_conflicts/date=2026-06-01/part-00.parquet',
  ]);
  await publishConflict(archive);
  expect(listed(1)).toEqual([
    expect.stringMatching(/^quotes\/date=2026-06-01\/part-\d\d\.parquet$/),
    pathOfSymbol(archive, 'quote_conflicts', 'AAA'),
  ]);
});

test('a snapshot has the quotes, and verifies as an archive of its own', async () => {
  const archive = await published();
  await publishConflict(archive);
  const folder = join(scratchFolder(), 'snap');
  await takeSnapshot(archive, folder, { id: 'a' });
  expect(hashes(folder, 'quote*/**/*')).toEqual(hashes(archive.layout.root, 'quote*/**/*'));
  const copy = opened({ root: folder, create: false });
  expect((await verifyArchive(copy, null)).findings).toEqual([]);
  expect(publishedRows(folder, 'quote_conflicts')).toEqual([['AAA', day0, now + 1, 0, 0.25, 0.5, 10, 10]]);
});

test('status and report do not count quotes as ticks', async () => {
  const archive = await published();
  const status = readStatus(archive, judged, now);
  expect(status).toMatchObject({ generation: 1, published: { ticks: 0 }, symbols: { known: 5 } });
  const rules = {
    judged,
    overlapMs: hourMs,
    overlapMsMax: dayMs,
    days: 60,
    lagMsMax: dayMs,
    requestsPerSecond: 5,
    catalogueUrl: null,
  };
  const data = await readReportData(archive, rules, { nowMs: now, random: Math.random });
  expect(data.days.filter(({ bytes }) => bytes > 0)).toMatchObject([
    { date: '2026-06-01', ticks: 0 },
    { date: '2026-06-02', ticks: 0 },
  ]);
  expect(renderArchiveReport(data, '1.0.0', String)).toContain('<dt>Ticks</dt><dd>0</dd>');
});

test('the README and the catalogue page have the number of quotes', async () => {
  const archive = await published();
  const text = readFileSync(join(archive.layout.root, 'README.md'), 'utf8');
  expect(text).toMatch(/\| quotes \| 10 \| \d+ kB \| best bid and ask/);
  expect(text).toContain("SELECT * FROM spreads WHERE date = '2026-06-02' LIMIT 10;");
  const manifest = archive.readManifest();
  const totals = computeTotals(manifest, { nowMs: now, lagMsMax: dayMs, status: readArchiveStatus(archive, now) });
  expect(totals.datasets).toContainEqual(expect.objectContaining({ name: 'quotes', rows: 10 }));
  expect(totals.bytes).toBe(listManifestFiles(manifest).reduce((sum, { bytes }) => sum + bytes, 0));
});

test('SQL sees each dataset with its columns, quotes with their rows', async () => {
  const archive = await published();
  expect(await readOwn(archive, 'SELECT count(*)::INTEGER AS n, count(ask)::INTEGER AS asks FROM quotes')).toEqual([
    { n: 10, asks: 5 },
  ]);
  for (const name of ['quotes', 'quote_conflicts'] as const) {
    const columns = await readOwn(archive, `SELECT column_name FROM (DESCRIBE ${name})`);
    const names = datasets[name].columns.map((column) => column.name);
    expect(columns.map((row) => row.column_name)).toEqual(isDated(name) ? [...names, 'date'] : names);
  }
});
