import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { ArchiveReader, ArchiveStatus, GapQuery, OpenOptions, TickQuery } from '../../src/library/archive.ts';
import { DamageError, openArchive, type TickBatch, UsageError } from '../../src/library/archive.ts';
import type { BacktestOptions } from '../../src/library/backtest.ts';
import { builtinStrategies, InvalidBacktestError, runBacktest } from '../../src/library/backtest.ts';
import type { ClientOptions } from '../../src/library/client.ts';
import { openClient, UpstreamError } from '../../src/library/client.ts';
import { startSandbox } from '../../src/library/sandbox.ts';
import { flip } from '../archive/damaged.ts';
import { answer, append, day0, dayMs, opened, publishNow, scratchFolder } from '../archive/scratch.ts';

type Triple = [symbol: string, t: number, p: number];

const history: Readonly<Record<string, readonly (readonly [number, number])[]>> = {
  AAA: [0, 1, 2].flatMap((day) => [0, 1000, 2000].map((ms) => [day0 + day * dayMs + ms, 0.25 + day / 10] as const)),
  BBB: [0, 2].map((day) => [day0 + day * dayMs + 500, 0.5] as const),
  'ü/%': [[day0 + 7, 0.125]],
};

/** An archive with three days of three symbols. */
async function publishHistory(root: string): Promise<void> {
  const archive = opened({ root });
  append(archive, ...Object.entries(history).map(([symbol, pairs]) => answer(symbol, pairs)));
  await publishNow(archive);
  archive.close();
}

async function collect(batches: AsyncIterable<TickBatch>): Promise<Triple[]> {
  const all: Triple[] = [];
  for await (const { symbol, t, p } of batches) for (const [i, time] of t.entries()) all.push([symbol, time, p[i]!]);
  return all.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));
}

const expected = (wanted: (triple: Triple) => boolean): Triple[] =>
  Object.entries(history)
    .flatMap(([symbol, pairs]) => pairs.map(([t, p]): Triple => [symbol, t, p]))
    .filter(wanted)
    .sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1]));

function openReader(root: string) {
  const reader = openArchive(root);
  onTestFinished(() => reader.close());
  return reader;
}

describe('an archive opened for reading', () => {
  test.each<[string, Parameters<ReturnType<typeof openArchive>['ticks']>[0], (triple: Triple) => boolean]>([
    ['all', {}, () => true],
    ['one symbol', { symbols: ['BBB'] }, ([symbol]) => symbol === 'BBB'],
    ['two symbols', { symbols: ['ü/%', 'AAA'] }, ([symbol]) => symbol !== 'BBB'],
    [
      'a window',
      { from: day0 + 1000, to: day0 + dayMs + 1000 },
      ([, t]) => t >= day0 + 1000 && t < day0 + dayMs + 1000,
    ],
    ['an empty window', { from: day0 + 9000, to: day0 + 9000 }, () => false],
    ['an unknown symbol', { symbols: ['CCC'] }, () => false],
  ])('gives the published ticks of %s', async (_, query, wanted) => {
    const root = scratchFolder();
    await publishHistory(root);
    expect(await collect(openReader(root).ticks(query))).toEqual(expected(wanted));
  });

  test('gives the same ticks by SQL, as rows and as text', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    const reader = openReader(root);
    const rows: unknown[] = [];
    for await (const row of reader.sql('SELECT symbol, epoch_ms(t) AS t, p FROM ticks ORDER BY symbol, t'))
      rows.push(row);
    expect(rows).toEqual(expected(() => true).map(([symbol, t, p]) => ({ symbol, t, p })));
    const out = new PassThrough();
    const written = text(out);
    await reader.writeSql('SELECT count(*) AS n FROM ticks', 'csv', out);
    out.end();
    expect(await written).toBe(`n\n${expected(() => true).length}\n`);
  });

  test('stops a query whose rows nobody reads any more', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    const reader = openReader(root);
    for await (const row of reader.sql('SELECT * FROM range(100_000_000)')) {
      expect(row).toEqual({ range: 0 });
      break;
    }
    await expect(collect(reader.ticks())).resolves.toHaveLength(12);
  });

  test('refuses a statement that is no SELECT', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    const reader = openReader(root);
    await expect(reader.sql('DELETE FROM ticks').next()).rejects.toThrow(UsageError);
  });

  test('reads one generation while another is published, and leaves no links behind', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    const reader = openReader(root);
    const ticks = reader.ticks({ symbols: ['AAA'] });
    await ticks.next();
    const archive = opened({ root });
    append(archive, answer('AAA', [[day0 + 2 * dayMs + 77, 0.9]], { runId: 'second' }));
    await publishNow(archive, undefined, 'second');
    expect((await collect(ticks)).length).toBe(6);
    expect((await collect(reader.ticks({ symbols: ['AAA'] }))).length).toBe(10);
    expect(reader.manifest().generation).toBe(2);
    for await (const _ of reader.ticks()) break;
    expect(readdirSync(join(root, '.oddslake/pins'))).toEqual([]);
  });

  test('refuses a part file whose bytes changed, and verify names it', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    const reader = openReader(root);
    const file = reader.files('ticks')[0]!;
    flip(file.absolutePath);
    await expect(collect(reader.ticks())).rejects.toThrow(DamageError);
    const { findings } = await reader.verify();
    expect(findings.map(({ path }) => path)).toEqual([file.path]);
  });

  test('tells its symbols, gaps and status', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    const reader = openReader(root);
    expect((await reader.symbols()).map(({ symbol }) => symbol).sort()).toEqual(['AAA', 'BBB', 'ü/%'].sort());
    const { gaps } = await reader.gaps({ symbols: ['BBB'], from: day0, to: day0 + 3 * dayMs });
    expect(gaps.map(({ symbol, from }) => [symbol, from])).toContainEqual(['BBB', day0]);
    expect(await reader.status()).toMatchObject({ generation: 1 });
    await expect(reader.gaps({ symbols: ['CCC'] })).rejects.toThrow('CCC');
  });

  test('is refused where there is none', () => {
    expect(() => openArchive(scratchFolder())).toThrow(UsageError);
  });
});

describe('a backtest', () => {
  test('runs a strategy by its name', async () => {
    const root = scratchFolder();
    await publishHistory(root);
    expect(builtinStrategies.map(({ name }) => name)).toContain('buy_and_hold');
    const spec = { entry_executable: { name: 'buy_and_hold' }, objective: 'total_pnl' };
    const done: number[] = [];
    const result = await runBacktest(root, spec, { threads: 1, onProgress: (count) => done.push(count) });
    // An order is filled at the tick after its signal: a symbol of one tick has no trade.
    expect(result.summary.trades).toBe(2);
    expect(done.length).toBeGreaterThan(0);
  });

  test('writes all trades to a file', async () => {
    const root = join(scratchFolder(), 'lake');
    await publishHistory(root);
    const spec = { entry_executable: { name: 'buy_and_hold' }, objective: 'total_pnl' };
    const tradesFile = join(root, '../trades.csv');
    await runBacktest(root, spec, { threads: 1, tradesFile });
    const [header, ...lines] = readFileSync(tradesFile, 'utf8').trimEnd().split('\n');
    expect(header).toMatch(/^symbol,rule,side,/);
    expect(lines.map((line) => line.split(',')[0])).toEqual(['AAA', 'BBB']);
    for (const wrong of ['trades.txt', join(root, 'trades.csv')])
      await expect(runBacktest(root, spec, { tradesFile: wrong })).rejects.toThrow(UsageError);
  });

  test('names every fault of its request', async () => {
    const error = await runBacktest('nowhere', { objective: 'luck', from: 'then' }).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(InvalidBacktestError);
    expect(error.faults.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['entry_executable', 'objective', 'from']),
    );
  });
});

describe('a client of the service', () => {
  let sandbox: Awaited<ReturnType<typeof startSandbox>>;
  beforeAll(async () => {
    sandbox = await startSandbox({ seed: 3, nowMs: Date.UTC(2026, 0, 20) });
    return () => sandbox.stop();
  });

  test('gets markets, ticks and order books', async () => {
    const client = openClient({ baseUrl: sandbox.url, apiKey: 'sandbox-key', requestsPerSecond: 1000 });
    onTestFinished(() => client.close());
    const symbol = sandbox.symbols()[0]!;
    const window = { from: Date.UTC(2026, 0, 1), to: Date.UTC(2026, 0, 20) };
    const { t, p } = await client.ticks({ symbol, ...window, limit: 5000 });
    const truth = sandbox.readTruth(symbol, window);
    expect([...t]).toEqual([...truth.t].slice(-t.length));
    expect(p.length).toBe(t.length);
    expect((await client.markets({ view: 'matched' })).markets.length).toBeGreaterThan(0);
    expect((await client.orderbook({ symbol })).body).toBeTypeOf('object');
    expect(client.counters().requests).toBe(3);
  });

  test('says which key is refused, without the key', async () => {
    const client = openClient({ baseUrl: sandbox.url, apiKey: 'another-key' });
    onTestFinished(() => client.close());
    const error = await client.markets({}).catch((thrown) => thrown);
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error.failure).toBe('credential');
    expect(String(error)).not.toContain('another-key');
  });
});

test('the modules export the types of their functions', () => {
  const query: TickQuery = { symbols: ['A'], from: 0, to: 1 };
  const gaps: GapQuery = { symbols: query.symbols ?? [] };
  const options: OpenOptions = {};
  const client: Pick<ClientOptions, 'baseUrl'> = { baseUrl: 'https://example.test' };
  const backtest: BacktestOptions = {};
  const read = (reader: ArchiveReader): Promise<ArchiveStatus> => reader.status();
  expect([query, gaps, options, client, backtest, read]).toHaveLength(6);
});
