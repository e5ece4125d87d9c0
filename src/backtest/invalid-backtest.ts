import { UsageError } from '../base/errors.ts';
import type { Fault } from './strategy/json-validator.ts';

/** An invalid backtest request, with its faults by field. */
export class InvalidBacktestError extends UsageError {
  readonly faults: readonly Fault[];
  constructor(faults: readonly Fault[]) {
    super(`The backtest cannot be run: ${faults.map(({ name, reason }) => `${name} ${reason}`).join('; ')}.`);
    this.name = 'InvalidBacktestError';
    this.faults = faults;
  }
}
