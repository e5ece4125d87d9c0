import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { importFile, put, select, writeParquet } from './import-lake.ts';
import { expectDone, folder, hashes, manifestOf } from './lake.ts';
import { run } from './run-program.ts';

// event_at and received_at from a file to every output, through damage and repair.

const base = 1_783_728_000_000_000;
const iso = (us: number): string => `2026-07-11T00:00:00.${String(us - base).padStart(6, '0')}Z`;

const timesOf = (output: string, dataset: string) =>
  select(
    output,
    `SELECT symbol, epoch_ms(t) AS t, epoch_us(event_at)::DOUBLE AS e, epoch_us(received_at)::DOUBLE AS r FROM ${dataset} ORDER BY ALL`,
  );

const trade = (id: number, event: string, received: string) =>
  `A,${base / 1000},${id},0.5,${id},${event},${received}\n`;
const head = 'symbol,t,trade_id,price,size,event_at,received_at\n';

describe('finer times of trades', () => {
  test('two recorders of the same trades leave each once, without conflict, in any order', async () => {
    const one = head + trade(1, iso(base + 7), `${base + 500}`) + trade(2, iso(base), '') + trade(3, '', '');
    const two = head + trade(1, '', `${base + 400}000`) + trade(2, iso(base + 9), `${base + 900}`) + trade(3, '', '');
    const expected = [
      { e: base + 7, r: base + 400 },
      { e: base + 9, r: base + 900 },
      { e: null, r: null },
    ].map((times) => ({ symbol: 'A', t: base / 1000, ...times }));
    const outputs: string[] = [];
    for (const texts of [
      [one, two],
      [two, one],
    ]) {
      const output = folder();
      outputs.push(output);
      for (const [i, text] of texts.entries())
        await expectDone(importFile(put(folder(), `feed-${i}.csv`, text), ['--dataset', 'trades'], output));
      expect(await timesOf(output, 'trades')).toEqual(expected);
      expect(await select(output, 'SELECT count(*)::INTEGER AS n FROM trade_conflicts')).toEqual([{ n: 0 }]);
      await expectDone(run(['verify', '--output', output]));
      // Nothing changes if one of them is imported again.
      const before = hashes(output, 'trades');
      await expectDone(importFile(put(folder(), 'again.csv', texts[0]!), ['--dataset', 'trades'], output));
      expect(hashes(output, 'trades')).toEqual(before);
    }
    expect(hashes(outputs[0]!, 'trades')).toEqual(hashes(outputs[1]!, 'trades'));
  });

  test('one column of a file is the time of a row and, finer, that of the venue', async () => {
    const output = folder();
    const sql = `SELECT 'A' AS ticker, make_timestamptz(${base} + 1234 * i) AS ts, i::VARCHAR AS trade_id, 0.5 AS price, 1 AS size FROM range(1, 3) r(i)`;
    const path = await writeParquet(join(folder(), 'feed.parquet'), sql);
    const flags = ['--dataset', 'trades', '--columns', 'symbol=ticker,t=ts,event_at=ts', '--truncate-time'];
    await expectDone(importFile(path, flags, output));
    const rows = [1, 2].map((i) => ({
      symbol: 'A',
      t: base / 1000 + i + Math.floor((i * 234) / 1000),
      e: base + 1234 * i,
      r: null,
    }));
    expect(await timesOf(output, 'trades')).toEqual(rows);
  });
});

describe('finer times of quotes', () => {
  test('survive export, import of each export, damage and repair', async () => {
    const output = folder();
    const quotes = [0, 1, 2].map((i) => ({
      symbol: 'A',
      t: base / 1000 + i,
      bid: 0.25,
      ask: 0.5,
      event_at: base / 1e6 + i,
      received_at: iso(base + 70_000 + i),
    }));
    const text = quotes.map((row) => `${JSON.stringify(row)}\n`).join('');
    await expectDone(importFile(put(folder(), 'feed.ndjson', text), ['--dataset', 'quotes'], output));
    const rows = quotes.map(({ symbol, t }, i) => ({ symbol, t, e: base + 1e6 * i, r: base + 70_000 + i }));
    expect(await timesOf(output, 'quotes')).toEqual(rows);
    for (const format of ['csv', 'ndjson', 'parquet']) {
      const file = join(folder(), `quotes.${format}`);
      await expectDone(run(['export', '--dataset', 'quotes', '--out', file, '--output', output]));
      const copy = folder();
      await expectDone(importFile(file, ['--dataset', 'quotes'], copy));
      expect(await timesOf(copy, 'quotes'), format).toEqual(rows);
    }
    const [file] = manifestOf(output).datasets.quotes.files.filter((one) => one.rows > 0);
    const path = join(output, file!.path);
    const bytes = readFileSync(path);
    const damaged = Uint8Array.from(bytes);
    damaged[bytes.length >> 1]! ^= 1;
    writeFileSync(path, damaged);
    expect((await run(['verify', '--output', output])).code).toBe(6);
    expect((await run(['verify', '--repair', '--output', output])).code).not.toBe(1);
    await expectDone(importFile(put(folder(), 'feed.ndjson', text), ['--dataset', 'quotes'], output));
    expect(await timesOf(output, 'quotes')).toEqual(rows);
    await expectDone(run(['verify', '--output', output]));
  });
});
