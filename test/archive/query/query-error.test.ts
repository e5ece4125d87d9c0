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
