import { describe, expect, test } from 'vitest';
import {
  candleDatasets,
  coveredDatasets,
  type DatasetDefinition,
  datasetNames,
  datasets,
  isDated,
  isSplitBySymbol,
} from '../../../src/archive/format/datasets.ts';
import { toArrowSchema } from '../../../src/archive/parquet/arrow-data.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';
import * as promised from '../../contract/promises.ts';

/** The only key column that may be null: a market may have no symbol. Null sorts as the empty string. */
const nullableKeyColumns = ['markets.symbol'];

describe.each(datasetNames)('the definition of %s', (name) => {
  const definition: DatasetDefinition = datasets[name];
  const { columns, key, order, time, partition, source, mergeRule, hasCoverage } = definition;
  const columnOf = (columnName: string) => columns.find((column) => column.name === columnName);

  test('has the columns and the key of the contract', () => {
    const { fields } = toArrowSchema(columns);
    const found = fields.map(({ name: column, type, nullable }) => [column, `${nullable ? '?' : ''}${type}`]);
    expect(found).toEqual(Object.entries(promised.columns[name]!));
    expect(key).toEqual(promised.keys[name]);
  });

  test('describes the dataset and each column', () => {
    expect(definition.description).toMatch(/^\S.*[^\s.]$/);
    for (const column of columns) expect(column.meaning, column.name).toMatch(/^\S.*[^\s.]$/);
    expect(new Set(columns.map((column) => column.name)).size).toBe(columns.length);
  });

  test('has a unit for each number, and for no other column', () => {
    for (const { name: column, type, unit } of columns)
      expect(unit !== undefined, column).toBe(['double', 'int32', 'int64'].includes(type));
  });

  test('has a key of columns that are never null', () => {
    expect(key.length).toBeGreaterThan(0);
    const nullable = key.filter((column) => columnOf(column)?.nullable !== false).map((column) => `${name}.${column}`);
    expect(nullable.filter((column) => !nullableKeyColumns.includes(column))).toEqual([]);
  });

  test('orders rows by columns that include the key or a number counted within the others, a text first', () => {
    expect(order.filter((column) => columnOf(column) === undefined)).toEqual([]);
    expect(columnOf(order[0]!)!.type).toBe('string');
    // The rows of one symbol and time are numbered in the order of their identifiers.
    if (order.at(-1) !== 'seq') expect(order).toEqual(expect.arrayContaining([...key]));
    else expect(order.slice(0, 2)).toEqual(['symbol', 't']);
    expect(new Set(order).size).toBe(order.length);
  });

  test('has times that are never null, if a window selects its rows', () => {
    for (const column of time === null ? [] : [time.first, time.last])
      expect(columnOf(column)).toMatchObject({ type: 'timestamp', nullable: false });
    // Only the end of a window is excluded.
    if (time !== null && !time.isLastIncluded) expect(time.first).not.toBe(time.last);
  });

  test('has the columns by which its rows are split into files', () => {
    expect(isDated(name)).toBe(time !== null);
    expect(isSplitBySymbol(name)).toBe(partition === 'day and part');
    // Rows of one symbol are adjacent, so that a reader can skip those of others; those of coverage within their dataset.
    if (partition === 'day and part')
      expect([order.find((column) => column !== 'dataset'), columnOf('symbol')!.nullable]).toEqual(['symbol', false]);
  });

  test('is covered only if it is collected, and split by day and symbol as the coverage is', () => {
    if (hasCoverage) expect([source, partition]).toEqual(['collected', 'day and part']);
    if (mergeRule === 'recompute') expect(source).toBe('derived');
  });
});

test('the covered datasets are in the sort order of coverage', () => {
  expect(coveredDatasets).toEqual(datasetNames.filter((name) => datasets[name].hasCoverage).sort(compareUtf8));
});

test('the candles of every interval have the same columns and types', () => {
  const [first, ...others] = Object.values(candleDatasets).map((name) =>
    datasets[name].columns.map(({ name: column, type, nullable, unit }) => ({ column, type, nullable, unit })),
  );
  for (const other of others) expect(other).toEqual(first);
});
