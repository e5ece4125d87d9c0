import { datasets } from '../format/datasets.ts';
import { askSide, type BookColumns, bidSide } from '../format/order-book.ts';
import { toTextColumn } from '../format/text-columns.ts';
import { openPartFile } from './column-reader.ts';
import type { RowGroupIndexes } from './file-pages.ts';
import { openPartFileWriter, rowGroupRows } from './writer.ts';

/** Encodes the order books of one part, at least one row. Deterministic: the same columns give the same bytes. */
export function encodeBooks(part: BookColumns, groupRows = rowGroupRows): Uint8Array {
  const { t, level, price, quantity, side } = part;
  const file = openPartFileWriter(datasets.orderbooks.columns, groupRows);
  const names = Buffer.alloc(sideNameBytes * side.length);
  for (let i = 0; i < side.length; i++) names.set(sideNames[side[i]!]!, sideNameBytes * i);
  const texts = { side: toTextColumn(names, new Int32Array(side.length).fill(sideNameBytes)) };
  file.add({ symbolOffsets: part, values: { t, level, price, quantity }, texts });
  return file.finish();
}

/** The names of the sides, which have equal length. */
const sideNames: readonly Uint8Array[] = [Buffer.from('ask'), Buffer.from('bid')];
const sideNameBytes = 3;

/** Decodes a part, or some of its row groups. @throws Error if it is not stored as our writers store order books */
export function decodeBooks(bytes: Uint8Array, groups?: RowGroupIndexes): BookColumns {
  const { symbols, offsets, readNumbers, readTexts } = openPartFile('orderbooks', bytes, groups);
  const names = readTexts('side');
  return {
    symbols,
    offsets,
    t: readNumbers('t'),
    side: Uint8Array.from(names.starts, (at) => (names.bytes[at] === sideNames[askSide]![0] ? askSide : bidSide)),
    level: Int32Array.from(readNumbers('level')),
    price: readNumbers('price'),
    quantity: readNumbers('quantity'),
  };
}
