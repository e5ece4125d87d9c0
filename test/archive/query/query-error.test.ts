import { expect, test } from 'vitest';
import { translateDuckDBError } from '../../../src/archive/query/database.ts';
import { DamageError, UsageError } from '../../../src/base/errors.ts';

test('what cannot be read of a Parquet file is damage, though DuckDB names no file', () => {
  for (const told of ['TProtocolException: Invalid data', "don't know what type: "]) {
    const failure = translateDuckDBError(
      new Error(`Invalid Error: ${told}`),
      new Set(['/lake/coverage/part-00.parquet']),
    );
    expect(failure).toBeInstanceOf(DamageError);
    expect((failure as Error).message).toMatch(/oddslake verify says which/);
  }
  expect(translateDuckDBError(new Error('Invalid Input Error: no such step'), new Set())).toBeInstanceOf(UsageError);
});
