import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareShapes, type Drift, driftText, recordsMin } from '../../src/core/drift.ts';
import { type Shape, startShape } from '../../src/core/shape.ts';

const shapeOf = (records: readonly unknown[]): Shape => {
  const sample = startShape();
  for (const record of records) sample.add(record);
  return sample.shape()!;
};

const times = (count: number, record: (i: number) => unknown): unknown[] =>
  Array.from({ length: count }, (_, i) => record(i));

/** What is told of nights one after another. */
function told(...nights: readonly (readonly unknown[])[]): string[][] {
  let known: Shape = new Map();
  return nights.map((records) => {
    const compared = compareShapes(known, shapeOf(records));
    known = compared.known;
    return compared.drifts.map(({ field, change, before, now }) => `${field} ${change} ${before} → ${now}`);
  });
}

const market = (i: number) => ({
  ...{ canonical_id: `m${i}`, confidence: i % 3 === 0 ? 1 : 0.5, question: 'q', closes_at: 1 + i },
  venues: [{ source: 'a', ticker: `t${i}` }],
});
const markets = times(40, market);

describe('what changed from one night to the next', () => {
  test('is nothing the first time, nor where nothing changed', () => {
    expect(told(markets, markets, times(12, market))).toEqual([[], [], []]);
  });

  test('a field that vanishes is told once, and once more when it is back', () => {
    const without = times(40, (i) => ({ ...market(i), closes_at: undefined })).map((m) =>
      JSON.parse(JSON.stringify(m)),
    );
    const lines = [['closes_at vanished number → '], [], ['closes_at appeared  → number'], []];
    expect(told(markets, without, without, markets, markets)).toEqual([[], ...lines]);
  });

  test('a field under another name has vanished and appeared, in lists of objects too', () => {
    const renamed = times(40, (i) => ({ ...market(i), venues: [{ source: 'a', symbol: `t${i}` }] }));
    const line = ['venues/*/symbol appeared  → string', 'venues/*/ticker vanished string → '];
    expect(told(markets, renamed, renamed)).toEqual([[], line, []]);
  });

  test('a type that changes for all, for a good part, or to null everywhere is told once', () => {
    const text = times(40, (i) => ({ ...market(i), closes_at: 'soon' }));
    const some = times(40, (i) => ({ ...market(i), closes_at: i % 4 === 0 ? 'soon' : i }));
    const none = times(40, (i) => ({ ...market(i), closes_at: null }));
    expect(told(markets, text, text, markets)).toEqual([
      [],
      ['closes_at retyped number → string'],
      [],
      ['closes_at retyped string → number'],
    ]);
    expect(told(markets, some, some, markets, some)).toEqual([
      [],
      ['closes_at retyped number → number,string'],
      [],
      [],
      [],
    ]);
    expect(told(markets, none, none)).toEqual([[], ['closes_at retyped number → null'], []]);
  });

  test('what holds fields becoming another type is one drift, not one of each field in it', () => {
    const flat = times(40, (i) => ({ ...market(i), venues: 'a' }));
    expect(told(markets, flat, flat)).toEqual([[], ['venues retyped array → string'], []]);
    expect(
      told(
        markets,
        times(40, () => 'text'),
      )[1],
    ).toEqual([' retyped object → string']);
  });

  test('a new type that comes slowly is told when it is rare no more', () => {
    const share = (n: number) => times(100, (i) => ({ ...market(i), closes_at: i < n ? 'soon' : i }));
    expect(told(share(0), share(2), share(5), share(30))).toEqual([
      [],
      [],
      [],
      ['closes_at retyped number → number,string'],
    ]);
  });

  test('optional fields, nulls now and then and few records are no drift', () => {
    const ordinary = (night: number) =>
      times(40, (i) => ({
        ...market(i),
        ...((i + night) % 9 === 0 ? { outcome: 1, resolved_at: 5 } : {}),
        question: (i * night) % 7 === 1 ? null : 'q',
        category: i % 2 === 0 ? null : 'c',
      }));
    const few = times(recordsMin - 1, () => ({ canonical_id: 1 }));
    expect(told(markets, ordinary(1), ordinary(2), markets, few, [], ordinary(3)).flat()).toEqual([]);
  });

  test('an object whose names are those of its members has no fields to lose', () => {
    const prices = (from: number) =>
      times(30, (i) => ({
        prices: Object.fromEntries(times(20, (k) => [`S${from + i * 20 + (k as number)}`, 1]) as [string, number][]),
      }));
    expect(told(prices(0), prices(5000), prices(9000))).toEqual([[], [], []]);
  });
});

const record = fc.dictionary(
  fc.constantFrom('a', 'b', 'c', 'd'),
  fc.oneof(fc.integer(), fc.constant(null), fc.string()),
);
const night = fc.array(record, { maxLength: 30 });

test('whatever a night looks like, the same again is no drift, and each drift is of a field that is there or was', () => {
  fc.assert(
    fc.property(night, night, (one, two) => {
      const first = compareShapes(new Map(), shapeOf(one));
      expect(first.drifts).toEqual([]);
      const second = compareShapes(first.known, shapeOf(two));
      for (const { field } of second.drifts) expect(first.known.has(field) || shapeOf(two).has(field)).toBe(true);
      expect(compareShapes(second.known, shapeOf(two)).drifts).toEqual([]);
      // What is known is written as JSON.
      const kept = new Map(JSON.parse(JSON.stringify([...second.known])) as [string, never][]);
      expect(compareShapes(kept, shapeOf(two)).drifts).toEqual([]);
    }),
  );
});

test('a field that nearly all had is missed whatever else a night brings; one that any record still has is not', () => {
  fc.assert(
    fc.property(night, night, fc.integer({ min: 10, max: 40 }), fc.integer({ min: 0, max: 39 }), (one, two, n, at) => {
      const had = [...times(n, () => ({ must: 1 })), ...one.slice(0, Math.floor(n / 10))];
      const known = compareShapes(new Map(), shapeOf(had)).known;
      const padded = [...two, ...times(recordsMin, () => ({}))];
      const isMissed = (records: readonly unknown[]) =>
        compareShapes(known, shapeOf(records)).drifts.some((d) => d.field === 'must' && d.change === 'vanished');
      expect(isMissed(padded)).toBe(true);
      expect(isMissed(padded.with(at % padded.length, { must: 7 }))).toBe(false);
    }),
  );
});

test('a sentence names a few fields and counts the others', () => {
  const drift = (field: string, rest: Partial<Drift> = {}): Drift => ({
    field,
    change: 'vanished',
    before: ['number'],
    now: [],
    ...rest,
  });
  expect(
    driftText('ticks', [drift('a'), drift('b', { change: 'appeared', before: [], now: ['string', 'null'] })]),
  ).toBe("The service's answers changed their shape (ticks): a is gone, b is new (string or null).");
  const many = times(8, (i) => drift(`f${i}`, { change: 'retyped', now: ['string'] })) as Drift[];
  expect(driftText('markets', many)).toMatch(/f4 was number and is string, and 3 fields more\.$/);
  expect(driftText('markets', [drift('', { change: 'retyped', before: ['object'], now: ['string'] })])).toContain(
    'a whole record was object',
  );
});
