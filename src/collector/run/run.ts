import type { Archive } from '../../archive/archive.ts';
import type { LostWindow } from '../../archive/format/coverage.ts';
import type { PublishedFile } from '../../archive/format/manifest.ts';
import type { BookCounts, PushSummary, RecheckCounts, RestoredCounts } from '../../archive/journal/run-summary.ts';
import { startRun } from '../../archive/journal/runs.ts';
import type { LateTickRules } from '../../archive/publish/late-ticks.ts';
import type { PriceBreak } from '../../archive/publish/price-check.ts';
import type { Window } from '../../base/window.ts';
import type { Upstream } from '../../client/upstream.ts';
import type { Context } from '../../context/context.ts';
import { Night } from '../proof/shown.ts';
import type { RunFailure, RunWarning } from './judge-run.ts';
import { emptyBookCounts } from './summary.ts';

/** A run in progress: the state that its steps share, and its counters. */
export interface Run {
  readonly context: Context;
  readonly id: string;
  readonly archive: Archive;
  /**
   * The source that this run collects, of an archive's several; everything that it reads, reports and records is about
   * this source. Null: the only service, or a run that does not collect.
   */
  readonly source: string | null;
  /** Returns the client of the upstream; opens it on the first call. */
  upstream(): Promise<Upstream>;
  readonly warnings: RunWarning[];
  readonly failures: RunFailure[];
  /** Files published by this run, by path. */
  readonly files: Map<string, PublishedFile>;
  readonly symbols: { planned: number; done: number; failed: number; suspended: number };
  /** Symbols that were requested by name. */
  readonly requestedSymbols: Set<string>;
  readonly bookCounts: { -readonly [name in keyof BookCounts]: BookCounts[name] };
  /** What its polls covered, to tell it from what another run withdrew or listed since. */
  readonly polled: PolledState;
  /** What its publishes have quarantined because of its prices. */
  readonly priceBreaks: PriceBreak[];
  /** The lost windows that the run requested; see `LostWindowState`. */
  readonly lostWindows: LostWindowState;
  /**
   * Whether requests are sent to a service other than the archive's upstream. Its errors do not affect the state of
   * symbols.
   */
  readonly usesOtherUpstream: boolean;
  readonly nightCounters: NightCounters;
  /** What the responses of the upstream show. */
  readonly night: Night;
  /** Results of the rechecks; absent if there were none. */
  rechecks?: RecheckCounts;
  /** Restored lost windows; absent if the run did not try to restore any. */
  restored?: Partial<RestoredCounts>;
  /** The push to the bucket of the settings; absent if there is none, or it failed. */
  pushed?: PushSummary;
  pages: number;
  /** Markets in the market lists; null if the run polled no lists. */
  markets: number | null;
  /** Whether the upstream has sent any response. */
  hasUpstreamResponded: boolean;
}

/** Starts a run and records it. @param job null: a dry run, which is not recorded */
export function createRun(
  context: Context,
  job: string | null,
  archive: Archive,
  startedAt: number,
  usesOtherUpstream: boolean,
  upstream: () => Promise<Upstream>,
): Run {
  const id = createRunId(startedAt, context.random());
  const { sourceName: source } = context.settings;
  if (job !== null) startRun(archive.state.db, id, job, process.pid, startedAt, undefined, source);
  const symbols = { planned: 0, done: 0, failed: 0, suspended: 0 };
  return {
    context,
    id,
    archive,
    source,
    upstream,
    warnings: [],
    failures: [],
    files: new Map(),
    symbols,
    requestedSymbols: new Set(),
    bookCounts: { ...emptyBookCounts },
    polled: { covered: new Map(), plannedAt: Number.POSITIVE_INFINITY, firstSeenLater: new Set() },
    priceBreaks: [],
    lostWindows: { requested: new Map(), tried: new Set(), confirmedLost: new Set() },
    usesOtherUpstream,
    nightCounters: createNightCounters(),
    night: new Night(),
    pages: 0,
    markets: null,
    hasUpstreamResponded: false,
  };
}

/** Run IDs sort by time. The random suffix distinguishes runs of the same second. */
const createRunId = (startedAt: number, random: number): string =>
  `${new Date(startedAt).toISOString().replace(/[-:]|\.\d+/g, '')}-${Math.floor(random * 36 ** 6)
    .toString(36)
    .padStart(6, '0')}`;

/** What the polls of a run found. */
interface NightCounters {
  /** When a tick counts as late; absent if the run polls no ticks. */
  lateRules?: LateTickRules;
  /** Whether responses to the polls contradicted each other. */
  isPagingContradicted: boolean;
  /** When the market lists were polled, epoch ms; null if the poll failed. */
  listedAt: number | null;
  /** The hours since the epoch with polled ticks, and the newest of these ticks, epoch ms. */
  readonly tickHours: Set<number>;
  newestTick: number;
  /** Requested windows that are not covered. */
  readonly missingWindows: (Window & { readonly symbol: string; readonly reason: string })[];
}

const createNightCounters = (): NightCounters => ({
  listedAt: null,
  tickHours: new Set(),
  newestTick: 0,
  missingWindows: [],
  isPagingContradicted: false,
});

/** What the polls of a run planned and covered. Other runs may collect at the same time. */
interface PolledState {
  /** Windows that its responses covered, by symbol. */
  readonly covered: Map<string, readonly Window[]>;
  /** Symbols that were first seen after this time, epoch ms, became known after the polls were planned. Infinite without a poll. */
  plannedAt: number;
  /** Exceptions: symbols that were known then, although a wrong clock dated them later. */
  firstSeenLater: ReadonlySet<string>;
}

/** How a run deals with lost windows. */
interface LostWindowState {
  /** Lost windows that were requested completely, by symbol. */
  readonly requested: Map<string, readonly LostWindow[]>;
  /** Keys of requested windows without a failed request. */
  readonly tried: Set<string>;
  /** Keys of windows that responses cover completely, with fewer ticks than were lost. */
  readonly confirmedLost: Set<string>;
}
