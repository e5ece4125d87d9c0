import { dayMs, type Window } from '../base/window.ts';
import type { BookShape } from './book-shapes.ts';
import { type FaultKind, faultKinds } from './faults.ts';
import type { LimiterKind, RateHeaderForm } from './rate-limit.ts';
import { defaultTickBehavior, type TickBehavior } from './tick-behavior.ts';
import type { PageLayout } from './tick-page.ts';

/** Options of a sandbox; TickBehavior holds those about paging. options-check.ts holds the bounds. */
export interface SandboxOptions extends TickBehavior {
  /** TCP port on 127.0.0.1; 0 takes a free one. Default 0. */
  readonly port: number;
  /** The market data key, expected as `Authorization: Bearer KEY`; any other gets 401. */
  readonly key: string;
  /** Whether the right key gets 403 too. Default false. */
  readonly forbidden: boolean;
  /** The same for order books only. Default false. */
  readonly booksForbidden: boolean;
  /** The current time of the sandbox, epoch milliseconds; null uses the system clock. Default null. */
  readonly nowMs: number | null;
  /** Seed of all generated data and faults. Default 1. */
  readonly seed: number;

  /** Number of concurrent simulated markets; when one closes, another follows. Default 40. */
  readonly markets: number;
  /** Share of the time in which each of them is open; the rest is the pause before the next. Default 0.85. */
  readonly activeShare: number;
  /** Mean ticks per day of an open symbol; individual symbols get 0.1 to 8 times as many. Default 400. */
  readonly ticksPerDay: number;
  /**
   * Maximum time from opening to closing, in days; most markets are open for 4 days or more, some for half a day.
   * Default 45.
   */
  readonly lifetimeDaysMax: number;
  /** Time of the earliest data, epoch milliseconds. Default 2025-01-01. */
  readonly epochMs: number;

  /** Share of ticks that become visible late, by up to `lateDelayMsMax` after their time. Defaults 0, 10 minutes. */
  readonly lateShare: number;
  readonly lateDelayMsMax: number;
  /** Share of ticks that have another price until `reviseAfterMs` after their time. Defaults 0, 10 minutes. */
  readonly reviseShare: number;
  readonly reviseAfterMs: number;
  /** Share of ticks that disappear when they are older than `thinAfterMs`. Defaults 0, 2 days. */
  readonly thinShare: number;
  readonly thinAfterMs: number;

  /** Ticks per response if the request has no limit; `cap` still applies. Default 5000. */
  readonly defaultLimit: number;
  /** Length of the window if the request has no `from`. Default one day. */
  readonly defaultWindowMs: number;
  /** JSON layout of a tick page; `mixed` alternates. Default `compact`, as documented. */
  readonly layout: PageLayout | 'mixed';
  /** Shapes of order books, used in turn; an empty list disables the route. Default `objects`. */
  readonly bookShapes: readonly BookShape[];
  /** Retention, ms: older ticks are not returned, and `from` states it; null keeps all. Default null. */
  readonly retentionMs: number | null;
  /** Lag of each replica, milliseconds; one of them answers each tick request. Default one replica without lag. */
  readonly replicaLagsMs: readonly number[];
  /** Windows without ticks that responses state as `gaps`. Default none. */
  readonly gaps: readonly Window[];
  /** Maximum markets per response. Default 100,000. */
  readonly marketsCap: number;
  /** Whether responses are compressed for clients that accept gzip. Default true. */
  readonly gzip: boolean;

  /** Requests allowed per second and key; requests above it get 429; null sets no limit. Default null. */
  readonly requestsPerSecond: number | null;
  /** How that limit counts: sliding windows, fixed windows, or a token bucket. Default `sliding`. */
  readonly limiter: LimiterKind;
  /** Rate limit headers: none, RateLimit of the IETF draft or its older form, or X-RateLimit. Default `none`. */
  readonly rateHeaders: RateHeaderForm;
  /** Form of Retry-After in a 429 of that limit. Default `seconds`. */
  readonly retryAfter: 'seconds' | 'date' | 'none';
  /** Delay before each response, in milliseconds. Default 0. */
  readonly latencyMs: number;
  /** Share of requests with one of `faults`. Default 0, all kinds. */
  readonly faultShare: number;
  readonly faults: readonly FaultKind[];
  /** Duration of the pause in the faults `stall` and `slow-body`, milliseconds. Default one minute. */
  readonly stallMs: number;
  /**
   * Response fields to change, by route and path such as `ticks:count`, with `*` for every element: remove it (`gone`),
   * set it to `null`, write it as `text`, or rename it (`=name`). Default none.
   */
  readonly reshape: Readonly<Record<string, string>>;
  /** Symbols whose ticks and order books always get this status. */
  readonly faultSymbols: Readonly<Record<string, 404 | 500>>;
}

/** Options that `Sandbox.set` may not change: feed and port are created once. */
export const fixedOptions = [
  'port',
  'seed',
  'markets',
  'activeShare',
  'ticksPerDay',
  'lifetimeDaysMax',
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
  lifetimeDaysMax: 45,
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
