import type { Archive } from '../../archive/archive.ts';
import { requireSameOwner } from '../../archive/open-archive.ts';
import { UsageError } from '../../base/errors.ts';
import { addLogFields } from '../../base/ports.ts';
import { findSource } from '../../base/source-name.ts';
import type { Context } from '../../context/context.ts';
import { listSourceIdentities } from '../../context/open-configured.ts';
import { listSourceSettings, requireUpstream } from '../../settings/settings.ts';
import { type LiveOutcome, type LiveReads, liveOutcomes } from '../http/service-context.ts';
import { openSourceLiveReads } from './live-reads.ts';

/**
 * Opens the live reads of a service. Each source of an archive that has several has live reads of its own, with its rate,
 * credentials, runs and pauses: one that is down delays no read of another.
 * @throws UsageError if there is no upstream, the archive is of another one, or was never collected here, as a snapshot
 */
export function openLiveReads(context: Context, archive: Archive): LiveReads {
  const { settings } = context;
  const ofSources = listSourceSettings(settings);
  const [first] = ofSources.map(requireUpstream);
  const sources = listSourceIdentities(settings.sources);
  const upstream = sources.length === 0 ? (settings.source.name ?? new URL(first!.baseUrl).origin) : '';
  requireSameOwner(archive.layout.root, archive.state.identity, { upstream, sources });
  requireCollectedArchive(archive);
  if (sources.length === 0) return openSourceLiveReads(context, archive);
  const bySource = new Map(
    ofSources.map((own) => {
      const log = addLogFields(context.log, { source: own.sourceName });
      return [own.sourceName!, openSourceLiveReads({ ...context, settings: own, log }, archive)];
    }),
  );
  return joinLiveReads(bySource);
}

/** Asks the source of a symbol. Of a symbol of no source nothing is asked: none has it. */
function joinLiveReads(bySource: ReadonlyMap<string, LiveReads>): LiveReads {
  const names = [...bySource.keys()];
  const all = [...bySource.values()];
  const findReads = (symbol: string): LiveReads | undefined => {
    const source = findSource(symbol, names);
    return source === null ? undefined : bySource.get(source);
  };
  return {
    refreshTicks: async (symbol, to) => await findReads(symbol)?.refreshTicks(symbol, to),
    refreshOrderBook: async (symbol, fetchedAt) => await findReads(symbol)?.refreshOrderBook(symbol, fetchedAt),
    async refreshMarkets(polledAt) {
      await Promise.all(all.map((reads) => reads.refreshMarkets(polledAt)));
    },
    getCounts() {
      const counts = all.map((reads) => reads.getCounts());
      const sum = (name: LiveOutcome): number => counts.reduce((total, of) => total + of[name], 0);
      return Object.fromEntries(liveOutcomes.map((name) => [name, sum(name)])) as Record<LiveOutcome, number>;
    },
    async close() {
      await Promise.all(all.map((reads) => reads.close()));
    },
  };
}

/** Jobs that collect into an archive. */
const collectingJobs = ['nightly', 'markets', 'ticks', 'orderbook', 'backfill', 'import', 'live'];

/**
 * Requires that a job has collected into this archive here, unless it is new. A snapshot has no such record: what live
 * reads added to it would be missing in the archive it was taken from.
 */
function requireCollectedArchive({ state, layout }: Archive): void {
  if (state.generation() === 0) return;
  const list = collectingJobs.map((job) => `'${job}'`).join(', ');
  if (state.db.one(`select 1 from runs where job in (${list}) limit 1`) !== undefined) return;
  throw new UsageError(
    `service.live.enabled is on, but ${layout.root} is a snapshot or a copy without its state: no job has collected into it. Turn it off, or run oddslake markets once if this is the archive that you collect.`,
  );
}
