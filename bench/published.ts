import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What the manifest of an archive says about its files, read without oddslake's own code. */

interface Listed {
  readonly rows: number;
  readonly bytes: number;
}

interface Totals extends Listed {
  readonly files: number;
}

/** @param datasets datasets to count; all of them by default */
export function publishedTotals(archive: string, datasets: readonly string[] = []): Totals {
  const manifest = JSON.parse(readFileSync(join(archive, 'manifest.json'), 'utf8')) as {
    datasets: Record<string, { files: readonly Listed[] }>;
  };
  const named = Object.entries(manifest.datasets).filter(([name]) => datasets.length === 0 || datasets.includes(name));
  const files = named.flatMap(([, dataset]) => dataset.files);
  const sum = (of: (file: Listed) => number): number => files.reduce((total, file) => total + of(file), 0);
  return { files: files.length, rows: sum(({ rows }) => rows), bytes: sum(({ bytes }) => bytes) };
}
