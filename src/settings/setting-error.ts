import { UsageError } from '../base/errors.ts';

/** The parts of a problem of the settings, as far as they are known. No part has a secret. */
export interface SettingErrorParts {
  /** The config file, the environment variable or the flag. */
  readonly from: string;
  /** The dotted path of the setting. */
  readonly key: string;
  /** The value as in messages; null if the key itself is the problem. */
  readonly value: string | null;
  readonly expected: string | null;
  /** What was probably meant: the name of a setting or a value. */
  readonly suggestion: string | null;
  /** Other settings that the value was compared with. */
  readonly comparedWith?: readonly string[];
}

/** A problem of one setting. */
export class SettingError extends UsageError {
  readonly parts: SettingErrorParts;
  constructor(message: string, parts: SettingErrorParts) {
    super(message);
    this.name = 'SettingError';
    this.parts = parts;
  }
}

/** Receives each problem of the settings. It throws the error if the first problem ends the work. */
export type ReportProblem = (error: UsageError) => void;

export const throwProblem: ReportProblem = (error) => {
  throw error;
};

/** Does one step of reading settings. If it fails, reports the problem and returns undefined. */
export function attemptStep<T>(report: ReportProblem, step: () => T): T | undefined {
  try {
    return step();
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    report(error);
    return undefined;
  }
}
