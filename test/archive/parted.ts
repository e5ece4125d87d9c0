import type { Archive } from '../../src/archive/archive.ts';
import { answer, append, day0, dayMs, opened, publishNow } from './scratch.ts';

// An archive to be damaged, whose days have two parts.

export const parts = 2;
/** Three symbols of each part. */
export const symbols = Array.from({ length: 6 }, (_, n) => `S${n}`);
/** A symbol in the range of the first part that has no rows. */
export const alien = 'S1 alien';
export const mine = symbols.slice(0, 3);
export const others = symbols.slice(3);
export const minutes = 40;
const ticksOf = (symbol: string, day: number) =>
  Array.from({ length: minutes }, (_, i) => [day + i * 60_000 + symbols.indexOf(symbol), i / 100] as const);

/** Two days of six symbols in two parts, row groups of 30 ticks: less than a symbol has. */
export async function published(): Promise<Archive> {
  const archive = opened({ parts, groupRows: 30, mends: true });
  for (const day of [day0, day0 + dayMs])
    for (const symbol of symbols)
      append(archive, answer(symbol, ticksOf(symbol, day), { windows: [{ from: day, to: day + dayMs }] }));
  await publishNow(archive);
  return archive;
}
