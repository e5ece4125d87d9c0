import { createNullTexts, type TextColumn, toTextColumn, viewTextBytes } from './text-columns.ts';

/*
 * Text columns as bytes, for scratch files and the journal: a mark, then for each column its kind and, unless it has no text,
 * the length of each text and their bytes. Lengths are in native byte order, as the columns of numbers are.
 */

/** The first byte. */
const mark = 1;

const kinds = { nulls: 0, texts: 1 } as const;

/** Packs text columns of equal length. Empty if there are no columns. */
export const packTexts = (texts: readonly TextColumn[]): Uint8Array =>
  texts.length === 0 ? new Uint8Array(0) : Buffer.concat([Uint8Array.of(mark), ...texts.flatMap(packColumn)]);

function packColumn(column: TextColumn): Uint8Array[] {
  const { lengths } = column;
  if (lengths.every((length) => length < 0)) return [Uint8Array.of(kinds.nulls)];
  const lengthBytes = new Uint8Array(lengths.buffer, lengths.byteOffset, lengths.byteLength);
  return [Uint8Array.of(kinds.texts), lengthBytes, viewTextBytes(column)];
}

/** Reverses `packTexts` of `rows` rows. The texts are views of `packed`. */
export function unpackTexts(packed: Uint8Array, rows: number): TextColumn[] {
  if (packed.length === 0) return [];
  if (packed[0] !== mark) throw new Error(`texts are stored in an unknown form: ${packed[0]}`);
  const columns: TextColumn[] = [];
  for (let at = 1; at < packed.length; ) {
    const kind = packed[at++];
    if (kind === kinds.nulls) {
      columns.push(createNullTexts(rows));
      continue;
    }
    const lengths = new Int32Array(rows);
    // Copied, because they may not be aligned.
    new Uint8Array(lengths.buffer).set(packed.subarray(at, at + lengths.byteLength));
    at += lengths.byteLength;
    const column = toTextColumn(packed.subarray(at), lengths);
    columns.push(column);
    at += viewTextBytes(column).length;
  }
  return columns;
}
