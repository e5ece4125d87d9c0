import { hash } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importInto, polled, put, writeParquet } from './import-lake.ts';
import { access, dayMs, expectDone, fixedNow, folder, hashes, jobArgs, sandbox } from './lake.ts';
import { run } from './run-program.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`import of markets: SEED=${seed}`);

const yesterday = Date.UTC(2025, 5, 13);

describe('an import of markets', () => {
  test('copies the rows that one archive published into another, byte for byte', async () => {
    const box = await sandbox({ seed, nowMs: fixedNow });
    const { output } = await polled(box);
    const [name] = Object.keys(hashes(output, 'markets'));
    const other = folder();
    const summary = await importInto(other, [join(output, name!)]);
    expect(summary).toMatchObject({ exit_code: 0, warnings: [], ticks: { fetched: 0 } });
    expect(hashes(other, 'markets')).toEqual(hashes(output, 'markets'));
    const known = async (archive: string): Promise<unknown> => {
      const facts =
        'symbol, canonical_id, source, question, category, is_active, opens_at, closes_at, outcome, outcome_source';
      const sql = `SELECT ${facts} FROM symbols ORDER BY symbol`;
      return JSON.parse((await run(['sql', sql, '--output', archive, '--json'])).stdout);
    };
    expect(await known(other)).toEqual(await known(output));

    // As text, too.
    for (const format of ['csv', 'json'] as const) {
      const sql = 'SELECT * FROM markets';
      const { stdout } = await run(['sql', sql, '--output', output, '--format', format]);
      const lines =
        format === 'csv' ? stdout : (JSON.parse(stdout) as object[]).map((row) => `${JSON.stringify(row)}\n`).join('');
      const third = folder();
      await importInto(third, [put(folder(), format === 'csv' ? 'm.csv' : 'm.ndjson', lines)]);
      expect(hashes(third, 'markets'), format).toEqual(hashes(output, 'markets'));
    }

    // This service's lists name other markets: the imported ones are not polled, because it would not know them.
    const elsewhere = await sandbox({ seed: seed + 1, nowMs: fixedNow, markets: 3 });
    const ticks = await expectDone(run(jobArgs('ticks', other), access(elsewhere.url)));
    expect(ticks.summary.symbols.done).toBe(ticks.summary.symbols.planned);
  });

  test('keeps newer facts and fills in missing ones', async () => {
    const box = await sandbox({ seed, nowMs: fixedNow });
    const { output, symbol } = await polled(box);
    const row = `'${symbol}' AS symbol, 'another question' AS question, 'unheard of' AS category, false AS is_active, 1 AS settled`;
    const select = `SELECT ${row} UNION ALL SELECT 'NEW', 'what?', 'c', true, 0`;
    const path = await writeParquet(join(folder(), 'm.parquet'), select, yesterday - dayMs);
    const look = async (): Promise<Record<string, unknown>[]> => {
      const sql = `SELECT * EXCLUDE (last_seen) FROM symbols WHERE symbol IN ('${symbol}', 'NEW') ORDER BY symbol = 'NEW'`;
      return JSON.parse((await run(['sql', sql, '--output', output, '--json'])).stdout) as Record<string, unknown>[];
    };
    const [before] = await look();
    const set = ['source.name=box', 'source.field_paths.outcome=["settled"]'];
    expect(await importInto(output, [path], {}, set)).toMatchObject({ exit_code: 0, warnings: [] });
    const [after, fresh] = await look();
    const firstSeen = new Date(yesterday - dayMs).toISOString();
    // No poll had resolved it yet; an inactive state two days earlier is outdated.
    const outcome = { outcome: before!.outcome ?? 1, outcome_source: 'reported' };
    expect(after).toEqual({ ...before, first_seen: firstSeen, ...outcome });
    expect(fresh).toMatchObject({ symbol: 'NEW', canonical_id: 'NEW', question: 'what?', is_active: true, outcome: 0 });
  });

  test('field_paths find event, exclusive, strikes, expected end, rules, fees, tick size and source of the outcome', async () => {
    const fields = { a: 'derived', b: 'E', c: true, d: 1, e: 2.5, f: yesterday, g: 'If. 🌧', h: 'flat', i: 0.01 };
    const names = ['outcome_source', 'event', 'exclusive', 'strike_low', 'strike_high', 'expected_end', 'rules'];
    const columns = [...names, 'fee_schedule', 'tick_size'];
    const values = Object.values({ ...fields, f: new Date(yesterday).toISOString() });
    const rulesSha256 = hash('sha256', fields.g);
    const expected = { ...Object.fromEntries(columns.map((name, i) => [name, values[i]])), rules_sha256: rulesSha256 };
    const set = columns.map((name, i) => `source.field_paths.${name}=${Object.keys(fields)[i]}`);
    const read = async (output: string, select: string, dataset: string): Promise<unknown[]> => {
      const { stdout } = await expectDone(
        run(['sql', `SELECT ${select} FROM ${dataset}`, '--output', output, '--json']),
      );
      return JSON.parse(stdout) as unknown[];
    };
    const select = [...columns, 'rules_sha256'].join(', ');
    const rows = { 'm.ndjson': JSON.stringify({ symbol: 'A', outcome: 1, ...fields, j: 5 }) };
    const csv = [Object.keys({ symbol: 0, outcome: 0, ...fields, j: 0 }), ['A', '1', ...Object.values(fields), '5']];
    for (const [name, text] of Object.entries({
      ...rows,
      'm.csv': csv.map((line) => `${line.join(',')}\n`).join(''),
    })) {
      const output = folder();
      const flags = ['source.name=box', ...set];
      const summary = await importInto(output, [put(folder(), name, text)], { datasets: ['markets'] }, flags);
      expect(summary, name).toMatchObject({ exit_code: 0, warnings: [] });
      expect(await read(output, `${select}, extra`, 'markets'), name).toEqual([
        { ...expected, extra: name === 'm.csv' ? '{"j":"5"}' : '{"j":5}' },
      ]);
      const { rules: _, ...ofSymbol } = expected as Record<string, unknown>;
      expect(await read(output, select.replace('rules, ', ''), 'symbols'), name).toEqual([ofSymbol]);
      // What one archive published becomes the same rows of another, without the paths.
      const other = folder();
      const [published] = Object.keys(hashes(output, 'markets'));
      await importInto(other, [join(output, published!)], {}, ['source.name=box']);
      expect(hashes(other, 'markets')).toEqual(hashes(output, 'markets'));
    }
  });

  test('treats a saved response as a poll at its generated_at', async () => {
    const output = folder();
    const record = { canonical_id: 'm1', symbols: ['A', 'B'], is_active: true, category: 'c' };
    const page = { markets: [record, { no: 'id' }], count: 2, total: 2, view: 'matched', generated_at: yesterday + 5 };
    const summary = await importInto(output, [put(folder(), 'markets.json.gz', JSON.stringify(page))]);
    expect(summary).toMatchObject({ exit_code: 0, pages: 1, ticks: { fetched: 0 } });
    expect(summary.warnings).toEqual([
      expect.stringMatching(/^1 market record was rejected: canonical_id is not a string/),
    ]);
    const sql = 'SELECT symbol, views, epoch_ms(first_seen)::BIGINT AS first, date FROM markets ORDER BY symbol';
    const rows = JSON.parse((await run(['sql', sql, '--output', output, '--json'])).stdout) as unknown[];
    const seen = { views: ['matched'], first: yesterday + 5, date: '2025-06-13' };
    expect(rows).toEqual([
      { symbol: 'A', ...seen },
      { symbol: 'B', ...seen },
    ]);
  });

  test('treats a saved response of another oddslake as a poll at its data_time', async () => {
    const output = folder();
    const markets = [{ canonical_id: 'm1', symbol: 'A', is_active: true, category: 'c' }];
    const page = {
      markets,
      count: 1,
      total: 1,
      view: 'matched',
      generated_at: yesterday + 3_600_000,
      data_time: yesterday,
    };
    const summary = await importInto(output, [put(folder(), 'markets.json.gz', JSON.stringify(page))]);
    expect(summary).toMatchObject({ exit_code: 0, pages: 1 });
    const sql = 'SELECT epoch_ms(last_seen)::BIGINT AS last FROM markets';
    expect(JSON.parse((await run(['sql', sql, '--output', output, '--json'])).stdout)).toEqual([{ last: yesterday }]);
  });
});
