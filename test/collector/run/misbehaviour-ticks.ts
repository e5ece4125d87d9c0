import type { Misbehaviour, Ticks } from './misbehaviour.ts';
import type { Asked, Reply, Tick, TicksBody } from './scripted-service.ts';
import { asText } from './wire-replies.ts';

// Rows of the table that are about single ticks, and about what is stated beside them.

const nothing = (): Ticks => [];
const hourMs = 3_600_000;

/** The honest answer with every tick made into something else. */
const each =
  (change: (tick: Tick, asked: Asked) => unknown) =>
  (honest: TicksBody, asked: Asked): Reply => ({ ...honest, ticks: honest.ticks.map((tick) => change(tick, asked)) });

/** One tick is every seven minutes: a third of them, and the same ones in every response. */
const isThird = ({ t }: Tick): boolean => Math.floor(t / 420_000) % 3 === 0;

/** The same for a third of the ticks. */
const someThird = (change: (tick: Tick) => unknown) => (honest: TicksBody) => ({
  ...honest,
  ticks: honest.ticks.map((tick) => (isThird(tick) ? change(tick) : tick)),
});

const withoutThirds = (truth: Ticks): Ticks => truth.filter((tick) => !isThird(tick));

/** The symbol was answered, and its window is a gap: the next night asks again. */
const isGap = { fails: /elements in a response were rejected/, covers: 'nothing', isAnswered: true } as const;

/** Ticks of which none can be used. */
export const unusable: readonly Misbehaviour[] = [
  {
    does: 'all times are texts',
    happens: 'All are set aside; nothing is covered, the symbol fails, the next night asks again.',
    ticks: each(({ t, p }) => ({ t: String(t), p })),
    fails: /\d+ of \d+ ticks rejected: t is not a number/,
    setAside: ['t is not a number'],
    raw: /^\{"t":"\d{13}","p":[\d.]+\}$/,
    keeps: nothing,
    covers: 'nothing',
    isAnswered: true,
  },
  {
    does: 'all prices are texts',
    happens: 'All are set aside; nothing is covered, the symbol fails, the next night asks again.',
    ticks: each(({ t, p }) => ({ t, p: String(p) })),
    fails: /\d+ of \d+ ticks rejected: p is not a number/,
    setAside: ['p is not a number'],
    keeps: nothing,
    covers: 'nothing',
    isAnswered: true,
  },
  {
    does: 'seconds in place of milliseconds',
    happens: 'All are set aside, nothing is guessed; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => ({ t: Math.floor(t / 1000), p })),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['t is outside the years 2000 to 2100'],
    raw: /^\{"t":\d{10},"p":[\d.]+\}$/,
    keeps: nothing,
    covers: 'nothing',
    isAnswered: true,
  },
  {
    does: 'microseconds in place of milliseconds',
    happens: 'All are set aside, nothing is guessed; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => ({ t: t * 1000, p })),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['t is outside the years 2000 to 2100'],
    raw: /^\{"t":\d{16},"p":[\d.]+\}$/,
    keeps: nothing,
    covers: 'nothing',
    isAnswered: true,
  },
  {
    does: 'pairs in place of objects',
    happens: 'All are set aside; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => [t, p]),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['is not an object'],
    raw: /^\[\d{13},[\d.]+\]$/,
    keeps: nothing,
    covers: 'nothing',
    isAnswered: true,
  },
  {
    does: 'the field p is called price',
    happens: 'All are set aside; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => ({ t, price: p })),
    fails: /\d+ of \d+ ticks rejected/,
    setAside: ['p is missing'],
    keeps: nothing,
    covers: 'nothing',
    isAnswered: true,
  },
];

/** Some ticks that cannot be used among others. */
export const partly: readonly Misbehaviour[] = [
  ...(
    [
      ['times as text', ({ t, p }) => ({ t: String(t), p }), 't is not a number'],
      ['prices as text', ({ t, p }) => ({ t, p: String(p) }), 'p is not a number'],
      ['prices that are null', ({ t }) => ({ t, p: null }), 'p is not a number'],
      ['prices that are true', ({ t }) => ({ t, p: true }), 'p is not a number'],
      ['prices that are lists', ({ t, p }) => ({ t, p: [p] }), 'p is not a number'],
      ['ticks without a price', ({ t }) => ({ t }), 'p is missing'],
      ['ticks without a time', ({ p }) => ({ p }), 't is missing'],
      ['ticks that are null', () => null, 'is not an object'],
      ['ticks that are texts', ({ t, p }) => `${t} ${p}`, 'is not an object'],
      ['times in seconds', ({ t, p }) => ({ t: Math.floor(t / 1000), p }), 't is outside the years 2000 to 2100'],
      ['times in microseconds', ({ t, p }) => ({ t: t * 1000, p }), 't is outside the years 2000 to 2100'],
      ['negative times', ({ t, p }) => ({ t: -t, p }), 't is outside the years 2000 to 2100'],
      ['times of zero', ({ p }) => ({ t: 0, p }), 't is outside the years 2000 to 2100'],
      ['half milliseconds', ({ t, p }) => ({ t: t + 0.5, p }), 't is not a whole number of milliseconds'],
      ['times a week ahead', ({ t, p }) => ({ t: t + 168 * hourMs, p }), 't is in the future'],
    ] as const satisfies readonly (readonly [string, (tick: Tick) => unknown, string])[]
  ).map(
    ([what, change, reason]): Misbehaviour => ({
      does: `${what}, among others`,
      happens:
        'Those go to quarantine as received; the others are kept. The window is a gap: more than 1 % is unusable.',
      ticks: someThird(change),
      setAside: [reason],
      warns: /unusable ticks were set aside/,
      keeps: withoutThirds,
      ...isGap,
    }),
  ),
  {
    does: 'prices of 1e400, among others',
    happens: 'Those go to quarantine as received; the others are kept. The window is a gap: more than 1 % is unusable.',
    ticks: (honest) => asText(someThird(({ t }) => ({ t, p: '∞' }))(honest), '"∞"', '1e400'),
    setAside: ['p is not finite'],
    raw: /^\{"t":\d+,"p":1e400\}$/,
    warns: /unusable ticks were set aside/,
    keeps: withoutThirds,
    ...isGap,
  },
  {
    does: 'times of 1e400, among others',
    happens: 'Those go to quarantine as received; the others are kept. The window is a gap: more than 1 % is unusable.',
    ticks: (honest) => asText(someThird(({ p }) => ({ t: '∞', p }))(honest), '"∞"', '-1e400'),
    setAside: ['t is not finite'],
    raw: /^\{"t":-1e400,"p":[\d.]+\}$/,
    warns: /unusable ticks were set aside/,
    keeps: withoutThirds,
    ...isGap,
  },
];

/** Answers that mean the same all the same. */
export const harmless: readonly Misbehaviour[] = [
  {
    does: 'newest first',
    happens: 'Sorted; nothing is told.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.toReversed() }),
  },
  {
    does: 'in no order',
    happens: 'Sorted; nothing is told.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.toSorted((a, b) => (a.t % 7919) - (b.t % 7919)) }),
  },
  {
    does: 'every tick three times',
    happens: 'Kept once; the others are counted as duplicates.',
    ticks: (honest) => {
      const ticks = honest.ticks.flatMap((tick) => [tick, tick, tick]);
      return { ...honest, ticks, count: ticks.length };
    },
  },
  {
    does: 'every tick a second time at a lower price',
    happens: 'The greater price is kept, the lower goes to conflicts.',
    ticks: (honest) => {
      const ticks = honest.ticks.flatMap((tick) => [tick, { t: tick.t, p: tick.p - 1 }]);
      return { ...honest, ticks, count: ticks.length };
    },
  },
  {
    does: 'no symbol is named',
    happens: 'Taken for what was asked.',
    ticks: (honest) => ({ ...honest, symbol: undefined }),
  },
  {
    does: 'no count',
    happens: 'Nothing to compare with: taken.',
    ticks: (honest) => ({ ...honest, count: undefined }),
  },
  {
    does: 'the count is a text',
    happens: 'Counts as not stated: taken.',
    ticks: (honest) => ({ ...honest, count: `${honest.count + 1}` }),
  },
  {
    does: 'new fields everywhere',
    happens: 'Left aside: kept are t and p.',
    ticks: (honest) => ({
      v: 2,
      ...honest,
      ticks: honest.ticks.map((tick) => ({ id: 'x', ...tick, size: [1] })),
      next: null,
    }),
  },
  {
    does: 'no window is stated',
    happens: 'Taken for what was asked.',
    ticks: (honest) => ({ ...honest, from: undefined, to: undefined }),
  },
  {
    does: 'the window is stated as texts',
    happens: 'Counts as not stated: taken for what was asked.',
    ticks: (honest) => ({ ...honest, from: `${honest.from}`, to: `${honest.to}` }),
  },
  {
    does: 'a wider window is stated than was asked for',
    happens: 'Covered is only what was asked.',
    ticks: (honest) => ({ ...honest, from: honest.from - 1000 * hourMs, to: honest.to + 1000 * hourMs }),
  },
  {
    does: 'generated_at is missing',
    happens: 'The moment the request was sent counts.',
    ticks: (honest) => ({ ...honest, generated_at: undefined }),
  },
  {
    does: 'generated_at is in seconds',
    happens: 'It is no moment; the one the request was sent at counts.',
    ticks: (honest) => ({ ...honest, generated_at: Math.floor(honest.generated_at / 1000) }),
  },
  {
    does: 'generated_at is in microseconds',
    happens: 'It is no moment; the one the request was sent at counts.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at * 1000 }),
  },
  {
    does: 'generated_at lies a day ahead',
    happens: 'Not believed; the moment the request was sent counts.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at + 24 * hourMs }),
  },
  {
    does: 'a byte order mark and spaces around',
    happens: 'Read as if they were not there.',
    ticks: (honest) => `\ufeff\n ${JSON.stringify(honest, null, 2)}\n\n`,
  },
  {
    does: 'a field twice, the first time wrong',
    happens: 'The last one counts, as in any JSON.',
    ticks: (honest) => `{"ticks":[{"t":1,"p":1}],"count":77,${JSON.stringify(honest).slice(1)}`,
  },
  {
    does: 'only half of the window is stated as answered, again and again',
    happens: 'The rest is asked on.',
    ticks: (honest, asked) => {
      const to = asked.to - asked.from < 2 * hourMs ? asked.to : Math.ceil((asked.from + asked.to) / 2);
      const ticks = honest.ticks.filter(({ t }) => t < to);
      return { ...honest, ticks, count: ticks.length, to };
    },
    isRetried: true,
  },
];
