import { DamageError, exitCodes, OddslakeError, UsageError } from '../core/errors.ts';

/**
 * What an error of DuckDB means to the person who asked; errors of others are returned as they are. `published` are
 * the files of the datasets.
 */
export function translateDuckDBError(error: unknown, published: ReadonlySet<string>): unknown {
  if (!(error instanceof Error) || error instanceof OddslakeError) return error;
  const [, kind, told] = /^(?:Failed to extract statements: )?(\w[\w -]*?) Error: ([\s\S]*)$/.exec(error.message) ?? [];
  if (kind === undefined || told === undefined) return error;
  const options = { cause: error };
  const named = (before: string, after: string): string | undefined =>
    [...published].find((path) => told.includes(before + path + after));
  const file = named('"', '"') ?? named("'", "'");
  // Where a file is gone, DuckDB looks for a folder of that name.
  const gone = named('"', '/**/');
  switch (kind) {
    case 'Permission':
      return gone === undefined
        ? new UsageError(`Only the datasets can be read, no other files. DuckDB: ${told}`, options)
        : new OddslakeError(exitCodes.unexpected, `${gone} went away while it was read. Run it again.`, options);
    case 'IO':
    case 'Invalid Input':
      if (file === undefined) break;
      // EXPORT finds out before anyone can refuse it.
      if (/^Failed to create/.test(told)) return new UsageError(`Nothing can be written here. ${told}`, options);
      return new DamageError(`${file} cannot be read; oddslake verify says more. DuckDB: ${told}`, options);
    // What Parquet's footer and page headers are written in, where it does not hold what it should.
    case 'Invalid':
      return new DamageError(`A published file cannot be read; oddslake verify says which. DuckDB: ${told}`, options);
    case 'Out of Memory':
      return new OddslakeError(exitCodes.unexpected, `The query needs more memory than it may have. ${told}`, options);
    case 'INTERNAL':
    case 'FATAL':
      return error;
  }
  return kind === 'IO'
    ? new OddslakeError(exitCodes.unexpected, `DuckDB could not read or write: ${told}`, options)
    : new UsageError(`${kind} error: ${told}`, options);
}
