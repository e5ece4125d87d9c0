import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { type DatasetDefinition, datasetNames, datasets } from '../../../src/archive/format/datasets.ts';
import { formatVersion } from '../../../src/archive/format/manifest.ts';
import * as promises from '../../contract/promises.ts';

/** The format version and what it describes. A change of the second needs another version, once one is released. */
const described = { version: 6, sha256: '7b558d5cc017fa0d7fb8edc2a4001881156bdb79800f11109ae69c380916decc' };

test('the datasets and the fields of the manifest are those of the format version', () => {
  const schema = datasetNames.map((name) => {
    const { columns, key, order, time, partition }: DatasetDefinition = datasets[name];
    const typed = columns.map((column) => [column.name, column.type, column.nullable]);
    return { name, columns: typed, key, order, time, partition };
  });
  const { manifestFields, manifestFieldsAtTimes, fileFields, dayFields, openDayFields } = promises;
  const fields = { manifestFields, manifestFieldsAtTimes, fileFields, dayFields, openDayFields };
  const sha256 = createHash('sha256')
    .update(JSON.stringify([schema, fields]))
    .digest('hex');
  expect({ version: formatVersion, sha256 }).toEqual(described);
});
