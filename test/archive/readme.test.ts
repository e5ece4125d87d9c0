import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { datasetNames, datasets } from '../../src/archive/format/datasets.ts';
import { createEmptyManifest, type Manifest } from '../../src/archive/format/manifest.ts';
import { toBookSide } from '../../src/archive/format/order-book.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { appendBooks, type BookRecord } from '../../src/archive/journal/journal-books.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { formatReadme } from '../../src/archive/publish/readme.ts';
import { appendQuotes, type Quote, quote } from './quote-records.ts';
import { answer, append, day0, dayMs, hourMs, market, now, opened, publishNow, scratchFolder } from './scratch.ts';
import { inFolder } from './views-folder.ts';

/** Blocks of code in one language. */
const blocks = (text: string, language: string): string[] =>
  [...text.matchAll(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``, 'g'))].map(([, code]) => code!);

async function published(
  books: readonly BookRecord[] = [],
  quotes: readonly Quote[] = [],
): Promise<{ root: string; text: string; manifest: Manifest }> {
  const root = scratchFolder();
  const archive = opened({ root });
  appendBooks(archive.state, books);
  appendQuotes(archive, quotes);
  archive.state.db.transaction(() => {
    const markets = [market('AAA')];
    appendMarkets(archive.state, { runId: 'run', observedAt: day0 + hourMs, markets }, []);
    recordMarkets(archive.state.db, markets, day0 + hourMs, true);
  });
  const days = [0, 1, 4].map((day) => ({ from: day0 + day * dayMs, to: day0 + (day + 1) * dayMs }));
  for (const window of days.slice(0, 2))
    append(archive, answer('AAA', [[window.from + 5, 0.5]], { windows: [window] }));
  append(archive, answer('AAA', [], { windows: [days[2]!] }));
  const { manifest } = await publishNow(archive, now + 3 * dayMs);
  return { root, manifest, text: readFileSync(join(root, 'README.md'), 'utf8') };
}

/** The book of a day that has no ticks. */
const book: BookRecord = {
  runId: 'run',
  symbol: 'AAA',
  observedAt: day0 + 3 * dayMs,
  snapshots: [{ t: day0 + 3 * dayMs, bids: toBookSide([], 'highest'), asks: toBookSide([], 'lowest') }],
  rejected: [],
  understood: true,
};

describe("the archive's README", () => {
  test('shows the first and last day, and the missing and incomplete days', async () => {
    const { text } = await published();
    expect(text).toContain('Days: **2026-06-01 to 2026-06-05** (UTC)');
    expect(text).toContain('Days without data: 2026-06-03 to 2026-06-04.');
    expect(text).toContain('Every live symbol is covered without a gap up to: **2026-06-03T00:00:00Z**.');
    expect(text).toMatch(/\| ticks \| 2 \| \d+ kB \| every tick once/);
    expect(text).toMatch(/\| orderbooks \| 0 \| {2}\| .*none yet/);
    expect(text).toMatch(/published 2026-06-07T12:00:00Z by oddslake test/);
  });

  test('lists at most the ten latest days of a kind', () => {
    const days = Object.fromEntries(
      Array.from({ length: 25 }, (_, i) => [
        `2026-01-${String(i + 1).padStart(2, '0')}`,
        {
          state: i < 12 ? ('complete' as const) : ('incomplete' as const),
          expected: 100,
          covered: i === 24 ? 2 : i < 14 ? 100 : i,
          missing: [],
          exceptions: 0,
        },
      ]),
    );
    const text = formatReadme({ ...createEmptyManifest('oddslake test', 'box'), generation: 3, days });
    expect(text).toContain(
      'Incomplete days: 2 earlier ones, 2026-01-16 (15 of 100 symbols covered), 2026-01-17 (16 of 100 symbols covered), ',
    );
    expect(text).toContain('2026-01-25 (2 of 100 symbols covered).');
    expect(text).toContain('Days without data: none.');
  });

  test('lists each column with its type, and each number and time with its unit', async () => {
    const { text } = await published();
    for (const name of datasetNames) {
      const section = text.split(`### ${name}\n`)[1]!.split('\n### ')[0]!;
      for (const column of datasets[name].columns) {
        const [, unit] = new RegExp(`^\\| ${column.name} \\| [^|]+ \\| (?:yes)? \\| ([^|]*) \\| [^|]+ \\|$`, 'm').exec(
          section,
        )!;
        expect(unit === '', `${name}.${column.name}`).toBe(['string', 'boolean', 'strings'].includes(column.type));
      }
    }
  });

  test.each([
    ['no order books or quotes', [], [], 7],
    ['order books', [book], [], 9],
    ['quotes', [], [quote('AAA', day0 + 3 * dayMs, 0.25, null)], 9],
  ] as const)('has SQL that runs in its folder and returns rows, with %s', async (_, books, quotes, count) => {
    const { root, text } = await published(books, quotes);
    const statements = blocks(text, 'sql').flatMap((code) =>
      code
        .replace(/--.*$/gm, '')
        .split(';')
        .map((sql) => sql.trim())
        .filter((sql) => sql !== ''),
    );
    expect(statements).toHaveLength(count);
    for (const [i, rows] of inFolder(root, statements).entries()) {
      expect(rows[0], statements[i]).toBeDefined();
      expect(rows[0], statements[i]).not.toHaveProperty('error');
    }
  });

  test('has Python that names folders and columns which are there', async () => {
    const { root, text, manifest } = await published();
    const code = blocks(text, 'python');
    expect(code.map((block) => /^(?:import|from) (\w+)/.exec(block)![1])).toEqual([
      'duckdb',
      'pandas',
      'polars',
      'pyarrow',
      'pyspark',
      'pandas',
    ]);
    const quoted = (pattern: RegExp): string[] =>
      code.flatMap((block) => [...block.matchAll(pattern)].map((m) => m[1]!));
    const folders = quoted(/(?:parquet|dataset)\("([^"]+)"/g);
    expect(folders.length).toBeGreaterThan(6);
    for (const folder of folders) expect(existsSync(join(root, folder)), folder).toBe(true);
    for (const file of quoted(/open\("([^"]+)"\)/g)) expect(existsSync(join(root, file)), file).toBe(true);
    const columns = new Set([
      ...datasetNames.flatMap((name) => datasets[name].columns.map(({ name }) => name)),
      'date',
    ]);
    const named = quoted(
      /(?:sort|sort_values|col|field|drop|groupBy|left_on=|right_on=|by=|index=|columns=|values=|subset=\[|filters=\[\()\(?"(\w+)"/g,
    );
    expect(named.length).toBeGreaterThan(15);
    for (const name of named) expect(columns, name).toContain(name);
    const day = manifest.datasets.ticks.files.at(-1)!.date!;
    expect(quoted(/"(?:date = ')?(\d{4}-\d\d-\d\d)/g)).toEqual([day, day, day, day]);
  });
});
