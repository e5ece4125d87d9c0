import { setImmediate } from 'node:timers/promises';
import { findStrategy } from '../reading/backtests/find-strategy.ts';
import { UnfitBacktest } from '../reading/backtests/invalid-backtest.ts';
import type { Found } from '../reading/backtests/run-backtest.ts';
import { boundAt } from '../reading/backtests/run-backtest.ts';
import { type BacktestAsked, readAsked } from '../research/backtest-request.ts';
import { gridPoints } from '../research/bind-parameters.ts';
import type { Fault } from '../research/validator.ts';
import { oneSymbol } from '../state/symbols.ts';
import { strategies } from '../workspace/strategies.ts';
import type { OwnerColumns } from '../workspace/tables.ts';
import type { ServiceContext } from './context.ts';
import { ProblemError } from './problem-details.ts';

/** What is to be run. */
export interface BacktestWanted {
  readonly asked: BacktestAsked;
  readonly found: Found;
}

/** What a body says by itself. */
export interface ReadBody {
  readonly asked: BacktestAsked;
  readonly save: boolean;
  /** As they came: what is asked has each of them once. */
  readonly symbols: readonly string[];
}

/** @throws ProblemError 400 that names every field at fault */
export function readBody(body: unknown): ReadBody {
  const { save, rest, faults } = withoutSave(body);
  const read = readAsked(rest);
  if ('faults' in read || faults.length > 0) throw unfit([...('faults' in read ? read.faults : []), ...faults]);
  const { symbols } = rest as { readonly symbols?: readonly string[] | null };
  return { asked: read.asked, save, symbols: symbols ?? [] };
}

/**
 * Looks for the strategy and the symbols that are asked for.
 * @throws ProblemError 400 that names every field at fault
 */
export async function requireBacktest(
  { archive, workspace }: ServiceContext,
  owner: OwnerColumns,
  { asked, symbols }: ReadBody,
): Promise<BacktestWanted> {
  const kept = strategies(workspace.db);
  const one = await findStrategy(asked.entry_executable, (name, version) => kept.find(owner, name, version));
  if ('faults' in one) throw unfit(one.faults);
  const unknown: Fault[] = [];
  await fewAtATime([...symbols.entries()], (some) => {
    for (const [i, symbol] of some)
      if (oneSymbol(archive.state.db, symbol) === undefined)
        unknown.push({ name: `symbols[${i}]`, reason: 'is no symbol that this archive knows' });
  });
  if (unknown.length > 0) throw unfit(unknown);
  try {
    await fewAtATime(gridPoints(asked.grid), (some) => void boundAt(some, asked, one.found));
  } catch (error) {
    throw error instanceof UnfitBacktest ? unfit(error.faults) : error;
  }
  return { asked, found: one.found };
}

/** What one request may ask for takes longer than others should wait. */
async function fewAtATime<T>(all: readonly T[], work: (some: readonly T[]) => void): Promise<void> {
  for (let i = 0; i < all.length; i += few) {
    work(all.slice(i, i + few));
    await setImmediate();
  }
}

const few = 50;

function withoutSave(body: unknown): { save: boolean; rest: object; faults: readonly Fault[] } {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw unfit([{ name: '', reason: 'must be an object' }]);
  const { save = false, ...rest } = body as { save?: unknown };
  const faults = typeof save === 'boolean' ? [] : [{ name: 'save', reason: 'must be true or false' }];
  return { save: save === true, rest, faults };
}

/** A backtest that cannot be run as it was asked for. */
export const unfit = (faults: readonly Fault[]): ProblemError =>
  new ProblemError(400, 'The backtest cannot be run as it is asked for.', {
    errors: faults.map(({ name, reason }) => ({ name: name === '' ? 'body' : name, reason })),
  });
