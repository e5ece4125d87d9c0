import { dayMs, type Window } from '../base/window.ts';
import type { BookShape } from './book-shapes.ts';
import { type FaultKind, faultKinds } from './faults.ts';
import type { LimiterKind, RateHeaderForm } from './rate-limit.ts';
import { defaultTickBehavior, type TickBehavior } from './tick-behavior.ts';
import type { PageLayout } from './tick-page.ts';

/** Everything that can be asked of a sandbox; how it pages is TickBehavior. Bounds stand with the checks, in options-check.ts. */
export interface SandboxOptions extends TickBehavior {
  /** TCP port on 127.0.0.1; 0 takes a free one. Default 0. */
  readonly port: number;
  /** The market data key asked for as `Authorization: Bearer KEY`; anything else is answered 401. */
  readonly key: string;
  /** Whether even the right key is answered 403. Default false. */
  readonly forbidden: boolean;
  /** The same for order books alone. Default false. */
  readonly booksForbidden: boolean;
  /** The moment it is in the sandbox, epoch milliseconds; null follows the clock. Default null. */
  readonly nowMs: number | null;
  /** Everything made up or gone wrong comes from this number. Default 1. */
  readonly seed: number;

  /** Simulated markets that follow one another side by side. Default 40. */
  readonly markets: number;
  /** Share of the time that each of them is open, the rest being the pause before the next. Default 0.85. */
  readonly activeShare: number;
  /** Mean ticks a day of a symbol while it is open; single symbols get a tenth to eight times as many. Default 400. */
  readonly ticksPerDay: number;
  /** Longest time from opening to closing, in days; most lives are of 4 days and more, some of half a day. Default 45. */
  readonly lifeDaysMax: number;
  /** Nothing is known from before this moment. Default 2025-01-01. */
  readonly epochMs: number;

  /** Share of ticks that become visible late, by up to `lateDelayMsMax` after their time. Defaults 0, 10 minutes. */
  readonly lateShare: number;
  readonly lateDelayMsMax: number;
  /** Share of ticks whose price is another one until `reviseAfterMs` after their time. Defaults 0, 10 minutes. */
  readonly reviseShare: number;
  readonly reviseAfterMs: number;
  /** Share of the ticks that are gone once they are older than `thinAfterMs`. Defaults 0, 2 days. */
  readonly thinShare: number;
  readonly thinAfterMs: number;

  /** Ticks answered where no limit is asked for; `cap` stands above it. Default 5000. */
  readonly defaultLimit: number;
  /** Length of the window where `from` is not asked for. Default one day. */
  readonly defaultWindowMs: number;
  /** How the JSON of a tick page is written; `mixed` takes them in turn. Default `compact`, as documented. */
  readonly layout: PageLayout | 'mixed';
  /** Shapes that order books are told in, by turns; none: there is no such route. Default `objects`. */
  readonly bookShapes: readonly BookShape[];
  /** Older ticks than this are not answered, and `from` says so; null keeps all. Default null. */
  readonly retentionMs: number | null;
  /** How far replicas are behind, milliseconds; one of them answers each tick request. Default one that is not. */
  readonly replicaLagsMs: readonly number[];
  /** Windows without ticks that answers name as `gaps`. Default none. */
  readonly gaps: readonly Window[];
  /** Most markets in an answer. Default 100,000. */
  readonly marketsCap: number;
  /** Whether answers are compressed for clients that take gzip. Default true. */
  readonly gzip: boolean;

  /** Requests allowed under the key in any second, more are answered 429; null sets no limit. Default null. */
  readonly requestsPerSecond: number | null;
  /** How that limit counts: over any span, over spans side by side, or as a bucket that fills. Default `sliding`. */
  readonly limiter: LimiterKind;
  /** Headers that tell of it: none, RateLimit of the IETF draft or its older form, or X-RateLimit. Default `none`. */
  readonly rateHeaders: RateHeaderForm;
  /** What a 429 of that limit carries as Retry-After. Default `seconds`. */
  readonly retryAfter: 'seconds' | 'date' | 'none';
  /** Wait before each answer, in milliseconds. Default 0. */
  readonly latencyMs: number;
  /** Share of requests that meet one of `faults`. Default 0, all kinds. */
  readonly faultShare: number;
  readonly faults: readonly FaultKind[];
  /** Length of the silence in the faults `stall` and `slow-body`, milliseconds. Default one minute. */
  readonly stallMs: number;
  /**
   * Fields of answers that are not what they were, by route and path, as `ticks:count`, `*` being every element: `gone`,
   * `null`, written as `text`, or under another name (`=name`). Default none.
   */
  readonly reshape: Readonly<Record<string, string>>;
  /** Symbols whose ticks and order books are always answered with this status. */
  readonly faultSymbols: Readonly<Record<string, 404 | 500>>;
}

/** What `Sandbox.set` may not change: the feed and the port are made once. */
export const fixedOptions = [
  'port',
  'seed',
  'markets',
  'activeShare',
  'ticksPerDay',
  'lifeDaysMax',
  'epochMs',
] as const satisfies readonly (keyof SandboxOptions)[];

export type ChangeableOptions = Partial<Omit<SandboxOptions, (typeof fixedOptions)[number]>>;

export const sandboxDefaults: SandboxOptions = {
  port: 0,
  key: 'sandbox-key',
  forbidden: false,
  booksForbidden: false,
  nowMs: null,
  seed: 1,
  markets: 40,
  activeShare: 0.85,
  ticksPerDay: 400,
  lifeDaysMax: 45,
  epochMs: Date.UTC(2025, 0, 1),
  lateShare: 0,
  lateDelayMsMax: 600_000,
  reviseShare: 0,
  reviseAfterMs: 600_000,
  thinShare: 0,
  thinAfterMs: 2 * dayMs,
  ...defaultTickBehavior,
  defaultLimit: 5_000,
  defaultWindowMs: dayMs,
  layout: 'compact',
  bookShapes: ['objects'],
  retentionMs: null,
  replicaLagsMs: [0],
  gaps: [],
  marketsCap: 100_000,
  gzip: true,
  requestsPerSecond: null,
  limiter: 'sliding',
  rateHeaders: 'none',
  retryAfter: 'seconds',
  latencyMs: 0,
  faultShare: 0,
  faults: faultKinds,
  stallMs: 60_000,
  reshape: {},
  faultSymbols: {},
};
