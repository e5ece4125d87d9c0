import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { tableFromIPC } from 'apache-arrow';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type DatasetName, datasets } from '../../src/archive/format/datasets.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { writeExport } from '../../src/archive/query/export.ts';
import { day0, dayMs, hourMs, opened, scratchFolder } from '../archive/scratch.ts';
import { lake } from './historical-archive.ts';
import { serving } from './serving.ts';

const base = '/api/v1/historical';
/** The columns of candles of intervals that the archive does not store. */
const computedCandleColumns = ['symbol', 't', 'open', 'high', 'low', 'close', 'ticks', 'covered'];
const types = {
  csv: 'text/csv; charset=utf-8',
  ndjson: 'application/x-ndjson',
  arrow: 'application/vnd.apache.arrow.stream',
  parquet: 'application/vnd.apache.parquet',
};

/** The output of `oddslake export` for the same slice. */
async function exported(archive: Archive, dataset: DatasetName, format: 'csv' | 'ndjson' | 'parquet', rest = {}) {
  const file = join(scratchFolder(), 'export');
  const requested = { file, format, dataset, symbols: [], from: null, to: null, ...rest };
  const watching = { random: Math.random, signal: new AbortController().signal, progress() {} };
  await writeExport(archive, requested, watching);
  return readFileSync(file);
}

/** Rows of an Arrow response, with times and counts as numbers. */
const arrowRows = (bytes: Buffer): unknown[][] => {
  const table = tableFromIPC(bytes);
  const columns = table.schema.fields.map((_, c) => table.getChildAt(c)!);
  const plain = (value: unknown): unknown =>
    typeof value === 'bigint'
      ? Number(value)
      : value !== null && typeof value === 'object' && Symbol.iterator in value
        ? [...(value as Iterable<unknown>)]
        : value;
  return Array.from({ length: table.numRows }, (_, r) => columns.map((column) => plain(column.get(r))));
};

const rowsOf = (dataset: DatasetName, bytes: Buffer): unknown[][] => {
  if (dataset !== 'ticks') return decodeRows(datasets[dataset].columns, bytes) as unknown[][];
  const { symbols, offsets, t, p } = decodeTicks(bytes);
  return symbols.flatMap((symbol, i) =>
    Array.from({ length: offsets[i + 1]! - offsets[i]! }, (_, k) => [symbol, t[offsets[i]! + k], p[offsets[i]! + k]]),
  );
};

const routes: readonly (readonly [path: string, dataset: DatasetName])[] = [
  ['ticks', 'ticks'],
  ['markets', 'markets'],
  ['candles?interval=1h', 'candles_1h'],
  ['orderbooks', 'orderbooks'],
  ['quotes', 'quotes'],
  ['trades', 'trades'],
];

test('every format has the rows, columns and types of oddslake export', async () => {
  const archive = await lake();
  const { ask } = await serving(archive);
  for (const [path, dataset] of routes) {
    const more = path.includes('?') ? '&' : '?';
    const body = async (format: string) =>
      Buffer.from(await (await ask(`${base}/${path}${more}format=${format}`)).arrayBuffer());
    for (const format of ['csv', 'ndjson'] as const)
      expect((await body(format)).toString(), `${path} ${format}`).toBe(
        (await exported(archive, dataset, format)).toString(),
      );
    const parquet = await exported(archive, dataset, 'parquet');
    const rows = rowsOf(dataset, parquet);
    expect(rows.length).toBeGreaterThan(5);
    expect(rowsOf(dataset, await body('parquet')), path).toEqual(rows);
    const arrow = await body('arrow');
    expect(arrowRows(arrow), path).toEqual(rows);
    expect(tableFromIPC(arrow).schema.fields.map(({ name }) => name)).toEqual(
      datasets[dataset].columns.map(({ name }) => name),
    );
  }
});

test('a missing number of a quote is empty in CSV, null in JSON lines, and null in Parquet and Arrow', async () => {
  const { ask } = await serving(await lake());
  const body = async (format: string) =>
    Buffer.from(await (await ask(`${base}/quotes?symbol=AAA&to=${day0 + dayMs}&format=${format}`)).arrayBuffer());
  expect((await body('csv')).toString()).toBe(`symbol,t,bid,ask,bid_size,ask_size,event_at,received_at
AAA,2026-06-01T00:00:00.000Z,0.4,0.5,7.5,7.5,,
AAA,2026-06-01T00:01:00.000Z,0.25,,,,,
AAA,2026-06-01T05:00:00.000Z,,0.75,,,,
`);
  const lines = (await body('ndjson')).toString().trimEnd().split('\n');
  expect(JSON.parse(lines[2]!)).toEqual({
    symbol: 'AAA',
    t: '2026-06-01T05:00:00.000Z',
    bid: null,
    ask: 0.75,
    bid_size: null,
    ask_size: null,
    event_at: null,
    received_at: null,
  });
  const rows = [
    ['AAA', day0, 0.4, 0.5, 7.5, 7.5, null, null],
    ['AAA', day0 + 60_000, 0.25, null, null, null, null, null],
    ['AAA', day0 + 5 * hourMs, null, 0.75, null, null, null, null],
  ];
  expect(rowsOf('quotes', await body('parquet'))).toEqual(rows);
  expect(arrowRows(await body('arrow'))).toEqual(rows);
});

test('symbol, window, limit and filters apply to files, too', async () => {
  const archive = await lake();
  const { ask } = await serving(archive);
  const text = async (path: string) => await (await ask(`${base}/${path}`)).text();
  const window = { from: day0 + hourMs, to: day0 + dayMs + 1 };
  const cut = `from=${window.from}&to=${window.to}&symbol=${encodeURIComponent('🚀')}&format=csv`;
  const chosen = { ...window, symbols: ['🚀'] };
  expect(await text(`ticks?${cut}`)).toBe((await exported(archive, 'ticks', 'csv', chosen)).toString());
  expect(await text(`candles?interval=1h&${cut}`)).toBe(
    (await exported(archive, 'candles_1h', 'csv', chosen)).toString(),
  );
  const lines = (await exported(archive, 'ticks', 'csv')).toString().split('\n');
  for (const limit of [1, 12, lines.length])
    expect(await text(`ticks?format=csv&limit=${limit}`)).toBe(
      `${lines
        .slice(0, limit + 1)
        .join('\n')
        .trimEnd()}\n`,
    );
  const ipc = await ask(`${base}/ticks?format=arrow&limit=7`);
  expect(arrowRows(Buffer.from(await ipc.arrayBuffer()))).toHaveLength(7);
  const coverage = (await text('coverage?format=ndjson')).trimEnd().split('\n');
  expect(coverage).toHaveLength(18);
  expect(coverage.every((line) => JSON.parse(line).dataset === 'ticks')).toBe(true);
  const found = (await text('markets?format=ndjson&q=bbb&resolved=true')).trimEnd().split('\n');
  expect(found.map((line) => JSON.parse(line).symbol)).toEqual(['BBB', 'BBB', 'BBB']);
  const candles = (await text('candles?interval=4h&format=ndjson&symbol=AAA')).trimEnd().split('\n');
  expect(Object.keys(JSON.parse(candles[0]!))).toEqual(computedCandleColumns);
});

test('a file without rows has its header and schema', async () => {
  const { ask } = await serving(opened());
  expect(await (await ask(`${base}/ticks?format=csv`)).text()).toBe('symbol,t,p\n');
  expect(await (await ask(`${base}/ticks?format=ndjson`)).text()).toBe('');
  const arrow = Buffer.from(await (await ask(`${base}/candles?interval=5m&format=arrow`)).arrayBuffer());
  expect(tableFromIPC(arrow).schema.fields.map(({ name }) => name)).toEqual(computedCandleColumns);
  const parquet = Buffer.from(await (await ask(`${base}/orderbooks?format=parquet`)).arrayBuffer());
  expect(decodeRows(datasets.orderbooks.columns, parquet)).toEqual([]);
});

test('a file of whole days leads to the published files, which have the same rows', async () => {
  const archive = await lake();
  const { ask } = await serving(archive);
  const linkOf = async (query: string) => (await ask(`${base}/${query}`, { method: 'HEAD' })).headers.get('link');
  const manifest = '</api/v1/export>; rel="via"; type="application/json"';
  const day = `from=${day0}&to=${day0 + dayMs}`;
  for (const query of [
    'ticks?',
    `ticks?${day}&`,
    `quotes?from=${day0}&`,
    'trades?',
    'candles?interval=1h&',
    'conflicts?',
  ])
    expect(await linkOf(`${query}format=parquet`), query).toBe(manifest);
  for (const query of [
    `ticks?from=${day0 + 1}&`,
    `ticks?${day}&limit=5&`,
    'ticks?symbol=AAA&',
    'candles?interval=4h&',
    'coverage?',
    'markets?',
  ])
    expect(await linkOf(`${query}format=parquet`), query).toBeNull();
  expect(await linkOf(`ticks?${day}`)).toBeNull();
  const slice = rowsOf('ticks', Buffer.from(await (await ask(`${base}/ticks?${day}&format=parquet`)).arrayBuffer()));
  const listed = (await (await ask('/api/v1/export?since=0')).json()) as {
    files: { dataset: string; date: string; url: string; sha256: string }[];
  };
  const rows: unknown[][] = [];
  for (const { dataset, date, url, sha256 } of listed.files) {
    if (dataset !== 'ticks' || date !== new Date(day0).toISOString().slice(0, 10)) continue;
    const resumed = async (range: string) => {
      const response = await ask(url, { headers: { range, 'if-match': `"${sha256}"` } });
      expect(response.status).toBe(206);
      return Buffer.from(await response.arrayBuffer());
    };
    const file = Buffer.concat([await resumed('bytes=0-99'), await resumed('bytes=100-')]);
    rows.push(...rowsOf('ticks', file));
  }
  const sorted = (given: readonly unknown[][]) => given.map((row) => JSON.stringify(row)).sort();
  expect(sorted(rows)).toEqual(sorted(slice));
});

test('Accept selects by weight, format overrides it, and an unsupported type gives 406', async () => {
  const { ask } = await serving(await lake());
  const typeFor = async (accept: string, query = '') => {
    const answer = await ask(`${base}/ticks?limit=1${query}`, { headers: { accept } });
    await answer.arrayBuffer();
    return answer.headers.get('content-type');
  };
  const json = 'application/json; charset=utf-8';
  expect(await typeFor('*/*')).toBe(json);
  expect(await typeFor('application/*')).toBe(json);
  expect(await typeFor('text/*')).toBe(types.csv);
  expect(await typeFor('application/json;q=0.5, text/csv;q=0.9, */*;q=0.1')).toBe(types.csv);
  expect(await typeFor('text/html, application/vnd.apache.arrow.stream')).toBe(types.arrow);
  expect(await typeFor('application/jsonl')).toBe(types.ndjson);
  expect(await typeFor('application/json;q=0, application/vnd.apache.parquet')).toBe(types.parquet);
  for (const [format, type] of Object.entries(types)) {
    expect(await typeFor(type.split(';')[0]!)).toBe(type);
    expect(await typeFor('application/json', `&format=${format}`)).toBe(type);
  }
  expect(await typeFor('text/html', '&format=json')).toBe(json);
  const refused = await ask(`${base}/ticks`, { headers: { accept: 'text/html, image/*' } });
  expect([refused.status, refused.headers.get('content-type')]).toEqual([406, expect.stringContaining('problem+json')]);
  expect((await refused.json()) as object).toMatchObject({ detail: expect.stringContaining('text/csv') });
});

test('a file has a descriptive name and its generation, also for HEAD', async () => {
  const { ask } = await serving(await lake());
  const query = `candles?interval=15m&format=parquet&from=${day0}&to=${day0 + dayMs}&symbol=${encodeURIComponent("O'Neil; --")}`;
  const name = 'candles_15m_O_Neil_--_from-20260601T000000Z_to-20260602T000000Z_generation-1.parquet';
  for (const method of ['GET', 'HEAD']) {
    const answer = await ask(`${base}/${query}`, { method });
    const body = await answer.arrayBuffer();
    expect(body.byteLength > 0).toBe(method === 'GET');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-disposition')).toBe(`attachment; filename="${name}"`);
    expect(answer.headers.get('content-type')).toBe(types.parquet);
    expect(answer.headers.get('oddslake-generation')).toBe('1');
    expect(answer.headers.get('vary')).toBe('accept, authorization');
  }
});
