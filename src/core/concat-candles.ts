import type { CandleColumns } from './candles.ts';

/** Candles of several lots of symbols, each lot's symbols after those of the one before. */
export function concatCandles(lots: readonly CandleColumns[]): CandleColumns {
  if (lots.length === 1) return lots[0]!;
  const rows = lots.reduce((sum, { t }) => sum + t.length, 0);
  const symbols = lots.flatMap((lot) => lot.symbols);
  const offsets = new Float64Array(symbols.length + 1);
  const doubles = (): Float64Array => new Float64Array(rows);
  const out = { t: doubles(), open: doubles(), high: doubles(), low: doubles(), close: doubles(), covered: doubles() };
  const ticks = new Int32Array(rows);
  let row = 0;
  let symbol = 0;
  for (const lot of lots) {
    for (const name of Object.keys(out) as (keyof typeof out)[]) out[name].set(lot[name], row);
    ticks.set(lot.ticks, row);
    for (let i = 0; i < lot.symbols.length; i++) offsets[++symbol] = row + lot.offsets[i + 1]!;
    row += lot.t.length;
  }
  return { symbols, offsets, ...out, ticks };
}
