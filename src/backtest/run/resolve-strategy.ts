import type { ExecutableSpec } from '../backtest-spec.ts';
import { builtinStrategies } from '../strategy/builtin-strategies.ts';
import type { Fault } from '../strategy/json-validator.ts';
import type { Strategy } from '../strategy/strategy.ts';
import type { ResolvedStrategy } from './run-backtest.ts';

/** Finds a saved strategy of the owner; version null: the latest. */
export type FindSavedStrategy = (
  name: string,
  version: number | null,
) => Promise<{ readonly definition: string; readonly version: number } | null>;

/** Resolves a strategy: the one in the request, otherwise a saved one by name, otherwise a built-in one. */
export async function resolveStrategy(
  { name, version, strategy }: ExecutableSpec,
  findSaved: FindSavedStrategy,
): Promise<{ found: ResolvedStrategy } | { faults: readonly Fault[] }> {
  if (strategy !== null) {
    if (version !== null)
      return createStrategyFaults('version', 'applies only to saved strategies, not to a strategy in the request');
    return { found: { strategy, version: null } };
  }
  const saved = await findSaved(name, version);
  if (saved !== null) {
    // Validated when it was saved, and again when its parameters are bound.
    return { found: { strategy: JSON.parse(saved.definition) as Strategy, version: saved.version } };
  }
  const latest = version === null ? null : await findSaved(name, null);
  if (latest !== null)
    return createStrategyFaults('version', `does not exist: the latest version of ${name} is ${latest.version}`);
  const builtIn = builtinStrategies.find((one) => one.name === name);
  if (builtIn === undefined) {
    const names = builtinStrategies.map((one) => one.name).join(', ');
    return createStrategyFaults('name', `is neither a saved strategy of this user nor one of ${names}`);
  }
  if (version !== null)
    return createStrategyFaults('version', `applies only to saved strategies: ${name} has no versions`);
  return { found: { strategy: builtIn.strategy, version: null } };
}

const createStrategyFaults = (field: 'name' | 'version', reason: string) => ({
  faults: [{ name: `entry_executable.${field}`, reason }],
});
