import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readFooter } from '../../src/archive/parquet/metadata.ts';

/**
 * The paths of Parquet files that have rows, according to their own bytes; a file that cannot be read counts as one. Two
 * archives with equal rows may differ in files without rows, because these depend on how the rows were batched.
 */
export const filterFilesWithRows = (root: string, paths: readonly string[]): string[] =>
  paths.filter((path) => hasRows(join(root, path)));

function hasRows(path: string): boolean {
  try {
    return readFooter(readFileSync(path)).row_groups.length > 0;
  } catch {
    return true;
  }
}
