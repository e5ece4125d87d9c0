import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs, type Window } from '../../base/window.ts';
import { sha256 } from '../disk/file-system.ts';
import type { LostWindow } from '../format/coverage.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import { magic } from '../parquet/metadata.ts';
import type { FileRecord, SortKey } from '../parquet/row-group-index.ts';

/** Lost rows: all rows that were published from key `first` to key `last`, inclusive. */
export interface LostRange {
  /** Null if the keys are unknown: any key that the file may contain. */
  readonly keys: { readonly first: SortKey; readonly last: SortKey } | null;
  readonly rows: number;
}

export interface SalvagedFile {
  /** The exact published file if every row group is intact, else null. */
  readonly wholeFile: Uint8Array | null;
  /** Indexes of the intact row groups. */
  readonly intactGroups: readonly number[];
  /** A file from which only the intact row groups can be read; null if none is intact. */
  readonly readableFile: Uint8Array | null;
  readonly lostRanges: readonly LostRange[];
}

/**
 * Salvages the row groups of a damaged file whose bytes still have their published hash, wherever in the file they are
 * now. Reads nothing else, and guesses nothing.
 * @param bytes the damaged file; null if it is missing
 * @param record its recorded row groups; without them nothing can be salvaged
 * @param rows its published rows
 */
export function salvageRowGroups(bytes: Uint8Array | null, record: FileRecord | undefined, rows: number): SalvagedFile {
  if (record === undefined)
    return { wholeFile: null, intactGroups: [], readableFile: null, lostRanges: [{ keys: null, rows }] };
  const { groups, footer } = record;
  const end = groups.at(-1)?.end ?? magic.length;
  const out = new Uint8Array(end + footer.length);
  out.set(magic);
  out.set(footer, end);
  const intactGroups: number[] = [];
  const lost: LostRange[] = [];
  const shifts = bytes === null ? [] : listShifts(bytes, footer, out.length);
  groups.forEach((group, i) => {
    const found = shifts.find((shift) => isRowGroupAt(bytes!, group.start + shift, group));
    if (found === undefined) {
      lost.push({ keys: { first: group.first, last: group.last }, rows: group.rows });
      return;
    }
    out.set(bytes!.subarray(group.start + found, group.end + found), group.start);
    intactGroups.push(i);
  });
  const wholeFile = sha256(out) === record.sha256 ? out : null;
  return {
    wholeFile,
    intactGroups,
    readableFile: intactGroups.length === 0 ? null : out,
    lostRanges: lost,
  };
}

/** Offsets by which row groups may have moved: zero, the change in file size, and the shift of the footer. */
function listShifts(bytes: Uint8Array, footer: Uint8Array, length: number): number[] {
  const offset = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).indexOf(footer);
  const ofFooter = offset < 0 ? [] : [offset - (length - footer.length)];
  return [...new Set([0, bytes.length - length, ...ofFooter])];
}

/** Whether the row group is at this offset. A range beyond the end of the file is shorter, so its hash differs. */
const isRowGroupAt = (
  bytes: Uint8Array,
  offset: number,
  { start, end, sha256: expectedHash }: FileRecord['groups'][number],
): boolean => sha256(bytes.subarray(offset, offset + end - start)) === expectedHash;

/** A published file with at least one damaged row group. */
export interface DamagedFile {
  readonly dataset: DatasetName;
  readonly file: PublishedFile;
  /** Salvages the file. Reads it at each call, so that only one file is in memory at a time. */
  salvage(): SalvagedFile;
}

/** Lost rows that no request can restore. */
export interface UnrecoverableRows {
  readonly dataset: DatasetName;
  readonly path: string;
  readonly rows: number;
  /** First and last key of the range that had the rows; null if unknown. */
  readonly first: SortKey | null;
  readonly last: SortKey | null;
}

/** Losses found while repairing files. */
export interface RepairLosses {
  readonly windows: LostWindow[];
  readonly unrecoverable: UnrecoverableRows[];
  /** Lost rows by file path. */
  readonly rowsLost: Map<string, number>;
}

/** The first and the last lost key of a file; null if unknown. */
export function computeKeyRange(lost: readonly LostRange[]): { first: SortKey | null; last: SortKey | null } {
  const [first, last] = [lost[0]?.keys, lost.at(-1)?.keys];
  return { first: first?.first ?? null, last: last?.last ?? null };
}

/** The time span in which a range may have rows of a symbol, within a day; undefined if it can have none. */
export function computeRangeWindow({ keys }: LostRange, symbol: string, day: number): Window | undefined {
  const wholeDay = { from: day, to: day + dayMs };
  if (keys === null) return wholeDay;
  const [firstSymbol, firstTime] = keys.first as [string, number];
  const [lastSymbol, lastTime] = keys.last as [string, number];
  if (compareUtf8(symbol, firstSymbol) < 0 || compareUtf8(symbol, lastSymbol) > 0) return undefined;
  return {
    from: symbol === firstSymbol ? firstTime : wholeDay.from,
    to: symbol === lastSymbol ? lastTime + 1 : wholeDay.to,
  };
}
