import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { openTimeZone, utcZone } from '../../src/base/time-zone.ts';
import { defaultRowRules } from '../collector/import/row-rules.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import {
  csvOf,
  day0,
  importInto,
  ndjsonOf,
  packings,
  pageOf,
  put,
  sample,
  selectOf,
  type Tick,
  writeParquet,
  writtenAt,
} from './import-lake.ts';
import { addsUp, coverageOf, dayMs, folder, hashes, ticksOf } from './lake.ts';

const byName = (name: string): Tick[] => sample.filter(({ symbol }) => symbol === name);
const names = [...new Set(sample.map(({ symbol }) => symbol))];

/** What is published, as flat rows in the order of the sample. */
const published = (output: string): Tick[] => {
  const bySymbol = ticksOf(output);
  return [...bySymbol.keys()].sort().flatMap((symbol) => bySymbol.get(symbol)!.map(({ t, p }) => ({ symbol, t, p })));
};
const inOrder = (ticks: readonly Tick[]): Tick[] =>
  [...ticks].sort((a, b) => (a.symbol < b.symbol ? -1 : a.symbol > b.symbol ? 1 : a.t - b.t));

describe('an import', () => {
  test('gives the same bytes whatever the format, however it is packed', async () => {
    const files = folder();
    const parquet = readFileSync(await writeParquet(join(files, 'raw.parquet'), selectOf(sample)));
    let wanted: Record<string, string> | undefined;
    for (const packing of Object.keys(packings)) {
      const paths = {
        csv: [put(files, `a.csv${packing}`, csvOf(sample))],
        ndjson: [put(files, `a.ndjson${packing}`, ndjsonOf(sample))],
        parquet: [put(files, `a.parquet${packing}`, parquet)],
        pages: names.map((name, i) => put(files, `${i}.json${packing}`, pageOf(name, byName(name)))),
      };
      for (const [format, list] of Object.entries(paths)) {
        const output = folder();
        const summary = await importInto(output, list);
        expect(summary, `${format}${packing}`).toMatchObject({
          exit_code: 0,
          warnings: [],
          failures: [],
          pages: format === 'pages' ? 3 : 0,
          ticks: { fetched: 900, accepted: 900, duplicates: 0, conflicts: 0, quarantined: 0 },
          symbols: { planned: 3, done: 3, failed: 0 },
        });
        if (wanted === undefined) {
          expect(published(output)).toEqual(inOrder(sample));
          wanted = hashes(output, 'ticks');
        } else expect(hashes(output, 'ticks'), `${format}${packing}`).toEqual(wanted);
        expect(globSync('.oddslake/**/*import-*', { cwd: output })).toEqual([]);
      }
    }
  });

  test('of the same files again changes no byte, and counts every tick as known', async () => {
    const files = folder();
    const paths = [put(files, 'a.csv', csvOf(sample)), put(files, 'p.json', pageOf('alpha', byName('alpha')))];
    const output = folder();
    const covers = { from: day0, to: day0 + 2 * dayMs };
    const first = await importInto(output, paths, { covers });
    expect(first.ticks).toMatchObject({ accepted: 900, duplicates: 300 });
    const before = hashes(output, 'ticks', 'coverage', 'conflicts', 'symbols');
    const second = await importInto(output, paths, { covers });
    expect(second.ticks).toMatchObject({ fetched: 1200, accepted: 0, duplicates: 1200, conflicts: 0 });
    expect(hashes(output, 'ticks', 'coverage', 'conflicts', 'symbols')).toEqual(before);
  });

  test('takes a folder with all that is below it, and leaves what it does not know', async () => {
    const files = folder();
    put(files, 'deep/er/b.json.gz', pageOf('alpha', byName('alpha')));
    put(files, 'deep/c.csv.zst', csvOf(byName('b,"eta"')));
    put(files, 'a.jsonl', ndjsonOf(byName('γ 😀')));
    put(files, '.hidden.csv', csvOf([{ symbol: 'hidden', t: day0, p: 0.5 }]));
    put(files, 'notes.txt', 'hello');
    const output = folder();
    const summary = await importInto(output, [files]);
    expect(summary).toMatchObject({ exit_code: 0, pages: 1, ticks: { accepted: 900, quarantined: 0 } });
    expect(summary.warnings).toEqual([expect.stringMatching(/^Skipped files of unknown type: .*notes\.txt\.$/)]);
    expect(published(output)).toEqual(inOrder(sample));
  });

  test('takes a file by its name, whatever is in it, and a mark of the byte order', async () => {
    const files = folder();
    put(files, 'a b.csv', csvOf(byName('alpha')));
    const csv = put(files, '[a] *?.csv', csvOf(byName('b,"eta"')));
    const ndjson = put(files, "it's.ndjson", `\ufeff${ndjsonOf(byName('γ 😀'))}`);
    const parquet = await writeParquet(join(files, 'x[1].parquet'), selectOf(byName('alpha')));
    const output = folder();
    const summary = await importInto(output, [csv, ndjson, parquet]);
    expect(summary).toMatchObject({ exit_code: 0, ticks: { fetched: 900, accepted: 900 } });
    expect(published(output)).toEqual(inOrder(sample));
  });

  test('goes on where files of a folder cannot be read, names them, and keeps what it could read', async () => {
    const files = folder();
    const good = csvOf(byName('alpha'));
    put(files, 'a.csv', good);
    put(files, 'b.csv.gz', good);
    put(files, 'c.ndjson.zst', ndjsonOf(byName('γ 😀')));
    put(files, 'd.json', '{"ticks": [');
    put(files, 'e.csv', 'symbol,time,price\nA,1,2\n');
    put(files, 'f.parquet', 'PAR1 no more');
    put(files, 'g.json', JSON.stringify({ hello: 1 }));
    put(files, 'z.csv', csvOf(byName('b,"eta"')));
    for (const name of ['b.csv.gz', 'c.ndjson.zst']) {
      const path = join(files, name);
      const bytes = readFileSync(path);
      const { writeFileSync } = await import('node:fs');
      writeFileSync(path, bytes.subarray(0, bytes.length - 20));
    }
    const output = folder();
    const summary = await importInto(output, [files]);
    expect(summary.exit_code).toBe(4);
    expect(addsUp(summary)).toBe(true);
    const reported = summary.failures.map(({ reason }) => reason.replace(`${files}/`, ''));
    expect(reported.map((reason) => reason.split(':')[0])).toEqual([
      'b.csv.gz',
      'c.ndjson.zst',
      'd.json',
      'e.csv',
      'f.parquet',
      'g.json',
    ]);
    expect(reported[0]).toMatch(/cannot be read: unexpected end/);
    expect(reported[3]).toMatch(/missing columns t, p \(found: symbol, time, price\)/);
    // A price that was cut in half is none: of the packed CSV that broke off nothing is taken.
    expect(published(output).filter(({ symbol }) => symbol !== 'γ 😀')).toEqual(
      inOrder([...byName('alpha'), ...byName('b,"eta"')]),
    );
  });

  test.each<[string, string, string | Uint8Array | null, RegExp]>([
    ['that is missing', 'gone.csv', null, /gone\.csv: no such file/],
    ['of no known kind', 'a.txt', 'x', /a\.txt: unknown file type .* --format/],
    ['that lacks columns', 'a.csv', 'symbol,t,price\nA,1,2\n', /a\.csv: missing column p \(found: symbol, t, price\)/],
    ['without a whole header', 'a.csv', 'symbol,t,t,p\nA,1,1,2\n', /a\.csv: the first line is not a header/],
    ['that is empty', 'a.ndjson', '', /a\.ndjson: empty file/],
    ['of lines that are no JSON', 'a.ndjson', 'symbol,t,p\n', /no JSON object in the first lines/],
    ['that is no Parquet', 'a.parquet', 'x', /a\.parquet: cannot be read/],
    ['that is no Parquet, packed', 'a.parquet.gz', 'x', /a\.parquet\.gz: cannot be read/],
    [
      'with times of no zone',
      'a.csv',
      'symbol,t,p\nA,2026-07-11 00:00:00,0.5\n',
      /a\.csv: timestamps without a time zone\. .* --tz/,
    ],
    [
      'with times of no zone',
      'a.ndjson',
      '{"symbol":"A","t":"2026-07-11T00:00:00","p":0.5}',
      /timestamps without a time zone/,
    ],
  ])('refuses a named file %s: %s', async (_, name, bytes, sentence) => {
    const files = folder();
    const path = bytes === null ? join(files, name) : put(files, name, bytes);
    const output = join(files, 'lake');
    const good = put(files, 'good.csv', csvOf(sample));
    const refused = await importInto(output, [good, path]).catch((error: unknown) => error);
    if (refused instanceof UsageError) {
      expect(refused.message).toMatch(sentence);
      expect(existsSync(output)).toBe(false);
    } else {
      // What has to be unpacked first is looked at once the archive is open; nothing is imported all the same.
      expect(refused).toMatchObject({ exit_code: 2, error: expect.stringMatching(sentence), ticks: { fetched: 0 } });
      expect(existsSync(join(output, 'manifest.json'))).toBe(false);
    }
  });

  test('asks which upstream a new archive is for', async () => {
    const files = folder();
    const path = put(files, 'a.csv', csvOf(sample));
    const summary = await importInto(join(files, 'lake'), [path], {}, []);
    expect(summary).toMatchObject({ exit_code: 2, error: expect.stringMatching(/ODDSLAKE_BASE_URL or source\.name/) });
  });

  test('reads times in the zone it is given, and sets aside those that zone does not have', async () => {
    const files = folder();
    const rows = ['2026-11-01 00:30:00', '2026-11-01 01:30:00', '2026-03-08 02:30:00', '2026-03-08 03:00:00.5'];
    const csv = put(files, 'a.csv', `symbol;t;p\n${rows.map((t, i) => `A;${t};0.${i + 1}\n`).join('')}`);
    const select = rows
      .map((t, i) => `SELECT 'A' AS symbol, TIMESTAMP '${t}' AS t, 0.${i + 1} AS p`)
      .join(' UNION ALL ');
    const parquet = await writeParquet(join(files, 'a.parquet'), select);
    for (const path of [csv, parquet]) {
      const output = folder();
      const summary = await importInto(output, [path], {
        rows: { ...defaultRowRules, zone: openTimeZone('America/New_York') },
      });
      expect(summary.ticks).toMatchObject({ fetched: 4, accepted: 2, quarantined: 2 });
      expect(published(output)).toEqual([
        { symbol: 'A', t: Date.UTC(2026, 2, 8, 7, 0, 0, 500), p: 0.4 },
        { symbol: 'A', t: Date.UTC(2026, 10, 1, 4, 30), p: 0.1 },
      ]);
      const reasons = quarantineLines(output);
      expect(reasons.map((line) => (JSON.parse(line) as { reason: string }).reason)).toEqual([
        't is ambiguous in America/New_York, where clocks were put back',
        't does not exist in America/New_York, where clocks were put forward',
      ]);
    }
  });

  test('covers of rows what it is given, up to when the file was written, for every symbol in the input', async () => {
    const files = folder();
    const paths = [
      put(files, 'a.csv', csvOf(byName('alpha'))),
      put(files, 'b.csv', csvOf(byName('γ 😀')), day0 + dayMs),
    ];
    const covers = { from: day0, to: writtenAt + dayMs };
    const output = folder();
    const summary = await importInto(output, paths, { covers });
    expect(summary.warnings).toEqual([expect.stringMatching(/--covers ends after the last modification of the files/)]);
    const rows = coverageOf(output);
    for (const symbol of ['alpha', 'γ 😀']) {
      const mine = rows.filter((row) => row.symbol === symbol);
      expect([mine[0]!.from, mine.at(-1)!.to]).toEqual([day0, writtenAt]);
      expect(mine.reduce((sum, row) => sum + row.ticks, 0)).toBe(300);
    }
    await expect(importInto(output, [put(files, 'p.json', pageOf('A', []))], { covers })).rejects.toThrow(
      /--covers applies to row files/,
    );
  });

  test('sets aside every row that is none, as it was received', async () => {
    const files = folder();
    const bad = [
      '',
      'A,x,0.5',
      'A,1752192000.5,0.5',
      `A,${day0},`,
      `A,${day0},nan`,
      `,${day0},0.5`,
      `A,${day0}`,
      `A,${day0},0.5,7`,
      'A,1752192000,0.5',
      'A,2026-02-30T00:00:00Z,0.5',
      'A,2026-07-11T00:00:00.1234Z,0.5',
      'A,99999999999999,0.5',
    ];
    const csv = put(files, 'a.csv', `symbol,t,p\n${bad.join('\n')}\nA,2026-07-11T02:00:00+02:00,1e-3\n`);
    const output = folder();
    const summary = await importInto(output, [csv], { rows: { ...defaultRowRules, zone: utcZone } });
    expect(summary).toMatchObject({ exit_code: 0, ticks: { fetched: 12, accepted: 1, quarantined: 11 } });
    expect(published(output)).toEqual([{ symbol: 'A', t: day0, p: 0.001 }]);
    const lines = quarantineLines(output).join('\n');
    for (const raw of ['1752192000.5', '2026-02-30', '.1234Z', `A,${day0},0.5,7`, 'nan']) expect(lines).toContain(raw);
  });
});
