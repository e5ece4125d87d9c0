import type { Engine } from './duckdb-connection.ts';
import type { Query, QueryOptions, Source } from './query.ts';

/** Opens DuckDB over these files, in memory. Nothing else on the disk can be reached through it. */
export async function openQuery(sources: readonly Source[], options: QueryOptions): Promise<Query> {
  // DuckDB takes longer to load than most commands to run: it is loaded by those that ask.
  const { openDatabase } = await import('./database.ts');
  return await openDatabase(sources, options);
}

/** Opens DuckDB for many queries over files below `folder`, one after another or at once. */
export async function openFolder(folder: string, options: QueryOptions): Promise<Engine> {
  const { openEngine } = await import('./duckdb-connection.ts');
  return await openEngine(folder, options);
}
