import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** What an archive's manifest says of its files: as anybody would read it, whatever the program that is measured. */

interface Listed {
  readonly rows: number;
  readonly bytes: number;
}

export interface Totals extends Listed {
  readonly files: number;
}

/** @param datasets those to count; all of them where none is named */
export function publishedTotals(archive: string, datasets: readonly string[] = []): Totals {
  const manifest = JSON.parse(readFileSync(join(archive, 'manifest.json'), 'utf8')) as {
    datasets: Record<string, { files: readonly Listed[] }>;
  };
  const named = Object.entries(manifest.datasets).filter(([name]) => datasets.length === 0 || datasets.includes(name));
  const files = named.flatMap(([, dataset]) => dataset.files);
  const sum = (of: (file: Listed) => number): number => files.reduce((total, file) => total + of(file), 0);
  return { files: files.length, rows: sum(({ rows }) => rows), bytes: sum(({ bytes }) => bytes) };
}
