import { describe, expect, test } from 'vitest';
import { datasetNames } from '../../src/archive/format/datasets.ts';
import {
  createEmptyManifest,
  findManifestFile,
  formatChecksums,
  formatManifest,
  formatVersion,
  listManifestFiles,
  type Manifest,
  type PublishedFile,
  parseManifest,
  sumFileSizes,
  toManifestLost,
} from '../../src/archive/format/manifest.ts';
import { formatReadme } from '../../src/archive/publish/readme.ts';
import { formatViewsFile, hasDailyCandles } from '../../src/archive/publish/views-sql.ts';
import type { DayState } from '../../src/contract/day-reasons.ts';

const file = (path: string, rest: Partial<PublishedFile> = {}): PublishedFile => ({
  path,
  date: '2026-06-01',
  rows: 2,
  bytes: 300,
  sha256: `hash of ${path}`,
  t_min: 0,
  t_max: 1,
  symbols: 1,
  symbol_from: 'AAA',
  symbol_to: 'ZZZ',
  generation: 1,
  ...rest,
});

/** A manifest of these files. */
function manifestOf(files: Readonly<Record<string, readonly PublishedFile[]>>, rest: Partial<Manifest> = {}): Manifest {
  const empty = createEmptyManifest('oddslake test', 'https://box.test');
  const listed = Object.entries(files).map(([name, of]) => [name, { files: of }]);
  return { ...empty, generation: 3, ...rest, datasets: { ...empty.datasets, ...Object.fromEntries(listed) } };
}

const two = manifestOf({
  ticks: [file('ticks/a'), file('ticks/b', { rows: 5, bytes: 40 })],
  coverage: [file('cover')],
});

describe('manifest.json', () => {
  test('is read as it was written, and names every file once', () => {
    const back = parseManifest(formatManifest(two), 'manifest.json');
    expect(back).toEqual(two);
    expect(Object.keys(back.datasets)).toEqual(datasetNames);
    expect(listManifestFiles(back).map(({ path }) => path)).toEqual(['ticks/a', 'ticks/b', 'cover']);
    expect(sumFileSizes(back.datasets.ticks.files)).toEqual({ rows: 7, bytes: 340 });
    expect(findManifestFile(back, 'ticks', 'ticks/b')).toMatchObject({ rows: 5 });
    expect([findManifestFile(back, 'ticks', 'cover'), findManifestFile(back, 'markets', 'ticks/a')]).toEqual([
      undefined,
      undefined,
    ]);
    expect(formatChecksums(back)).toBe('hash of ticks/a  ticks/a\nhash of ticks/b  ticks/b\nhash of cover  cover\n');
  });

  test('finds files whether it lists them by path or not', () => {
    const paths = ['ticks/a', 'ticks/b', 'ticks/c', 'ticks/d', 'ticks/e'];
    for (const order of [paths, paths.toReversed(), ['ticks/d', 'ticks/a', 'ticks/e', 'ticks/c', 'ticks/b']]) {
      const manifest = manifestOf({ ticks: order.map((path) => file(path)) });
      expect(paths.map((path) => findManifestFile(manifest, 'ticks', path)?.path)).toEqual(paths);
      for (const path of ['ticks/', 'ticks/bb', 'ticks/f'])
        expect(findManifestFile(manifest, 'ticks', path)).toBeUndefined();
    }
  });

  test('that is no JSON is damaged', () => {
    expect(() => parseManifest('{"format', 'at/manifest.json')).toThrow(
      expect.objectContaining({
        exitCode: 6,
        message: expect.stringMatching(/^at\/manifest\.json .* not valid JSON\. Run/),
      }),
    );
  });

  const whole = JSON.parse(formatManifest(two)) as Record<string, unknown>;
  const withDataset = (ticks: unknown) => ({ ...whole, datasets: { ...two.datasets, ticks } });
  const listing = (files: unknown) => withDataset({ files });
  test.each<[string, unknown]>([
    ['null', null],
    ['a list', []],
    ['a number', 7],
    ['without a generation', { ...whole, generation: undefined }],
    ['with a generation in words', { ...whole, generation: '3' }],
    ['without an upstream', { ...whole, upstream: null }],
    ['without datasets', { ...whole, datasets: undefined }],
    ['with a dataset that is null', withDataset(null)],
    ['with a dataset without a list', withDataset({})],
    ['without one of the datasets', withDataset(undefined)],
    ['with a file that is null', listing([file('a'), null])],
    ['with a file without a path', listing([{ ...file('a'), path: undefined }])],
    ['with a file without a hash', listing([{ ...file('a'), sha256: 5 }])],
    ['with a file without its symbols', listing([{ ...file('a'), symbol_from: undefined }])],
    ['with a file without its bytes', listing([{ ...file('a'), bytes: undefined }, file('b')])],
  ])('%s is no manifest', (_, value) => {
    expect(() => parseManifest(JSON.stringify(value), 'manifest.json')).toThrow(
      expect.objectContaining({ exitCode: 6, message: expect.stringContaining('not a valid manifest') }),
    );
  });

  test('of another format is refused before anything else of it is believed, one of this format is not', () => {
    const of = (format: unknown) => () => parseManifest(JSON.stringify({ format_version: format }), 'manifest.json');
    for (const other of [1, formatVersion - 1, formatVersion + 1])
      expect(of(other)).toThrow(expect.objectContaining({ exitCode: 2 }));
    expect(of(formatVersion)).toThrow('not a valid manifest');
    expect(of(`${formatVersion + 1}`)).toThrow('not a valid manifest');
  });

  test('names what is lost, and nothing where nothing is', () => {
    expect(toManifestLost([])).toEqual({});
    const window = { dataset: 'ticks' as const, symbol: 'A', from: 1, to: 2, ticks: 3 };
    const inState = { ...window, lostAt: 9, reportedAt: null };
    expect(toManifestLost([inState])).toEqual({ lost: [window] });
  });
});

describe('the texts beside it', () => {
  const day = (covered: number, state: DayState['state'] = covered === 3 ? 'complete' : 'incomplete'): DayState => ({
    state,
    expected: 3,
    covered,
    missing: [],
    exceptions: 0,
  });

  test('say of an archive without days that there is none', () => {
    const text = formatReadme(manifestOf({}, { created_at: Date.UTC(2026, 5, 9) }));
    expect(text).toContain('- There is no day yet.\n');
    expect(text).toContain("date = '2026-06-09'");
    expect(text).toContain('- Days without data: none.\n- Incomplete days: none.\n');
  });

  test('say where no symbol is live, and name the days of which there is nothing, one or many', () => {
    const days = {
      '2026-02-26': day(3),
      '2026-02-28': day(3),
      '2026-03-01': day(3),
      '2026-03-04': day(3, 'incomplete'),
    };
    const text = formatReadme(manifestOf({ ticks: [file('x', { date: '2026-03-01' })] }, { days }));
    expect(text).toContain('- Days: **2026-02-26 to 2026-03-04** (UTC).');
    expect(text).toContain('is covered without a gap up to: no symbol is live.');
    expect(text).toContain('- Days without data: 2026-02-27, 2026-03-02 to 2026-03-03.');
    expect(text).toContain('- Incomplete days: 2026-03-04 (not proven yet).');
    expect(text).toContain("date = '2026-03-01'");
  });

  test('name ten days of a kind, and count those before only where there are more', () => {
    const days = (n: number) =>
      Object.fromEntries(
        Array.from({ length: n }, (_, i) => [`2026-01-${10 + i}`, day(1 + (i % 2))]),
      ) as Manifest['days'];
    expect(formatReadme(manifestOf({}, { days: days(10) }))).toContain('Incomplete days: 2026-01-10 (1 of 3 symbols');
    expect(formatReadme(manifestOf({}, { days: days(11) }))).toContain(
      'Incomplete days: 1 earlier ones, 2026-01-11 (2 of',
    );
  });

  test('tell rows and sizes in a row a dataset', () => {
    const text = formatReadme(
      manifestOf({
        ticks: [file('a', { rows: 1_234_000, bytes: 1_500_000 }), file('b', { rows: 567, bytes: 60_000 })],
        markets: [file('m', { rows: 1, bytes: 1 })],
        coverage: [file('c', { rows: 3, bytes: 999_999 })],
        conflicts: [file('d', { rows: 4, bytes: 1_000_000 })],
      }),
    );
    expect(text).toMatch(/^\| ticks \| 1,234,567 \| 1\.6 MB \| every tick once[^(]*\(symbol, t\) \|$/m);
    expect(text).toMatch(/^\| markets \| 1 \| 1 kB \|/m);
    expect(text).toMatch(/^\| coverage \| 3 \| 1000 kB \|/m);
    expect(text).toMatch(/^\| conflicts \| 4 \| 1\.0 MB \|/m);
    expect(text).toMatch(/^\| symbols \| 0 \| {2}\| .*\(none yet, so there is no folder\) \|$/m);
  });

  test('tell of a column its type, whether it may be null, and its unit', () => {
    const text = formatReadme(two);
    expect(text).toContain('| p | double |  | fraction of 1 | price |');
    expect(text).toContain('| views | list of string |  |  | market lists that named it |');
    expect(text).toContain('| opens_at | timestamp(ms, UTC) | yes | ms since 1970, UTC | opening of the market |');
    expect(text).toContain('| ticks | int64 |  | ticks | published ticks |');
  });

  test('have views that read daily candles only where they stand beside all ticks', () => {
    const of = (ticks: number, candles: number) =>
      manifestOf({
        ticks: Array.from({ length: ticks }, (_, i) => file(`t${i}`)),
        candles_1d: Array.from({ length: candles }, (_, i) => file(`c${i}`)),
      });
    expect([of(0, 0), of(2, 1), of(2, 2)].map(hasDailyCandles)).toEqual([false, false, true]);
    const none = manifestOf({ ticks: [file('t')], candles_1d: [file('c', { rows: 0 })] });
    expect(hasDailyCandles(none)).toBe(false);
    expect(formatViewsFile(of(2, 2))).toContain('d.close FROM candles_1d');
    expect(formatViewsFile(of(2, 1))).toContain('d.p AS close FROM ticks');
  });
});
