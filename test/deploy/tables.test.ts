import { test } from 'vitest';
import { type Column, datasetNames, datasets, isDated } from '../../src/archive/format/datasets.ts';
import { formatVersion } from '../../src/archive/format/manifest.ts';
import { expectUpToDate } from '../docs/kept-current.ts';

// deploy/tables. test/readers/test_delta.py runs it.

test('columns.json has the columns of every dataset', () => {
  const toColumn = ({ name, type, nullable }: Column) => ({ name, type, nullable });
  const describe = (name: (typeof datasetNames)[number]) => ({
    has_days: isDated(name),
    columns: datasets[name].columns.map(toColumn),
  });
  const document = {
    format_version: formatVersion,
    datasets: Object.fromEntries(datasetNames.map((name) => [name, describe(name)])),
  };
  expectUpToDate('deploy/tables/columns.json', `${JSON.stringify(document, null, 1)}\n`);
});
