import type { Misbehaviour, Ticks } from './misbehaviour.ts';
import type { Reply, Requested, Tick, TicksBody } from './scripted-service.ts';
import { asText } from './wire-replies.ts';

// Rows about single ticks and about the other fields of a page.

const nothing = (): Ticks => [];
const hourMs = 3_600_000;

/** The correct response with every tick changed. */
const each =
  (change: (tick: Tick, request: Requested) => unknown) =>
  (honest: TicksBody, request: Requested): Reply => ({
    ...honest,
    ticks: honest.ticks.map((tick) => change(tick, request)),
  });

/** A third of the ticks, the same ones in every response. Ticks are seven minutes apart. */
const isThird = ({ t }: Tick): boolean => Math.floor(t / 420_000) % 3 === 0;

/** The same for a third of the ticks. */
const someThird = (change: (tick: Tick) => unknown) => (honest: TicksBody) => ({
  ...honest,
  ticks: honest.ticks.map((tick) => (isThird(tick) ? change(tick) : tick)),
});

const withoutThirds = (truth: Ticks): Ticks => truth.filter((tick) => !isThird(tick));

/** The service answered, and the window is a gap, which the next night fetches again. */
const isPartlyUsed = {
  happens:
    'The unusable ticks are quarantined as received; the others are kept. The window is a gap, because more than 1 % is unusable.',
  fails: /elements in a response were rejected/,
  warns: /unusable ticks were quarantined/,
  keeps: withoutThirds,
  ...({ covers: 'nothing', isAnswered: true } as const),
};

/** Nothing of a response is kept or covered. */
const isUnused = { keeps: nothing, covers: 'nothing', isAnswered: true } as const;

/** Only unusable ticks. */
export const unusable: readonly Misbehaviour[] = [
  {
    does: 'all times are strings',
    happens: 'All ticks are quarantined. Nothing is covered, the symbol fails, and the next night fetches it again.',
    ticks: each(({ t, p }) => ({ t: String(t), p })),
    fails: /\d+ of \d+ ticks rejected: t is not a number/,
    setAside: ['t is not a number'],
    raw: /^\{"t":"\d{13}","p":[\d.]+\}$/,
    ...isUnused,
  },
  {
    does: 'all prices are strings',
    happens: 'All ticks are quarantined. Nothing is covered, the symbol fails, and the next night fetches it again.',
    ticks: each(({ t, p }) => ({ t, p: String(p) })),
    fails: /\d+ of \d+ ticks rejected: p is not a number/,
    setAside: ['p is not a number'],
    ...isUnused,
  },
  {
    does: 'seconds instead of milliseconds',
    happens: 'All ticks are quarantined; units are not guessed. Nothing is covered, and the symbol fails.',
    ticks: each(({ t, p }) => ({ t: Math.floor(t / 1000), p })),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['t is outside the years 2000 to 2100'],
    raw: /^\{"t":\d{10},"p":[\d.]+\}$/,
    ...isUnused,
  },
  {
    does: 'microseconds instead of milliseconds',
    happens: 'All ticks are quarantined; units are not guessed. Nothing is covered, and the symbol fails.',
    ticks: each(({ t, p }) => ({ t: t * 1000, p })),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['t is outside the years 2000 to 2100'],
    raw: /^\{"t":\d{16},"p":[\d.]+\}$/,
    ...isUnused,
  },
  {
    does: 'pairs instead of objects',
    happens: 'All ticks are quarantined. Nothing is covered, and the symbol fails.',
    ticks: each(({ t, p }) => [t, p]),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['is not an object'],
    raw: /^\[\d{13},[\d.]+\]$/,
    ...isUnused,
  },
  {
    does: 'the field p is called price',
    happens: 'All ticks are quarantined. Nothing is covered, and the symbol fails.',
    ticks: each(({ t, p }) => ({ t, price: p })),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['p is missing'],
    ...isUnused,
  },
];

/** Some unusable ticks among others. */
export const partly: readonly Misbehaviour[] = [
  ...(
    [
      ['times as strings', ({ t, p }) => ({ t: String(t), p }), 't is not a number'],
      ['prices as strings', ({ t, p }) => ({ t, p: String(p) }), 'p is not a number'],
      ['prices that are null', ({ t }) => ({ t, p: null }), 'p is not a number'],
      ['prices that are true', ({ t }) => ({ t, p: true }), 'p is not a number'],
      ['prices that are lists', ({ t, p }) => ({ t, p: [p] }), 'p is not a number'],
      ['ticks without a price', ({ t }) => ({ t }), 'p is missing'],
      ['ticks without a time', ({ p }) => ({ p }), 't is missing'],
      ['ticks that are null', () => null, 'is not an object'],
      ['ticks that are strings', ({ t, p }) => `${t} ${p}`, 'is not an object'],
      ['times in seconds', ({ t, p }) => ({ t: Math.floor(t / 1000), p }), 't is outside the years 2000 to 2100'],
      ['times in microseconds', ({ t, p }) => ({ t: t * 1000, p }), 't is outside the years 2000 to 2100'],
      ['negative times', ({ t, p }) => ({ t: -t, p }), 't is outside the years 2000 to 2100'],
      ['times of zero', ({ p }) => ({ t: 0, p }), 't is outside the years 2000 to 2100'],
      ['half milliseconds', ({ t, p }) => ({ t: t + 0.5, p }), 't is not a whole number of milliseconds'],
      ['times a week in the future', ({ t, p }) => ({ t: t + 168 * hourMs, p }), 't is in the future'],
    ] as const satisfies readonly (readonly [string, (tick: Tick) => unknown, string])[]
  ).map(
    ([what, change, reason]): Misbehaviour => ({
      does: `${what}, among valid ticks`,
      ticks: someThird(change),
      setAside: [reason],
      ...isPartlyUsed,
    }),
  ),
  {
    does: 'prices of 1e400, among valid ticks',
    ticks: (honest) => asText(someThird(({ t }) => ({ t, p: '∞' }))(honest), '"∞"', '1e400'),
    setAside: ['p is not finite'],
    raw: /^\{"t":\d+,"p":1e400\}$/,
    ...isPartlyUsed,
  },
  {
    does: 'times of 1e400, among valid ticks',
    ticks: (honest) => asText(someThird(({ p }) => ({ t: '∞', p }))(honest), '"∞"', '-1e400'),
    setAside: ['t is not finite'],
    raw: /^\{"t":-1e400,"p":[\d.]+\}$/,
    ...isPartlyUsed,
  },
];

/** Unusual responses with the same meaning. */
export const harmless: readonly Misbehaviour[] = [
  {
    does: 'ticks sorted newest first',
    happens: 'The ticks are sorted, without a warning.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.toReversed() }),
  },
  {
    does: 'ticks in no particular order',
    happens: 'The ticks are sorted, without a warning.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.toSorted((a, b) => (a.t % 7919) - (b.t % 7919)) }),
  },
  {
    does: 'every tick three times',
    happens: 'One is kept; the others are counted as duplicates.',
    ticks: (honest) => {
      const ticks = honest.ticks.flatMap((tick) => [tick, tick, tick]);
      return { ...honest, ticks, count: ticks.length };
    },
  },
  {
    does: 'every tick after one of the same time at a higher price',
    happens: 'The last price is kept; the other one is recorded in conflicts.',
    ticks: (honest) => {
      const ticks = honest.ticks.flatMap((tick) => [{ t: tick.t, p: tick.p + 1 }, tick]);
      return { ...honest, ticks, count: ticks.length };
    },
  },
  {
    does: 'the count is a string',
    happens: 'Treated as missing; accepted.',
    ticks: (honest) => ({ ...honest, count: `${honest.count + 1}` }),
  },
  {
    does: 'new fields everywhere',
    happens: 'Ignored; t and p are kept.',
    ticks: (honest) => ({
      v: 2,
      ...honest,
      ticks: honest.ticks.map((tick) => ({ id: 'x', ...tick, size: [1] })),
      next: null,
    }),
  },
  {
    does: 'the window is stated as strings',
    happens: 'Treated as missing; the window of the request is used.',
    ticks: (honest) => ({ ...honest, from: `${honest.from}`, to: `${honest.to}` }),
  },
  {
    does: 'the stated window is wider than the requested one',
    happens: 'Only the requested window is covered.',
    ticks: (honest) => ({ ...honest, from: honest.from - 1000 * hourMs, to: honest.to + 1000 * hourMs }),
  },
  {
    does: 'generated_at is in seconds',
    happens: 'Not a valid time; the time of the request is used.',
    ticks: (honest) => ({ ...honest, generated_at: Math.floor(honest.generated_at / 1000) }),
  },
  {
    does: 'generated_at is in microseconds',
    happens: 'Not a valid time; the time of the request is used.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at * 1000 }),
  },
  {
    does: 'generated_at is a day in the future',
    happens: 'Ignored; the time of the request is used.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at + 24 * hourMs }),
  },
  {
    does: 'a byte order mark and surrounding white space',
    happens: 'Ignored.',
    ticks: (honest) => `\ufeff\n ${JSON.stringify(honest, null, 2)}\n\n`,
  },
  {
    does: 'a field occurs twice, first with a wrong value',
    happens: 'The last value is used, as in most JSON parsers.',
    ticks: (honest) => `{"ticks":[{"t":1,"p":1}],"count":77,${JSON.stringify(honest).slice(1)}`,
  },
  {
    does: 'only half of the window is stated as covered, repeatedly',
    happens: 'The rest is requested again.',
    ticks: (honest, request) => {
      const to = request.to - request.from < 2 * hourMs ? request.to : Math.ceil((request.from + request.to) / 2);
      const ticks = honest.ticks.filter(({ t }) => t < to);
      return { ...honest, ticks, count: ticks.length, to };
    },
    isRetried: true,
  },
];
