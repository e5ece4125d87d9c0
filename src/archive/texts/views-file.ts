import type { Manifest } from '../manifest.ts';
import { type Column, candleDatasets, type DatasetName, datasetNames, datasets } from '../parquet/schema.ts';
import { listViewDefinitions } from './views-sql.ts';

const sqlColumnTypes: Record<Column['type'], string> = {
  string: 'VARCHAR',
  timestamp: 'TIMESTAMPTZ',
  double: 'DOUBLE',
  int32: 'INTEGER',
  int64: 'BIGINT',
  boolean: 'BOOLEAN',
  strings: 'VARCHAR[]',
};

/** Whether daily candles stand beside all published ticks, so that views may read them instead. */
export const hasDailyCandles = ({ datasets: published }: Manifest): boolean =>
  published.ticks.files.length > 0 && published[candleDatasets['1d']].files.length === published.ticks.files.length;

/** The archive's views.sql, for DuckDB started in the archive's folder. */
export function formatViewsFile(manifest: Manifest): string {
  const views = datasetNames.map(
    (name) => `CREATE OR REPLACE VIEW ${name} AS\n${formatDatasetView(name, manifest)};\n`,
  );
  const above = listViewDefinitions(hasDailyCandles(manifest), manifest.lost).map(({ sql }) => `${sql};\n`);
  return `-- The archive as views, for DuckDB started in this folder:  duckdb -init views.sql
-- In Python, from this folder:  duckdb.sql(open('views.sql').read())
-- DuckDB 1.5 or newer: before, an ASOF LEFT JOIN could lose rows where there was nothing to join.
-- Files are found anew by every query, so days that are published later need no new views. While a publish is under
-- way read with oddslake sql, which holds on to one generation.

SET TimeZone = 'UTC';

${[...views, ...above].join('\n')}`;
}

function formatDatasetView(name: DatasetName, manifest: Manifest): string {
  const columns: readonly Column[] = datasets[name];
  const dated = name !== 'symbols';
  if (manifest.datasets[name].files.length === 0) {
    const typed = columns.map((c) => `CAST(NULL AS ${sqlColumnTypes[c.type]}) AS ${c.name}`);
    return `SELECT ${[...typed, ...(dated ? ['CAST(NULL AS DATE) AS date'] : [])].join(', ')} WHERE false`;
  }
  const names = columns.map((c) => c.name);
  return dated
    ? `SELECT ${[...names, 'date'].join(', ')}
FROM read_parquet('${name}/date=*/*.parquet', hive_partitioning = true, hive_types = {'date': DATE})`
    : `SELECT ${names.join(', ')}\nFROM read_parquet('${name}/*.parquet', hive_partitioning = false)`;
}
