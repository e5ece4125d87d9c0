import type { SymbolFacts } from '../../core/market.ts';
import { hasTooManySuspended, isActive } from '../../core/symbol-lifetime.ts';
import { formatIsoUtc } from '../../core/time.ts';
import type { Database } from '../../state/database.ts';
import { countActiveSymbols, readSuspendedSymbols } from '../../state/symbols.ts';
import { getConfiguredSymbols } from '../open-configured.ts';
import type { Run } from '../run.ts';
import { formatNameList } from './poll-steps.ts';

/** The suspended symbols that polls are for: those of the lists, or those `named` by hand. */
export const listActiveSuspended = (db: Database, named: ReadonlySet<string> | null): SymbolFacts[] =>
  readSuspendedSymbols(db).filter((facts) => isActive(facts, named));

/** Every suspended symbol, whether polls are for it or not. */
export const listSuspendedNames = ({ archive }: Run): string[] =>
  readSuspendedSymbols(archive.state.db).map(({ symbol }) => symbol);

/**
 * Tells of suspended symbols at the end of a run that polls: a warning. It is a failure where one of them had shown ticks,
 * which a symbol that does not exist has not, or where more of them are suspended than single ones ever are.
 */
export function reportSuspendedSymbols(run: Run): void {
  const { context, archive } = run;
  const named = getConfiguredSymbols(context);
  const suspended = listActiveSuspended(archive.state.db, named).filter(
    ({ symbol }) => run.requestedSymbols.size === 0 || run.requestedSymbols.has(symbol),
  );
  if (suspended.length === 0) return;
  const names = suspended.map(({ symbol }) => symbol);
  run.warnings.push(
    `The service says that it does not know ${formatNameList(names, 'symbol', 20)}: suspended, and asked for once a day; oddslake symbols retry asks at once.`,
  );
  const failed = new Set(run.failures.map(({ symbol }) => symbol));
  for (const { symbol, suspendedAt, unknownSince, lastTick, ticks } of suspended) {
    if (ticks === 0 || failed.has(symbol)) continue;
    const [from, to] = [unknownSince ?? suspendedAt!, context.clock.nowMs()];
    const reason = `suspended: unknown to the service since ${formatIsoUtc(from)}, though it had shown ticks up to ${formatIsoUtc(lastTick!)}`;
    run.failures.push({ symbol, from, to, reason });
  }
  const active = named === null ? countActiveSymbols(archive.state.db) : named.size;
  if (run.requestedSymbols.size === 0 && hasTooManySuspended(suspended.length, active)) {
    const reason = `${formatNameList(names, 'symbol')} of ${active} active ones suspended: more than 1 %`;
    run.failures.push({ symbol: null, from: null, to: null, reason });
  }
}
