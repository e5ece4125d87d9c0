import { expect, test } from 'vitest';
import { readPartTicks } from '../../../src/archive/journal/journal.ts';
import { answer, append, day0, opened, publishedRows, publishedTicks, publishNow } from '../scratch.ts';

const symbols = ['AAA', 'BBB', 'CCC'];

/** Publishes an archive of which a journal of three responses was damaged, and what is then covered. */
async function publishDamaged(damage: string) {
  const archive = opened({ parts: 1 });
  for (const symbol of symbols) append(archive, answer(symbol, [[day0, 0.5]]));
  archive.state.db.script(damage);
  const { quarantined } = await publishNow(archive);
  const { root } = archive.layout;
  return {
    rows: quarantined?.rows,
    windows: quarantined?.windows,
    ticks: publishedTicks(root).map((tick) => tick.split(' ')[0]),
    covered: publishedRows(root, 'coverage').map(([, symbol]) => symbol),
  };
}

test('a record with too few rows loses its coverage, and no other symbol does', async () => {
  expect(await publishDamaged("delete from journal_ticks where symbol = 'BBB'")).toEqual({
    rows: 0,
    windows: 1,
    ticks: ['AAA', 'CCC'],
    covered: ['AAA', 'CCC'],
  });
});

test('the rows under a damaged header are quarantined with it', async () => {
  expect(await publishDamaged("update journal set observed_at = observed_at + 1 where symbol = 'BBB'")).toEqual({
    rows: 3,
    windows: 0,
    ticks: ['AAA', 'CCC'],
    covered: ['AAA', 'CCC'],
  });
});

test('a damaged header without its rows may be of any symbol: all coverage is fetched again', async () => {
  const damage = `
    delete from journal_ticks where symbol = 'BBB';
    delete from journal_coverage where symbol = 'BBB';
    update journal set symbol = 'ZZZ' where symbol = 'BBB'`;
  expect(await publishDamaged(damage)).toEqual({ rows: 1, windows: 2, ticks: ['AAA', 'CCC'], covered: [] });
});

test('no row under a damaged header is read', () => {
  const archive = opened({ parts: 1 });
  const { db } = archive.state;
  append(archive, answer('AAA', [[day0, 0.5]]));
  const read = () => readPartTicks(db, { day: day0, part: 0, from: 'AAA', to: 'AAA' }, 99);
  expect(read()).toHaveLength(1);
  db.script('update journal set rank = rank + 1');
  expect(read).toThrow('a row of journal_ticks does not match its checksum');
});
