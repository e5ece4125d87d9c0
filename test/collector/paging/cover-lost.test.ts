import { describe, expect, test } from 'vitest';
import { UpstreamError } from '../../../src/base/errors.ts';
import { union, type Window } from '../../../src/base/window.ts';
import { fetchSymbol } from '../../../src/collector/paging/fetch-symbol.ts';
import { minute, plainly, refusal, served, start, window } from './served.ts';

describe('what is lost', () => {
  test('is what the service names as a gap, of what was asked', async () => {
    const gaps = [{ from: start - minute, to: start + minute }];
    const { context } = served(() => ({ gaps }));
    const reason = 'the service says that it lacks this window';
    expect((await fetchSymbol(context, 'S', plainly(window))).lost).toEqual([
      { from: start, to: start + minute, reason },
    ]);
  });

  test('is an answer of which nothing can be used, whatever it states to cover', async () => {
    const rejected = [{ reason: 'p is missing', raw: '{}' }];
    const { context, records, behavior } = served(() => ({ received: 1, rejected }));
    expect((await fetchSymbol(context, 'S', plainly(window))).lost).toEqual([
      { ...window, reason: 'none of 1 tick can be used: p is missing' },
    ]);
    expect(records).toMatchObject([{ rejected, covered: [] }]);
    expect(behavior.largestWhole).toBe(0);
    const two = served(() => ({ received: 2, rejected: [...rejected, ...rejected] }));
    expect((await fetchSymbol(two.context, 'S', plainly(window))).lost[0]!.reason).toBe(
      'none of 2 ticks can be used: p is missing',
    );
  });

  test('is what lies after the moment of an answer that is an hour old, and nothing after a younger one', async () => {
    const stale = served(() => ({ generatedAt: start }));
    expect((await fetchSymbol(stale.context, 'S', plainly(window))).lost).toEqual([
      { ...window, reason: 'the service answers as of an earlier moment' },
    ]);
    const fresh = served(() => ({ generatedAt: start + 1 }));
    expect((await fetchSymbol(fresh.context, 'S', plainly(window))).lost).toEqual([]);
  });

  test('is a window that is refused where another is answered; a symbol refused for all fails with the first refusal', async () => {
    const windows = [0, 1].map((i) => ({ from: start + i * 10 * minute, to: start + (i * 10 + 5) * minute }));
    const some = served(({ to }) => {
      if (to === windows[1]!.to) throw refusal();
      return {};
    });
    expect((await fetchSymbol(some.context, 'S', plainly(...windows))).lost).toEqual([
      { ...windows[1], reason: 'answered 400' },
    ]);
    const errors: UpstreamError[] = [];
    const none = served(() => {
      errors.push(refusal());
      throw errors.at(-1)!;
    });
    const failed: unknown = await fetchSymbol(none.context, 'S', plainly(...windows)).catch((error: unknown) => error);
    expect(failed).toBe(errors[0]);
  });

  test('is nothing where nothing is to be asked, and a silent answer tells nothing of the past of others', async () => {
    expect(await fetchSymbol(served(() => ({})).context, 'S', [])).toEqual({ empties: [], presumed: [], lost: [] });
    const silent = served(() => ({ from: 0, to: 0 }));
    expect((await fetchSymbol(silent.context, 'S', plainly(window))).lost).toMatchObject([window]);
    expect(silent.behavior.refusesEarlier).toBe(false);
  });

  test('is not what lies before the start that the service states, where asking for it fails in passing', async () => {
    const failing = new UpstreamError('tick page', { failure: 'transient', reason: 'answered 500', status: 500 });
    const { context } = served(({ from, to }, nth) => {
      if (nth > 1) throw failing;
      return { from: from + minute, to };
    });
    await expect(fetchSymbol(context, 'S', plainly(window))).rejects.toBe(failing);
  });

  test('is not asked again where it lies before the start that the service states', async () => {
    const keptFrom = start + 20 * minute;
    for (const refuses of [true, false]) {
      const { context, queries, behavior } = served(
        ({ from, to }) => {
          if (to > keptFrom + 1) return { from: Math.max(from, keptFrom), to };
          if (refuses) throw refusal();
          return { from: keptFrom, to: keptFrom };
        },
        { fromInclusive: true },
      );
      for (const symbol of ['A', 'B']) {
        const { lost } = await fetchSymbol(context, symbol, plainly(window));
        // A stated start may be excluded.
        const reason = 'the service does not answer for this window';
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

describe('a service that brings hardly anything', () => {
  /** Answers for a second at a time. */
  const creeping = ({ from, to }: Window) => ({ from, to: Math.min(to, from + 1001) });

  test('is given up after twenty such answers and one more, with all that is still to be asked', async () => {
    const { context, queries, records } = served(creeping, { fromInclusive: true });
    const { lost, empties } = await fetchSymbol(context, 'S', plainly(window));
    expect(queries).toHaveLength(21);
    const to = start + 21 * 1001 - 1;
    expect(union(empties)).toEqual([{ from: start, to }]);
    expect(records.flatMap(({ covered }) => covered)).toEqual([]);
    expect(lost).toEqual([{ from: to, to: window.to, reason: 'the service does not answer for this window' }]);
  });

  test('is not, where one of twenty-one speaks for a minute', async () => {
    const { context, queries } = served(
      (query, nth) =>
        nth % 20 === 0 ? { from: query.from, to: Math.min(query.to, query.from + 20 * minute) } : creeping(query),
      { fromInclusive: true },
    );
    expect((await fetchSymbol(context, 'S', plainly(window))).lost).toEqual([]);
    expect(queries.length).toBeGreaterThan(40);
  });
});
