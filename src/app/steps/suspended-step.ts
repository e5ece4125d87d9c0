import type { SymbolFacts } from '../../core/market.ts';
import { areManySuspended, isActive } from '../../core/symbol-lifetime.ts';
import { isoUtc } from '../../core/time.ts';
import type { Database } from '../../state/database.ts';
import { countActive, suspendedSymbols } from '../../state/symbols.ts';
import { namedSymbols } from '../open-configured.ts';
import type { Run } from '../run.ts';
import { count } from './poll-steps.ts';

/** The suspended symbols that polls are for: those of the lists, or those `named` by hand. */
export const activeSuspended = (db: Database, named: ReadonlySet<string> | null): SymbolFacts[] =>
  suspendedSymbols(db).filter((facts) => isActive(facts, named));

/** Every suspended symbol, whether polls are for it or not. */
export const suspendedNames = ({ archive }: Run): string[] =>
  suspendedSymbols(archive.state.db).map(({ symbol }) => symbol);

/**
 * Tells of suspended symbols at the end of a run that polls: a warning. It is a failure where one of them had shown ticks,
 * which a symbol that does not exist has not, or where more of them are suspended than single ones ever are.
 */
export function suspendedStep(run: Run): void {
  const { context, archive } = run;
  const named = namedSymbols(context);
  const suspended = activeSuspended(archive.state.db, named).filter(
    ({ symbol }) => run.byHand.size === 0 || run.byHand.has(symbol),
  );
  if (suspended.length === 0) return;
  const names = suspended.map(({ symbol }) => symbol);
  run.warnings.push(
    `The service says that it does not know ${count(names, 'symbol', 20)}: suspended, and asked for once a day; oddslake symbols retry asks at once.`,
  );
  const failed = new Set(run.failures.map(({ symbol }) => symbol));
  for (const { symbol, suspendedAt, unknownSince, lastTick, ticks } of suspended) {
    if (ticks === 0 || failed.has(symbol)) continue;
    const [from, to] = [unknownSince ?? suspendedAt!, context.clock.nowMs()];
    const reason = `suspended: unknown to the service since ${isoUtc(from)}, though it had shown ticks up to ${isoUtc(lastTick!)}`;
    run.failures.push({ symbol, from, to, reason });
  }
  const active = named === null ? countActive(archive.state.db) : named.size;
  if (run.byHand.size === 0 && areManySuspended(suspended.length, active)) {
    const reason = `${count(names, 'symbol')} of ${active} active ones suspended: more than 1 %`;
    run.failures.push({ symbol: null, from: null, to: null, reason });
  }
}
