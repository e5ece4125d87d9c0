import type { Window } from '../core/window.ts';
import { acceptedWindows } from './accepted.ts';
import type { Database } from './database.ts';
import { allOwedWindows } from './owed.ts';

type OfSymbol = Window & { readonly symbol: string };

/** The windows of ticks, by symbol, that a poll asks for no more: accepted and expired ones; in no order. */
export function settledGaps(db: Database): Map<string, Window[]> {
  const expired = [...allOwedWindows(db).values()].flat().filter(({ kind }) => kind === 'expired');
  return Map.groupBy<string, OfSymbol>([...expired, ...acceptedWindows(db)], ({ symbol }) => symbol);
}
