import { UsageError } from '../base/errors.ts';

/** The parts of a problem of the settings, as far as they are known. No part has a secret. */
interface SettingErrorParts {
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
  constructor(message: string, parts: Partial<SettingErrorParts> & Pick<SettingErrorParts, 'from' | 'key'>) {
    super(message);
    this.name = 'SettingError';
    this.parts = { value: null, expected: null, suggestion: null, ...parts };
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

/**
 * Drops problems that only follow from others: a setting whose own value is invalid has its default meanwhile, which need
 * not fit the settings that it is compared with.
 */
export function dropConsequences(errors: readonly UsageError[]): UsageError[] {
  const invalid = new Set(errors.flatMap((error) => (error instanceof SettingError ? [error.parts.key] : [])));
  const isConsequence = (error: UsageError): boolean =>
    error instanceof SettingError &&
    error.parts.comparedWith?.some((key) => invalid.has(key) && key !== error.parts.key) === true;
  return errors.filter((error) => !isConsequence(error));
}

/**
 * Throws the problem of the settings, or all of them as one error. Does nothing if there is none.
 * @param config absolute path of the config file
 * @param lines line of each key of the config file, counted from 1
 */
export function throwProblems(
  errors: readonly UsageError[],
  config: string | null,
  lines: ReadonlyMap<string, number>,
): void {
  const [first, ...others] = dropConsequences(errors).map((error) => addLine(error, config, lines));
  if (first === undefined) return;
  if (others.length === 0) throw first;
  const all = [first, ...others];
  throw new UsageError(`${all.length} settings are wrong: ${all.map(({ message }) => message).join('; ')}`, {
    cause: new AggregateError(all),
  });
}

/** Adds the line to a message that begins with the config file. */
function addLine(error: UsageError, config: string | null, lines: ReadonlyMap<string, number>): UsageError {
  if (!(error instanceof SettingError) || config === null) return error;
  const line = findLine(lines, error.parts.key);
  const head = `${config}: `;
  if (line === null || !error.message.startsWith(head)) return error;
  return new SettingError(`${config}:${line}: ${error.message.slice(head.length)}`, error.parts);
}

/** The line of a setting in the config file; of an element of a list, that of the list. */
export const findLine = (lines: ReadonlyMap<string, number>, key: string): number | null =>
  lines.get(key.replace(/\[\d+\]$/, '')) ?? null;
