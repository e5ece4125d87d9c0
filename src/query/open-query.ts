import type { QueryEngine } from './duckdb-connection.ts';
import type { DatasetFiles, Query, QueryOptions } from './query.ts';

/** Opens DuckDB over these files, in memory. Nothing else on the disk can be reached through it. */
export async function openQuery(sources: readonly DatasetFiles[], options: QueryOptions): Promise<Query> {
  // DuckDB takes longer to load than most commands to run: it is loaded by those that ask.
  const { openDatabase } = await import('./database.ts');
  return await openDatabase(sources, options);
}

/** Opens DuckDB for many queries over files below `folder`, one after another or at once. */
export async function openQueryEngine(folder: string, options: QueryOptions): Promise<QueryEngine> {
  const { createQueryEngine } = await import('./duckdb-connection.ts');
  return await createQueryEngine(folder, options);
}
