import { listManifestFiles, type Manifest, sumFileTotals } from '../../archive/manifest.ts';
import { datasetNames } from '../../archive/parquet/schema.ts';
import { type DamageFindings, updatePublishedDays } from '../../core/verdict.ts';

/** What everybody may know of an archive. Times are epoch milliseconds. */
export interface Totals {
  /** First and last tick; null where there are none. */
  readonly span: { readonly first: number; readonly last: number } | null;
  readonly symbols: number;
  readonly ticks: number;
  readonly bytes: number;
  readonly days: number;
  readonly daysComplete: number;
  readonly generation: number;
  readonly publishedAt: number;
  readonly watermark: number | null;
  /** The same with inferred windows. */
  readonly reached: number | null;
  /** Those that have files. */
  readonly datasets: readonly {
    readonly name: string;
    readonly files: number;
    readonly rows: number;
    readonly bytes: number;
  }[];
}

/** What everybody sees of an archive. */
export function computeTotals(manifest: Manifest, damage: DamageFindings): Totals {
  const ticks = manifest.datasets.ticks.files;
  const days = Object.values(updatePublishedDays(manifest, damage));
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const { t_min, t_max } of ticks) {
    first = Math.min(first, t_min ?? first);
    last = Math.max(last, t_max ?? last);
  }
  return {
    span: first <= last ? { first, last } : null,
    symbols: sumFileTotals(manifest.datasets.symbols.files).rows,
    ticks: sumFileTotals(ticks).rows,
    bytes: sumFileTotals(listManifestFiles(manifest)).bytes,
    days: days.length,
    daysComplete: days.filter(({ state }) => state === 'complete').length,
    generation: manifest.generation,
    publishedAt: manifest.created_at,
    watermark: manifest.watermark,
    reached: manifest.reached,
    datasets: datasetNames
      .map((name) => ({ name, files: manifest.datasets[name].files }))
      .filter(({ files }) => files.length > 0)
      .map(({ name, files }) => ({ name, files: files.length, ...sumFileTotals(files) })),
  };
}
