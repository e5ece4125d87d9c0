import type { Archive } from '../archive/archive.ts';
import type { CompletenessRules } from '../archive/completeness/completeness.ts';
import type { LingerRules } from '../archive/completeness/symbol-lifetime.ts';
import type { SourceIdentity } from '../archive/format/manifest.ts';
import { qualifyMarket } from '../archive/format/qualify-market.ts';
import { computeOverlapMs, type RecheckHistory } from '../archive/journal/recheck-results.ts';
import { recordSources } from '../archive/journal/state.ts';
import { openArchive } from '../archive/open-archive.ts';
import { UsageError } from '../base/errors.ts';
import { parsePriceFormula } from '../base/price-formula.ts';
import { createLocalRateStore, type RateStateStore } from '../base/rate-state.ts';
import { qualifySymbol, unqualifySymbol } from '../base/source-name.ts';
import { dayMs, hourMs, minuteMs } from '../base/window.ts';
import type { ReceivedResponse, Upstream, UpstreamLimits } from '../client/upstream.ts';
import type { Settings, UpstreamAccess } from '../settings/settings.ts';
import type { Context } from './context.ts';

/**
 * Opens the archive that the settings name. Only a run with `canCollect` may create one, and only such a run checks the
 * upstream in the settings. A dry run checks it and records nothing. For readers a missing archive is an error, because --output may be mistyped.
 */
export function openConfiguredArchive(
  context: Pick<Context, 'settings' | 'canCreateArchive' | 'version' | 'disk' | 'openDatabase' | 'randomBytes'> &
    Partial<Pick<Context, 'waitMs'>>,
  canCollect: boolean,
  isRepair = false,
  isDryRun = false,
): Archive {
  requireLocalArchive(context.settings);
  const { archive, source, upstream, sources } = context.settings;
  const options = {
    root: archive.output,
    // A repair needs an existing archive.
    create: canCollect && !isRepair && (archive.outputNamed || context.canCreateArchive),
    upstream: canCollect && sources.length === 0 ? (source.name ?? toOrigin(upstream.baseUrl)) : null,
    sources: canCollect ? listSourceIdentities(sources) : [],
    parts: archive.parts,
    writer: `oddslake ${context.version}`,
    mends: isRepair,
    keepsIdentity: isDryRun,
    ...(context.waitMs !== undefined && { waitMs: context.waitMs }),
    ...(context.randomBytes !== undefined && { randomBytes: context.randomBytes }),
  };
  return openArchive(options, context.disk, context.openDatabase);
}

/** @throws UsageError if the archive of the settings is in object storage */
export function requireLocalArchive({ archive: { bucketUrl } }: Pick<Settings, 'archive'>): void {
  if (bucketUrl === null) return;
  throw new UsageError(
    `${bucketUrl} is an archive in object storage, and this command needs a local one. Get a copy with oddslake pull ${bucketUrl} DIR, or name the archive that you collect: oddslake push ${bucketUrl} uploads what it has published.`,
  );
}

const toOrigin = (url: string | null): string | null => (url === null ? null : new URL(url).origin);

/** The sources of an archive with these settings. */
export const listSourceIdentities = (sources: Settings['sources']): SourceIdentity[] =>
  sources.map(({ name, upstream: { baseUrl } }) => ({ name, upstream: toOrigin(baseUrl) ?? '' }));

/**
 * Records the source of a run that has just started, if a process with an older config has forgotten it since the run
 * opened the archive. From now on no process forgets it.
 */
export function keepSource({ state }: Archive, { sources, sourceName }: Settings): void {
  recordSources(state, listSourceIdentities(sources.filter(({ name }) => name === sourceName)));
}

/** @throws UsageError if --source names a source that the archive does not have */
export function requireKnownSources({ name, state }: Archive, { sources: chosen = [] }: Context): void {
  const names = state.identity.sources.map((source) => source.name);
  const unknown = chosen.find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw new UsageError(
    names.length === 0
      ? `--source ${unknown}: the archive at ${name} has one service only.`
      : `--source ${unknown}: the sources of the archive at ${name} are ${names.join(', ')}.`,
  );
}

/** When the lifetime of a symbol begins, and how long an inactive symbol is still polled. */
export const getLingerRules = ({ settings }: Context): LingerRules => toCompletenessRules(settings).lifetimeRules;

/** The overlap of a poll, in ms: the configured value, or more if ticks arrive later. */
export const getOverlapMs = ({ settings }: Context, memory: RecheckHistory): number =>
  computeOverlapMs(memory, settings.poll.overlapMinutes * minuteMs, settings.poll.overlapMinutesMax * minuteMs);

/** Age, in ms, at which the ticks that a server has are taken to be final. */
export const getSettleMs = ({ settings }: Pick<Context, 'settings'>): number => settings.poll.settleHours * hourMs;

/** How far the server's clock may be ahead of the local one, in ms. */
export const getFutureSkewMs = ({ settings }: Pick<Context, 'settings'>): number =>
  settings.poll.futureSkewSeconds * 1000;

/** Returns the symbols in the settings; null if the market lists determine the symbols. */
export const getConfiguredSymbols = ({ settings }: Context): ReadonlySet<string> | null =>
  toCompletenessRules(settings).namedSymbols;

/**
 * Opens a client of the archive's upstream with the limits of the settings and the given rate limit store. The client of
 * one of several sources takes and returns qualified symbols.
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
  const { upstream, source, sourceName } = context.settings;
  const { openUpstream } = await import('../client/client.ts');
  const client = openUpstream(
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
      ...(onResponse === undefined ? {} : { onResponse: addHead(onResponse, sourceName, source.price) }),
    },
  );
  const priced = source.price === null ? client : convertPrices(client, parsePriceFormula(source.price));
  return sourceName === null ? priced : qualifyUpstream(priced, sourceName, source.symbolPaths);
}

/** Wraps a client so that the prices of its ticks are converted. Raw responses stay as received. */
const convertPrices = (upstream: Upstream, convert: (p: number) => number): Upstream => ({
  ...upstream,
  async ticks(query, signal) {
    const page = await upstream.ticks(query, signal);
    return { ...page, p: page.p.map(convert) };
  },
});

/** Marks responses with their source and the formula of their prices, as a replay needs them. */
const addHead =
  (onResponse: (response: ReceivedResponse) => void, source: string | null, price: string | null) =>
  (response: ReceivedResponse): void =>
    onResponse({ ...response, ...(source !== null && { source }), ...(price !== null && { price }) });

/** The collector's share of the request rate: without that of live reads, if they are on. */
export const getCollectorShare = ({ service: { live } }: Pick<Settings, 'service'>): number =>
  live.enabled ? 1 - live.rateShare : 1;

/**
 * Opens a client of a service other than the archive's upstream. It has a separate rate limit, and its responses are
 * not stored as raw responses.
 */
export async function openOtherUpstream(context: Context, access: UpstreamAccess): Promise<Upstream> {
  // Another oddslake serves this archive's symbols as they are.
  const settings = { ...context.settings, sourceName: null };
  return openConfiguredUpstream({ ...context, settings }, createLocalRateStore(), access, undefined, 1);
}

/** The completeness rules of the settings. Writers, readers and the HTTP service use the same rules. */
export const toCompletenessRules = ({
  symbols,
  source,
  sources,
}: Pick<Settings, 'symbols' | 'source' | 'sources'>): CompletenessRules => ({
  namedSymbols: symbols.length === 0 ? null : new Set(symbols),
  views: source.views,
  ...(sources.length > 0 && { viewsBySource: new Map(sources.map((one) => [one.name, one.source.views])) }),
  lifetimeRules: {
    lookbackMs: source.firstLookbackDays * dayMs,
    lingerMs: source.lingerDays * dayMs,
  },
});

/**
 * Wraps the client of one of an archive's several sources. The collector knows qualified symbols only, and the source
 * knows its own: requests are translated on their way out, market records on their way in. Errors stay those of the
 * source: `symbol` in an UpstreamError is its own name, which the text of a response may contain.
 */
const qualifyUpstream = (upstream: Upstream, source: string, symbolPaths: readonly string[]): Upstream => ({
  ...upstream,
  // Async, so that the symbol of another source is a rejection, as any other error is.
  ticks: async (query, signal) => upstream.ticks({ ...query, symbol: unqualifySymbol(source, query.symbol) }, signal),
  coverage: async (query, signal) =>
    upstream.coverage({ ...query, symbol: unqualifySymbol(source, query.symbol) }, signal),
  async orderbook(query, signal) {
    const requestedSymbol = unqualifySymbol(source, query.symbol);
    return { ...(await upstream.orderbook({ ...query, symbol: requestedSymbol }, signal)), requestedSymbol };
  },
  async markets(query, signal) {
    const page = await upstream.markets(query, signal);
    const qualify = (name: string): string => qualifySymbol(source, name);
    return { ...page, markets: page.markets.map((record) => qualifyMarket(record, qualify, symbolPaths)) };
  },
});
