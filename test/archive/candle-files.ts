import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../src/archive/archive.ts';
import { candleIntervals, computeCandles } from '../../src/archive/format/candles.ts';
import { candleDatasets, datasets as definitions } from '../../src/archive/format/datasets.ts';
import { listFilesWithRows } from '../../src/archive/format/manifest.ts';
import { candleSeries, type SeriesDataset } from '../../src/archive/format/series-datasets.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeSeries } from '../../src/archive/parquet/series-file.ts';
import { decodeTicks, encodeCandles } from '../../src/archive/parquet/ticks-file.ts';
import { parseCoverageRows } from '../../src/archive/publish/day-tables.ts';

/**
 * The files of candles that differ from those computed from the published ticks, coverage, quotes and trades, byte for byte, or
 * that are missing or superfluous. An interval without any row is not computed.
 */
export function findWrongCandles({ layout: { root }, groupRows, readManifest }: Archive): string[] {
  const manifest = readManifest();
  const { datasets } = manifest;
  const read = (path: string): Uint8Array => readFileSync(join(root, path));
  return (Object.keys(candleDatasets) as (keyof typeof candleDatasets)[]).flatMap((interval) => {
    const dataset = candleDatasets[interval];
    const left = new Set(listFilesWithRows(manifest, dataset).map(({ path }) => path));
    if (left.size === 0) return [];
    const wrong = listFilesWithRows(manifest, 'ticks').flatMap((ticks) => {
      const path = ticks.path.replace('ticks/', `${dataset}/`);
      if (!left.delete(path)) return [`${path} is missing`];
      const coverage = datasets.coverage.files.filter(({ date }) => date === ticks.date);
      const rows = coverage.flatMap((file) => decodeRows(definitions.coverage.columns, read(file.path)));
      const readSeries = (name: SeriesDataset) => {
        const file = datasets[name].files.find((one) => one.path === ticks.path.replace('ticks/', `${name}/`));
        return file === undefined ? [] : [[name, decodeSeries(name, read(file.path))] as const];
      };
      const candles = computeCandles(
        decodeTicks(read(ticks.path)),
        parseCoverageRows(rows).ticks,
        candleIntervals[interval],
        Object.fromEntries(candleSeries.flatMap(readSeries)),
      );
      return Buffer.compare(read(path), encodeCandles(candles, groupRows)) === 0 ? [] : [`${path} differs`];
    });
    return [...wrong, ...[...left].map((path) => `${path} has no ticks`)];
  });
}
