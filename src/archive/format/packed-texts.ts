import type { SeriesRows } from './series.ts';
import { createNullTexts, type TextColumn, toTextColumn, viewTextBytes } from './text-columns.ts';

/*
 * Columns that most rows have no value in as bytes, for scratch files and the journal: a mark, then for each column its kind and,
 * of texts, the length of each text and their bytes; of finer times, the times. All are in native byte order, as the columns of
 * numbers are.
 */

/** The first byte. */
const mark = 1;

const kinds = { nulls: 0, texts: 1, times: 2 } as const;

type PackedColumns = Pick<SeriesRows, 'texts' | 'times'>;

/** Packs the texts and finer times of rows. Empty if there are no columns. */
export function packTexts({ texts, times = [] }: PackedColumns): Uint8Array {
  if (texts.length + times.length === 0) return new Uint8Array(0);
  const packedTimes = times.flatMap((column) => [Uint8Array.of(kinds.times), viewBytes(column)]);
  return Buffer.concat([Uint8Array.of(mark), ...texts.flatMap(packColumn), ...packedTimes]);
}

const viewBytes = ({ buffer, byteOffset, byteLength }: Float64Array | Int32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

function packColumn(column: TextColumn): Uint8Array[] {
  const { lengths } = column;
  if (lengths.every((length) => length < 0)) return [Uint8Array.of(kinds.nulls)];
  return [Uint8Array.of(kinds.texts), viewBytes(lengths), viewTextBytes(column)];
}

/** Reverses `packTexts` of `rows` rows. The texts are views of `packed`. */
export function unpackTexts(packed: Uint8Array, rows: number): PackedColumns {
  if (packed.length === 0) return { texts: [] };
  if (packed[0] !== mark) throw new Error(`texts are stored in an unknown form: ${packed[0]}`);
  const texts: TextColumn[] = [];
  const times: Float64Array[] = [];
  for (let at = 1; at < packed.length; ) {
    const kind = packed[at++];
    if (kind === kinds.nulls) {
      texts.push(createNullTexts(rows));
      continue;
    }
    // Copied, because they may not be aligned.
    const numbers = kind === kinds.times ? new Float64Array(rows) : new Int32Array(rows);
    viewBytes(numbers).set(packed.subarray(at, at + numbers.byteLength));
    at += numbers.byteLength;
    if (numbers instanceof Float64Array) {
      times.push(numbers);
      continue;
    }
    const column = toTextColumn(packed.subarray(at), numbers);
    texts.push(column);
    at += viewTextBytes(column).length;
  }
  return { texts, times: times.length === 0 ? undefined : times };
}
