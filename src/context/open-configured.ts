import type { CompletenessRules } from '../archive/completeness/completeness.ts';
import type { LingerRules } from '../archive/completeness/symbol-lifetime.ts';
import { computeOverlapMs, type RecheckMemory } from '../archive/journal/recheck-results.ts';
import { type Archive, openArchive } from '../archive/open-archive.ts';
import type { RateStateStore } from '../base/rate-state.ts';
import { dayMs, minuteMs } from '../base/window.ts';
import type { ReceivedResponse, Upstream } from '../client/upstream.ts';
import type { Settings, UpstreamAccess } from '../settings/settings.ts';
import type { Context } from './context.ts';

// What the settings say, in the terms of those who need it.

/**
 * The archive that the settings name. Only a run that `collects` may start one, and only there it matters which
 * upstream the settings name; a mistyped --output of a reader is an error.
 */
export function openConfiguredArchive(
  context: Pick<Context, 'settings' | 'canCreateArchive' | 'version' | 'disk' | 'openDatabase' | 'randomBytes'> &
    Partial<Pick<Context, 'waitMs'>>,
  collects: boolean,
  mends = false,
): Archive {
  const { archive, source, upstream } = context.settings;
  const origin = upstream.baseUrl === null ? null : new URL(upstream.baseUrl).origin;
  const options = {
    root: archive.output,
    // Where there is none, there is nothing to mend.
    create: collects && !mends && (archive.outputNamed || context.canCreateArchive),
    upstream: collects ? (source.name ?? origin) : null,
    parts: archive.parts,
    writer: `oddslake ${context.version}`,
    settleMs: archive.settleMinutes * minuteMs,
    mends,
    ...(context.waitMs !== undefined && { waitMs: context.waitMs }),
    ...(context.randomBytes !== undefined && { randomBytes: context.randomBytes }),
  };
  return openArchive(options, context.disk, context.openDatabase);
}

/** When a symbol's lifetime begins, and when one that turned inactive is left alone. */
export const getLingerRules = ({ settings }: Context): LingerRules => toCompletenessRules(settings).lifetimeRules;

/** How far before its cursor a poll reads again by now, in ms: as configured, or farther where ticks come later. */
export const getOverlapMs = ({ settings }: Context, memory: RecheckMemory): number =>
  computeOverlapMs(memory, settings.poll.overlapMinutes * minuteMs, settings.poll.overlapMinutesMax * minuteMs);

/** How far ahead of ours the service's clock may be, in ms. */
export const getFutureSkewMs = ({ settings }: Pick<Context, 'settings'>): number =>
  settings.poll.futureSkewSeconds * 1000;

/** Symbols that the config names, or null where the market lists decide. */
export const getConfiguredSymbols = ({ settings }: Context): ReadonlySet<string> | null =>
  toCompletenessRules(settings).namedSymbols;

/** Opens a client of the archive's upstream with the settings' bounds, at this pace. */
export async function openConfiguredUpstream(
  context: Context,
  pace: RateStateStore,
  { baseUrl, apiKey }: UpstreamAccess,
  onAnswer?: (answer: ReceivedResponse) => void,
): Promise<Upstream> {
  const { upstream } = context.settings;
  const { openUpstream } = await import('../client/client.ts');
  return openUpstream(
    {
      baseUrl,
      apiKey,
      requestsPerSecond: upstream.requestsPerSecond,
      concurrency: upstream.concurrency,
      requestDeadlineMs: upstream.requestDeadlineSeconds * 1000,
      responseBytesMax: upstream.responseBytesMax,
      retryAttemptsMax: upstream.retryAttemptsMax,
      retryDelayMsMin: upstream.retryDelaySecondsMin * 1000,
      retryDelayMsMax: upstream.retryDelaySecondsMax * 1000,
      retryAfterMsMax: upstream.retryAfterSecondsMax * 1000,
      userAgent: `oddslake/${context.version}`,
    },
    {
      clock: context.clock,
      random: context.random,
      log: context.log,
      rateStore: pace,
      openTransport: context.openWire,
      ...(onAnswer === undefined ? {} : { onResponse: onAnswer }),
    },
  );
}

/**
 * Opens a client of another service than the archive's upstream: what that one has taught of its rate says nothing of
 * this one, and its answers are not kept as the upstream's.
 */
export async function openOtherUpstream(context: Context, access: UpstreamAccess): Promise<Upstream> {
  const { createLocalRateStore } = await import('../client/local-rate-store.ts');
  return openConfiguredUpstream(context, createLocalRateStore(), access);
}

/** By what the settings have an archive judged: the same for whoever writes it, reads it or serves it. */
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
