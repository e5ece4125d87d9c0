import type { DatasetFiles, Query, QueryEngine, QueryOptions } from './query.ts';

// DuckDB takes longer to load than most commands take to run, so it is loaded on demand.

/** Opens an in-memory DuckDB over these files. Queries can read no other files. */
export async function openQuery(sources: readonly DatasetFiles[], options: QueryOptions): Promise<Query> {
  const { openDatabase } = await import('./database.ts');
  return await openDatabase(sources, options);
}

/** Opens DuckDB for many queries over files below `folder`, concurrent or not. */
export async function openQueryEngine(folder: string, options: QueryOptions): Promise<QueryEngine> {
  const { createQueryEngine } = await import('./database.ts');
  return await createQueryEngine(folder, options);
}
