import { nameMax, namePattern } from '../contract/strategies.ts';
import { parseStrategy } from '../research/parse-strategy.ts';
import type { Strategy } from '../research/strategy.ts';
import { JsonValidator } from '../research/validator.ts';
import { createInvalidBodyError } from './user-resource.ts';

const strategyNamePattern = new RegExp(namePattern, 'u');

/** The strategy that a body has, and its name. Throws ProblemError 400 with all that is wrong, each by its field. */
export function parseStrategyBody(body: unknown): { readonly name: string; readonly strategy: Strategy } {
  const reader = new JsonValidator();
  const asked = reader.object(body, '', { required: ['name', 'definition'], optional: [] });
  const called = asked.name === undefined ? '' : reader.text(asked.name, 'name', nameMax);
  if (called !== '' && !strategyNamePattern.test(called))
    reader.fault('name', 'must not begin or end with a blank, nor hold control characters');
  const read = asked.definition === undefined ? { faults: [] } : parseStrategy(asked.definition, 'definition');
  const faults = [...reader.faults, ...('faults' in read ? read.faults : [])];
  if ('faults' in read || faults.length > 0) throw createInvalidBodyError(faults);
  return { name: called, strategy: read.strategy };
}
