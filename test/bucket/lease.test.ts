import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decideLease, type Lease, type LeaseRequest, type TakeoverRule } from '../../src/bucket/lease.ts';

const leaseMs = 60_000;
const request = (holder: string, takesOver: TakeoverRule = 'never'): LeaseRequest => ({
  ...{ holder, host: `host of ${holder}`, leaseMs, takesOver },
});
const lease = (holder: string, token: number, expiresAt: number): Lease => ({
  ...{ format: 1, holder, host: `host of ${holder}`, token, expires_at: expiresAt },
});

describe('a lease', () => {
  test('that nobody holds is claimed, with a token above that of the manifest', () => {
    expect(decideLease(null, request('a'), 0, 1000)).toEqual({ kind: 'write', lease: lease('a', 1, 1000 + leaseMs) });
    // Somebody removed the object: the holders of before are still locked out.
    expect(decideLease(null, request('a'), 7, 1000)).toEqual({ kind: 'write', lease: lease('a', 8, 1000 + leaseMs) });
  });

  test('of one holder is renewed under its token once half of it has passed, also after its end', () => {
    const current = lease('a', 3, 100_000);
    expect(decideLease(current, request('a'), 0, 100_000 - leaseMs / 2 - 1)).toEqual({ kind: 'keep', lease: current });
    for (const nowMs of [100_000 - leaseMs / 2, 100_000, 1_000_000])
      expect(decideLease(current, request('a'), 0, nowMs)).toEqual({
        kind: 'write',
        lease: lease('a', 3, nowMs + leaseMs),
      });
  });

  test.each<[TakeoverRule, number, 'held' | 'write']>([
    ['never', 99_999, 'held'],
    ['never', 100_000, 'held'],
    ['if expired', 99_999, 'held'],
    ['if expired', 100_000, 'write'],
    ['always', 1, 'write'],
  ])('of another holder is taken over by the rule "%s" at %i: %s', (rule, nowMs, kind) => {
    const decision = decideLease(lease('a', 3, 100_000), request('b', rule), 0, nowMs);
    expect(decision).toEqual(
      kind === 'write'
        ? { kind, lease: lease('b', 4, nowMs + leaseMs) }
        : { kind, lease: lease('a', 3, 100_000), isExpired: nowMs >= 100_000 },
    );
  });

  test('has another token whenever its holder changes, and never an older one', () => {
    const step = fc.record({
      holder: fc.constantFrom('a', 'b', 'c'),
      rule: fc.constantFrom<TakeoverRule>('never', 'if expired', 'always'),
      passedMs: fc.integer({ min: 0, max: 2 * leaseMs }),
      isRemoved: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let [current, fence, nowMs] = [null as Lease | null, 0, 0];
        const holders = new Map<number, string>();
        for (const { holder, rule, passedMs, isRemoved } of steps) {
          nowMs += passedMs;
          if (isRemoved) current = null;
          const decision = decideLease(current, request(holder, rule), fence, nowMs);
          if (decision.kind === 'held') continue;
          const { token } = decision.lease;
          expect(token).toBeGreaterThanOrEqual(fence);
          expect(holders.get(token) ?? holder).toBe(holder);
          holders.set(token, holder);
          // A holder fences the manifest before it collects.
          [current, fence] = [decision.lease, token];
        }
      }),
    );
  });
});
