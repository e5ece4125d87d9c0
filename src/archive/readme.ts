import { isoUtc } from '../core/time.ts';
import { type Column, type DatasetName, datasetNames, datasets } from './datasets.ts';
import type { Manifest } from './manifest.ts';

const about: Record<DatasetName, string> = {
  ticks: 'every tick once: one row for each (symbol, t)',
  symbols: 'one row a symbol, as last known',
  markets: 'what the market lists said, day by day; a new row begins when the state of a market changes',
  orderbooks:
    'snapshots of the order books of YES, one row a level; where a venue tells bids of both outcomes alone, an ask is 1 minus a bid for NO',
  candles_1h: 'open, high, low, close of each hour that has ticks',
  candles_1d: 'open, high, low, close of each UTC day that has ticks',
  coverage: 'which windows were asked and answered: outside of them nothing is known, inside an absence is a fact',
  conflicts: 'prices that lost against another for the same (symbol, t)',
};

const typeNames: Record<Column['type'], string> = {
  string: 'string',
  timestamp: 'timestamp (ms, UTC)',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
  boolean: 'boolean',
  strings: 'list of string',
};

/** The archive's own README.md: what is there, from when to when, what is missing, and how to load it. */
export function readmeText(manifest: Manifest): string {
  const rows = (name: DatasetName): number => manifest.datasets[name].files.reduce((sum, file) => sum + file.rows, 0);
  const bytes = (name: DatasetName): number => manifest.datasets[name].files.reduce((sum, file) => sum + file.bytes, 0);
  const days = Object.entries(manifest.days);
  const missing = days.filter(([, day]) => !day.complete);
  const span = days.length === 0 ? 'no day yet' : `${days[0]![0]} to ${days.at(-1)![0]}`;
  return `# Prediction-market archive

Upstream \`${manifest.upstream}\`, generation ${manifest.generation}, published ${isoUtc(manifest.created_at)} by ${manifest.writer}.

- Days: ${span} (UTC, by each row's own time)
- Every live symbol is covered up to: ${manifest.watermark === null ? 'no live symbol' : isoUtc(manifest.watermark)}
- Days not complete: ${
    missing.length === 0
      ? 'none'
      : missing
          .slice(-10)
          .map(
            ([date, day]) =>
              `${date} (${day.covered === day.expected ? 'not settled yet' : `${day.covered} of ${day.expected} symbols`})`,
          )
          .join(', ')
  }

| dataset | rows | bytes | what it is |
| --- | ---: | ---: | --- |
${datasetNames.map((name) => `| ${name} | ${rows(name)} | ${bytes(name)} | ${about[name]} |`).join('\n')}

## Load it

From this folder:

\`\`\`python
import duckdb;         duckdb.sql("SET TimeZone='UTC'"); duckdb.sql("SELECT * FROM 'ticks/date=*/*.parquet'").show()
import polars as pl;   ticks = pl.scan_parquet("ticks/", hive_partitioning=True).collect()
import pandas as pd;   ticks = pd.read_parquet("ticks/")
\`\`\`

Scan afresh after a publish: a file keeps its name and is replaced whole. DuckDB opens a file twice in one query and
can catch a replacement in between: while a publish is under way read with \`oddslake sql\`. Join ticks with markets as of the tick's
time, not on the symbol alone.

## Columns

${datasetNames.map((name) => `### ${name}\n\n| column | type | null | meaning |\n| --- | --- | --- | --- |\n${datasets[name].map(columnLine).join('\n')}`).join('\n\n')}

Written by oddslake; \`manifest.json\` lists every file with its sha256, \`sha256sum -c SHA256SUMS\` checks them.
`;
}

const columnLine = (c: Column): string =>
  `| ${c.name} | ${typeNames[c.type]} | ${c.nullable ? 'yes' : ''} | ${c.meaning} |`;
