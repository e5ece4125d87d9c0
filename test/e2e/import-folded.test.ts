import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, test } from 'vitest';
import { createRandom } from '../../src/base/random.ts';
import { findCounted } from '../faults/simulation/reading-order.ts';
import { needsObjectStorage } from '../harness/needs.ts';
import { useBucketServer } from './bucket-server.ts';
import { day0, importInto } from './import-lake.ts';
import { dayMs, folder, hashes, run } from './lake.ts';

// What deploy/spark/fold.py writes, made here without Spark: test/readers/test_spark_fold.py runs that program.

interface Page {
  readonly symbol: string;
  readonly generated_at: number;
  readonly ticks: readonly { readonly t: number; readonly p: number }[];
}

const prices = [0, 0.1 + 0.2, 1 / 3, 0.5, 5e-324];

/** Pages that overlap and contradict each other and themselves, several of one moment. */
function drawPages(seed: number): Page[] {
  const random = createRandom(seed);
  const below = (n: number): number => Math.floor(random() * n);
  return Array.from({ length: 60 }, (): Page => {
    const start = day0 + below(48) * 3_600_000;
    const ticks = Array.from({ length: below(30) }, () => ({
      t: start + below(60) * 60_000,
      p: prices[below(prices.length)]!,
    }));
    const order = below(3);
    if (order < 2) ticks.sort((a, b) => (order === 0 ? a.t - b.t : b.t - a.t));
    return { symbol: ['A', 'b,"eta"', 'γ 😀'][below(3)]!, generated_at: day0 + 3 * dayMs + below(4), ticks };
  });
}

interface Row {
  readonly symbol: string;
  readonly seen: number;
  readonly t: number;
  readonly p: number;
  counts: boolean;
}

/** Each distinct observation once, in groups in which the last of each time counts. */
function foldRows(pages: readonly Page[]): (Row & { readonly layer: number })[] {
  const distinct = new Map<string, Row>();
  for (const { symbol, generated_at: seen, ticks } of pages) {
    const counted = findCounted(
      ticks.map(({ t }) => t),
      (a, b) => ticks[a]!.p > ticks[b]!.p,
    );
    ticks.forEach(({ t, p }, i) => {
      const key = JSON.stringify([symbol, seen, t, p]);
      const row = distinct.get(key) ?? { symbol, seen, t, p, counts: false };
      row.counts ||= counted.has(i);
      distinct.set(key, row);
    });
  }
  const groups = Map.groupBy(distinct.values(), ({ symbol, seen, t, counts }) =>
    JSON.stringify([symbol, seen, t, counts]),
  );
  return [...groups.values()].flatMap((rows) =>
    rows.sort((a, b) => b.p - a.p).map((row, i) => ({ ...row, layer: row.counts ? i : 0 })),
  );
}

/** A result of fold.py in a new folder: the rows of a query for each of three days, and a file that could not be read. */
async function writeFold(dataset: string, create: (db: DuckDBConnection) => Promise<string>): Promise<string> {
  const out = join(folder(), 'folded');
  const db = await (await DuckDBInstance.create(':memory:')).connect();
  const select = await create(db);
  const write = async (path: string, sql: string): Promise<void> => {
    mkdirSync(join(out, path, '..'), { recursive: true });
    await db.run(`COPY (${sql}) TO '${join(out, path)}' (FORMAT parquet)`);
  };
  for (const day of [0, 1, 2]) {
    const within = `t >= ${day0 + day * dayMs} AND t < ${day0 + (day + 1) * dayMs}`;
    await write(`${dataset}/date=${day}/part=0/part-0.parquet`, select.replace('ORDER BY', `WHERE ${within} ORDER BY`));
  }
  const none = 'WHERE false';
  await write(
    'coverage/part-0.parquet',
    `SELECT '' AS symbol, 0::BIGINT AS t_from, 0::BIGINT AS t_to, 0::BIGINT AS seen, '' AS evidence ${none}`,
  );
  await write(
    'rejected/part-0.parquet',
    `SELECT 'x' AS path, 'A' AS symbol, ${day0 + 3 * dayMs} AS seen, 't is missing' AS reason, '{}' AS raw`,
  );
  await write('unreadable/part-0.parquet', `SELECT 'x.json' AS path, 'broken JSON' AS reason`);
  db.closeSync();
  const paths = readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.parquet'));
  const files = paths.map((path) => {
    const bytes = readFileSync(join(out, path));
    return { path, bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
  });
  mkdirSync(join(out, 'summary'));
  writeFileSync(join(out, 'summary', 'part-00000.txt'), `${JSON.stringify({ format: 1, dataset, files })}\n`);
  return out;
}

const writeTickFold = (pages: readonly Page[]): Promise<string> =>
  writeFold('ticks', async (db) => {
    await db.run('CREATE TABLE rows (symbol VARCHAR, t BIGINT, p DOUBLE, seen BIGINT, layer INTEGER, counts BOOLEAN)');
    for (const { symbol, t, p, seen, layer, counts } of foldRows(pages))
      await db.run('INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)', [symbol, BigInt(t), p, BigInt(seen), layer, counts]);
    return 'SELECT symbol, t, p, seen, layer FROM rows ORDER BY symbol, seen, layer, t, counts, p';
  });

function writePages(pages: readonly Page[]): string {
  const at = folder();
  pages.forEach((page, i) => {
    writeFileSync(join(at, `${i}.json`), JSON.stringify({ ...page, count: page.ticks.length }));
    utimesSync(join(at, `${i}.json`), day0 / 1000, day0 / 1000);
  });
  return at;
}

describe('an import of a fold', () => {
  test('gives the bytes of an import of its pages, also into an archive that has other observations of them', async () => {
    const [before, after] = [drawPages(1), drawPages(2)];
    const [direct, folded] = [folder(), folder()];
    for (const output of [direct, folded]) await importInto(output, [writePages(before)]);
    expect((await importInto(direct, [writePages(after)])).exit_code).toBe(0);
    const summary = await importInto(folded, [await writeTickFold(after)], { isFolded: true });
    expect(summary).toMatchObject({
      exit_code: 4,
      failures: [{ reason: 'x.json: invalid response: broken JSON' }],
    });
    const names = ['ticks', 'candles_1h', 'candles_1d', 'conflicts', 'coverage', 'symbols'];
    expect(Object.keys(hashes(direct, 'conflicts')).length).toBeGreaterThan(0);
    expect(hashes(folded, ...names)).toEqual(hashes(direct, ...names));
  });

  test('is refused if it is not whole, or with flags that say how files are read', async () => {
    const output = join(folder(), 'lake');
    const out = await writeTickFold(drawPages(3));
    const tryImport = (...flags: string[]) =>
      run(['import', '--output', output, '--set', 'source.name=box', '--folded', out, ...flags]);
    expect((await tryImport('--time-unit', 'us')).stderr).toContain('--time-unit does not go with --folded');
    expect((await tryImport(out)).stderr).toContain('--folded takes one folder or address');
    const part = join(out, 'ticks/date=0/part=0/part-0.parquet');
    const bytes = readFileSync(part);
    writeFileSync(part, Buffer.from(bytes).fill(0, 10, 11));
    const changed = await tryImport();
    expect([changed.code, changed.stderr]).toEqual([2, expect.stringContaining('differs from what the fold wrote')]);
    rmSync(part);
    expect(await tryImport()).toMatchObject({ code: 2, stderr: expect.stringContaining('is missing') });
    rmSync(join(out, 'summary'), { recursive: true });
    expect(await tryImport()).toMatchObject({ code: 2, stderr: expect.stringContaining('there is no summary') });
    expect(existsSync(output)).toBe(false);
  });

  test('publishes nothing of one that another program has made', async () => {
    const out = await writeFold('ticks', async (db) => {
      await db.run('CREATE TABLE rows (symbol VARCHAR, t BIGINT, p DOUBLE, seen BIGINT, layer INTEGER)');
      for (const day of [0, 1, 2])
        await db.run('INSERT INTO rows VALUES (?, ?, ?, ?, 0)', [
          ...['A', BigInt(day0 + day * dayMs), day === 2 ? null : 0.5, BigInt(day0 + 3 * dayMs)],
        ]);
      return 'SELECT * FROM rows ORDER BY t';
    });
    const output = join(folder(), 'lake');
    const { code, stdout } = await run(['import', '--output', output, '--set', 'source.name=box', '--folded', out]);
    expect([code, stdout]).toEqual([2, expect.stringContaining(`${out}/ticks/date=2/part=0/part-0.parquet has a row`)]);
    expect(existsSync(join(output, 'manifest.json'))).toBe(false);
  });

  test('of trades names those without an identifier as an import of their file does', async () => {
    const files = folder();
    const [seen, trades] = [day0 + 3 * dayMs, drawTrades(4)];
    const header = 'symbol,t,trade_id,price,size,aggressor,block,tx_hash';
    const lines = trades.map(({ id, ...one }) =>
      [one.symbol, one.t, id, one.price, one.size, one.aggressor, one.block, one.hash].join(),
    );
    writeFileSync(join(files, 'trades.csv'), `${[header, ...lines].join('\n')}\n`);
    utimesSync(join(files, 'trades.csv'), seen / 1000, seen / 1000);
    const out = await writeFold('trades', async (db) => {
      await db.run(
        `CREATE TABLE rows (symbol VARCHAR, t BIGINT, price DOUBLE, size DOUBLE, block INTEGER, trade_id VARCHAR,
           aggressor VARCHAR, tx_hash VARCHAR, price_text VARCHAR, size_text VARCHAR, price_raw VARCHAR, size_raw VARCHAR,
           copy INTEGER, seen BIGINT)`,
      );
      const copies = new Map<string, number>();
      for (const { symbol, t, id, price, size, aggressor, block, hash } of trades) {
        const content = JSON.stringify([symbol, t, Number(price), Number(size), aggressor, block, hash]);
        const copy = id === '' ? (copies.get(content) ?? 0) : null;
        if (copy !== null) copies.set(content, copy + 1);
        const toNull = (text: string): string | null => (text === '' ? null : text);
        const blockNumber = block === '' ? null : Number(block === 'true');
        const texts = [toNull(id), toNull(aggressor), toNull(hash), null, null, price, size];
        await db.run(`INSERT INTO rows VALUES (${Array(14).fill('?').join()})`, [
          ...[symbol, BigInt(t), price, size, blockNumber, ...texts, copy, BigInt(seen)],
        ]);
      }
      return 'SELECT *, 0 AS layer FROM rows ORDER BY symbol, seen, t, trade_id, copy';
    });
    const [direct, folded] = [folder(), folder()];
    expect((await importInto(direct, [files], { datasets: ['trades'] })).exit_code).toBe(0);
    await importInto(folded, [out], { isFolded: true });
    const rows = await run(['sql', 'SELECT trade_id, price_text FROM trades', '--format', 'json', '--output', direct]);
    const stored = JSON.parse(rows.stdout) as { trade_id: string; price_text: string | null }[];
    expect(stored.filter(({ trade_id }) => /^=.*#2$/.test(trade_id)).length).toBeGreaterThan(0);
    expect(stored.filter(({ price_text }) => price_text !== null).length).toBeGreaterThan(0);
    expect(Object.keys(hashes(direct, 'trade_conflicts')).length).toBeGreaterThan(0);
    const names = ['trades', 'trade_conflicts', 'coverage', 'symbols'];
    expect(hashes(folded, ...names)).toEqual(hashes(direct, ...names));
  });
});

/** Trades as a CSV file has them: equal ones, versions of one identifier, prices with more digits than a double. */
function drawTrades(seed: number) {
  const random = createRandom(seed);
  const pick = <T>(...from: T[]): T => from[Math.floor(random() * from.length)]!;
  return Array.from({ length: 120 }, () => ({
    symbol: pick('A', 'γ 😀'),
    t: day0 + Math.floor(random() * 4) * 43_200_000,
    id: pick('', '', '7', '8', '12'),
    price: pick('0.1', '0.30000000000000004', '0.4200000000000000001', '1e-7'),
    size: pick('1', '2.5', '100000000000000000001'),
    aggressor: pick('buy', 'sell', ''),
    block: pick('true', ''),
    hash: pick('', '', '0xab'),
  })).flatMap((one) => pick([one], [one, one], [one, one, one]));
}

describe('an import of a fold in a bucket', needsObjectStorage(), () => {
  const server = useBucketServer();

  test('downloads it, checks it before anything is written, and gives the bytes of one in a folder', async () => {
    const pages = drawPages(5);
    const out = await writeTickFold(pages);
    cpSync(out, server.folderOf('folds/one'), { recursive: true });
    const [cache, local, remote] = [folder(), folder(), join(folder(), 'lake')];
    await importInto(local, [out], { isFolded: true });
    const tryImport = (url: string) =>
      run(
        ['import', '--output', remote, '--set', 'source.name=box', '--folded', url],
        server.bucketAccess(undefined, undefined, { XDG_CACHE_HOME: cache }),
      );
    const part = join(server.folderOf('folds/one'), 'ticks/date=1/part=0/part-0.parquet');
    const bytes = readFileSync(part);
    const refuse = async (message: string): Promise<void> => {
      const { code, stderr } = await tryImport('s3://lakes/folds/one');
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
      expect(existsSync(remote)).toBe(false);
    };
    writeFileSync(part, Buffer.from(bytes).fill(0, 10, 11));
    await refuse('ticks/date=1/part=0/part-0.parquet differs from what the fold wrote');
    rmSync(part);
    await refuse('is missing');
    expect((await tryImport('s3://lakes/folds')).stderr).toContain('there is no summary');
    const summary = join(server.folderOf('folds/one'), 'summary', 'part-00000.txt');
    const text = readFileSync(summary, 'utf8');
    for (const wrong of [
      text.replace('ticks/date=1', '../ticks/date=1'),
      text.replace('ticks/date=1', 'tocks/date=1'),
      text.replace(/"bytes":\d+/, '"bytes":null'),
      text.replace(/"sha256":"../, '"sha256":"..'),
      JSON.stringify({ format: 1, dataset: 'ticks', files: [] }),
      JSON.stringify({ format: 1, dataset: 'ticks', files: [null, {}] }),
    ]) {
      writeFileSync(summary, wrong);
      await refuse('its summary does not list the files of a fold');
    }
    writeFileSync(summary, 'null');
    await refuse('its summary is not a JSON object');
    writeFileSync(summary, text);
    writeFileSync(part, bytes);
    // As Spark names it.
    const { code, stdout, stderr } = await tryImport('s3a://lakes/folds/one');
    expect([code, stdout], stderr).toEqual([4, expect.stringContaining('x.json: invalid response: broken JSON')]);
    expect(hashes(remote, 'ticks', 'conflicts', 'coverage', 'symbols')).toEqual(
      hashes(local, 'ticks', 'conflicts', 'coverage', 'symbols'),
    );
    expect(readdirSync(join(cache, 'oddslake', 'objects', 'readers'))).toEqual([]);
  });
});
