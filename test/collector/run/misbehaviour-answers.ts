import type { Misbehaviour, Ticks } from './misbehaviour.ts';
import { type Asked, capMax, type Reply, type TicksBody } from './scripted-service.ts';
import { asText, bomb, endless, endlessHead, half, headers, sends } from './wire-replies.ts';

// Rows of the table that are about whole answers, and about how they follow each other.

const nothing = (): Ticks => [];
const hourMs = 3_600_000;

/** The first `n` answers of the symbol as told, the rest honest. */
const atFirst =
  (n: number, reply: (honest: TicksBody, asked: Asked) => Reply) =>
  (honest: TicksBody, asked: Asked, k: number): Reply =>
    k < n ? reply(honest, asked) : honest;

const html = headers(200, { 'content-type': 'text/html' }, '<!doctype html><title>Log in</title>');

/** Answers that are unusable whole. */
export const unreadable: readonly Misbehaviour[] = [
  ...(
    [
      ['another symbol is echoed', (honest) => ({ ...honest, symbol: 'OTHER' }), /ticks of another symbol, "OTHER"/],
      [
        'the count is one too many',
        (honest) => ({ ...honest, count: honest.count + 1 }),
        /a count of \d+ over \d+ ticks/,
      ],
      ['an empty page with a count', (honest) => ({ ...honest, ticks: [], count: 5 }), /a count of 5 over 0 ticks/],
      ['prices of NaN', (honest) => asText(honest, '"p":', '"p":NaN,"q":'), /broken JSON/],
      ['an answer cut in half', (honest) => JSON.stringify(honest).slice(0, 300), /broken JSON/],
      ['a web page', () => html, /HTML instead of JSON/],
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
        /connection closed before the end of the response|body length differs/,
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
        /invalid HTTP response/,
      ],
      ['a reset', () => (response) => void response.socket!.resetAndDestroy(), /connection reset|connection closed/],
      ['a gzip bomb', () => bomb(16_000_000), /more than 1000000 bytes/],
      ['a body without end', () => endless, /more than 1000000 bytes/],
      ['a head without end', () => endlessHead, /connection failed|invalid HTTP response/],
    ] as const satisfies readonly (readonly [string, (honest: TicksBody) => Reply, RegExp])[]
  ).map(
    ([what, reply, reason]): Misbehaviour => ({
      does: `${what}, always`,
      happens: 'Tried again, then the symbol fails; nothing is kept or covered.',
      ticks: reply,
      fails: reason,
      isRetried: true,
      keeps: nothing,
      covers: 'nothing',
    }),
  ),
  {
    does: 'a redirect to another service',
    happens: 'Not followed, the key goes nowhere; the symbol fails at once.',
    ticks: () => headers(302, { location: 'http://127.0.0.1:1/elsewhere?key=1' }, ''),
    fails: /answered 302, a redirect to "http:\/\/127.0.0.1:1\/elsewhere", which is not followed/,
    keeps: nothing,
    covers: 'nothing',
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
    fails: /does not serve this window/,
    isAnswered: true,
    keeps: nothing,
    covers: 'nothing',
  },
  {
    does: 'a window is stated that ends before it begins',
    happens: 'Nothing is covered; the symbol fails.',
    ticks: (honest) => ({ ...honest, from: honest.to, to: honest.from }),
    fails: /does not serve this window/,
    isAnswered: true,
    covers: 'nothing',
  },
  {
    does: 'the window is stated in seconds',
    happens: 'The ticks are kept; nothing is covered, the symbol fails.',
    ticks: (honest) => ({ ...honest, from: Math.floor(honest.from / 1000), to: Math.floor(honest.to / 1000) }),
    fails: /does not serve this window/,
    isAnswered: true,
    covers: 'nothing',
  },
  {
    does: 'generated_at stands still two days ago',
    happens: 'The ticks are kept; nothing is covered, with a warning that the service is behind.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at - 48 * hourMs }),
    covers: 'nothing',
    warns: /^The service itself is behind/,
  },
  {
    does: 'generated_at stands still five hours ago',
    happens: 'The ticks are kept; covered up to then, with a warning that the service is behind.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at - 5 * hourMs }),
    covers: (nightMs) => nightMs - 5 * hourMs,
    warns: /^The service itself is behind/,
  },
];

/** The same once or twice: tried again. */
export const passing: readonly Misbehaviour[] = (
  [
    ['a web page', () => html],
    ['another symbol', (honest) => ({ ...honest, symbol: 'OTHER' })],
    ['a count that is off', (honest) => ({ ...honest, count: honest.count + 1 })],
    ['half a body of a stated length', (honest) => half(honest, true)],
    ['half a body that ends with the connection', (honest) => half(honest, false)],
    ['NaN', (honest) => asText(honest, '"p":', '"p":NaN,"q":')],
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
/** Of a server that never truncated a page as small before. */
export const unseenTruncation =
  'Covered as inferred, and no more: the next night begins at the last known tick, sees that more follows and brings it.';

export const paging: readonly Misbehaviour[] = [
  {
    does: 'a page that is always full of one moment, that at which it begins',
    happens: 'Each such moment is a gap, and after many of them what is left of the window; what was answered is kept.',
    ticks: (honest, asked, _, truth) => {
      const [first] = truth(asked.from, asked.to);
      if (first === undefined) return honest;
      const ticks = Array.from({ length: capMax }, () => first);
      return { ...honest, ticks, count: capMax, to: first.t };
    },
    isAlone: true,
    fails: /more ticks in one millisecond than a page holds|does not serve this window/,
    isAnswered: true,
    keeps: 'a part',
    covers: 'a part',
  },
  {
    does: 'a page that states no more than the moment at which it begins',
    happens: 'Given up at once: what is left of the window fails, what was answered is kept.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.slice(0, 1), count: 1, to: honest.from }),
    isAlone: true,
    fails: /does not serve this window/,
    isAnswered: true,
    keeps: nothing,
    covers: 'nothing',
  },
  {
    does: 'the same last fifty ticks, whatever window is asked for',
    happens: 'Covered is only what they span, as the window is not heeded; the rest fails.',
    ticks: (honest, _, __, truth) => {
      const ticks = truth(0, Number.POSITIVE_INFINITY).slice(-50);
      return { ...honest, ticks, count: ticks.length };
    },
    isAlone: true,
    fails: /ignores from\/to/,
    isAnswered: true,
    keeps: (truth) => truth.slice(-50),
    covers: 'a part',
  },
  {
    does: 'the last ticks, whatever window is asked for',
    happens: 'Covered is only what they span, as the window is not heeded; the rest fails, the next night asks again.',
    ticks: (honest, _, __, truth) => {
      const ticks = truth(0, Number.POSITIVE_INFINITY).slice(-capMax);
      return { ...honest, ticks, count: ticks.length };
    },
    isAlone: true,
    fails: /ignores from\/to/,
    isAnswered: true,
    covers: 'a part',
  },
  {
    does: 'pages of seven, newest first, without a word that there is more',
    happens: 'Asked on until nothing is left out; the truth is kept.',
    ticks: (honest, asked, _, truth) => {
      const ticks = truth(asked.from, asked.to).slice(-7).toReversed();
      return { ...honest, ticks, count: ticks.length, to: asked.to };
    },
    isAlone: true,
    isRetried: true,
  },
  {
    does: 'pages of twenty of the earliest, unsorted, the window as asked for',
    happens: unseenTruncation,
    ticks: (honest, asked, _, truth) => {
      const ticks = truth(asked.from, asked.to).slice(0, 20);
      return { ...honest, ticks: ticks.toSorted((a, b) => (a.t % 97) - (b.t % 97)), count: ticks.length, to: asked.to };
    },
    isAlone: true,
    keeps: 'a part',
    isInferred: true,
  },
];
