import { join } from 'node:path';
import { dayOf } from '../../core/time.ts';
import type { Move } from '../../state/intent.ts';
import type { FileRecord } from '../../state/row-groups.ts';
import { type Archive, readNow } from '../archive.ts';
import { sha256 } from '../disk/disk.ts';
import { fileAt, type Manifest, type PublishedFile } from '../manifest.ts';
import type { DatasetName } from '../parquet/datasets.ts';
import { type KeyAt, recordOf } from '../parquet/row-groups.ts';

/** What a publish has written under .oddslake/staging and where it shall go. Nothing of it counts before the commit. */
export interface Stage {
  readonly generation: number;
  readonly base: Manifest;
  readonly moves: Move[];
  /** The files of the next manifest that differ from the base, by path. */
  readonly files: Map<string, { readonly dataset: DatasetName; readonly file: PublishedFile }>;
  /** Files of the base that the next manifest names no more, by path. */
  readonly gone: Set<string>;
  /** What the staged files are made of. */
  readonly records: FileRecord[];
}

export interface FileFacts {
  readonly date: string | null;
  readonly rows: number;
  readonly t_min: number | null;
  readonly t_max: number | null;
  readonly symbols: number;
}

/** The facts of a part with at least one row, from its columns; `day` is its UTC midnight in epoch ms. */
export function factsOfPart(
  day: number,
  { t, symbols }: { readonly t: Float64Array; readonly symbols: readonly string[] },
): FileFacts {
  let min = Number.POSITIVE_INFINITY;
  let max = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < t.length; i++) {
    const time = t[i]!;
    if (time < min) min = time;
    if (time > max) max = time;
  }
  return { date: dayOf(day), rows: t.length, t_min: min, t_max: max, symbols: symbols.length };
}

/** Starts a stage; what a broken publish left staged goes, since it never counted. Holder of the write lock only. */
export function startStage(archive: Archive, base: Manifest): Stage {
  archive.disk.remove(archive.layout.staging);
  return { generation: base.generation + 1, base, moves: [], files: new Map(), gone: new Set(), records: [] };
}

/**
 * Stages a file of a dataset; one whose bytes are published already, and still intact, is left as it is. `keyAt`: the sort
 * keys of its rows.
 */
export function stageFile(
  archive: Archive,
  stage: Stage,
  dataset: DatasetName,
  path: string,
  bytes: Uint8Array,
  facts: FileFacts,
  keyAt: KeyAt,
): void {
  const hash = sha256(bytes);
  if (fileAt(stage.base, dataset, path)?.sha256 === hash && isThere(archive, path, hash)) return;
  stagePrivate(archive, stage, path, bytes);
  stage.records.push(recordOf(path, bytes, hash, keyAt));
  const file = { path, ...facts, bytes: bytes.length, sha256: hash, generation: stage.generation };
  stage.files.set(path, { dataset, file: orderFields(file) });
}

/** Candles and symbols are never read before they are made anew: what became of them meanwhile is seen only here. */
function isThere(archive: Archive, path: string, hash: string): boolean {
  const bytes = readNow(archive, path);
  return bytes !== null && sha256(bytes) === hash;
}

/** Takes a file out of the next manifest: the commit removes it. */
export function stageRemoval(stage: Stage, path: string): void {
  stage.moves.push({ from: null, to: path });
  stage.gone.add(path);
}

/** Stages bytes for a path, those of a file that no manifest names or that it names already. */
export function stagePrivate(
  archive: Archive,
  stage: Stage,
  path: string,
  bytes: Uint8Array | Iterable<Uint8Array>,
): void {
  const from = `.oddslake/staging/${stage.generation}/${path}`;
  const target = join(archive.layout.root, from);
  archive.disk.makeFolder(join(target, '..'));
  archive.disk.write(target, bytes);
  archive.disk.syncFolder(join(target, '..'));
  stage.moves.push({ from, to: path });
}

const orderFields = (f: PublishedFile): PublishedFile => ({
  path: f.path,
  date: f.date,
  rows: f.rows,
  bytes: f.bytes,
  sha256: f.sha256,
  t_min: f.t_min,
  t_max: f.t_max,
  symbols: f.symbols,
  generation: f.generation,
});

/** What the next manifest says of files that are no more: nothing where there are none. One that is back counts no more. */
export function nextRemoved({ base, generation, gone, files }: Stage): Pick<Manifest, 'removed'> {
  const before = (base.removed ?? []).filter(({ path }) => !files.has(path) && !gone.has(path));
  const removed = [...before, ...[...gone].map((path) => ({ path, generation }))];
  return removed.length === 0 ? {} : { removed };
}

/** The base manifest with the staged files in it; each dataset's files sorted by path. */
export function nextFiles(stage: Stage): Manifest['datasets'] {
  const out = {} as Record<DatasetName, { files: PublishedFile[] }>;
  for (const [dataset, { files }] of Object.entries(stage.base.datasets)) {
    const byPath = new Map(files.map((file) => [file.path, file]));
    for (const path of stage.gone) byPath.delete(path);
    for (const [path, staged] of stage.files) if (staged.dataset === dataset) byPath.set(path, staged.file);
    out[dataset as DatasetName] = { files: [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1)) };
  }
  return out;
}
