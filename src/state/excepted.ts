import type { Window } from '../core/window.ts';
import { readAcceptedWindows } from './accepted.ts';
import type { Database } from './database.ts';
import { readAllOwedWindows } from './owed.ts';

type SymbolWindow = Window & { readonly symbol: string };

/** The windows of ticks, by symbol, that a poll asks for no more: accepted and expired ones; in no order. */
export function readSettledGaps(db: Database): Map<string, Window[]> {
  const expired = [...readAllOwedWindows(db).values()].flat().filter(({ kind }) => kind === 'expired');
  return Map.groupBy<string, SymbolWindow>([...expired, ...readAcceptedWindows(db)], ({ symbol }) => symbol);
}
