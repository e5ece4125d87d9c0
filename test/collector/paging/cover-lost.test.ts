import { describe, expect, test } from 'vitest';
import { UpstreamError } from '../../../src/base/errors.ts';
import { union, type Window } from '../../../src/base/window.ts';
import { fetchSymbol } from '../../../src/collector/paging/fetch-symbol.ts';
import { createScriptedContext, minute, refusal, start, toPlainPlans, window } from './served.ts';

describe('a lost window', () => {
  test('is a stated gap inside of the requested window', async () => {
    const gaps = [{ from: start - minute, to: start + minute }];
    const { context } = createScriptedContext(() => ({ gaps }));
    const reason = 'the service states that it has no data for this window';
    expect((await fetchSymbol(context, 'S', toPlainPlans(window))).lost).toEqual([
      { from: start, to: start + minute, reason },
    ]);
  });

  test('is that of a response without a usable tick, whatever it states', async () => {
    const rejected = [{ reason: 'p is missing', raw: '{}' }];
    const { context, records, behavior } = createScriptedContext(() => ({ received: 1, rejected }));
    expect((await fetchSymbol(context, 'S', toPlainPlans(window))).lost).toEqual([
      { ...window, reason: '1 of 1 tick rejected: p is missing' },
    ]);
    expect(records).toMatchObject([{ rejected, covered: [] }]);
    expect(behavior.largestWhole).toBe(0);
    const two = createScriptedContext(() => ({ received: 2, rejected: [...rejected, ...rejected] }));
    expect((await fetchSymbol(two.context, 'S', toPlainPlans(window))).lost[0]!.reason).toBe(
      '2 of 2 ticks rejected: p is missing',
    );
  });

  test('is the part after a response that is at least an hour old', async () => {
    const stale = createScriptedContext(() => ({ generatedAt: start }));
    expect((await fetchSymbol(stale.context, 'S', toPlainPlans(window))).lost).toEqual([
      { ...window, reason: 'the response was generated before the end of the window' },
    ]);
    const fresh = createScriptedContext(() => ({ generatedAt: start + 1 }));
    expect((await fetchSymbol(fresh.context, 'S', toPlainPlans(window))).lost).toEqual([]);
  });

  test('is a refused one if another is answered; if all are refused, the symbol fails', async () => {
    const windows = [0, 1].map((i) => ({ from: start + i * 10 * minute, to: start + (i * 10 + 5) * minute }));
    const some = createScriptedContext(({ to }) => {
      if (to === windows[1]!.to) throw refusal();
      return {};
    });
    expect((await fetchSymbol(some.context, 'S', toPlainPlans(...windows))).lost).toEqual([
      { ...windows[1], reason: 'HTTP 400' },
    ]);
    const errors: UpstreamError[] = [];
    const none = createScriptedContext(() => {
      errors.push(refusal());
      throw errors.at(-1)!;
    });
    const failed: unknown = await fetchSymbol(none.context, 'S', toPlainPlans(...windows)).catch(
      (error: unknown) => error,
    );
    expect(failed).toBe(errors[0]);
  });

  test('is not reported for an empty plan, and does not affect other symbols', async () => {
    expect(await fetchSymbol(createScriptedContext(() => ({})).context, 'S', [])).toEqual({
      edges: [],
      empties: [],
      lost: [],
    });
    const noCoverage = createScriptedContext(() => ({ from: 0, to: 0 }));
    expect((await fetchSymbol(noCoverage.context, 'S', toPlainPlans(window))).lost).toMatchObject([window]);
    expect(noCoverage.behavior.refusesEarlier).toBe(false);
  });

  test('is not reported if the request before the stated start fails temporarily', async () => {
    const failing = new UpstreamError('tick page', { failure: 'transient', reason: 'HTTP 500', status: 500 });
    const { context } = createScriptedContext(({ from, to }, nth) => {
      if (nth > 1) throw failing;
      return { from: from + minute, to };
    });
    await expect(fetchSymbol(context, 'S', toPlainPlans(window))).rejects.toBe(failing);
  });

  test('before the stated start is requested once only', async () => {
    const keptFrom = start + 20 * minute;
    for (const refuses of [true, false]) {
      const { context, queries, behavior } = createScriptedContext(
        ({ from, to }) => {
          if (to > keptFrom + 1) return { from: Math.max(from, keptFrom), to };
          if (refuses) throw refusal();
          return { from: keptFrom, to: keptFrom };
        },
        { fromInclusive: true },
      );
      for (const symbol of ['A', 'B']) {
        const { lost } = await fetchSymbol(context, symbol, toPlainPlans(window));
        // A stated start may be excluded.
        const reason = 'the service does not serve this window';
        expect(lost).toEqual([{ from: start, to: keptFrom + 1, reason, isTooOld: true }]);
      }
      expect(queries.map(({ symbol, meaning }) => `${symbol} ${meaning!.kind}`)).toEqual([
        'A whole',
        'A whole',
        'B whole',
      ]);
      expect(behavior.refusesEarlier).toBe(true);
    }
  });
});

describe('a service that covers little per response', () => {
  /** Covers one second per response. */
  const creeping = ({ from, to }: Window) => ({ from, to: Math.min(to, from + 1001) });

  test('is given up after 21 such responses, with the rest of the window', async () => {
    const { context, queries, records } = createScriptedContext(creeping, { fromInclusive: true });
    const { lost, empties } = await fetchSymbol(context, 'S', toPlainPlans(window));
    expect(queries).toHaveLength(21);
    const to = start + 21 * 1001 - 1;
    expect(union(empties)).toEqual([{ from: start, to }]);
    expect(records.flatMap(({ covered }) => covered)).toEqual([]);
    expect(lost).toEqual([{ from: to, to: window.to, reason: 'the service does not serve this window' }]);
  });

  test('is not given up if one of 21 responses covers a minute', async () => {
    const { context, queries } = createScriptedContext(
      (query, nth) =>
        nth % 20 === 0 ? { from: query.from, to: Math.min(query.to, query.from + 20 * minute) } : creeping(query),
      { fromInclusive: true },
    );
    expect((await fetchSymbol(context, 'S', toPlainPlans(window))).lost).toEqual([]);
    expect(queries.length).toBeGreaterThan(40);
  });
});
