import type { Misbehaviour, Ticks } from './misbehaviour.ts';
import { capMax, type Reply, type Requested, type TicksBody } from './scripted-service.ts';
import { asText, bomb, endless, endlessHead, half, headers, sends } from './wire-replies.ts';

// Rows about whole responses and about sequences of responses.

const nothing = (): Ticks => [];
const hourMs = 3_600_000;

/** The first `n` responses of the symbol are changed, the others are correct. */
const atFirst =
  (n: number, reply: (honest: TicksBody, request: Requested) => Reply) =>
  (honest: TicksBody, request: Requested, k: number): Reply =>
    k < n ? reply(honest, request) : honest;

const html = headers(200, { 'content-type': 'text/html' }, '<!doctype html><title>Log in</title>');

/** Completely unusable responses. */
export const unreadable: readonly Misbehaviour[] = [
  ...(
    [
      ['another symbol is echoed', (honest) => ({ ...honest, symbol: 'OTHER' }), /ticks of another symbol, "OTHER"/],
      [
        'the count is one too many',
        (honest) => ({ ...honest, count: honest.count + 1 }),
        /a count of \d+ over \d+ ticks/,
      ],
      [
        'an empty page with a count of 5',
        (honest) => ({ ...honest, ticks: [], count: 5 }),
        /a count of 5 over 0 ticks/,
      ],
      ['prices of NaN', (honest) => asText(honest, '"p":', '"p":NaN,"q":'), /broken JSON/],
      ['a truncated body', (honest) => JSON.stringify(honest).slice(0, 300), /broken JSON/],
      ['a web page', () => html, /HTML instead of JSON/],
      ['an empty body', () => '', /an empty body/],
      ['null', () => 'null', /JSON that is not an object/],
      ['a list', (honest) => JSON.stringify(honest.ticks), /JSON that is not an object/],
      ['an object without ticks', ({ ticks: _, ...rest }) => rest, /no ticks array/],
      [
        'a missing symbol, which the responses of other symbols have',
        ({ symbol: _, ...rest }) => rest,
        /HTTP 200 with no symbol/,
      ],
      [
        'a missing count, which the responses of other symbols have',
        ({ count: _, ...rest }) => rest,
        /HTTP 200 with no count/,
      ],
      [
        'a missing window, which the responses of other symbols have',
        ({ from: _, to: __, ...rest }) => rest,
        /HTTP 200 with no from, to/,
      ],
      [
        'a missing generated_at, which the responses of other symbols have',
        ({ generated_at: _, ...rest }) => rest,
        /HTTP 200 with no generated_at/,
      ],
      [
        'an error beside an empty page',
        (honest) => ({ ...honest, ticks: [], count: 0, error: { message: 'no backend' } }),
        /HTTP 200 with an error \("no backend"\)/,
      ],
      [
        'an empty page with success: false',
        (honest) => ({ ...honest, ticks: [], count: 0, success: false }),
        /HTTP 200 with an error/,
      ],
      ['ticks as an object', (honest) => ({ ...honest, ticks: { ...honest.ticks } }), /no ticks array/],
      ['ticks as a string', (honest) => ({ ...honest, ticks: JSON.stringify(honest.ticks) }), /no ticks array/],
      [
        'bytes that are not UTF-8',
        (honest) => sends(Buffer.from(`${JSON.stringify(honest)}\xff`, 'latin1')),
        /text that is not UTF-8/,
      ],
      ['status 204 without content', () => headers(204, {}, ''), /HTTP 204 with an empty body/],
      [
        'half of a body whose full length is stated',
        (honest) => half(honest, true),
        /connection closed before the end of the response|body length differs/,
      ],
      ['half of a body of unstated length', (honest) => half(honest, false), /broken JSON/],
      [
        'a body declared as gzip that is not gzip',
        (honest) => headers(200, { 'content-encoding': 'gzip' }, JSON.stringify(honest)),
        /a broken gzip body/,
      ],
      [
        'an unknown content coding',
        (honest) => headers(200, { 'content-encoding': 'lzma' }, JSON.stringify(honest)),
        /an unknown content coding/,
      ],
      [
        'bytes that are not HTTP',
        () => (response) => void response.socket!.end('220 mail.example ESMTP\r\n'),
        /invalid HTTP response/,
      ],
      [
        'a connection reset',
        () => (response) => void response.socket!.resetAndDestroy(),
        /connection reset|connection closed/,
      ],
      ['a gzip bomb', () => bomb(16_000_000), /more than 1000000 bytes/],
      ['an endless body', () => endless, /more than 1000000 bytes/],
      ['an endless header section', () => endlessHead, /connection failed|invalid HTTP response/],
    ] as const satisfies readonly (readonly [string, (honest: TicksBody) => Reply, RegExp])[]
  ).map(
    ([what, reply, reason]): Misbehaviour => ({
      does: `${what}, every time`,
      happens: 'Retried; then the symbol fails. Nothing is kept or covered.',
      ticks: reply,
      fails: reason,
      isRetried: true,
      keeps: nothing,
      covers: 'nothing',
    }),
  ),
  {
    does: 'a redirect to another service',
    happens: 'Not followed, and the API key is not sent there. The symbol fails at once.',
    ticks: () => headers(302, { location: 'http://127.0.0.1:1/elsewhere?key=1' }, ''),
    fails: /HTTP 302, a redirect to "http:\/\/127.0.0.1:1\/elsewhere", which is not followed/,
    keeps: nothing,
    covers: 'nothing',
  },
  {
    does: 'a response for another window',
    happens: 'Nothing is covered, and the symbol fails.',
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
    does: 'the stated window ends before it begins',
    happens: 'Nothing is covered, and the symbol fails.',
    ticks: (honest) => ({ ...honest, from: honest.to, to: honest.from }),
    fails: /does not serve this window/,
    isAnswered: true,
    covers: 'nothing',
  },
  {
    does: 'the window is stated in seconds',
    happens: 'The ticks are kept. Nothing is covered, and the symbol fails.',
    ticks: (honest) => ({ ...honest, from: Math.floor(honest.from / 1000), to: Math.floor(honest.to / 1000) }),
    fails: /does not serve this window/,
    isAnswered: true,
    covers: 'nothing',
  },
  {
    does: 'generated_at is stuck two days in the past',
    happens: 'The ticks are kept. Nothing is covered, and a warning says that the service is behind.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at - 48 * hourMs }),
    covers: 'nothing',
    warns: /^The service is behind/,
  },
  {
    does: 'generated_at is stuck five hours in the past',
    happens:
      'The ticks are kept. The window is covered up to that time, and a warning says that the service is behind.',
    ticks: (honest) => ({ ...honest, generated_at: honest.generated_at - 5 * hourMs }),
    covers: (nightMs) => nightMs - 5 * hourMs,
    warns: /^The service is behind/,
  },
];

/** Transient faults that a retry resolves. */
export const passing: readonly Misbehaviour[] = (
  [
    ['a web page', () => html],
    ['another symbol', (honest) => ({ ...honest, symbol: 'OTHER' })],
    ['a wrong count', (honest) => ({ ...honest, count: honest.count + 1 })],
    ['half of a body whose full length is stated', (honest) => half(honest, true)],
    ['half of a body of unstated length', (honest) => half(honest, false)],
    ['NaN', (honest) => asText(honest, '"p":', '"p":NaN,"q":')],
    ['a connection reset', () => (response) => void response.socket!.resetAndDestroy()],
  ] as const satisfies readonly (readonly [string, (honest: TicksBody) => Reply])[]
).map(
  ([what, reply]): Misbehaviour => ({
    does: `${what}, twice, then a correct response`,
    happens: 'Retried; only the number of retries shows the fault.',
    ticks: atFirst(2, reply),
    isRetried: true,
  }),
);

/** The server has not truncated a page this small before. */
export const unseenTruncation =
  'Covered as inferred only. The next night starts at the last known tick, detects that more ticks follow, and fetches them.';

export const paging: readonly Misbehaviour[] = [
  {
    does: 'a page that is always full of ticks at its start time',
    happens:
      'Each such time becomes a gap; after many of them, the rest of the window does too. Received ticks are kept.',
    ticks: (honest, request, _, truth) => {
      const [first] = truth(request.from, request.to);
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
    does: 'a page that states only its start time as covered',
    happens: 'Stopped at once: the rest of the window fails, and received ticks are kept.',
    ticks: (honest) => ({ ...honest, ticks: honest.ticks.slice(0, 1), count: 1, to: honest.from }),
    isAlone: true,
    fails: /does not serve this window/,
    isAnswered: true,
    keeps: nothing,
    covers: 'nothing',
  },
  {
    does: 'the same last fifty ticks for any window',
    happens: 'Only the span of these ticks is covered, because the server ignores from/to. The rest fails.',
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
    does: 'the last ticks for any window',
    happens:
      'Only the span of these ticks is covered, because the server ignores from/to. The rest fails, and the next night fetches it again.',
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
    does: 'pages of seven, newest first, not marked as truncated',
    happens: 'Requested until complete; all true ticks are kept.',
    ticks: (honest, request, _, truth) => {
      const ticks = truth(request.from, request.to).slice(-7).toReversed();
      return { ...honest, ticks, count: ticks.length, to: request.to };
    },
    isAlone: true,
    isRetried: true,
  },
  {
    does: 'pages of the earliest twenty, unsorted, with the window as requested',
    happens: unseenTruncation,
    ticks: (honest, request, _, truth) => {
      const ticks = truth(request.from, request.to).slice(0, 20);
      return {
        ...honest,
        ticks: ticks.toSorted((a, b) => (a.t % 97) - (b.t % 97)),
        count: ticks.length,
        to: request.to,
      };
    },
    isAlone: true,
    keeps: 'a part',
    isInferred: true,
  },
];
