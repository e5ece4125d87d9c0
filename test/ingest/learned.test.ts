import { describe, expect, test } from 'vitest';
import type { Answer, Ask } from '../../src/ingest/ask.ts';
import {
  canProbe,
  isFull,
  type Learned,
  learnCount,
  learnEdges,
  learnFromChild,
  learnWindow,
  mustWait,
  nothingLearned,
  probeWindow,
  requestWindow,
  sideOfProbe,
} from '../../src/ingest/learned.ts';

const requested = { from: 99, to: 200 };
const learnedWith = (known: Partial<Learned>): Learned => ({ ...nothingLearned(), ...known });

describe('the edges of a window', () => {
  test.each<[string, number[], boolean, boolean]>([
    ['a tick at the start of the request', [99, 150], true, false],
    ['a tick at its end', [150, 200], false, true],
    ['ticks at both', [200, 99], true, true],
    ['ticks between them', [100, 199], false, false],
    ['a tick before them, which shows that they are not heeded', [98, 99, 200], false, false],
    ['a tick after them', [99, 200, 201], false, false],
    ['no tick', [], false, false],
  ])('are learned from %s', (_, times, fromInclusive, toInclusive) => {
    const learned = nothingLearned();
    learnEdges(learned, requested, Float64Array.from(times));
    expect(learned).toEqual(learnedWith({ fromInclusive, toInclusive }));
  });

  test('once learned stay so, and the one that is still to be learned is', () => {
    const learned = learnedWith({ fromInclusive: true });
    learnEdges(learned, requested, Float64Array.of(150));
    expect(learned).toEqual(learnedWith({ fromInclusive: true }));
    learnEdges(learned, requested, Float64Array.of(200));
    expect(learned).toEqual(learnedWith({ fromInclusive: true, toInclusive: true }));
    learnEdges(learned, requested, Float64Array.of(150));
    expect(learned).toEqual(learnedWith({ fromInclusive: true, toInclusive: true }));
  });

  test('are asked for so that no tick is missed, and none is brought that nobody wants once that is known', () => {
    const ask = { from: 100, to: 200 };
    expect(requestWindow(ask, nothingLearned())).toEqual({ from: 99, to: 200 });
    expect(requestWindow(ask, learnedWith({ fromInclusive: true }))).toEqual({ from: 100, to: 200 });
    expect(requestWindow(ask, learnedWith({ toInclusive: true }))).toEqual({ from: 99, to: 199 });
  });
});

describe('a window', () => {
  const unstated = { from: null, to: null };
  test.each<[string, typeof unstated | { from: number; to: number }, [number, number] | null, boolean]>([
    ['is heeded where a tick lies on either edge', unstated, [99, 200], false],
    ['is not heeded where a tick lies before it', unstated, [98, 150], true],
    ['is not heeded where a tick lies after it', unstated, [150, 201], true],
    ['is heeded by what brings nothing', unstated, null, false],
    ['is heeded by what says that it covers more, up to there', { from: 50, to: 300 }, [50, 300], false],
    ['is not heeded before what is said to be covered', { from: 50, to: 300 }, [49, 100], true],
    ['is not heeded after what is said to be covered', { from: 50, to: 300 }, [100, 301], true],
    ['is heeded where less is said to be covered than was asked', { from: 120, to: 130 }, [99, 200], false],
  ])('%s', (_, stated, ticks, windowIgnored) => {
    const learned = nothingLearned();
    learnWindow(learned, requested, stated, ticks === null ? null : { first: ticks[0], last: ticks[1] });
    expect(learned.windowIgnored).toBe(windowIgnored);
  });
});

describe('a full answer', () => {
  test('is one as long as the longest of the run, or as the most that may be asked for; an empty one never is', () => {
    const learned = nothingLearned();
    expect(isFull(learned, 0)).toBe(false);
    learnCount(learned, 10);
    expect([9, 10, 11].map((count) => isFull(learned, count))).toEqual([false, true, true]);
    learnCount(learned, 4);
    expect(learned.cap).toBe(10);
    expect(isFull(learnedWith({ cap: 100, limit: 50 }), 50)).toBe(true);
    expect(isFull(learnedWith({ cap: 100, limit: 50 }), 49)).toBe(false);
  });

  test('that is fuller than all before makes of the cap that they proved none', () => {
    const learned = learnedWith({ cap: 10, capState: 'proved' });
    learnCount(learned, 10);
    expect(learned.capState).toBe('proved');
    learnCount(learned, 11);
    expect(learned).toMatchObject({ cap: 11, capState: 'unseen' });
  });

  test('waits for the end of the run as the first of its size; the second is asked on, and the others wait', () => {
    const learned = nothingLearned();
    expect([10, 10, 10, 10].map((count) => mustWait(learned, count))).toEqual([true, false, true, true]);
    learned.capState = 'proved';
    expect(mustWait(learned, 10)).toBe(false);
    // Nine are no cap that a service would have.
    const small = nothingLearned();
    expect([9, 9, 9].map((count) => mustWait(small, count))).toEqual([true, true, true]);
    expect(small.capState).toBe('waiting');
  });
});

describe('an answer that goes on', () => {
  const parentOf = (count: number): Answer => ({
    ...{ count, span: { first: 100, last: 199 }, brought: null, observedAt: 1000 },
    ...{ asked: { from: 0, to: 2000 }, requested, answered: [], unclaimed: [], spoke: true },
  });
  const child = (known: Partial<Learned>, kind: Ask['kind'], times: readonly number[], parent = parentOf(12)) => {
    const learned = learnedWith({ cap: 12, capState: 'tested', ...known });
    const ask: Ask = { from: 0, to: 2000, kind, parent };
    learnFromChild(learned, ask, { ...parent, count: times.length }, Float64Array.from(times));
    return { capState: learned.capState, side: learned.side };
  };
  const from = (first: number, count = 12) => Array.from({ length: count }, (_, i) => first + i);

  test('proves that its parent was cut off, where it brings what the parent lacked; a page of it tells the side', () => {
    expect(child({}, 'high', from(200))).toEqual({ capState: 'proved', side: 'earliest' });
    expect(child({}, 'low', from(88))).toEqual({ capState: 'proved', side: 'latest' });
    expect(child({}, 'high', from(200, 3))).toEqual({ capState: 'proved', side: null });
  });

  test('proves nothing with what the parent had, or what came after the answer of the parent', () => {
    for (const times of [from(188), from(1000), []])
      expect(child({}, 'high', times)).toEqual({ capState: 'tested', side: null });
    expect(child({}, 'low', from(100))).toEqual({ capState: 'tested', side: null });
    expect(child({}, 'high', [...from(188, 11), 999])).toEqual({ capState: 'proved', side: null });
  });

  test('tells the side only where it is full, and more than half of it is new', () => {
    expect(child({}, 'high', [...from(188, 6), ...from(200, 6)]).side).toBeNull();
    expect(child({}, 'high', [...from(188, 5), ...from(200, 7)]).side).toBe('earliest');
    expect(child({}, 'high', from(200, 11)).side).toBeNull();
    expect(child({ cap: 9 }, 'high', from(200, 9), parentOf(9)).side).toBeNull();
    expect(child({ cap: 10 }, 'high', from(200, 10), parentOf(10)).side).toBe('earliest');
    expect(child({ side: 'latest' }, 'high', from(200)).side).toBe('latest');
  });

  test('tells nothing of a cap that is no longer the one of its parent', () => {
    expect(child({ cap: 20 }, 'high', from(200, 20))).toEqual({ capState: 'tested', side: null });
    expect(child({}, 'high', from(200), { ...parentOf(12), span: null })).toEqual({ capState: 'tested', side: null });
    const learned = learnedWith({ cap: 12 });
    learnFromChild(learned, { kind: 'whole' }, parentOf(12), Float64Array.from(from(200)));
    expect(learned).toEqual(learnedWith({ cap: 12 }));
  });
});

describe('a probe', () => {
  test('is worth a request where one tick would tell the ends of a stretch apart', () => {
    expect(canProbe(null)).toBe(false);
    expect(canProbe({ first: 100, last: 103 })).toBe(false);
    expect(canProbe({ first: 100, last: 104 })).toBe(true);
    expect(probeWindow({ first: 100, last: 104 })).toEqual({ from: 99, to: 105 });
  });

  test.each<[number[], 'earliest' | 'latest' | null]>([
    [[99], 'earliest'],
    [[100], 'earliest'],
    [[101], 'earliest'],
    [[98], null],
    [[102], null],
    [[103], 'latest'],
    [[105], 'latest'],
    [[106], null],
    [[], null],
    [[100, 104], null],
  ])('answered with %j tells %s', (times, side) => {
    expect(sideOfProbe({ first: 100, last: 104 }, Float64Array.from(times))).toBe(side);
  });
});
