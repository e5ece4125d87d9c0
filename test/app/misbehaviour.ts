import { type Asked, capMax, type Reply, type Script, type Tick, type TicksBody } from './scripted-service.ts';
import { half, headers, sends } from './wire-replies.ts';

// What an upstream can do wrong and what becomes of it, as a table: the tests hold each row to what it says, and a
// document can be made of `does` and `happens`.

export type Ticks = readonly Tick[];

export interface Misbehaviour {
  /** What the upstream does. */
  readonly does: string;
  /** What becomes of it, for people. */
  readonly happens: string;
  readonly ticks: NonNullable<Script['ticks']>;
  /** Every symbol is served so: such a row has a night of its own. */
  readonly isAlone?: true;
  /** Settings of its night; for rows alone. */
  readonly set?: readonly string[];
  /** The reason of each failure of the symbol; without it there is none. */
  readonly fails?: RegExp;
  /** The symbol was asked for and has answered: it counts as done, though windows of it are failures. */
  readonly isAnswered?: true;
  /** Reasons of what is set aside, in order and each once; none where it is not given. */
  readonly setAside?: readonly string[];
  /** What the first element that was set aside looks like in the quarantine. */
  readonly raw?: string | RegExp;
  /** A warning of the run about it. */
  readonly warns?: RegExp;
  /** Of the truth since the night before, what is published after it; all of it where it is not given. */
  readonly keeps?: 'a part' | ((truth: Ticks) => Ticks);
  /** Up to where the time since the night before is covered; up to the night where it is not given. */
  readonly covers?: 'nothing' | 'a part' | ((nightMs: number) => number);
  /** Requests of the symbol: more than one, as it is asked again. */
  readonly isRetried?: true;
  /** What brings the truth once the upstream is in order; the next night where it is not given. */
  readonly heals?: 'forced backfill';
}

const nothing = (): Ticks => [];
const hourMs = 3_600_000;

/** The honest answer with every tick made into something else. */
const each =
  (change: (tick: Tick, asked: Asked) => unknown) =>
  (honest: TicksBody, asked: Asked): Reply => ({ ...honest, ticks: honest.ticks.map((tick) => change(tick, asked)) });

/** The same for every third tick, the first one included. */
const someThird = (change: (tick: Tick) => unknown) => (honest: TicksBody) => ({
  ...honest,
  ticks: honest.ticks.map((tick, i) => (i % 3 === 0 ? change(tick) : tick)),
});

const withoutThirds = (truth: Ticks): Ticks => truth.filter((_, i) => i % 3 !== 0);

/** As JSON text, with a placeholder of the text replaced: JSON.stringify writes no NaN and no 1e400. */
const texts = (value: unknown, from: string, to: string): string => JSON.stringify(value).replaceAll(from, to);

/** The first `n` answers of the symbol as told, the rest honest. */
const atFirst =
  (n: number, reply: (honest: TicksBody, asked: Asked) => Reply) =>
  (honest: TicksBody, asked: Asked, k: number): Reply =>
    k < n ? reply(honest, asked) : honest;

const html = headers(200, { 'content-type': 'text/html' }, '<!doctype html><title>Log in</title>');

/** Ticks of which none can be used. */
const unusable: readonly Misbehaviour[] = [
  {
    does: 'all times are texts',
    happens: 'All are set aside; nothing is covered, the symbol fails, the next night asks again.',
    ticks: each(({ t, p }) => ({ t: String(t), p })),
    ...{ fails: /none of \d+ ticks can be used: t is not a number/, setAside: ['t is not a number'] },
    ...{ raw: /^\{"t":"\d{13}","p":[\d.]+\}$/, keeps: nothing, covers: 'nothing' },
    isAnswered: true,
  },
  {
    does: 'all prices are texts',
    happens: 'All are set aside; nothing is covered, the symbol fails, the next night asks again.',
    ticks: each(({ t, p }) => ({ t, p: String(p) })),
    ...{ fails: /none of \d+ ticks can be used: p is not a number/, setAside: ['p is not a number'] },
    ...{ keeps: nothing, covers: 'nothing' },
    isAnswered: true,
  },
  {
    does: 'seconds in place of milliseconds',
    happens: 'All are set aside, nothing is guessed; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => ({ t: Math.floor(t / 1000), p })),
    ...{ fails: /none of \d+ ticks can be used/, setAside: ['t is outside the years 2000 to 2100'] },
    ...{ raw: /^\{"t":\d{10},"p":[\d.]+\}$/, keeps: nothing, covers: 'nothing' },
    isAnswered: true,
  },
  {
    does: 'microseconds in place of milliseconds',
    happens: 'All are set aside, nothing is guessed; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => ({ t: t * 1000, p })),
    ...{ fails: /none of \d+ ticks can be used/, setAside: ['t is outside the years 2000 to 2100'] },
    ...{ raw: /^\{"t":\d{16},"p":[\d.]+\}$/, keeps: nothing, covers: 'nothing' },
    isAnswered: true,
  },
  {
    does: 'pairs in place of objects',
    happens: 'All are set aside; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => [t, p]),
    ...{ fails: /none of \d+ ticks can be used/, setAside: ['is not an object'] },
    ...{ raw: /^\[\d{13},[\d.]+\]$/, keeps: nothing, covers: 'nothing' },
    isAnswered: true,
  },
  {
    does: 'the field p is called price',
    happens: 'All are set aside; nothing is covered, the symbol fails.',
    ticks: each(({ t, p }) => ({ t, price: p })),
    ...{ fails: /none of \d+ ticks can be used/, setAside: ['p is missing'], keeps: nothing, covers: 'nothing' },
    isAnswered: true,
  },
];

/** Some ticks that cannot be used among others. */
const partly: readonly Misbehaviour[] = [
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
      happens: 'Those are set aside as received, with a warning; the others are kept and the window is covered.',
      ticks: someThird(change),
      ...{ setAside: [reason], warns: /unusable ticks were set aside/, keeps: withoutThirds, heals: 'forced backfill' },
    }),
  ),
  {
    does: 'prices of 1e400, among others',
    happens: 'Those are set aside as received, with a warning; the others are kept and the window is covered.',
    ticks: (honest) => texts(someThird(({ t }) => ({ t, p: '∞' }))(honest), '"∞"', '1e400'),
    ...{ setAside: ['p is not finite'], raw: /^\{"t":\d+,"p":1e400\}$/, warns: /unusable ticks were set aside/ },
    ...{ keeps: withoutThirds, heals: 'forced backfill' },
  },
  {
    does: 'times of 1e400, among others',
    happens: 'Those are set aside as received, with a warning; the others are kept and the window is covered.',
    ticks: (honest) => texts(someThird(({ p }) => ({ t: '∞', p }))(honest), '"∞"', '-1e400'),
    ...{ setAside: ['t is not finite'], raw: /^\{"t":-1e400,"p":[\d.]+\}$/, warns: /unusable ticks were set aside/ },
    ...{ keeps: withoutThirds, heals: 'forced backfill' },
  },
];

/** Answers that mean the same all the same. */
const harmless: readonly Misbehaviour[] = [
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

/** Answers that are unusable whole. */
const unreadable: readonly Misbehaviour[] = [
  ...(
    [
      ['another symbol is echoed', (honest) => ({ ...honest, symbol: 'OTHER' }), /ticks of another symbol, "OTHER"/],
      [
        'the count is one too many',
        (honest) => ({ ...honest, count: honest.count + 1 }),
        /a count of \d+ over \d+ ticks/,
      ],
      ['an empty page with a count', (honest) => ({ ...honest, ticks: [], count: 5 }), /a count of 5 over 0 ticks/],
      ['prices of NaN', (honest) => texts(honest, '"p":', '"p":NaN,"q":'), /broken JSON/],
      ['an answer cut in half', (honest) => JSON.stringify(honest).slice(0, 300), /broken JSON/],
      ['a web page', () => html, /HTML where JSON was due/],
      ['an empty body', () => '', /an empty body/],
      ['null', () => 'null', /JSON that is not an object/],
      ['a list', (honest) => JSON.stringify(honest.ticks), /JSON that is not an object/],
      ['an object without ticks', ({ ticks: _, ...rest }) => rest, /no ticks array/],
      ['ticks as an object', (honest) => ({ ...honest, ticks: { ...honest.ticks } }), /no ticks array/],
      ['ticks as a text', (honest) => ({ ...honest, ticks: JSON.stringify(honest.ticks) }), /no ticks array/],
      [
        'bytes that are no UTF-8',
        (honest) => sends(Buffer.from(`${JSON.stringify(honest)}\xff`, 'latin1')),
        /text that is not UTF-8/,
      ],
      ['no content', () => headers(204, {}, ''), /answered 204 with an empty body/],
      [
        'half a body of a stated length',
        (honest) => half(honest, true),
        /connection closed before the answer was whole|another length/,
      ],
      ['half a body that ends with the connection', (honest) => half(honest, false), /broken JSON/],
      [
        'a body that is no gzip though it says so',
        (honest) => headers(200, { 'content-encoding': 'gzip' }, JSON.stringify(honest)),
        /a broken gzip body/,
      ],
      [
        'a coding nobody knows',
        (honest) => headers(200, { 'content-encoding': 'lzma' }, JSON.stringify(honest)),
        /an unknown content coding/,
      ],
      [
        'what is no HTTP',
        () => (response) => void response.socket!.end('220 mail.example ESMTP\r\n'),
        /no HTTP in the answer/,
      ],
      ['a reset', () => (response) => void response.socket!.resetAndDestroy(), /connection reset|connection closed/],
    ] as const satisfies readonly (readonly [string, (honest: TicksBody) => Reply, RegExp])[]
  ).map(
    ([what, reply, reason]): Misbehaviour => ({
      does: `${what}, always`,
      happens: 'Tried again, then the symbol fails; nothing is kept or covered.',
      ticks: reply,
      ...{ fails: reason, isRetried: true, keeps: nothing, covers: 'nothing' },
    }),
  ),
  {
    does: 'a redirect to another service',
    happens: 'Not followed, the key goes nowhere; the symbol fails at once.',
    ticks: () => headers(302, { location: 'http://127.0.0.1:1/elsewhere?key=1' }, ''),
    ...{ fails: /answered 302, a redirect to "http:\/\/127.0.0.1:1\/elsewhere", which is not followed/ },
    ...{ keeps: nothing, covers: 'nothing' },
  },
  {
    does: 'an answer for another window than was asked for',
    happens: 'Nothing is covered; the symbol fails.',
    ticks: (honest) => ({
      ...honest,
      ticks: [],
      count: 0,
      from: honest.from - 1000 * hourMs,
      to: honest.from - 999 * hourMs,
    }),
    ...{ fails: /does not answer for this window/, isAnswered: true, keeps: nothing, covers: 'nothing' },
  },
  {
    does: 'a window is stated that ends before it begins',
    happens: 'Nothing is covered; the symbol fails.',
    ticks: (honest) => ({ ...honest, from: honest.to, to: honest.from }),
    ...{ fails: /does not answer for this window/, isAnswered: true, covers: 'nothing' },
  },
  {
    does: 'the window is stated in seconds',
    happens: 'The ticks are kept; nothing is covered, the symbol fails.',
    ticks: (honest) => ({ ...honest, from: Math.floor(honest.from / 1000), to: Math.floor(honest.to / 1000) }),
    ...{ fails: /does not answer for this window/, isAnswered: true, covers: 'nothing' },
  },
  {
    does: 'generated_at stands still two days ago',
    happens: 'The ticks are kept; nothing is covered, with a warning that the service is behind.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at - 48 * hourMs }),
    ...{ covers: 'nothing', warns: /^The service itself is behind/ },
  },
  {
    does: 'generated_at stands still five hours ago',
    happens: 'The ticks are kept; covered up to then, with a warning that the service is behind.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at - 5 * hourMs }),
    ...{ covers: (nightMs) => nightMs - 5 * hourMs, warns: /^The service itself is behind/ },
  },
];

/** The same once or twice: tried again. */
const passing: readonly Misbehaviour[] = (
  [
    ['a web page', () => html],
    ['another symbol', (honest) => ({ ...honest, symbol: 'OTHER' })],
    ['a count that is off', (honest) => ({ ...honest, count: honest.count + 1 })],
    ['half a body of a stated length', (honest) => half(honest, true)],
    ['half a body that ends with the connection', (honest) => half(honest, false)],
    ['NaN', (honest) => texts(honest, '"p":', '"p":NaN,"q":')],
    ['a reset', () => (response) => void response.socket!.resetAndDestroy()],
  ] as const satisfies readonly (readonly [string, (honest: TicksBody) => Reply])[]
).map(
  ([what, reply]): Misbehaviour => ({
    does: `${what}, twice, then the right answer`,
    happens: 'Tried again; nothing is told but the count of retries.',
    ticks: atFirst(2, reply),
    isRetried: true,
  }),
);

/** Every symbol of the service is served so. */
const paging: readonly Misbehaviour[] = [
  {
    does: 'a page that is always full of one moment, that at which it begins',
    happens: 'Asked on twenty times a symbol; what is left of the window fails, what was answered is kept.',
    ticks: (honest, asked, _, truth) => {
      const ticks = Array.from({ length: capMax }, () => truth(asked.from, asked.to)[0]!);
      return { ...honest, ticks, count: capMax, to: ticks[0]!.t };
    },
    ...{ isAlone: true, fails: /does not answer for this window/, isAnswered: true },
    ...{ keeps: 'a part', covers: 'a part' },
  },
  {
    does: 'a page that states no more than the moment at which it begins',
    happens: 'Given up at once: what is left of the window fails, what was answered is kept.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.slice(0, 1), count: 1, to: honest.from }),
    ...{ isAlone: true, fails: /does not answer for this window/, isAnswered: true },
    keeps: (truth) => truth.slice(0, 1),
    covers: 'nothing',
  },
  {
    does: 'the same last fifty ticks, whatever window is asked for',
    happens: 'Covered is only what they span, as the window is not heeded; the rest fails.',
    ticks: (honest, _, __, truth) => {
      const ticks = truth(0, Number.POSITIVE_INFINITY).slice(-50);
      return { ...honest, ticks, count: ticks.length };
    },
    ...{ isAlone: true, fails: /does not heed the window asked for/, isAnswered: true },
    ...{ keeps: (truth) => truth.slice(-50), covers: 'a part' },
  },
  {
    does: 'the last ticks, whatever window is asked for',
    happens: 'Covered is only what they span, as the window is not heeded; the rest fails, the next night asks again.',
    ticks: (honest, _, __, truth) => {
      const ticks = truth(0, Number.POSITIVE_INFINITY).slice(-capMax);
      return { ...honest, ticks, count: ticks.length };
    },
    ...{ isAlone: true, fails: /does not heed the window asked for/, isAnswered: true, covers: 'a part' },
  },
  {
    does: 'pages of seven, newest first, without a word that there is more',
    happens: 'Asked on until nothing is left out; the truth is kept.',
    ticks: (honest, asked, _, truth) => {
      const ticks = truth(asked.from, asked.to).slice(-7).toReversed();
      return { ...honest, ticks, count: ticks.length, to: asked.to };
    },
    ...{ isAlone: true, isRetried: true },
  },
  {
    does: 'pages of twenty of the earliest, unsorted, the window as asked for',
    happens: 'Asked on until nothing is left out; the truth is kept.',
    ticks: (honest, asked, _, truth) => {
      const ticks = truth(asked.from, asked.to).slice(0, 20);
      return { ...honest, ticks: ticks.toSorted((a, b) => (a.t % 97) - (b.t % 97)), count: ticks.length, to: asked.to };
    },
    ...{ isAlone: true, isRetried: true },
  },
];

export const misbehaviours: readonly Misbehaviour[] = [
  ...unusable,
  ...partly,
  ...harmless,
  ...unreadable,
  ...passing,
  ...paging,
];
