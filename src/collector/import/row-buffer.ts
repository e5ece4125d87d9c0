import type { SeriesRows } from '../../archive/format/series.ts';
import { concatTexts, encodeTexts, pickTexts, sliceTexts, type TextColumn } from '../../archive/format/text-columns.ts';

/** Maximum number of rows that an import reads before it makes room in its buffers. */
export const rowsAtOnceMax = 1 << 17;

/** Rows of one time that stay in the buffer. If there are more, their time says nothing. */
const stayingMax = 1024;

const noTexts: readonly string[] = [];

/** Buffers rows in file order and returns them grouped by symbol. Its size is bounded, so memory does not grow with the file. */
export type RowBuffer = ReturnType<typeof createRowBuffer>;

/**
 * @param width number of value columns
 * @param textWidth number of text columns
 */
export function createRowBuffer(rowsMax: number, width: number, textWidth = 0) {
  const ids = new Map<string, number>();
  const names: string[] = [];
  const id = new Uint32Array(rowsMax);
  const t = new Float64Array(rowsMax);
  const values = Array.from({ length: width }, () => new Float64Array(rowsMax));
  const texts = Array.from({ length: textWidth }, openTextBuffer);
  let length = 0;
  let latest: { readonly symbol: string | null; readonly id: number } = { symbol: null, id: 0 };
  return {
    get length() {
      return length;
    },
    /** The numbers of the rows, one array for each column. */
    values,
    /**
     * Adds a row with its texts, one for each column, and returns its index in `values`, where the caller writes its numbers.
     * Throws RangeError if the buffer is full.
     */
    add(symbol: string, time: number, textsOfRow: readonly (string | null)[] = noTexts): number {
      if (length === rowsMax) throw new RangeError(`more than ${rowsMax} rows`);
      if (symbol !== latest.symbol) {
        let symbolId = ids.get(symbol);
        if (symbolId === undefined) {
          symbolId = names.push(symbol) - 1;
          ids.set(symbol, symbolId);
        }
        latest = { symbol, id: symbolId };
      }
      id[length] = latest.id;
      t[length] = time;
      for (let c = 0; c < textWidth; c++) texts[c]!.add(textsOfRow[c]!);
      return length++;
    },
    /**
     * Yields the rows of each symbol in input order, and empties the buffer.
     * @param isEnd whether the file has ended. If not, the last rows of a symbol that have the same time stay in the buffer: the
     * next rows may have it too, and the order of rows of one time matters. Rows with texts have IDs, and do not stay
     */
    *drain(isEnd: boolean): Generator<SeriesRows & { readonly symbol: string }> {
      const starts = new Uint32Array(names.length + 1);
      for (let i = 0; i < length; i++) starts[id[i]! + 1]!++;
      for (let i = 0; i < names.length; i++) starts[i + 1]! += starts[i]!;
      const at = starts.slice();
      // From here on, `id` holds the position of each row.
      for (let i = 0; i < length; i++) id[i] = at[id[i]!]!++;
      const group = (column: Float64Array): Float64Array => {
        const grouped = new Float64Array(length);
        for (let i = 0; i < length; i++) grouped[id[i]!] = column[i]!;
        return grouped;
      };
      const groupedT = group(t);
      const groupedValues = values.map(group);
      const order = new Uint32Array(textWidth === 0 ? 0 : length);
      for (let i = 0; i < order.length; i++) order[id[i]!] = i;
      const groupedTexts = texts.map((column) => pickTexts(column.drain(), order));
      const drained = [...names];
      length = 0;
      ids.clear();
      names.length = 0;
      latest = { symbol: null, id: 0 };
      const staying = isEnd || textWidth > 0 ? null : countStaying(groupedT, starts, rowsMax);
      for (const [i, symbol] of drained.entries()) {
        const [from, end] = [starts[i]!, starts[i + 1]!];
        const to = end - (staying?.[i] ?? 0);
        for (let row = to; row < end; row++) {
          const index = this.add(symbol, groupedT[row]!);
          values.forEach((column, c) => {
            column[index] = groupedValues[c]![row]!;
          });
        }
        if (to === from) continue;
        const pick = (column: Float64Array): Float64Array => column.subarray(from, to);
        const textsOfSymbol = groupedTexts.map((column) => sliceTexts(column, from, to));
        yield { symbol, t: pick(groupedT), values: groupedValues.map(pick), texts: textsOfSymbol };
      }
    },
  };
}

/** The number of last rows of one time of each symbol; null if these are so many that the buffer would have no room. */
function countStaying(t: Float64Array, starts: Uint32Array, rowsMax: number): Uint32Array | null {
  const counts = new Uint32Array(starts.length - 1);
  let total = 0;
  for (let i = 0; i < counts.length; i++) {
    const last = starts[i + 1]! - 1;
    let count = 0;
    while (last - count >= starts[i]! && t[last - count] === t[last]) count++;
    counts[i] = count > stayingMax ? 0 : count;
    total += counts[i]!;
  }
  return total > rowsMax / 2 ? null : counts;
}

/** Number of texts of a column that are encoded together. Strings that live no longer cost the garbage collector little. */
const textsAtOnce = 4096;

function openTextBuffer() {
  const pending = new Array<string | null>(textsAtOnce).fill(null);
  let count = 0;
  let encoded: TextColumn[] = [];
  const encode = (): void => {
    encoded.push(encodeTexts(count < textsAtOnce ? pending.slice(0, count) : pending));
    count = 0;
  };
  return {
    add(text: string | null) {
      pending[count++] = text;
      if (count === textsAtOnce) encode();
    },
    /** Returns all texts, and empties the buffer. */
    drain(): TextColumn {
      encode();
      const all = concatTexts(encoded);
      encoded = [];
      pending.fill(null);
      return all;
    },
  };
}
