import { UsageError } from '../base/errors.ts';
import type { Fault } from './strategy/json-validator.ts';

/** A backtest that cannot be run as it was asked for: what is wrong, by field. */
export class InvalidBacktestError extends UsageError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    super(`The backtest cannot be run: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`);
    this.name = 'InvalidBacktestError';
    this.faults = faults;
  }
}
