import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { createQuery } from './database.ts';
import type { DatasetFiles, Query, QueryOptions } from './query.ts';
import { translateDuckDBError } from './query-error.ts';
import { buildFolderSetupSql, buildStartSettings, buildTempViewsSql } from './views.ts';

/** DuckDB kept open over a folder of files: to open it costs more than most queries of a service. */
export interface QueryEngine {
  /**
   * A query over files in the folder, with views of its own and `definitions` over them, on one connection: its calls
   * come one after another.
   */
  openQuery(sources: readonly DatasetFiles[], definitions: readonly string[]): Promise<Query>;
  /** No query may be open. */
  close(): Promise<void>;
}

/** Opens DuckDB over what is, or will be, below `folder`. All queries share threads and memory. */
export async function createQueryEngine(folder: string, options: QueryOptions): Promise<QueryEngine> {
  const ownFolder = join(options.scratch, `query-${randomUUID()}`);
  await mkdir(options.scratch, { recursive: true });
  const instance = await DuckDBInstance.create(':memory:', buildStartSettings(options));
  try {
    const connection = await instance.connect();
    for (const sql of buildFolderSetupSql(folder, options.definitions ?? [], ownFolder)) await connection.run(sql);
    connection.closeSync();
  } catch (error) {
    instance.closeSync();
    throw error;
  }
  return {
    async openQuery(sources, definitions) {
      const published = new Set(sources.flatMap((source) => source.paths));
      const connection = await instance.connect();
      try {
        for (const sql of buildTempViewsSql(sources, definitions)) await connection.run(sql);
      } catch (error) {
        connection.closeSync();
        throw translateDuckDBError(error, published);
      }
      const connections = { acquire: async () => connection, release() {} };
      return { ...createQuery(connections, published, ownFolder), close: async () => connection.closeSync() };
    },
    async close() {
      instance.closeSync();
      await rm(ownFolder, { recursive: true, force: true });
    },
  };
}
