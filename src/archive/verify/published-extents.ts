import type { Data, Utf8 } from 'apache-arrow';
import type { Extent } from '../../state/check.ts';
import { decode } from '../parquet/parquet.ts';
import { readSymbols, readTimes } from '../parquet/ticks-plain.ts';

/** How much of the time of each symbol's ticks is published as covered. */
export type Extents = Map<string, Extent>;

/**
 * Adds what one file of coverage says, column by column: an object a row takes ten times as long, and there is a row for
 * every symbol of every day. @throws Error where it is no such file
 */
export function addExtents(extents: Extents, bytes: Uint8Array): void {
  const { batches, schema } = decode(bytes);
  const child = (name: string, children: readonly Data[]): Data => {
    const found = children[schema.fields.findIndex((field) => field.name === name)];
    if (found === undefined) throw new Error(`column ${name} is missing`);
    return found;
  };
  for (const { numRows, data } of batches) {
    const from = new Float64Array(numRows);
    const to = new Float64Array(numRows);
    readTimes(child('t_from', data.children), from, 0);
    readTimes(child('t_to', data.children), to, 0);
    const ofSymbol = runsOf(child('symbol', data.children) as Data<Utf8>, numRows);
    for (const dataset of runsOf(child('dataset', data.children) as Data<Utf8>, numRows)) {
      if (dataset.text !== 'ticks') continue;
      for (const run of ofSymbol)
        add(extents, run.text, from, to, Math.max(run.start, dataset.start), Math.min(run.end, dataset.end));
    }
  }
}

interface TextRun {
  readonly text: string;
  /** Rows `start` to `end`, the latter excluded. */
  readonly start: number;
  readonly end: number;
}

function runsOf(data: Data<Utf8>, rows: number): TextRun[] {
  const texts: string[] = [];
  const starts: number[] = [];
  readSymbols(data, rows, 0, texts, starts);
  return texts.map((text, i) => ({ text, start: starts[i]!, end: starts[i + 1] ?? rows }));
}

function add(extents: Extents, symbol: string, from: Float64Array, to: Float64Array, start: number, end: number): void {
  if (start >= end) return;
  const was = extents.get(symbol);
  let ms = was?.ms ?? 0;
  let least = was?.from ?? Number.POSITIVE_INFINITY;
  let most = was?.to ?? Number.NEGATIVE_INFINITY;
  for (let row = start; row < end; row++) {
    ms += to[row]! - from[row]!;
    least = Math.min(least, from[row]!);
    most = Math.max(most, to[row]!);
  }
  extents.set(symbol, { windows: (was?.windows ?? 0) + end - start, ms, from: least, to: most });
}
