import { describe, expect, test } from 'vitest';
import {
  type Column,
  type DatasetDefinition,
  type DatasetName,
  datasetNames,
  datasets,
  type MergeRule,
} from '../../src/archive/format/datasets.ts';
import { readPage } from './blocks.ts';

// docs/FORMAT.md is written by hand. Its statements about datasets must be those of their definitions.

const page = readPage('docs/FORMAT.md');

/** The names between backticks. */
const namesIn = (text: string): string[] => [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name!);

/** The cells of the rows of the table whose header is `header`. */
function rowsBelow(header: string, text = page): string[][] {
  const lines = text.split('\n');
  const start = lines.indexOf(header) + 2;
  expect(start, header).toBeGreaterThan(1);
  const end = lines.findIndex((line, i) => i >= start && !line.startsWith('|'));
  return lines.slice(start, end).map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** The row about a dataset; its first cell names one or more. */
function rowOf(name: DatasetName, header: string): string[] {
  const rows = rowsBelow(header).filter(([names]) => namesIn(names!).includes(name));
  expect(rows, `${name} in ${header}`).toHaveLength(1);
  return rows[0]!.slice(1);
}

/** The section of each dataset; a heading may name more than one. */
const sections = new Map(
  page
    .split('\n## ')
    .find((section) => section.startsWith('Datasets\n'))!
    .split('\n### ')
    .slice(1)
    .flatMap((section) => {
      const [heading, ...lines] = section.split('\n');
      return heading!.split(', ').map((name) => [name, lines.join('\n')] as const);
    }),
);

const typeNames: Record<Column['type'], string> = {
  string: 'string',
  timestamp: 'timestamp',
  timestamp_us: 'timestamp_us',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
  boolean: 'boolean',
  strings: 'list of string',
};

const mergeTexts: Record<MergeRule, string> = {
  precedence:
    'of two rows with one key, the one with [precedence](#precedence) is kept, and `conflicts`, `quote_conflicts` or `trade_conflicts` gets a row',
  'replace snapshot': 'of two snapshots of a symbol and time, the one with [precedence](#precedence) is kept',
  'extend state': 'extend the span of a row with the same state; another state begins a new row',
  'overlay windows': 'windows are cut so that no moment is in two rows: see [Coverage](#coverage-and-completeness)',
  'replace row': 'replace rows with the same key',
  recompute: 'all rows of the file are computed again',
};

test('the page describes every dataset', () => {
  expect([...sections.keys()].sort()).toEqual([...datasetNames].sort());
});

describe.each(datasetNames)('the page describes %s', (name) => {
  const { columns, key, time, partition, mergeRule }: DatasetDefinition = datasets[name];

  test('with its key', () => {
    expect(/^Key: `([^`]+)`\./m.exec(sections.get(name)!)?.[1]).toBe(key.join(', '));
  });

  test('with its columns in order, and the type of each', () => {
    const described = rowsBelow('| column | type | meaning |', sections.get(name)!).flatMap(([names, types]) => {
      const typeOf = types!.split(', ');
      return namesIn(names!).map((column, i) => [column, typeOf[i] ?? typeOf[0]]);
    });
    expect(described).toEqual(columns.map((c) => [c.name, `${typeNames[c.type]}${c.nullable ? '?' : ''}`]));
  });

  test('with its files', () => {
    const [day, files] = rowOf(name, '| dataset | column that determines the day | files of a day |');
    expect(namesIn(day!)[0]).toBe(time?.first);
    expect(files).toBe(partition === 'day and part' ? 'one for each part that has rows' : 'one, `part-00`');
  });

  test('with the span of a file', () => {
    const [min, max] = rowOf(name, '| dataset | `t_min` | `t_max` |');
    if (time === null) return;
    expect(min).toBe(`minimum of \`${time.first}\``);
    expect(max).toBe(`maximum of \`${time.last}\`${time.isLastIncluded ? '' : ', minus 1'}`);
  });

  test('with the rule by which new rows are merged', () => {
    expect(rowOf(name, '| dataset | new rows |')).toEqual([mergeTexts[mergeRule]]);
  });
});
