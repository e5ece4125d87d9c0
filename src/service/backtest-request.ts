import { setImmediate } from 'node:timers/promises';
import { resolveStrategy } from '../reading/backtests/find-strategy.ts';
import { InvalidBacktestError } from '../reading/backtests/invalid-backtest.ts';
import type { ResolvedStrategy } from '../reading/backtests/run-backtest.ts';
import { bindGridPoints } from '../reading/backtests/run-backtest.ts';
import { type BacktestSpec, parseBacktestSpec } from '../research/backtest-request.ts';
import { expandGrid } from '../research/bind-parameters.ts';
import type { Fault } from '../research/validator.ts';
import { readSymbol } from '../state/symbols.ts';
import { createStrategyStore } from '../workspace/strategies.ts';
import type { OwnerColumns } from '../workspace/tables.ts';
import type { ServiceContext } from './context.ts';
import { ProblemError } from './problem-details.ts';

/** What is to be run. */
export interface ResolvedBacktest {
  readonly spec: BacktestSpec;
  readonly resolvedStrategy: ResolvedStrategy;
}

/** What a body says by itself. */
export interface ParsedBacktestBody {
  readonly spec: BacktestSpec;
  readonly save: boolean;
  /** As they came: what is asked has each of them once. */
  readonly symbols: readonly string[];
}

/** @throws ProblemError 400 that names every field at fault */
export function parseBacktestBody(body: unknown): ParsedBacktestBody {
  const { save, rest, faults } = splitSaveFlag(body);
  const read = parseBacktestSpec(rest);
  if ('faults' in read || faults.length > 0)
    throw createInvalidBacktestError([...('faults' in read ? read.faults : []), ...faults]);
  const { symbols } = rest as { readonly symbols?: readonly string[] | null };
  return { spec: read.asked, save, symbols: symbols ?? [] };
}

/**
 * Looks for the strategy and the symbols that are asked for.
 * @throws ProblemError 400 that names every field at fault
 */
export async function resolveBacktest(
  { archive, workspace }: ServiceContext,
  owner: OwnerColumns,
  { spec, symbols }: ParsedBacktestBody,
): Promise<ResolvedBacktest> {
  const kept = createStrategyStore(workspace.db);
  const one = await resolveStrategy(spec.entry_executable, (name, version) => kept.find(owner, name, version));
  if ('faults' in one) throw createInvalidBacktestError(one.faults);
  const unknown: Fault[] = [];
  await processInBatches([...symbols.entries()], (some) => {
    for (const [i, symbol] of some)
      if (readSymbol(archive.state.db, symbol) === undefined)
        unknown.push({ name: `symbols[${i}]`, reason: 'is no symbol that this archive knows' });
  });
  if (unknown.length > 0) throw createInvalidBacktestError(unknown);
  try {
    await processInBatches(expandGrid(spec.grid), (some) => void bindGridPoints(some, spec, one.found));
  } catch (error) {
    throw error instanceof InvalidBacktestError ? createInvalidBacktestError(error.faults) : error;
  }
  return { spec, resolvedStrategy: one.found };
}

/** What one request may ask for takes longer than others should wait. */
async function processInBatches<T>(all: readonly T[], work: (some: readonly T[]) => void): Promise<void> {
  for (let i = 0; i < all.length; i += batchSize) {
    work(all.slice(i, i + batchSize));
    await setImmediate();
  }
}

const batchSize = 50;

function splitSaveFlag(body: unknown): { save: boolean; rest: object; faults: readonly Fault[] } {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw createInvalidBacktestError([{ name: '', reason: 'must be an object' }]);
  const { save = false, ...rest } = body as { save?: unknown };
  const faults = typeof save === 'boolean' ? [] : [{ name: 'save', reason: 'must be true or false' }];
  return { save: save === true, rest, faults };
}

/** A backtest that cannot be run as it was asked for. */
export const createInvalidBacktestError = (faults: readonly Fault[]): ProblemError =>
  new ProblemError(400, 'The backtest cannot be run as it is asked for.', {
    errors: faults.map(({ name, reason }) => ({ name: name === '' ? 'body' : name, reason })),
  });
