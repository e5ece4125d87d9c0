import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { listImportFiles } from '../../../src/collector/import/files.ts';
import { checkRows } from '../../../src/collector/import/preflight.ts';
import { createLazyReader } from '../../../src/collector/import/read-rows.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { needsPath } from '../../harness/needs.ts';
import { defaultRowRules } from './row-rules.ts';

test('checks JSON lines without the reader of tables, and CSV with it', async () => {
  const folder = scratchFolder();
  const put = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return listImportFiles([join(folder, name)], null, Date.now()).files[0]!;
  };
  const { source } = await loadSettings({ env: {}, cwd: folder });
  const rules = { datasets: null, rows: defaultRowRules, renames: [], filters: [], paths: source };
  const open = () => Promise.reject(new Error('opened'));
  const lines = put('quotes.ndjson', '{"symbol":"A","t":1783771200000,"bid":0.4,"ask":0.6}\n');
  expect(await checkRows(lines, open, rules)).toMatchObject({ datasets: ['quotes'], rows: null });
  const table = put('quotes.csv', 'symbol,t,bid,ask\nA,1783771200000,0.4,0.6\n');
  await expect(checkRows(table, open, rules)).rejects.toThrow('opened');
});

describe('a file with a time and a price', () => {
  /** The datasets that a file is taken for, or why it is refused. */
  async function detect(name: string, text: string, datasets: readonly ['markets'] | null = null): Promise<string> {
    const folder = scratchFolder();
    writeFileSync(join(folder, name), text);
    const [file] = listImportFiles([join(folder, name)], null, Date.now()).files;
    const { source } = await loadSettings({ env: {}, cwd: folder });
    const rules = { datasets, rows: defaultRowRules, renames: [], filters: [], paths: source };
    const lazy = createLazyReader('');
    try {
      const plan = await checkRows(file!, lazy.reader, rules);
      return 'fault' in plan ? plan.fault : plan.datasets.join();
    } catch (error) {
      return (error as Error).message;
    } finally {
      await lazy.close();
    }
  }

  const refusal = /missing column.*a market list with times and prices needs --dataset markets/;
  const time = '2026-07-11T12:00:00Z';
  const feed = new URL('../../../../shared/cases/01-rows-with-a-market-word/feed.csv', import.meta.url).pathname;

  test('is no market list because of a column named category', needsPath(feed, 'no shared/cases'), async () => {
    const text = readFileSync(feed, 'utf8');
    expect(await detect('feed.csv', text)).toMatch(refusal);
    expect(await detect('feed.csv', text)).toMatch(
      /Of the first 2 rows, 2 can be read with:\n {2}--columns t=ts,p=price$/,
    );
    expect(await detect('feed.csv', text, ['markets'])).toBe('markets');
  });

  test.each([
    ['title', 'symbol,ts,price,title', `A,${time},0.5,x`],
    ['canonical_id', 'canonical_id,symbol,ts,price', `m,A,${time},0.5`],
    ['a size', 'ticker,time,volume,venue', `A,1783771200,50,kalshi`],
    ['a bid', 'symbol,recorded_at,yes_bid_cents,outcome', `A,${time},50,yes`],
    ['a time and a price of unknown names', 'symbol,when,v,question', `A,${time},0.5,x`],
    ['a time of an unknown format', 'symbol,timestamp,price,category', 'A,11.7.26 noon,0.5,x'],
    ['the end of a candle', 'symbol,end_period_ts,price_close,category', `A,${time},0.5,x\nA,${time},0.6,x`],
  ])('is no market list: %s', async (_, head, rows) => {
    expect(await detect('a.csv', `${head}\n${rows}\n`)).toMatch(refusal);
    const names = head.split(',');
    const objects = rows
      .split('\n')
      .map((row) => Object.fromEntries(row.split(',').map((value, i) => [names[i], value])));
    expect(await detect('a.ndjson', objects.map((row) => `${JSON.stringify(row)}\n`).join(''))).toMatch(refusal);
  });

  test.each([
    ['closes at a time and has a last price', 'symbol,title,close_time,last_price', `A,x,${time},0.5`],
    ['was seen at a time and has a tick size', 'symbol,category,observed_at,tick_size', `A,x,${time},0.01`],
    ['was published', 'canonical_id,symbol,confidence,first_seen,last_seen', `m,A,0.5,${time},${time}`],
  ])('does not keep a market list from being one that %s', async (_, head, row) => {
    expect(await detect('a.csv', `${head}\n${row}\n`)).toBe('markets');
  });
});
