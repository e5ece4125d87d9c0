import { existsSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, resolve, sep } from 'node:path';
import { datasetNames } from '../../archive/format/datasets.ts';
import { manifestName } from '../../archive/format/layout.ts';
import { UsageError } from '../../base/errors.ts';
import { isBucketUrl } from '../../bucket/address.ts';

/**
 * The archive that the arguments of an import name: a folder with a manifest, or an address in object storage. Null if they name
 * files.
 * @throws UsageError if there is anything beside it, or they name a part of an archive
 */
export function findArchiveArgument(paths: readonly string[]): string | null {
  const named = paths.find((path) => isBucketUrl(path) || isArchiveFolder(path));
  if (named !== undefined && paths.length > 1)
    throw new UsageError(`${named} is an archive, which is imported by itself: oddslake import ${named}`);
  const part = named === undefined ? paths.map(findPart).find((found) => found !== null) : undefined;
  if (part)
    throw new UsageError(
      `${part.path} is a part of the archive ${part.archive}. To take that in whole, with its coverage: oddslake import ${part.archive}. To read only rows, name their --dataset.`,
    );
  return named ?? null;
}

function isArchiveFolder(path: string): boolean {
  const manifest = join(path, manifestName);
  if (!existsSync(manifest) || !statSync(manifest).isFile()) return false;
  try {
    const parsed = JSON.parse(readFileSync(manifest, 'utf8')) as {
      format_version?: unknown;
      datasets?: unknown;
    } | null;
    return typeof parsed?.format_version === 'number' && typeof parsed.datasets === 'object';
  } catch {
    return false;
  }
}

/** Folders of datasets are at most two levels above a file. */
const levelsMax = 3;

function findPart(path: string): { readonly path: string; readonly archive: string } | null {
  const whole = resolve(path);
  let root = whole;
  for (let level = 0; level < levelsMax; level++) {
    root = dirname(root);
    const dataset = whole.slice(root.length + 1).split(sep)[0]!;
    if ((datasetNames as readonly string[]).includes(dataset) && isArchiveFolder(root)) return { path, archive: root };
  }
  return null;
}
