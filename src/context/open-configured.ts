import type { CompletenessRules } from '../archive/completeness/completeness.ts';
import type { LingerRules } from '../archive/completeness/symbol-lifetime.ts';
import { computeOverlapMs, type RecheckHistory } from '../archive/journal/recheck-results.ts';
import { type Archive, openArchive } from '../archive/open-archive.ts';
import { createLocalRateStore, type RateStateStore } from '../base/rate-state.ts';
import { dayMs, minuteMs } from '../base/window.ts';
import type { ReceivedResponse, Upstream, UpstreamLimits } from '../client/upstream.ts';
import type { Settings, UpstreamAccess } from '../settings/settings.ts';
import type { Context } from './context.ts';

/**
 * Opens the archive that the settings name. Only a run with `canCollect` may create one, and only such a run checks the
 * upstream in the settings. For readers a missing archive is an error, because --output may be mistyped.
 */
export function openConfiguredArchive(
  context: Pick<Context, 'settings' | 'canCreateArchive' | 'version' | 'disk' | 'openDatabase' | 'randomBytes'> &
    Partial<Pick<Context, 'waitMs'>>,
  canCollect: boolean,
  isRepair = false,
): Archive {
  const { archive, source, upstream } = context.settings;
  const origin = upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin;
  const options = {
    root: archive.output,
    // A repair needs an existing archive.
    create: canCollect && !isRepair && (archive.outputNamed || context.canCreateArchive),
    upstream: canCollect ? (source.name ?? origin) : null,
    parts: archive.parts,
    partRows: archive.partRows,
    writer: `oddslake ${context.version}`,
    settleMs: archive.settleMinutes * minuteMs,
    mends: isRepair,
    ...(context.waitMs !== undefined && { waitMs: context.waitMs }),
    ...(context.randomBytes !== undefined && { randomBytes: context.randomBytes }),
  };
  return openArchive(options, context.disk, context.openDatabase);
}

/** When the lifetime of a symbol begins, and how long an inactive symbol is still polled. */
export const getLingerRules = ({ settings }: Context): LingerRules => toCompletenessRules(settings).lifetimeRules;

/** The overlap of a poll, in ms: the configured value, or more if ticks arrive later. */
export const getOverlapMs = ({ settings }: Context, memory: RecheckHistory): number =>
  computeOverlapMs(memory, settings.poll.overlapMinutes * minuteMs, settings.poll.overlapMinutesMax * minuteMs);

/** How far the server's clock may be ahead of the local one, in ms. */
export const getFutureSkewMs = ({ settings }: Pick<Context, 'settings'>): number =>
  settings.poll.futureSkewSeconds * 1000;

/** Returns the symbols in the settings; null if the market lists determine the symbols. */
export const getConfiguredSymbols = ({ settings }: Context): ReadonlySet<string> | null =>
  toCompletenessRules(settings).namedSymbols;

/**
 * Opens a client of the archive's upstream with the limits of the settings and the given rate limit store.
 * @param share its share of the request rate; by default that of the collector
 * @param limits limits that differ from the settings
 */
export async function openConfiguredUpstream(
  context: Context,
  rateStore: RateStateStore,
  { baseUrl, apiKey }: UpstreamAccess,
  onResponse?: (response: ReceivedResponse) => void,
  share = getCollectorShare(context.settings),
  limits: Partial<UpstreamLimits> = {},
): Promise<Upstream> {
  const { upstream } = context.settings;
  const { openUpstream } = await import('../client/client.ts');
  return openUpstream(
    {
      baseUrl,
      apiKey,
      requestsPerSecond: upstream.requestsPerSecond * share,
      statedRateShare: share,
      concurrency: upstream.concurrency,
      requestDeadlineMs: upstream.requestDeadlineSeconds * 1000,
      responseBytesMax: upstream.responseBytesMax,
      retryAttemptsMax: upstream.retryAttemptsMax,
      retryDelayMsMin: upstream.retryDelaySecondsMin * 1000,
      retryDelayMsMax: upstream.retryDelaySecondsMax * 1000,
      retryAfterMsMax: upstream.retryAfterSecondsMax * 1000,
      userAgent: `oddslake/${context.version}`,
      ...limits,
    },
    {
      clock: context.clock,
      random: context.random,
      log: context.log,
      rateStore,
      openTransport: context.openWire,
      ...(onResponse === undefined ? {} : { onResponse }),
    },
  );
}

/** The collector's share of the request rate: without that of live reads, if they are on. */
export const getCollectorShare = ({ service: { live } }: Pick<Settings, 'service'>): number =>
  live.enabled ? 1 - live.rateShare : 1;

/**
 * Opens a client of a service other than the archive's upstream. It has a separate rate limit, and its responses are
 * not stored as raw responses.
 */
export async function openOtherUpstream(context: Context, access: UpstreamAccess): Promise<Upstream> {
  return openConfiguredUpstream(context, createLocalRateStore(), access, undefined, 1);
}

/** The completeness rules of the settings. Writers, readers and the HTTP service use the same rules. */
export const toCompletenessRules = ({
  symbols,
  source,
  archive,
}: Pick<Settings, 'symbols' | 'source' | 'archive'>): CompletenessRules => ({
  namedSymbols: symbols.length === 0 ? null : new Set(symbols),
  views: source.views,
  lifetimeRules: {
    lookbackMs: source.firstLookbackDays * dayMs,
    lingerMs: source.lingerDays * dayMs,
    settleMs: archive.settleMinutes * minuteMs,
  },
});
