import { sha256 } from '../disk/file-system.ts';
import type { LostWindow } from '../format/coverage.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { FileRecord, SortKey } from '../parquet/row-group-index.ts';
import { magic } from '../parquet/thrift.ts';
import type { UnrecoverableRows } from './repair-report.ts';

/** Rows that are gone: all that were published from `first` to `last`, both included, in the order of the sort key. */
export interface LostRange {
  /** Null where nothing tells which keys there were: any that the file could hold. */
  readonly keys: { readonly first: SortKey; readonly last: SortKey } | null;
  readonly rows: number;
}

export interface SalvagedFile {
  /** The file as it was published, to the byte, where every row group is intact. */
  readonly wholeFile: Uint8Array | null;
  /** The intact row groups, by their numbers. */
  readonly intactGroups: readonly number[];
  /** A file to read those from; of the others it holds nothing. Null where none is intact. */
  readonly readableFile: Uint8Array | null;
  readonly lostRanges: readonly LostRange[];
}

/**
 * What can be proven of a damaged file by the record of it: a row group is kept where its bytes have the hash that they
 * had when it was published, wherever in the file they are now. Nothing else is read, and nothing guessed.
 * @param bytes the file as it is; null where it is missing
 * @param rows what it held
 */
export function salvageRowGroups(bytes: Uint8Array | null, record: FileRecord | undefined, rows: number): SalvagedFile {
  if (record === undefined)
    return { wholeFile: null, intactGroups: [], readableFile: null, lostRanges: [{ keys: null, rows }] };
  const { groups, footer } = record;
  const end = groups.at(-1)!.end;
  const out = new Uint8Array(end + footer.length);
  out.set(magic);
  out.set(footer, end);
  const kept: number[] = [];
  const lost: LostRange[] = [];
  const shifts = bytes === null ? [] : listShifts(bytes, footer, out.length);
  groups.forEach((group, i) => {
    const found = shifts.find((shift) => isRowGroupAt(bytes!, group.start + shift, group));
    if (found === undefined) {
      lost.push({ keys: { first: group.first, last: group.last }, rows: group.rows });
      return;
    }
    out.set(bytes!.subarray(group.start + found, group.end + found), group.start);
    kept.push(i);
  });
  const whole = sha256(out) === record.sha256 ? out : null;
  return { wholeFile: whole, intactGroups: kept, readableFile: kept.length === 0 ? null : out, lostRanges: lost };
}

/**
 * How far row groups may have been moved: not at all; by as much as the file has grown or shrunk; by as much as its
 * footer was.
 */
function listShifts(bytes: Uint8Array, footer: Uint8Array, length: number): number[] {
  const at = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf(footer);
  const ofFooter = at < 0 ? [] : [at - (length - footer.length)];
  return [...new Set([0, bytes.length - length, ...ofFooter])];
}

/** Beyond the file there are fewer bytes, whose hash is another. */
const isRowGroupAt = (
  bytes: Uint8Array,
  at: number,
  { start, end, sha256: wanted }: FileRecord['groups'][number],
): boolean => sha256(bytes.subarray(at, at + end - start)) === wanted;

/** A published file of which not every row group is intact. */
export interface DamagedFile {
  readonly dataset: DatasetName;
  readonly file: PublishedFile;
  /** What can be had of it: read anew at each call, so that nobody holds more than one. */
  salvage(): SalvagedFile;
}

/** What mending damaged files found to be lost. */
export interface RepairLosses {
  readonly windows: LostWindow[];
  readonly unrecoverable: UnrecoverableRows[];
  /** Rows that a damaged file lost, by its path. */
  readonly rowsLost: Map<string, number>;
}

/** From the first to the last key of what is lost of a file; null where nothing tells. */
export function computeKeyRange(lost: readonly LostRange[]): { first: SortKey | null; last: SortKey | null } {
  const [first, last] = [lost[0]?.keys, lost.at(-1)?.keys];
  return { first: first?.first ?? null, last: last?.last ?? null };
}
