import { basename, dirname } from 'node:path';
import type { QueryOptions, Source, SourceColumnType } from './query.ts';

const sqlTypes: Record<SourceColumnType, string> = {
  string: 'VARCHAR',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  double: 'DOUBLE',
  int32: 'INTEGER',
  int64: 'BIGINT',
  boolean: 'BOOLEAN',
  strings: 'VARCHAR[]',
};

/** Settings that DuckDB takes only while it starts: no extension comes in, no secret is read from the home folder. */
export const startSettings = ({ threads, memoryBytesMax }: QueryOptions): Record<string, string> => ({
  threads: String(threads),
  memory_limit: `${memoryBytesMax}B`,
  autoinstall_known_extensions: 'false',
  autoload_known_extensions: 'false',
  allow_community_extensions: 'false',
  allow_persistent_secrets: 'false',
});

/**
 * The statements that make a fresh DuckDB ours: UTC, files closed but for the sources and our own folder, the views and what is
 * defined over them.
 * The lock comes last: after it no statement can open anything again.
 */
export function setup(sources: readonly Source[], definitions: readonly string[], ownFolder: string): string[] {
  const paths = sources.flatMap((source) => source.paths);
  return [
    ...closed(paths, [ownFolder], ownFolder),
    ...sources.map((source) => `CREATE VIEW ${identifier(source.dataset)} AS ${viewOf(source)}`),
    ...definitions,
    'SET lock_configuration = true',
  ];
}

/** The same for one that outlives many sources: files below `folder` can be read, and nothing is defined over them yet. */
export const setupFolder = (folder: string, definitions: readonly string[], ownFolder: string): string[] => [
  ...closed([], [ownFolder, folder], ownFolder),
  ...definitions,
  'SET lock_configuration = true',
];

const closed = (paths: readonly string[], folders: readonly string[], ownFolder: string): string[] => [
  `SET GLOBAL TimeZone = 'UTC'`,
  `SET temp_directory = ${literal(ownFolder)}`,
  `SET allowed_paths = ${list(paths)}`,
  `SET allowed_directories = ${list(folders)}`,
  'SET enable_external_access = false',
];

/** Views and definitions that only one connection sees. */
export const ownViews = (sources: readonly Source[], definitions: readonly string[]): string[] => [
  ...sources.map((source) => `CREATE TEMP VIEW ${identifier(source.dataset)} AS ${viewOf(source)}`),
  ...definitions.map((sql) => sql.replace(/^((?:--[^\n]*\n)*)CREATE OR REPLACE /, '$1CREATE OR REPLACE TEMP ')),
];

function viewOf({ dataset, columns, dated, paths }: Source): string {
  if (paths.length === 0) {
    const typed = columns.map(({ name, type }) => `CAST(NULL AS ${sqlTypes[type]}) AS ${identifier(name)}`);
    if (dated) typed.push('CAST(NULL AS DATE) AS "date"');
    return `SELECT ${typed.join(', ')} WHERE false`;
  }
  const names = columns.map(({ name }) => identifier(name));
  if (dated) {
    const stray = paths.find((path) => !/^date=\d{4}-\d\d-\d\d$/.test(basename(dirname(path))));
    if (stray !== undefined) throw new Error(`${stray} of ${dataset} is in no folder of a day`);
    // Not hive_partitioning: of two `date=` folders in a path it believes the first, and an archive may well stand in
    // a folder of that name. DuckDB leaves out files by conditions on `filename` just as well.
    names.push(`CAST(right(split_part(filename, '/', -2), 10) AS DATE) AS "date"`);
  }
  return `SELECT ${names.join(', ')} FROM read_parquet(${list(paths)}, filename = true, hive_partitioning = false)`;
}

/** An SQL string literal. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** An SQL name. */
export const identifier = (name: string): string => `"${name.replaceAll('"', '""')}"`;

const list = (texts: readonly string[]): string => `[${texts.map(literal).join(', ')}]`;
