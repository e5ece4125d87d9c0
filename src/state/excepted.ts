import type { Window } from '../core/window.ts';
import { acceptedWindows } from './accepted.ts';
import type { Database } from './database.ts';
import { lostWindows } from './lost.ts';
import { allOwedWindows } from './owed.ts';

type OfSymbol = Window & { readonly symbol: string };

/** The windows of ticks, by symbol, that a poll asks for no more: accepted and expired ones; in no order. */
export function settledGaps(db: Database): Map<string, Window[]> {
  const expired = [...allOwedWindows(db).values()].flat().filter(({ kind }) => kind === 'expired');
  return Map.groupBy<string, OfSymbol>([...expired, ...acceptedWindows(db)], ({ symbol }) => symbol);
}

/**
 * The windows of ticks, by symbol, that nothing may ever cover and that hold up neither watermark nor lag: lost, expired
 * and accepted ones. They may overlap, and are in no order.
 */
export function exceptedWindows(db: Database): Map<string, Window[]> {
  const out = settledGaps(db);
  for (const loss of lostWindows(db))
    if (loss.dataset === 'ticks') out.set(loss.symbol, [...(out.get(loss.symbol) ?? []), loss]);
  return out;
}
