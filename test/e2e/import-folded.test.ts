import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, test } from 'vitest';
import { createRandom } from '../../src/base/random.ts';
import { findCounted } from '../faults/simulation/reading-order.ts';

import { day0, importInto } from './import-lake.ts';
import { folder, hashes, run } from './lake.ts';

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
    return { symbol: ['A', 'b,"eta"', 'γ 😀'][below(3)]!, generated_at: day0 + 3 * 86_400_000 + below(4), ticks };
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

/** Writes a fold of the pages into a new folder, with one file for each day. */
async function writeFold(pages: readonly Page[]): Promise<string> {
  const out = join(folder(), 'folded');
  const db = await (await DuckDBInstance.create(':memory:')).connect();
  await db.run('CREATE TABLE rows (symbol VARCHAR, t BIGINT, p DOUBLE, seen BIGINT, layer INTEGER, counts BOOLEAN)');
  for (const { symbol, t, p, seen, layer, counts } of foldRows(pages))
    await db.run('INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)', [symbol, BigInt(t), p, BigInt(seen), layer, counts]);
  const write = async (path: string, sql: string): Promise<void> => {
    mkdirSync(join(out, path, '..'), { recursive: true });
    await db.run(`COPY (${sql}) TO '${join(out, path)}' (FORMAT parquet)`);
  };
  for (const day of [0, 1, 2]) {
    const within = `t >= ${day0 + day * 86_400_000} AND t < ${day0 + (day + 1) * 86_400_000}`;
    await write(
      `ticks/date=${day}/part=0/part-0.parquet`,
      `SELECT symbol, t, p, seen, layer FROM rows WHERE ${within} ORDER BY symbol, seen, layer, t, counts, p`,
    );
  }
  const none = 'WHERE false';
  await write(
    'coverage/part-0.parquet',
    `SELECT '' AS symbol, 0::BIGINT AS t_from, 0::BIGINT AS t_to, 0::BIGINT AS seen, '' AS evidence ${none}`,
  );
  await write('rejected/part-0.parquet', `SELECT '' AS path, '' AS symbol, 0 AS seen, '' AS reason, '' AS raw ${none}`);
  await write('unreadable/part-0.parquet', `SELECT 'x.json' AS path, 'broken JSON' AS reason`);
  db.closeSync();
  const paths = readdirSync(out, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.parquet'));
  const files = paths.map((path) => ({
    path,
    bytes: statSync(join(out, path)).size,
    sha256: createHash('sha256')
      .update(readFileSync(join(out, path)))
      .digest('hex'),
  }));
  mkdirSync(join(out, 'summary'));
  writeFileSync(join(out, 'summary', 'part-00000.txt'), `${JSON.stringify({ format: 1, files })}\n`);
  return out;
}

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
    const summary = await importInto(folded, [await writeFold(after)], { isFolded: true });
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
    const out = await writeFold(drawPages(3));
    const tryImport = (...flags: string[]) =>
      run(['import', '--output', output, '--set', 'source.name=box', '--folded', out, ...flags]);
    expect((await tryImport('--time-unit', 'us')).stderr).toContain('--time-unit does not go with --folded');
    expect((await tryImport(out)).stderr).toContain('--folded takes one folder');
    const part = join(out, 'ticks/date=0/part=0/part-0.parquet');
    const bytes = readFileSync(part);
    writeFileSync(part, Buffer.from(bytes).fill(0, 10, 11));
    const changed = await tryImport();
    expect([changed.code, changed.stderr]).toEqual([2, expect.stringContaining('differs from what the fold wrote')]);
    rmSync(part);
    expect((await tryImport()).stderr).toContain('is missing');
    rmSync(join(out, 'summary'), { recursive: true });
    expect((await tryImport()).stderr).toContain('there is no summary');
    expect(existsSync(output)).toBe(false);
  });
});
