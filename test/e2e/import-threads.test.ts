import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, test } from 'vitest';
import { quarantineLines } from '../harness/quarantine.ts';
import { day0, importInto, pageOf, put, type Tick, writtenAt } from './import-lake.ts';
import { addsUp, folder, hashes } from './lake.ts';

const datasets = ['ticks', 'symbols', 'markets', 'coverage', 'conflicts', 'candles_1h', 'candles_1d'];
/** Enough for threads to start. */
const [pages, perPage] = [160, 4000];

/** Pages of one symbol overlap, some prices differ in the overlap, and some ticks are invalid. */
function ticksOf(page: number): { symbol: string; ticks: Tick[] } {
  const symbol = `market ${page % 23}`;
  const first = day0 + Math.floor(page / 23) * 3600 * 3_700;
  const ticks = Array.from({ length: perPage }, (_, i) => ({
    symbol,
    t: i === 17 && page % 40 === 0 ? 17 : first + i * 4000 + (page % 23),
    p: ((i * 7919 + (i % 100 === 0 ? page : 0)) % 1000) / 1000,
  }));
  return { symbol, ticks: page % 11 === 0 ? ticks.reverse() : ticks };
}

function writePages(into: string): void {
  for (let page = 0; page < pages; page++) {
    const { symbol, ticks } = ticksOf(page);
    const times = ticks.map(({ t }) => t).filter((t) => t > 17);
    const ends = { from: Math.min(...times), to: Math.max(...times) + 1 };
    const text = pageOf(symbol, ticks, { ...ends, generated_at: writtenAt - page * 1000 });
    put(into, page % 50 === 9 ? `${page}.json.gz` : `${page}.json`, text);
  }
  put(into, '70-torn.json', pageOf('market 3', ticksOf(3).ticks).slice(0, -30));
  put(into, '71-nameless.json', pageOf('', ticksOf(4).ticks.slice(0, 5)));
  put(into, '72-markets.json', JSON.stringify({ view: 'all', markets: [{ symbol: 'market 5', question: 'Five?' }] }));
  put(into, '73.csv', `symbol,t,p\nmarket 6,${day0 + 5},0.5\nmarket 6,never,0.5\n`);
}

/** All state except for the name and times of each run. */
function stateOf(output: string): unknown {
  const db = new DatabaseSync(join(output, '.oddslake', 'state.sqlite'), { readOnly: true });
  try {
    return {
      ...Object.fromEntries(
        ['coverage', 'precedence', 'symbols'].map((table) => [table, db.prepare(`select * from ${table}`).all()]),
      ),
      journal: db.prepare('select count(*) as n from journal').get(),
    };
  } finally {
    db.close();
  }
}

test('an import with threads gives the same bytes and counts as one without', async () => {
  const files = folder();
  writePages(files);
  const [alone, threaded] = [folder(), folder()];
  const set = ['source.name=box', 'archive.parts=3'];
  const one = await importInto(alone, [files], {}, set);
  const two = await importInto(threaded, [files], {}, set, 2);
  expect(addsUp(one)).toBe(true);
  for (const summary of [one, two])
    expect(summary.failures.map(({ reason }) => reason)).toEqual([expect.stringContaining('70-torn.json')]);
  const comparable = ({ ticks, symbols, pages: read, warnings, exit_code }: typeof one) => ({
    ticks,
    symbols,
    read,
    warnings,
    exit_code,
  });
  expect(comparable(two)).toEqual(comparable(one));
  expect(one.ticks.conflicts).toBeGreaterThan(0);
  expect(Object.keys(hashes(alone, ...datasets)).length).toBeGreaterThan(20);
  expect(hashes(threaded, ...datasets)).toEqual(hashes(alone, ...datasets));
  expect(stateOf(threaded)).toEqual(stateOf(alone));
  const lines = (output: string): unknown[] =>
    quarantineLines(output).map((line) => ({ ...(JSON.parse(line) as object), run_id: '' }));
  expect(lines(threaded)).toEqual(lines(alone));
  // Again: no tick is new.
  const again = await importInto(threaded, [files], {}, set, 2);
  expect(again.ticks).toMatchObject({ accepted: 0, fetched: one.ticks.fetched });
  expect(hashes(threaded, 'ticks')).toEqual(hashes(alone, 'ticks'));
});
