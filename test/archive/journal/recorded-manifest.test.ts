import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sha256 } from '../../../src/archive/disk/file-system.ts';
import { type DatasetName, datasetNames } from '../../../src/archive/format/datasets.ts';
import { toDayPath } from '../../../src/archive/format/layout.ts';
import {
  createEmptyManifest,
  formatManifest,
  type Manifest,
  type PublishedFile,
} from '../../../src/archive/format/manifest.ts';
import {
  readRecordedManifestText,
  recordManifest,
  splitManifestText,
} from '../../../src/archive/journal/recorded-manifest.ts';
import { openState } from '../../../src/archive/journal/state.ts';
import { formatDay } from '../../../src/base/time.ts';
import { dayMs } from '../../../src/base/window.ts';
import { checkProperty } from '../../harness/properties.ts';
import { day0, scratchFolder } from '../scratch.ts';

const createFile = (path: string, generation: number): PublishedFile => ({
  ...{ path, date: /date=([\d-]+)/.exec(path)?.[1] ?? null, rows: 1, bytes: 1 },
  ...{
    sha256: sha256(Buffer.from(`${path} ${generation}`)),
    t_min: 1,
    t_max: 1,
    symbols: 1,
    symbol_from: 'A',
    symbol_to: 'A',
    generation,
  },
});

/** An archive of consecutive days, of which the last one was written in another generation. */
function createManifest(days: number, generation: number): Manifest {
  const dates = Array.from({ length: days }, (_, i) => day0 + i * dayMs);
  const listFiles = (dataset: DatasetName): PublishedFile[] =>
    dates.map((day, i) => createFile(toDayPath(dataset, day, 0), i === days - 1 ? generation : 1));
  const lists = dates.map((day, i) => {
    const at = day + (i === days - 1 ? generation : 1);
    return { date: formatDay(day), view: '*', at, markets: 1, total: null, complete: true, reason: null };
  });
  const state = { state: 'complete', expected: 1, covered: 1, missing: [], exceptions: 0 } as const;
  return {
    ...createEmptyManifest('test', 'https://one.example'),
    generation,
    days: Object.fromEntries(dates.map((day) => [formatDay(day), state])),
    datasets: Object.fromEntries(
      datasetNames.map((name) => [
        name,
        {
          files: name === 'symbols' ? [createFile('symbols/part-00.parquet', generation)] : listFiles(name),
          ...(name === 'markets' && { lists }),
        },
      ]),
    ) as unknown as Manifest['datasets'],
  };
}

const openScratchState = () => openState(scratchFolder(), { upstream: 'test' });
const record = (state: ReturnType<typeof openState>, text: string): void =>
  state.db.transaction(() => recordManifest(state.db, text, sha256(Buffer.from(text))));

test('the parts of any text are that text', () => {
  const line = fc.constantFrom(
    '   {\n    "path": "ticks/date=2026-11-19/part-00.parquet",\n',
    '   {\n    "path": "ticks/date=2026-12-01/part-00.parquet",\n',
    '   {\n    "path": "symbols/part-00.parquet",\n',
    '  "2026-11-19": {\n',
    '   {\n    "date": "2026-11-19",\n',
    '{\n "path": "/',
    '}\n',
    '',
  );
  checkProperty([fc.array(fc.oneof(line, fc.string({ unit: 'binary' })))], 100, (lines) => {
    const text = lines.join('');
    expect(splitManifestText(text).join('')).toBe(text);
  });
});

test('a publish stores the parts that it changes, and no others, however old the archive is', () => {
  const countStored = (days: number): { stored: number; bytes: number } => {
    const state = openScratchState();
    try {
      const listNames = (): string[] =>
        state.db.all<{ sha256: string }>('select sha256 from manifest_parts').map((row) => row.sha256);
      record(state, formatManifest(createManifest(days, 7)));
      const before = new Set(listNames());
      const text = formatManifest(createManifest(days, 8));
      record(state, text);
      expect(readRecordedManifestText(state.db)).toBe(text);
      const added = state.db
        .all<{ sha256: string; text: string }>('select * from manifest_parts')
        .filter((row) => !before.has(row.sha256));
      // What is not in the current manifest is gone.
      expect(listNames().length).toBe(new Set(splitManifestText(text)).size);
      return { stored: added.length, bytes: added.reduce((sum, row) => sum + row.text.length, 0) };
    } finally {
      state.close();
    }
  };
  // The same day of a month, so that the last month has as many days.
  const [young, old] = [countStored(28), countStored(28 + 1461)];
  expect(old).toEqual(young);
  expect(young.stored).toBeLessThanOrEqual(datasetNames.length + 2);
});

test('equal parts are stored once and read in their places', () => {
  const state = openScratchState();
  const entry = '   {\n    "path": "ticks/date=2026-11-19/part-00.parquet"\n   },\n';
  const text = `${entry}  "2026-11-19": {\n${entry}  "2026-11-19": {\n`;
  record(state, text);
  expect(state.db.one('select count(*) as n from manifest_parts')).toEqual({ n: 2 });
  expect(readRecordedManifestText(state.db)).toBe(text);
  state.close();
});

test('a text of which a part is missing is not known', () => {
  const state = openScratchState();
  record(state, formatManifest(createManifest(40, 1)));
  const [{ sha256: name }] = state.db.all<{ sha256: string }>('select sha256 from manifest_parts limit 1') as [
    { sha256: string },
  ];
  state.db.run('delete from manifest_parts where sha256 = ?', name);
  expect(readRecordedManifestText(state.db)).toBeUndefined();
  state.close();
});
