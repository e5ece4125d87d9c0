import { expect, test } from 'vitest';
import { translateDuckDBError } from '../../../src/archive/query/database.ts';
import { DamageError, UsageError } from '../../../src/base/errors.ts';

test('reports an unreadable Parquet file as damage, even if DuckDB names no file', () => {
  for (const message of ['TProtocolException: Invalid data', "don't know what type: "]) {
    const failure = translateDuckDBError(
      new Error(`Invalid Error: ${message}`),
      new Set(['/lake/coverage/part-00.parquet']),
    );
    expect(failure).toBeInstanceOf(DamageError);
    expect((failure as Error).message).toMatch(/Run oddslake verify to find it/);
  }
  expect(translateDuckDBError(new Error('Invalid Input Error: no such step'), new Set())).toBeInstanceOf(UsageError);
});

test('names the file that a statement wanted to read', () => {
  const denied = new Error(
    'Permission Error: Cannot access file "no.parquet" - file system operations are disabled by configuration',
  );
  const failure = translateDuckDBError(denied, new Set());
  expect(failure).toBeInstanceOf(UsageError);
  expect((failure as Error).message).toMatch(
    /^The statement reads the file no\.parquet\. Only the datasets can be read/,
  );
});
