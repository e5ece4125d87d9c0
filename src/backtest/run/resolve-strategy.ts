import type { ExecutableSpec } from '../backtest-spec.ts';
import { builtinStrategies } from '../strategy/builtin-strategies.ts';
import type { Fault } from '../strategy/json-validator.ts';
import type { Strategy } from '../strategy/strategy.ts';
import type { ResolvedStrategy } from './run-backtest.ts';

/** Looks for a strategy that its owner keeps; without a version for the latest. */
export type FindSavedStrategy = (
  name: string,
  version: number | null,
) => Promise<{ readonly definition: string; readonly version: number } | null>;

/** Which strategy is meant: the one that comes along, else one of the owner's of that name, else one that everybody has. */
export async function resolveStrategy(
  { name, version, strategy }: ExecutableSpec,
  findKept: FindSavedStrategy,
): Promise<{ found: ResolvedStrategy } | { faults: readonly Fault[] }> {
  if (strategy !== null) {
    if (version !== null)
      return createStrategyFaults('version', 'is of a strategy that is kept, and not of one that comes along');
    return { found: { strategy, version: null } };
  }
  const kept = await findKept(name, version);
  if (kept !== null) {
    // It was read when it came in, and is read again when its parameters are bound.
    return { found: { strategy: JSON.parse(kept.definition) as Strategy, version: kept.version } };
  }
  const latest = version === null ? null : await findKept(name, null);
  if (latest !== null) return createStrategyFaults('version', `is none of ${name}, whose latest is ${latest.version}`);
  const builtIn = builtinStrategies.find((one) => one.name === name);
  if (builtIn === undefined) {
    const names = builtinStrategies.map((one) => one.name).join(', ');
    return createStrategyFaults('name', `is no strategy of this user, and none of ${names}`);
  }
  if (version !== null) return createStrategyFaults('version', `is of a strategy that is kept: ${name} has none`);
  return { found: { strategy: builtIn.strategy, version: null } };
}

const createStrategyFaults = (field: 'name' | 'version', reason: string) => ({
  faults: [{ name: `entry_executable.${field}`, reason }],
});
