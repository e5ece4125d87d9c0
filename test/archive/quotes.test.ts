import { describe, expect, test } from 'vitest';
import { appendQuotes, countQuotes, publishedQuotes, quote, quoteAnswer, quoteCoverage } from './quotes.ts';
import { day0, hourMs, opened, publishNow, scratchFolder } from './scratch.ts';

describe('a damaged journal', () => {
  test('counts the quotes of a damaged row as quarantined, and withdraws the coverage of its symbol', async () => {
    const root = scratchFolder();
    const archive = opened({ root, parts: 1 });
    const windows = [{ from: day0, to: day0 + hourMs }];
    appendQuotes(
      archive,
      quoteAnswer('AAA', [quote(day0, 0.1), quote(day0 + 1, 0.2)], { windows }),
      quoteAnswer('AAA', [quote(day0 + 2, 0.3)], { windows: [] }),
      quoteAnswer('BBB', [quote(day0, 0.4)], { windows }),
    );
    archive.state.db.run("update journal_series set n = 3 where symbol = 'AAA' and n = 2");
    const { quarantined } = await publishNow(archive);
    expect(quarantined).toMatchObject({ rows: 1, windows: 1 });
    expect(publishedQuotes(root).map((row) => row.slice(0, 2))).toEqual([
      ['AAA', day0 + 2],
      ['BBB', day0],
    ]);
    expect(quoteCoverage(root).map((row) => row[1])).toEqual(['BBB']);
    const { fetched, accepted, duplicates, conflicts, quarantined: rejected } = countQuotes(archive);
    expect(fetched).toBe(4);
    expect(accepted + duplicates + conflicts + rejected).toBe(fetched);
  });
});
