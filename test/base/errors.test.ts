import { describe, expect, test } from 'vitest';
import {
  DamageError,
  exitCodes,
  OddslakeError,
  UpstreamError,
  type UpstreamErrorFacts,
  UsageError,
} from '../../src/base/errors.ts';

describe('errors', () => {
  test('have the documented exit codes', () => {
    expect(exitCodes).toEqual({
      done: 0,
      unexpected: 1,
      usage: 2,
      credential: 3,
      incomplete: 4,
      busy: 5,
      damaged: 6,
      unreachable: 7,
      interrupted: 130,
      terminated: 143,
    });
    const codes = [new OddslakeError(exitCodes.busy, 'm'), new UsageError('m'), new DamageError('m')];
    expect(codes.map(({ name, message, exitCode }) => [name, message, exitCode])).toEqual([
      ['OddslakeError', 'm', 5],
      ['UsageError', 'm', 2],
      ['DamageError', 'm', 6],
    ]);
  });

  test('keep their cause', () => {
    const cause = new Error('disk');
    expect(new OddslakeError(1, 'm', { cause }).cause).toBe(cause);
    expect(new UsageError('m', { cause }).cause).toBe(cause);
    expect(new DamageError('m', { cause }).cause).toBe(cause);
    expect(new UpstreamError('m', { failure: 'refused', reason: 'r' }, { cause }).cause).toBe(cause);
  });

  test('of the upstream name the request and the reason', () => {
    const facts: UpstreamErrorFacts = {
      failure: 'transient' as const,
      reason: 'HTTP 503, 5 attempts',
      status: 503,
      symbol: 'S',
      window: { from: 1, to: 2 },
    };
    const error = new UpstreamError('tick page', facts);
    expect(error).toMatchObject({ ...facts, name: 'UpstreamError', message: 'tick page: HTTP 503, 5 attempts' });
    expect(new UpstreamError('tick page', { failure: 'refused', reason: 'r' })).toMatchObject({
      status: undefined,
      symbol: undefined,
      window: undefined,
    });
  });
});
