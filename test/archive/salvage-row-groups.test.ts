import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { salvageRowGroups } from '../../src/archive/integrity/salvage-row-groups.ts';
import type { FileRecord, RowGroup } from '../../src/archive/parquet/row-group-index.ts';

/** A file of three row groups, as the record of it tells: what they hold does not matter here. */
const [first, second, third] = ['first group', 'second', 'the third group'].map((text) => Buffer.from(text));
const footer = Buffer.from('footerPAR1');
const magic = Buffer.from('PAR1');
const pieces = [magic, first!, second!, third!, footer];
const file = Buffer.concat(pieces);

const groups: readonly RowGroup[] = [first!, second!, third!].map((bytes, i) => {
  const start = file.indexOf(bytes);
  const key = { first: ['A', i * 10], last: ['A', i * 10 + 9] } as const;
  return { start, end: start + bytes.length, sha256: sha256(bytes), rows: i + 1, ...key };
});
const record: FileRecord = { path: 'ticks/x', sha256: sha256(file), footer, groups };
const of = (...bytes: readonly (string | Uint8Array)[]) =>
  salvageRowGroups(Buffer.concat(bytes.map((piece) => Buffer.from(piece))), record, 6);

const lostOf = (i: number) => ({ keys: { first: groups[i]!.first, last: groups[i]!.last }, rows: groups[i]!.rows });

describe('a file is had again to the byte', () => {
  test.each<[string, readonly (string | Uint8Array)[]]>([
    ['though its magic is gone', [first!, second!, third!, footer]],
    ['though its footer is gone', [magic, first!, second!, third!]],
    ['though its magic and footer are other ones', ['xxxx', first!, second!, third!, 'footer????']],
    ['with bytes before it', ['more', ...pieces]],
    ['with bytes behind it', [...pieces, 'more']],
    ['with bytes before and behind it', ['mo', ...pieces, 'more']],
    ['with bytes between its row groups', [magic, first!, 'xx', second!, third!, footer]],
    ['with bytes between its row groups and another footer', [magic, first!, 'xx', second!, third!, 'footer????']],
  ])('%s', (_, bytes) => {
    const { wholeFile, intactGroups, readableFile, lostRanges } = of(...bytes);
    expect(Buffer.from(wholeFile!)).toEqual(file);
    expect(readableFile).toEqual(wholeFile);
    expect([intactGroups, lostRanges]).toEqual([[0, 1, 2], []]);
  });
});

describe('of a damaged file', () => {
  test('each row group that is intact is kept in its place, and the rest is reported', () => {
    const { wholeFile, intactGroups, readableFile, lostRanges } = of(magic, first!, 'SECOND', third!, footer);
    expect(wholeFile).toBeNull();
    expect([intactGroups, lostRanges]).toEqual([[0, 2], [lostOf(1)]]);
    expect(Buffer.from(readableFile!)).toEqual(Buffer.concat([magic, first!, Buffer.alloc(6), third!, footer]));
  });

  test('what was moved is found behind a place where bytes were taken out', () => {
    const { intactGroups, lostRanges } = of(magic, 'first', second!, third!, footer);
    expect([intactGroups, lostRanges]).toEqual([[1, 2], [lostOf(0)]]);
  });

  test('what is cut off is lost from the row group on that the cut is in', () => {
    expect(of(magic, first!, second!, 'the thir').lostRanges).toEqual([lostOf(2)]);
    expect(of(magic, 'firs').lostRanges).toEqual([0, 1, 2].map(lostOf));
  });

  test('nothing can be read where no row group is intact, nor where it is missing', () => {
    const all = [0, 1, 2].map(lostOf);
    expect(of('nothing of it')).toEqual({ wholeFile: null, intactGroups: [], readableFile: null, lostRanges: all });
    expect(salvageRowGroups(null, record, 6)).toEqual({
      wholeFile: null,
      intactGroups: [],
      readableFile: null,
      lostRanges: all,
    });
  });

  test('that nobody knows all is lost, whichever rows they were', () => {
    const lost = [{ keys: null, rows: 6 }];
    expect(salvageRowGroups(file, undefined, 6)).toEqual({
      wholeFile: null,
      intactGroups: [],
      readableFile: null,
      lostRanges: lost,
    });
  });

  test('whose row groups make another file than the published one it is not given out as that', () => {
    const { wholeFile, intactGroups, lostRanges } = salvageRowGroups(
      file,
      { ...record, footer: Buffer.from('foot') },
      6,
    );
    expect([wholeFile, intactGroups, lostRanges]).toEqual([null, [0, 1, 2], []]);
  });
});

test('a file without row groups is had again to the byte, whatever is there now', () => {
  const empty = Buffer.concat([magic, footer]);
  const none: FileRecord = { path: 'quotes/x', sha256: sha256(empty), footer, groups: [] };
  for (const bytes of [null, Buffer.from('other')]) {
    const { wholeFile, lostRanges } = salvageRowGroups(bytes, none, 0);
    expect(Buffer.from(wholeFile!)).toEqual(empty);
    expect(lostRanges).toEqual([]);
  }
});
