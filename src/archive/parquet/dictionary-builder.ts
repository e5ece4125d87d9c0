/** Of a column's values, each once in the order of their first rows, and for each row the number of its value. */
export interface Dictionary {
  readonly values: Float64Array;
  readonly indexes: Uint16Array;
}

/** Indexes are of 16 bits. */
export const dictionaryValuesMax = 65_536;

/** Slots of the table at first, for the prices that most parts have; four times as many whenever half are taken. */
const slotsMin = 4096;

// Kept from call to call, and grown to the largest row group: a call would spend most of its time on new ones.
let slots = new Int32Array(slotsMin);
let slotValues = new Float64Array(slotsMin / 2);
let indexes = new Uint16Array(0);

/**
 * The distinct values of some rows, told apart by their bits; undefined where they are more than `max`, at most
 * `distinctMax`. What is returned holds until the next call.
 */
export function buildDictionary(values: Float64Array, max: number): Dictionary | undefined {
  const rows = values.length;
  if (indexes.length < rows) indexes = new Uint16Array(rows);
  const bits = new Int32Array(values.buffer, values.byteOffset, 2 * rows);
  const out = indexes;
  let table = slots;
  let takenBits = new Int32Array(slotValues.buffer);
  let mask = slotsMin - 1;
  table.fill(0, 0, mask + 1);
  let count = 0;
  // Nothing of a row is asked of the one before it: a branch on whether they are equal is a coin toss, and costs more than
  // it saves.
  for (let row = 0; row < rows; row++) {
    const low = bits[2 * row]!;
    const high = bits[2 * row + 1]!;
    let slot = hashToSlot(low, high, mask);
    let index = table[slot]! - 1;
    while (index >= 0 && (takenBits[2 * index] !== low || takenBits[2 * index + 1] !== high)) {
      slot = (slot + 1) & mask;
      index = table[slot]! - 1;
    }
    if (index < 0) {
      if (count === max) return undefined;
      index = count++;
      takenBits[2 * index] = low;
      takenBits[2 * index + 1] = high;
      table[slot] = count;
      if (2 * count > mask) {
        mask = 4 * (mask + 1) - 1;
        growTable(count, mask);
        table = slots;
        takenBits = new Int32Array(slotValues.buffer);
      }
    }
    out[row] = index;
  }
  return { values: slotValues.subarray(0, count), indexes: out.subarray(0, rows) };
}

/** Where the search for a value begins: the halves of its bits mixed as in MurmurHash3's last step. */
function hashToSlot(low: number, high: number, mask: number): number {
  let hash = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0xc2b2ae35);
  hash ^= hash >>> 15;
  return (Math.imul(hash, 0x27d4eb2f) >>> 12) & mask;
}

/** Puts the first `count` values into a table of `mask` + 1 slots. */
function growTable(count: number, mask: number): void {
  if (slots.length <= mask) {
    slots = new Int32Array(mask + 1);
    const more = new Float64Array((mask + 1) / 2);
    more.set(slotValues);
    slotValues = more;
  } else slots.fill(0, 0, mask + 1);
  const bits = new Int32Array(slotValues.buffer);
  for (let index = 0; index < count; index++) {
    let slot = hashToSlot(bits[2 * index]!, bits[2 * index + 1]!, mask);
    while (slots[slot] !== 0) slot = (slot + 1) & mask;
    slots[slot] = index + 1;
  }
}
