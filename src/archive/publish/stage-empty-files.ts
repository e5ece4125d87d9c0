import { inflateRawSync } from 'node:zlib';
import { parseDayStart } from '../../base/time.ts';
import type { Archive } from '../archive.ts';
import { type DatasetName, datasetNames, datasets, isDated } from '../format/datasets.ts';
import { symbolsPath, toDayPath } from '../format/layout.ts';
import { listFilesWithRows, type Manifest } from '../format/manifest.ts';
import { createRowKeyReader } from '../parquet/row-group-index.ts';
import { encodeRows } from '../parquet/rows.ts';
import { createEncodedFile, type EncodedFile } from './encode-partition.ts';
import { listNextFiles, type Stage, stageFile } from './staging.ts';

/** Stages a file without rows for each dataset that has no file in the next generation. */
export function stageMissingEmptyFiles(archive: Archive, stage: Stage): void {
  for (const file of listMissingEmptyFiles({ datasets: listNextFiles(stage) }))
    stageFile(archive, stage, encodeEmptyFile(file));
}

/** Encodes a file without rows, with the schema of the files with rows. */
export function encodeEmptyFile({ dataset, path, date }: EmptyFile): EncodedFile {
  const statistics = { date, rows: 0, t_min: null, t_max: null, symbols: 0, symbol_from: null, symbol_to: null };
  return createEncodedFile(dataset, path, encodeNoRows(dataset), statistics, createRowKeyReader(dataset, []));
}

const encodeNoRows = (dataset: DatasetName): Uint8Array =>
  dataset === 'markets' ? readEmptyMarkets() : encodeRows(datasets[dataset].columns, []);

/** The place of a file without rows. */
interface EmptyFile {
  readonly dataset: DatasetName;
  readonly path: string;
  /** UTC day; null for a dataset that is not split by day. */
  readonly date: string | null;
}

/**
 * Lists the files without rows that a generation needs besides its files: one for each dataset that has no file, so that
 * readers find its columns under the same glob as its rows. It is on the earliest day that has rows of any dataset: it adds
 * no day to the archive. Without any day with rows there are none. A file without rows that is published already is not
 * needed any more when the dataset has other files, but it stays: a reader may have listed it, and is about to open it.
 */
export function listMissingEmptyFiles(manifest: Pick<Manifest, 'datasets'>): EmptyFile[] {
  const day = findFirstDay(manifest);
  if (day === null) return [];
  return datasetNames
    .filter((dataset) => manifest.datasets[dataset].files.length === 0)
    .map((dataset) => toEmptyFile(dataset, day));
}

/** The earliest day with rows, as YYYY-MM-DD; null if there is none. */
function findFirstDay(manifest: Pick<Manifest, 'datasets'>): string | null {
  let first: string | null = null;
  for (const dataset of datasetNames)
    for (const { date } of listFilesWithRows(manifest, dataset))
      if (date !== null && (first === null || date < first)) first = date;
  return first;
}

const toEmptyFile = (dataset: DatasetName, date: string): EmptyFile =>
  isDated(dataset)
    ? { dataset, path: toDayPath(dataset, parseDayStart(date), 0), date }
    : { dataset, path: symbolsPath, date: null };

/**
 * The file without rows of markets, which Arrow and parquet-wasm encode, because they have a list. Every new archive has it, and
 * loading those packages takes longer than an import of one page. A test compares it with that of the encoder.
 */
export const readEmptyMarkets = (): Uint8Array =>
  new Uint8Array(inflateRawSync(Buffer.from(compressed.join(''), 'base64')));

const compressed: readonly string[] = [
  'rVVNb+JWFLVQZjrJoJFaiZGjZptVFuYj6YSqXVzbYCDBwRRs7A2yn1+MweAUG0z4Df2J/SOVZlHdZ0OAJHRTC0Huxzn3vuP7bjrQLRVy599/buTt+TxMhhEZ',
  '0aldKHKF/CXH54k9C2c+sYOh715y9xcch4Ec/zF6njphsO8KF3NCM9cNx39Y+jSJCrnCx/vf0HPCnwR+FBdyaf6JH9PpLsEnYsfUC+fPG+fZZY4/I+Hs0Xfp',
  'jFCuwF3m+FM/Gtok9pc0Q/25oFHsh7MN6gSTSBBGNBra8eVP93/9eIGBLPR5TqMwWFL3MIjVfggXMQmnFFM5/uzRn0fxMKJ0dkDD8aeB/VYIO/pAV/Hc3j3Z',
  'l4x2uCdRlryks3jjYQekKxIsInZApkAUz/0JHQZhkjo+Z46R743SM+Xp6omSmLpDOnNf9zNfBDTaLZpnnmE0sss3v+wFHillI+AuArr7Gk5jn0yGkb+m3Ffu',
  'PH9+weeh230wfk3nhf/7i4BPJakDgAbpcweQgORBC12SBwBiFtE0kACakLo2vwAiJoEpagAVpLmDGoDYxJiCtprIABKBBMCBNoCkyQDyBDyAGGkamgQARbQl',
  'tFVNBJBChFKkqqENGtrrrEMAMcLvh7QxQNIrQRBqLLQ5Sk1mtvLtVhBuIWsZACaYVLQNdT6oqE902gcAGRBfZ/Fkg6/LsHnEa4wzW7ECS6+uzfIosBp6ZLFy',
  'cnIcL4VbfKNVchR9PaioodlrllQmH3hC5xheNhHPjpbh0ftHZy0IK9ZAe9OoNEq2qFKnIgiJt+FLqet6X0vSfGswSixDLVpG99EybiYsrTlGvRhpfUOktZlt',
  'LZEPu81OhX831CKZBnNLr4a24YZw/z4+OMR7e/jIqRCAB4bvs1Nv8WZ7e6g7GeOtrP+x09DX9sAKWD0874Eeovaixxr1SpBaDNypvnBZkXX1db3+S71OD+ux',
  'UXMqetEsV2N8/05FfzbLfQDlP/BSD+P1rN8imeJUikR4PHzfcNfYgsDDqylt+VJqXe/K2fxG5kAtDipqYBnXWMQ8zieS9/lCjE/tQWvt1qtry9AXqJ+wfOc+',
  'Pcyv9u8TwaSlO+iOnXIpAHl89VqPkGxbafcEQbjdgMX0VYm6Xmtn89QKSLkauVN9MijXi9DoIR854JvsSIX+O7avMvuNeWfzYpZXS1LW14wXABadb0fnhWCc',
  '3R9x5Rr62lWCpcPo5Qnqc3BflZ37TjAuIbUSYL2xqwRltitEgLqHS+sa5ASYpFK2fxXWwZZPVjZNeSi2ma3ag/ujqEtnaj1Zir5g81gfC0fnUZS3+pvletEy',
  '3CWZpXL2OoIgrLxdPUCWve2ql9K2BEG4mgjH9yWbNwZSgqJlFGE7Sg3ryRq4bH+VWb339Z9gPDHR/XLfRLZX3tTvyP5ssn7SfXPjGK2lk05IP/v/1skomplt',
  '7ukHfe1l3jRMqW3jijpyptWFbagjp159stKk3zn+U+i6UWBP6Pl3/oLj/pcP988px3WgW/oX',
];
