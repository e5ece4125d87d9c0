import type { BotRequest } from '../contract/bots.ts';
import type { Fault } from '../research/validator.ts';
import { readSymbol } from '../state/symbols.ts';
import type { StrategyStore } from '../workspace/strategies.ts';
import type { OwnerColumns, StrategyRow } from '../workspace/tables.ts';
import type { ServiceContext } from './context.ts';
import { createInvalidBodyError } from './user-resource.ts';

interface ResolvedBot {
  readonly strategy: StrategyRow;
  /** Each once; null: those of the filter. */
  readonly symbols: readonly string[] | null;
  readonly filter: { readonly categories: readonly string[]; readonly sources: readonly string[] };
}

/** What a bot that is asked for is bound to. Throws ProblemError 400 where that is not there, each by its field. */
export async function resolveBot(
  { archive }: ServiceContext,
  kept: StrategyStore,
  owner: OwnerColumns,
  { strategy: asked, symbols, filter }: BotRequest,
): Promise<ResolvedBot> {
  const { name, version = null }: { name: string; version?: number | null } = asked;
  const errors: Fault[] = [];
  const strategy = await kept.find(owner, name, version);
  if (strategy === null) {
    const known = version !== null && (await kept.find(owner, name, null)) !== null;
    const [field, what] = known ? ['version', 'version of it'] : ['name', 'strategy of this user'];
    errors.push({ name: `strategy.${field}`, reason: `is no ${what}` });
  }
  if (symbols === undefined && filter === undefined)
    errors.push({ name: 'symbols', reason: 'is missing, and so is a filter' });
  if (symbols !== undefined && filter !== undefined)
    errors.push({ name: 'filter', reason: 'does not go with symbols: only one of the two' });
  const unknown = [...new Set(symbols)].filter((symbol) => readSymbol(archive.state.db, symbol) === undefined);
  for (const symbol of unknown)
    errors.push({ name: `symbols[${symbols!.indexOf(symbol)}]`, reason: 'is no symbol that this archive knows' });
  if (strategy === null || errors.length > 0) throw createInvalidBodyError(errors);
  const { categories = [], sources = [] } = filter ?? {};
  return {
    strategy,
    symbols: symbols === undefined ? null : [...new Set(symbols)],
    filter: { categories: [...new Set(categories)], sources: [...new Set(sources)] },
  };
}
