import { execFile, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dayHashes } from '../harness/day-hashes.ts';
import { skipWithReason } from '../harness/needs.ts';

const project = new URL('../..', import.meta.url).pathname;
const data = join(project, '..', 'shared', 'data');
const ticksFile = join(data, 'polymarket-us-ticks.parquet');
const marketsFile = join(data, 'polymarket-us-markets.parquet');
const missing = [ticksFile, marketsFile].find((path) => !existsSync(path));
const needed = skipWithReason(
  missing === undefined ? null : `there is no recording ${basename(missing)} next to the project`,
);

/**
 * A real recording, replayed over HTTP by the sandbox and fetched by `oddslake backfill`, each in a separate process.
 */
describe('a replayed recording', needed, () => {
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-replay-'));
  const lake = join(folder, 'lake');
  let sandbox: ReturnType<typeof spawn>;
  let url = '';

  beforeAll(async () => {
    const args = ['sandbox', '--ticks', ticksFile, '--markets', marketsFile, '--json', '--quiet'];
    sandbox = spawn(process.execPath, [join(project, 'bin/main.ts'), ...args], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: sandbox.stdout! }), 'line')) as [string];
    url = (JSON.parse(line) as { url: string }).url;
  });

  afterAll(async () => {
    sandbox.kill('SIGTERM');
    await once(sandbox, 'exit');
    rmSync(folder, { recursive: true, force: true });
  });

  const backfill = async () => {
    const args = ['backfill', '--from', '2026-07-11', '--to', '2026-07-13', '--output', lake, '--json', '--quiet'];
    const set = ['upstream.requests_per_second=100000', 'upstream.concurrency=8', 'source.name=recording'];
    const env = { ...process.env, ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: 'sandbox-key' };
    const command = [join(project, 'bin/main.ts'), ...args, ...set.flatMap((one) => ['--set', one])];
    const { stdout } = await promisify(execFile)(process.execPath, command, { env });
    return JSON.parse(stdout.trim().split('\n').at(-1)!) as {
      exit_code: number;
      ticks: { fetched: number; accepted: number; duplicates: number; conflicts: number; quarantined: number };
      symbols: { planned: number; failed: number };
      requests: number;
    };
  };

  const tickRequests = async (): Promise<number> =>
    ((await (await fetch(`${url}/sandbox/stats`)).json()) as { tickRequests: number }).tickRequests;

  const hashes = (root = lake, pattern = '**/*.parquet'): Record<string, string> =>
    Object.fromEntries(
      globSync(pattern, { cwd: root })
        .sort()
        .map((path) => [
          path,
          createHash('sha256')
            .update(readFileSync(join(root, path)))
            .digest('hex'),
        ]),
    );

  test('is archived row for row, and a second backfill requests nothing', async () => {
    const first = await backfill();
    expect(first.exit_code).toBe(0);
    expect(first.symbols).toMatchObject({ planned: 11_214, failed: 0 });
    expect(first.ticks.accepted).toBe(3_925_578);
    const { fetched, accepted, duplicates, conflicts, quarantined } = first.ticks;
    expect(fetched).toBe(accepted + duplicates + conflicts + quarantined);

    expect(await compare(ticksFile, `${lake}/ticks/date=*/*.parquet`)).toEqual({
      recorded: 3_925_578,
      archived: 3_925_578,
      missing: 0,
      extra: 0,
      otherPrice: 0,
      keysTwice: 0,
      wrongDay: 0,
    });

    const requestsBefore = await tickRequests();
    const before = hashes();
    const second = await backfill();
    expect(second).toMatchObject({ exit_code: 0, requests: 0, ticks: { fetched: 0 } });
    expect(await tickRequests()).toBe(requestsBefore);
    expect(hashes()).toEqual(before);
  });

  test('gives the same ticks by import as over HTTP', async () => {
    const imported = join(folder, 'imported');
    const args = ['import', ticksFile, '--tz', 'UTC', '--output', imported, '--json', '--quiet'];
    const command = [join(project, 'bin/main.ts'), ...args, '--set', 'source.name=recording'];
    const { stdout } = await promisify(execFile)(process.execPath, command, { env: { PATH: process.env.PATH } });
    const summary = JSON.parse(stdout) as { exit_code: number; ticks: object; symbols: object };
    expect(summary).toMatchObject({
      exit_code: 0,
      symbols: { planned: 11_214, done: 11_214, failed: 0 },
      ticks: { fetched: 3_925_578, accepted: 3_925_578, duplicates: 0, conflicts: 0, quarantined: 0 },
    });
    const rowsIn = (archive: string) => dayHashes(archive, globSync('ticks/**/*.parquet', { cwd: archive }));
    expect(rowsIn(imported)).toEqual(rowsIn(lake));
  });
});

/** Counts of rows that differ between a recording and an archive, computed by DuckDB. */
async function compare(recording: string, archive: string): Promise<Record<string, number>> {
  const instance = await DuckDBInstance.create(':memory:', { threads: '2' });
  const connection = await instance.connect();
  await connection.run("SET TimeZone='UTC'");
  await connection.run(`CREATE VIEW r AS SELECT symbol, epoch_ms(t) AS ms, p FROM read_parquet('${recording}')`);
  await connection.run(
    `CREATE VIEW a AS SELECT symbol, epoch_ms(t) AS ms, p, date FROM read_parquet('${archive}', hive_partitioning = true)`,
  );
  const one = async (sql: string): Promise<number> => Number((await connection.runAndReadAll(sql)).getRows()[0]![0]);
  const both = 'r JOIN a USING (symbol, ms)';
  const counts = {
    recorded: await one('SELECT count(*) FROM r'),
    archived: await one('SELECT count(*) FROM a'),
    missing: await one('SELECT count(*) FROM r ANTI JOIN a USING (symbol, ms)'),
    extra: await one('SELECT count(*) FROM a ANTI JOIN r USING (symbol, ms)'),
    otherPrice: await one(`SELECT count(*) FROM ${both} WHERE r.p IS DISTINCT FROM a.p`),
    keysTwice: await one('SELECT count(*) FROM (SELECT 1 FROM a GROUP BY symbol, ms HAVING count(*) > 1)'),
    wrongDay: await one('SELECT count(*) FROM a WHERE date <> make_timestamp(ms * 1000)::DATE'),
  };
  connection.closeSync();
  instance.closeSync();
  return counts;
}
