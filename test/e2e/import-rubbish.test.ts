import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { day0, importInto, put } from './import-lake.ts';
import { addsUp, coverageOf, dayMs, folder, ticksOf } from './lake.ts';

// What DuckDB reads as something else without a word, or takes for many things at once.

const line = (i: number, symbol = 'A'): string => `${symbol},${day0 + i},0.5\n`;
const lines = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, i) => line(from + i)).join('');
const covers = { from: day0, to: day0 + dayMs };

describe('an import of rubbish', () => {
  test('says that a quote is never closed, since what follows it is one line, and covers nothing then', async () => {
    const output = folder();
    const csv = put(folder(), 'a.csv', `symbol,t,p\n${lines(0, 50)}"${line(50)}${lines(51, 3000)}`);
    const summary = await importInto(output, [csv], { covers });
    expect(summary).toMatchObject({ exit_code: 4, ticks: { accepted: 50, quarantined: 1 } });
    expect(addsUp(summary)).toBe(true);
    expect(summary.failures).toEqual([
      expect.objectContaining({ reason: expect.stringMatching(/a\.csv: unterminated quote/) }),
    ]);
    expect(coverageOf(output)).toEqual([]);
  });

  test('takes nothing of a CSV with an endless line, which may be dropped without a word, and goes on with others', async () => {
    const files = folder();
    // Of 15.9 MB across the end of the reader's first buffer.
    const endless = `${line(1)}${lines(2, 300_000)}${line(0, 'x'.repeat(27_000_000))}${line(1)}`;
    put(files, 'a.csv', `symbol,t,p\n${endless}`);
    put(files, 'b.csv', `symbol,t,p\n${line(7, 'B')}${line(8, 'x'.repeat(1_900_000))}`);
    const output = folder();
    const summary = await importInto(output, [files]);
    expect(summary).toMatchObject({ exit_code: 4, ticks: { fetched: 2, accepted: 2 } });
    expect(summary.failures).toEqual([
      expect.objectContaining({ reason: expect.stringMatching(/a\.csv: contains a line longer than 2000000 bytes$/) }),
    ]);
    expect(ticksOf(output).get('B')).toEqual([{ t: day0 + 7, p: 0.5 }]);
  });

  test.each<[string, string | Buffer, RegExp]>([
    ['UTF-16', Buffer.from(`symbol,t,p\n${line(1)}`, 'utf16le'), /a\.csv: not UTF-8 text\.$/],
    ['bytes of something else', Buffer.from([0x50, 0x41, 0x52, 0x31, 0, 0x27, 10]), /not UTF-8 text\.$/],
    [
      'columns that differ by case',
      `symbol,t,p,P\nA,${day0},0.5,0.6\n`,
      /the first line is not a header with unique column names\.$/,
    ],
  ])('refuses a CSV of %s in a sentence', async (_, bytes, sentence) => {
    const refused = importInto(folder(), [put(folder(), 'a.csv', bytes)]);
    await expect(refused).rejects.toThrow(UsageError);
    await expect(refused).rejects.toThrow(sentence);
  });

  test('passes over links that lead round in a circle', async () => {
    const files = folder();
    symlinkSync('two.csv', join(files, 'one.csv'));
    symlinkSync('one.csv', join(files, 'two.csv'));
    put(files, 'a.csv', `symbol,t,p\n${line(1)}`);
    expect(await importInto(folder(), [files])).toMatchObject({ exit_code: 0, ticks: { accepted: 1 } });
    await expect(importInto(folder(), [join(files, 'one.csv')])).rejects.toThrow(/one\.csv: no such file/);
  });
});
