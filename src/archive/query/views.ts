import { basename, dirname } from 'node:path';
import { sqlTypes } from '../format/datasets.ts';
import type { DatasetFiles, QueryOptions } from './query.ts';

/** Settings that DuckDB accepts only at startup. They disable extensions and secrets from the home folder. */
export const buildStartSettings = ({ threads, memoryBytesMax }: QueryOptions): Record<string, string> => ({
  threads: String(threads),
  memory_limit: `${memoryBytesMax}B`,
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  allow_persistent_secrets: 'false',
});

/**
 * Statements that set up a new DuckDB: UTC, no file access except to the sources and our own folder, the views, and the
 * definitions over them. The configuration lock comes last; after it no statement can grant access again.
 */
export function buildSetupSql(
  sources: readonly DatasetFiles[],
  definitions: readonly string[],
  ownFolder: string,
): string[] {
  const paths = sources.flatMap((source) => source.paths);
  return [
    ...buildAccessSql(paths, [ownFolder], ownFolder),
    ...sources.map((source) => `CREATE VIEW ${quoteIdentifier(source.dataset)} AS ${buildViewSql(source)}`),
    ...definitions,
    'SET lock_configuration = true',
  ];
}

/** The same for a long-lived DuckDB: files below `folder` can be read, and there are no views yet. */
export const buildFolderSetupSql = (folder: string, definitions: readonly string[], ownFolder: string): string[] => [
  ...buildAccessSql([], [ownFolder, folder], ownFolder),
  ...definitions,
  'SET lock_configuration = true',
];

const buildAccessSql = (paths: readonly string[], folders: readonly string[], ownFolder: string): string[] => [
  `SET GLOBAL TimeZone = 'UTC'`,
  `SET temp_directory = ${quoteLiteral(ownFolder)}`,
  `SET allowed_paths = ${buildListSql(paths)}`,
  `SET allowed_directories = ${buildListSql(folders)}`,
  'SET enable_external_access = false',
];

/** Statements for views and definitions that only one connection sees. */
export const buildTempViewsSql = (sources: readonly DatasetFiles[], definitions: readonly string[]): string[] => [
  ...sources.map((source) => `CREATE TEMP VIEW ${quoteIdentifier(source.dataset)} AS ${buildViewSql(source)}`),
  ...definitions.map((sql) => sql.replace(/^((?:--[^\n]*\n)*)CREATE OR REPLACE /, '$1CREATE OR REPLACE TEMP ')),
];

function buildViewSql({ dataset, columns, dated, paths }: DatasetFiles): string {
  if (paths.length === 0) {
    const typedColumns = columns.map(({ name, type }) => `CAST(NULL AS ${sqlTypes[type]}) AS ${quoteIdentifier(name)}`);
    if (dated) typedColumns.push('CAST(NULL AS DATE) AS "date"');
    return `SELECT ${typedColumns.join(', ')} WHERE false`;
  }
  const names = columns.map(({ name }) => quoteIdentifier(name));
  if (dated) {
    const stray = paths.find((path) => !/^date=\d{4}-\d\d-\d\d$/.test(basename(dirname(path))));
    if (stray !== undefined) throw new Error(`${stray} of ${dataset} is not in a day folder`);
    // No hive_partitioning: it uses the first of two `date=` folders in a path, and the archive may be in a folder of
    // such a name. DuckDB prunes files by conditions on `filename` just as well.
    names.push(`CAST(right(split_part(filename, '/', -2), 10) AS DATE) AS "date"`);
  }
  return `SELECT ${names.join(', ')} FROM read_parquet(${buildListSql(paths)}, filename = true, hive_partitioning = false)`;
}

export const quoteLiteral = (text: string): string => `'${text.replaceAll("'", "''")}'`;

export const quoteIdentifier = (name: string): string => `"${name.replaceAll('"', '""')}"`;

const buildListSql = (texts: readonly string[]): string => `[${texts.map(quoteLiteral).join(', ')}]`;
