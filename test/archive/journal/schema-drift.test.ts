import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareShapes,
  createShapeSample,
  type Drift,
  formatDrift,
  type JsonType,
  recordsMin,
  type Shape,
} from '../../../src/archive/journal/schema-drift.ts';
import { checkProperty } from '../../harness/properties.ts';

const shapeOf = (records: readonly unknown[]): Shape => {
  const sample = createShapeSample();
  for (const record of records) sample.add(record);
  return sample.inferShape()!;
};

const times = (count: number, record: (i: number) => unknown): unknown[] =>
  Array.from({ length: count }, (_, i) => record(i));

/** The reported drifts of successive nights. */
function driftsOf(...nights: readonly (readonly unknown[])[]): string[][] {
  let known: Shape = new Map();
  return nights.map((records) => {
    const compared = compareShapes(known, shapeOf(records));
    known = compared.known;
    return compared.drifts.map(({ field, change, before, now }) => `${field} ${change} ${before} → ${now}`);
  });
}

const market = (i: number) => ({
  canonical_id: `m${i}`,
  confidence: i % 3 === 0 ? 1 : 0.5,
  question: 'q',
  closes_at: 1 + i,
  venues: [{ source: 'a', ticker: `t${i}` }],
});
const markets = times(40, market);

describe('the change between nights', () => {
  test('is empty the first time, and if nothing changed', () => {
    expect(driftsOf(markets, markets, times(12, market))).toEqual([[], [], []]);
  });

  test('reports a vanished field once, and again when it is back', () => {
    const without = times(40, (i) => ({ ...market(i), closes_at: undefined })).map((m) =>
      JSON.parse(JSON.stringify(m)),
    );
    const lines = [['closes_at vanished number → '], [], ['closes_at appeared  → number'], []];
    expect(driftsOf(markets, without, without, markets, markets)).toEqual([[], ...lines]);
  });

  test('reports a renamed field as vanished and appeared, in lists of objects too', () => {
    const renamed = times(40, (i) => ({ ...market(i), venues: [{ source: 'a', symbol: `t${i}` }] }));
    const line = ['venues/*/symbol appeared  → string', 'venues/*/ticker vanished string → '];
    expect(driftsOf(markets, renamed, renamed)).toEqual([[], line, []]);
  });

  test('reports once that a type changed for all, for a good part, or to null', () => {
    const text = times(40, (i) => ({ ...market(i), closes_at: 'soon' }));
    const some = times(40, (i) => ({ ...market(i), closes_at: i % 4 === 0 ? 'soon' : i }));
    const none = times(40, (i) => ({ ...market(i), closes_at: null }));
    expect(driftsOf(markets, text, text, markets)).toEqual([
      [],
      ['closes_at retyped number → string'],
      [],
      ['closes_at retyped string → number'],
    ]);
    expect(driftsOf(markets, some, some, markets, some)).toEqual([
      [],
      ['closes_at retyped number → number,string'],
      [],
      [],
      [],
    ]);
    expect(driftsOf(markets, none, none)).toEqual([[], ['closes_at retyped number → null'], []]);
  });

  test("reports a parent's new type as one drift, not one per field", () => {
    const flat = times(40, (i) => ({ ...market(i), venues: 'a' }));
    expect(driftsOf(markets, flat, flat)).toEqual([[], ['venues retyped array → string'], []]);
    expect(
      driftsOf(
        markets,
        times(40, () => 'text'),
      )[1],
    ).toEqual([' retyped object → string']);
  });

  test('reports a slowly spreading type when it is no longer rare', () => {
    const share = (n: number) => times(100, (i) => ({ ...market(i), closes_at: i < n ? 'soon' : i }));
    expect(driftsOf(share(0), share(2), share(5), share(30))).toEqual([
      [],
      [],
      [],
      ['closes_at retyped number → number,string'],
    ]);
  });

  test('does not report optional fields, occasional nulls or few records', () => {
    const normalNights = (night: number) =>
      times(40, (i) => ({
        ...market(i),
        ...((i + night) % 9 === 0 ? { outcome: 1, resolved_at: 5 } : {}),
        question: (i * night) % 7 === 1 ? null : 'q',
        category: i % 2 === 0 ? null : 'c',
      }));
    const fewRecords = times(recordsMin - 1, () => ({ canonical_id: 1 }));
    expect(
      driftsOf(markets, normalNights(1), normalNights(2), markets, fewRecords, [], normalNights(3)).flat(),
    ).toEqual([]);
  });

  test('ignores the member names of an object used as a map', () => {
    const prices = (from: number) =>
      times(30, (i) => ({
        prices: Object.fromEntries(times(20, (k) => [`S${from + i * 20 + (k as number)}`, 1]) as [string, number][]),
      }));
    expect(driftsOf(prices(0), prices(5000), prices(9000))).toEqual([[], [], []]);
  });
});

describe('the limits of reports', () => {
  /** A field `a` of so many records with counts by type; and the record itself. */
  const field = (of: number, types: Partial<Record<JsonType, number>>): Shape =>
    new Map([
      ['', { of, types: { object: of }, isMap: false }],
      ['a', { of, types, isMap: false }],
    ]);
  const change = (before: Shape, now: Shape): string[] => compareShapes(before, now).drifts.map((d) => d.change);

  test.each<[string, Shape, Shape, string[]]>([
    ['missing that nine in ten had', field(10, { number: 9 }), field(10, {}), ['vanished']],
    ['missing that fewer had', field(10, { number: 8 }), field(10, {}), []],
    ['missing from five records', field(5, { number: 5 }), field(5, {}), ['vanished']],
    ['missing from four records', field(5, { number: 5 }), field(4, {}), []],
    ['missing that four records had', field(4, { number: 4 }), field(5, {}), []],
    ['null everywhere', field(10, { number: 9 }), field(10, { null: 10 }), ['retyped']],
    ['new that nine in ten have', field(10, {}), field(10, { number: 9, null: 1 }), ['appeared']],
    ['new that fewer have', field(10, {}), field(10, { number: 8 }), []],
    ['no longer null', field(10, { null: 10 }), field(10, { number: 9 }), ['retyped']],
    ['another type in one value of ten', field(20, { number: 20 }), field(20, { number: 9, string: 1 }), ['retyped']],
    ['another type in fewer', field(20, { number: 20 }), field(20, { number: 10, string: 1 }), []],
    [
      'another type, nulls not counted',
      field(20, { number: 9 }),
      field(20, { string: 1, number: 9, null: 9 }),
      ['retyped'],
    ],
    ['another type where five values were known', field(9, { number: 5 }), field(9, { string: 5 }), ['retyped']],
    ['another type where four values were known', field(9, { number: 4, null: 5 }), field(9, { string: 5 }), []],
    ['another type in four values', field(9, { number: 5 }), field(9, { string: 4 }), []],
    ['occasional nulls', field(10, { number: 10 }), field(10, { number: 7, null: 3 }), []],
    ['one type fewer', field(10, { number: 5, string: 5 }), field(10, { number: 10 }), []],
  ])('a field: %s', (_, before, now, expected) => {
    expect(change(before, now)).toEqual(expected);
  });

  test('does not miss list elements, or fields of a value that is no longer an object', () => {
    const list = (types: Partial<Record<JsonType, number>>): Shape =>
      new Map([...field(10, { array: 10 }), ['a/*', { of: 10, types, isMap: false }]]);
    expect(change(list({ number: 10 }), field(10, { array: 10 }))).toEqual([]);
    expect(change(list({ number: 10 }), list({ string: 10 }))).toEqual(['retyped']);
    const nested: Shape = new Map([
      ...field(10, { object: 10 }),
      ['a/b', { of: 10, types: { number: 10 }, isMap: false }],
    ]);
    expect(compareShapes(nested, field(10, { string: 10 })).drifts.map((d) => d.field)).toEqual(['a']);
    expect(compareShapes(nested, field(10, { object: 10 })).drifts.map((d) => d.field)).toEqual(['a/b']);
  });

  test('reports no fields below a nested map, before or now', () => {
    const map = (isMap: boolean): Shape =>
      new Map([
        ['', { of: 10, types: { object: 10 }, isMap: false }],
        ['m', { of: 10, types: { object: 10 }, isMap }],
        ...(isMap ? [] : [['m/x/y', { of: 10, types: { number: 10 }, isMap: false }] as const]),
      ]);
    expect(change(map(false), map(true))).toEqual([]);
    expect(change(map(true), map(false))).toEqual([]);
    const known = compareShapes(map(true), map(false)).known;
    expect(known.get('m')!.isMap).toBe(true);
    expect([...known.keys()]).toEqual(['', 'm']);
  });

  test('keeps the latest counts and earlier types, but not types too rare to report', () => {
    const known = (before: Shape, now: Shape) => compareShapes(before, now).known.get('a');
    expect(known(field(20, { number: 20 }), field(30, { number: 29, string: 1 }))).toEqual({
      of: 30,
      types: { number: 29 },
      isMap: false,
    });
    expect(known(field(20, { number: 20 }), field(30, { number: 20, string: 10 }))!.types).toEqual({
      number: 20,
      string: 10,
    });
    expect(known(field(20, { number: 15, string: 5 }), field(20, { number: 20 }))!.types).toEqual({
      number: 20,
      string: 0,
    });
    expect(known(field(20, { number: 20 }), field(20, { string: 20 }))!.types).toEqual({ string: 20 });
    expect(known(field(20, { number: 20, null: 3 }), field(20, { number: 20 }))!.types).toEqual({ number: 20 });
    expect(known(field(20, { number: 20 }), field(20, { number: 18, null: 2 }))!.types).toEqual({
      number: 18,
      null: 2,
    });
    expect(known(field(20, { number: 20, boolean: 5 }), field(30, { number: 20, string: 10 }))!.types).toEqual({
      number: 20,
      string: 10,
      boolean: 0,
    });
    // If little was known, everything new is added and known types are kept.
    expect(known(field(20, { number: 4 }), field(20, { string: 20 }))!.types).toEqual({ number: 0, string: 20 });
    expect(known(field(20, { number: 5 }), field(40, { number: 39, string: 1 }))!.types).toEqual({ number: 39 });
    expect(known(field(20, { number: 4 }), field(40, { number: 39, string: 1 }))!.types).toEqual({
      number: 39,
      string: 1,
    });
    // Few records change nothing about a known field, and define an unknown one.
    expect(known(field(20, { number: 20 }), field(4, { string: 4 }))).toEqual(field(20, { number: 20 }).get('a'));
    expect(known(field(20, { number: 20 }), field(5, { number: 5 }))!.of).toBe(5);
    expect(known(new Map(), field(4, { string: 4 }))).toEqual(field(4, { string: 4 }).get('a'));
  });
});

const record = fc.dictionary(
  fc.constantFrom('a', 'b', 'c', 'd'),
  fc.oneof(fc.integer(), fc.constant(null), fc.string()),
);
const night = fc.array(record, { maxLength: 30 });

test('reports no drift for the same records again, and only fields that exist or existed', () => {
  checkProperty([night, night], 100, (one, two) => {
    const first = compareShapes(new Map(), shapeOf(one));
    expect(first.drifts).toEqual([]);
    const second = compareShapes(first.known, shapeOf(two));
    for (const { field } of second.drifts) expect(first.known.has(field) || shapeOf(two).has(field)).toBe(true);
    expect(compareShapes(second.known, shapeOf(two)).drifts).toEqual([]);
    // The known shape is stored as JSON.
    const kept = new Map(JSON.parse(JSON.stringify([...second.known])) as [string, never][]);
    expect(compareShapes(kept, shapeOf(two)).drifts).toEqual([]);
  });
});

test('reports a field missing that nearly all had, and none that any record still has', () => {
  checkProperty(
    [night, night, fc.integer({ min: 10, max: 40 }), fc.integer({ min: 0, max: 39 })],
    100,
    (one, two, n, at) => {
      const had = [...times(n, () => ({ must: 1 })), ...one.slice(0, Math.floor(n / 10))];
      const known = compareShapes(new Map(), shapeOf(had)).known;
      const padded = [...two, ...times(recordsMin, () => ({}))];
      const isMissed = (records: readonly unknown[]) =>
        compareShapes(known, shapeOf(records)).drifts.some((d) => d.field === 'must' && d.change === 'vanished');
      expect(isMissed(padded)).toBe(true);
      expect(isMissed(padded.with(at % padded.length, { must: 7 }))).toBe(false);
    },
  );
});

test('names a few fields in the sentence and counts the others', () => {
  const drift = (field: string, rest: Partial<Drift> = {}): Drift => ({
    field,
    change: 'vanished',
    before: ['number'],
    now: [],
    ...rest,
  });
  expect(
    formatDrift('ticks', [drift('a'), drift('b', { change: 'appeared', before: [], now: ['string', 'null'] })]),
  ).toBe("The upstream's responses changed (ticks): a is missing, b is new (string or null).");
  const many = times(8, (i) => drift(`f${i}`, { change: 'retyped', now: ['string'] })) as Drift[];
  expect(formatDrift('markets', many.slice(0, 5))).toMatch(
    /f3 changed from number to string, f4 changed from number to string\.$/,
  );
  expect(formatDrift('markets', [drift('a', { change: 'retyped', before: [], now: ['string'] })])).toContain(
    'a changed from null to string',
  );
  expect(formatDrift('markets', many)).toMatch(/f4 changed from number to string, and 3 more fields\.$/);
  expect(formatDrift('markets', [drift('', { change: 'retyped', before: ['object'], now: ['string'] })])).toContain(
    'the record changed from object',
  );
});
