import { UsageError } from '../base/errors.ts';
import { suggestName } from '../base/nearest-name.ts';
import type { BacktestSpec, ExecutableSpec } from '../contract/backtest-request.ts';
import type { Fault } from '../contract/parsed-schema.ts';
import type { Strategy } from '../contract/strategy-language.ts';
import { builtinStrategies } from './strategy/builtin-strategies.ts';
import { bindParameters, type ParameterPoint } from './strategy/parse-strategy.ts';

/** An invalid backtest request, with its faults by field. */
export class InvalidBacktestError extends UsageError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    super(`The backtest cannot be run: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`);
    this.name = 'InvalidBacktestError';
    this.faults = faults;
  }
}

export interface ResolvedStrategy {
  readonly strategy: Strategy;
  /** Version of a saved strategy, otherwise null. */
  readonly version: number | null;
}

/** Finds a saved strategy of the owner; version null: the latest. */
type FindSavedStrategy = (
  name: string,
  version: number | null,
) => Promise<{ readonly definition: string; readonly version: number } | null>;

/**
 * Resolves a strategy: the one in the request, otherwise a saved one by name, otherwise a built-in one.
 * @throws InvalidBacktestError
 */
export async function resolveStrategy(
  { name, version, strategy }: ExecutableSpec,
  findSaved: FindSavedStrategy,
): Promise<ResolvedStrategy> {
  if (strategy !== null) {
    if (version !== null)
      throw createStrategyError('version', 'applies only to saved strategies, not to a strategy in the request');
    return { strategy, version: null };
  }
  const saved = await findSaved(name, version);
  if (saved !== null) {
    // Validated when it was saved, and again when its parameters are bound.
    return { strategy: JSON.parse(saved.definition) as Strategy, version: saved.version };
  }
  const latest = version === null ? null : await findSaved(name, null);
  if (latest !== null)
    throw createStrategyError('version', `does not exist: the latest version of ${name} is ${latest.version}`);
  const builtIn = builtinStrategies.find((one) => one.name === name);
  if (builtIn === undefined) {
    const names = builtinStrategies.map((one) => one.name);
    const advice = suggestName(name, names);
    throw createStrategyError(
      'name',
      `is neither a saved strategy of this user nor one of ${names.join(', ')}${advice}`,
    );
  }
  if (version !== null)
    throw createStrategyError('version', `applies only to saved strategies: ${name} has no versions`);
  return { strategy: builtIn.strategy, version: null };
}

const createStrategyError = (field: 'name' | 'version', reason: string) =>
  new InvalidBacktestError([{ name: `entry_executable.${field}`, reason }]);

/**
 * Sets the fees and whole contracts of a request, and binds the parameters of its strategy at every point of a grid.
 * @throws InvalidBacktestError
 */
export function bindGridPoints(
  points: readonly ParameterPoint[],
  { parameters, fees, whole_contracts, grid }: BacktestSpec,
  resolved: ResolvedStrategy,
): Strategy[] {
  const strategy = {
    ...resolved.strategy,
    fees: fees ?? resolved.strategy.fees,
    whole_contracts: whole_contracts ?? resolved.strategy.whole_contracts ?? null,
  };
  if (fees !== null) requireNoUnusedFees(resolved.strategy, strategy, { parameters, grid });
  return points.map((point) => {
    const duplicate = Object.keys(point).find((name) => Object.hasOwn(parameters, name));
    if (duplicate !== undefined)
      throw new InvalidBacktestError([{ name: `parameters.${duplicate}`, reason: 'is also in the grid' }]);
    const bound = bindParameters(strategy, { ...parameters, ...point });
    if ('faults' in bound) throw new InvalidBacktestError(bound.faults.map((fault) => toPointFault(fault, point)));
    return bound.strategy;
  });
}

/** Throws for a value of a parameter that only the replaced fees used: it would be ignored. */
function requireNoUnusedFees(
  before: Strategy,
  after: Strategy,
  given: Pick<BacktestSpec, 'parameters' | 'grid'>,
): void {
  const isUsed = (strategy: Strategy, name: string): boolean =>
    JSON.stringify(strategy).includes(`"parameter":${JSON.stringify(name)}`);
  const faults = (['parameters', 'grid'] as const).flatMap((field) =>
    Object.keys(given[field])
      .filter((name) => isUsed(before, name) && !isUsed(after, name))
      .map((name) => ({ name: `${field}.${name}`, reason: 'has no effect: fees replaces the fees that use it' })),
  );
  if (faults.length > 0) throw new InvalidBacktestError(faults);
}

/** Reports a fault at the place where the value was given. */
function toPointFault({ name, reason }: Fault, point: ParameterPoint): Fault {
  const [, parameter = ''] = /^parameters\.(.*)$/s.exec(name) ?? [];
  return { name: Object.hasOwn(point, parameter) ? `grid.${parameter}` : name, reason };
}
