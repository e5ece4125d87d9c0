import type { PublishedFile } from '../../archive/format/manifest.ts';
import { readOpenIntent } from '../../archive/journal/intent.ts';
import { readRecordedDamage } from '../../archive/journal/published-files.ts';
import { openSharedRateStore, type SharedRateStore } from '../../archive/journal/rate-limit-store.ts';
import {
  countDroppedRejects,
  countWaitingTicks,
  finishRun,
  readRunCounts,
  startRun,
} from '../../archive/journal/runs.ts';
import { type Archive, requireCurrentFormat } from '../../archive/open-archive.ts';
import { tallyJournaledTicks } from '../../archive/publish/count-ticks.ts';
import { recoverPublish } from '../../archive/publish/publish.ts';
import { pruneRawFiles } from '../../archive/raw/raw-file.ts';
import type { RawWriter } from '../../archive/raw/raw-writer.ts';
import { readPublishedCompleteness } from '../../archive/read/archive-status.ts';
import { removeAbandonedScratch } from '../../archive/read/pin-generation.ts';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { formatIsoUtc, timeEnd, timeMin } from '../../base/time.ts';
import type { Upstream, UpstreamCounters } from '../../client/upstream.ts';
import type { Context } from '../../context/context.ts';
import {
  getConfiguredSymbols,
  openConfiguredArchive,
  openConfiguredUpstream,
  openOtherUpstream,
} from '../../context/open-configured.ts';
import { requireUpstream, type UpstreamAccess } from '../../settings/settings.ts';
import { afterRun } from '../notifications/after-run.ts';
import { createResponseShapes, type DriftLine, detectSchemaDrift, type ResponseShapes } from '../steps/drift-step.ts';
import { listActiveSuspended } from '../steps/gaps-step.ts';
import { createNightCounters, type NightCounters } from '../steps/nightly-stats-step.ts';
import { checkPublishedSizes, hashDueFiles } from '../steps/publish-step.ts';
import type { LostWindowState } from '../steps/track-lost-windows.ts';
import { publishDamageVerdict } from './publish-verdict.ts';
import { addNextAction } from './suggest-action.ts';
import {
  type BookCounts,
  emptyBookCounts,
  type NightSummary,
  type RateUse,
  type RecheckCounts,
  type RestoredCounts,
  type RunFacts,
  type RunFailure,
  type Summary,
  summarize,
} from './summary.ts';

/** A run in progress: the state that its steps share, and its counters. */
export interface Run {
  readonly context: Context;
  readonly id: string;
  readonly archive: Archive;
  /** Returns the client of the upstream; opens it at the first call. */
  upstream(): Promise<Upstream>;
  readonly warnings: string[];
  readonly failures: RunFailure[];
  /** Files published by this run, by path. */
  readonly files: Map<string, PublishedFile>;
  readonly symbols: { planned: number; done: number; failed: number; suspended: number };
  /** Symbols that were requested by name. */
  readonly requestedSymbols: Set<string>;
  readonly bookCounts: { -readonly [name in keyof BookCounts]: BookCounts[name] };
  /** The shapes of the responses, and their changes since earlier runs. */
  readonly shapes: ResponseShapes;
  readonly drifts: DriftLine[];
  /** The lost windows that the run requested; see steps/track-lost-windows.ts. */
  readonly lostWindows: LostWindowState;
  /** Whether requests go to a service other than the archive's upstream, whose errors then do not affect the symbols. */
  readonly usesOtherUpstream: boolean;
  /** Counters for the summary of a night, and that summary at the end of the night. */
  readonly nightCounters: NightCounters;
  nightSummary?: NightSummary;
  /** Results of the rechecks; absent if there were none. */
  rechecks?: RecheckCounts;
  /** Whether markets or ticks dropped sharply, and which symbols are overdue by more than a day. */
  hasSharpDrop: boolean;
  longOverdueSymbols: readonly string[];
  /** Restored lost windows; absent if the run did not try to restore any. */
  restored?: Partial<RestoredCounts>;
  pages: number;
  /** Markets in the market lists; null if the run polled no lists. */
  markets: number | null;
  /** Whether the upstream has sent any response. */
  hasUpstreamResponded: boolean;
}

interface JobRequirements {
  /** Whether the job polls the upstream, so that its address and API key must be set. */
  readonly usesUpstream: boolean;
  /** Whether the job may create an archive although it does not poll. */
  readonly canCreateArchive?: boolean;
  /** A service that is used instead of the archive's upstream, with a separate rate limit. */
  readonly otherUpstream?: UpstreamAccess | null;
  /** Whether the job repairs the archive, so that a damaged manifest must not prevent opening it. */
  readonly isRepair?: boolean;
  /** Whether the job only reads the archive, so that an older format is accepted. */
  readonly isVerify?: boolean;
}

/** Runs a job, from opening the archive to the summary. Never rejects: the summary contains the error. */
export async function runJob(
  context: Context,
  job: string,
  needs: JobRequirements,
  body: (run: Run) => Promise<void>,
): Promise<Summary> {
  const startedAt = context.clock.nowMs();
  const parts: {
    archive?: Archive;
    rateStore?: SharedRateStore;
    raw?: RawWriter | null;
    client?: Upstream;
    run?: Run;
  } = {};
  let thrown: unknown;
  try {
    requirePlausibleTime(startedAt);
    if (needs.usesUpstream) requireUpstream(context.settings);
    const isRepair = needs.isRepair === true;
    const isVerify = needs.isVerify === true;
    parts.archive = openConfiguredArchive(context, needs.usesUpstream || needs.canCreateArchive === true, isRepair);
    // A repair must not read the archive before it is repaired.
    if (!isRepair && !isVerify) {
      requireCurrentFormat(parts.archive);
      // Scratch files of a killed import may fill the disk.
      removeAbandonedScratch(parts.archive);
    }
    if (!isVerify) await finishInterruptedPublish(parts.archive, context);
    const { state, layout } = parts.archive;
    const shapes = createResponseShapes();
    parts.run = createRun(context, job, parts.archive, startedAt, shapes, Boolean(needs.otherUpstream), async () => {
      if (needs.otherUpstream) {
        parts.client ??= await openOtherUpstream(context, needs.otherUpstream);
        return parts.client;
      }
      parts.rateStore ??= openSharedRateStore(state, layout.privateFolder);
      parts.raw ??= await openRawCapture(parts.run!);
      parts.client ??= shapes.observeUpstream(
        await openConfiguredUpstream(context, parts.rateStore, requireUpstream(context.settings), (response) => {
          parts.raw?.write(response);
          shapes.onResponse(response);
        }),
      );
      return parts.client;
    });
    if (!isRepair && !isVerify) checkPublishedSizes(parts.run);
    await body(parts.run);
  } catch (error) {
    thrown = error;
  }
  // A damaged part file must not prevent the check of the other files.
  if (
    parts.run !== undefined &&
    !needs.isRepair &&
    !needs.isVerify &&
    (thrown === undefined || thrown instanceof DamageError)
  )
    await hashDueFiles(parts.run)
      .then(() => publishDamageVerdict(context, parts.archive!, parts.run!.id))
      .catch((error: unknown) => {
        thrown ??= error;
      });
  if (parts.run !== undefined) await closeRawCapture(parts.run, parts.raw ?? null);
  const createSummary = (run: Run | undefined): Summary => {
    const facts = {
      ...(run === undefined ? emptyFacts : collectFacts(run, parts.client)),
      version: context.version,
      job,
      strict: context.strict,
      thrown,
      started_at: startedAt,
      finished_at: context.clock.nowMs(),
    };
    return addNextAction(summarize(facts), context, run, thrown);
  };
  let summary: Summary;
  try {
    if (parts.run !== undefined) parts.run.drifts.push(...detectSchemaDrift(parts.run, parts.run.shapes));
    summary = createSummary(parts.run);
    if (parts.run !== undefined) {
      finishRun(
        parts.run.archive.state.db,
        parts.run.id,
        summary.finished_at,
        summary.exit_code,
        JSON.stringify(summary),
      );
    }
  } catch (error) {
    // The state can no longer be read or written, for example because the disk is full. Report the first error.
    thrown ??= error;
    summary = createSummary(undefined);
  }
  if (thrown !== undefined) context.log.debug({ err: thrown }, 'the run ended early');
  parts.archive?.close();
  await parts.client?.close();
  parts.rateStore?.close();
  await afterRun(context, summary);
  return summary;
}

type CountedFacts = Omit<RunFacts, 'version' | 'job' | 'strict' | 'thrown' | 'started_at' | 'finished_at'>;

const emptyFacts: CountedFacts = {
  run_id: null,
  requests: 0,
  retries: 0,
  throttled_ms: 0,
  pages: 0,
  recovered: 0,
  generation: 0,
  watermark: null,
  ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
  symbols: { planned: 0, done: 0, failed: 0, suspended: 0 },
  orderbooks: emptyBookCounts,
  gaps: 0,
  warnings: [],
  failures: [],
  files: [],
  hasUpstreamResponded: false,
};

function collectFacts(run: Run, client: Upstream | undefined): CountedFacts {
  const { archive, context } = run;
  const { db } = archive.state;
  const waiting = countWaitingTicks(db, run.id) === 0 ? undefined : tallyJournaledTicks(archive, run.id);
  const counts = readRunCounts(db, run.id, waiting);
  const { recovered, fetched, accepted, duplicates, conflicts, quarantined, added, lost } = counts;
  const { generation, watermark, reached } = archive.readManifest();
  const counters = client?.counters();
  const verdict = readPublishedCompleteness(archive, context.clock.nowMs());
  const { requests, retries, throttledMs } = counters ?? { requests: 0, retries: 0, throttledMs: 0 };
  const { failures, pages, hasUpstreamResponded } = run;
  const symbols = {
    ...run.symbols,
    suspended: listActiveSuspended(db, getConfiguredSymbols(run.context)).length,
  };
  const warnings = [...run.warnings, ...formatQuarantineWarnings(quarantined, countDroppedRejects(db, run.id))];
  return {
    run_id: run.id,
    requests,
    retries,
    throttled_ms: throttledMs,
    pages,
    recovered,
    generation,
    watermark,
    reached,
    verdict,
    ticks: { fetched, accepted, duplicates, conflicts, quarantined },
    orderbooks: run.bookCounts,
    damage: readRecordedDamage(run.archive.state.db),
    symbols,
    gaps: failures.filter((failure) => failure.symbol !== null).length,
    warnings,
    failures,
    hasUpstreamResponded,
    schema_drift: run.drifts,
    usesOtherUpstream: run.usesOtherUpstream,
    ...(run.restored && { restored: run.restored }),
    ...(counters !== undefined && counters.requests > 0 && { rate: toRateUse(counters) }),
    ...(run.nightSummary && { night: run.nightSummary }),
    ...(run.rechecks && { rechecks: run.rechecks }),
    files: [...run.files.values()],
    publishedTicks: { added, lost },
    ...(run.markets !== null && { markets: run.markets }),
  };
}

function formatQuarantineWarnings(quarantined: number, dropped: number): string[] {
  if (quarantined === 0) return [];
  const text = `${quarantined} unusable ticks were quarantined in .oddslake/quarantine`;
  return [dropped === 0 ? `${text}.` : `${text}; ${dropped} of them were only counted, because it is full.`];
}

const toRateUse = ({ allowedPerSecond, usedShare, waitedMs }: UpstreamCounters): RateUse => ({
  allowed_per_second: allowedPerSecond,
  used: Math.round(usedShare * 1000) / 1000,
  wait_ms: waitedMs,
});

function createRun(
  context: Context,
  job: string,
  archive: Archive,
  startedAt: number,
  shapes: ResponseShapes,
  usesOtherUpstream: boolean,
  upstream: () => Promise<Upstream>,
): Run {
  const id = createRunId(startedAt, context.random());
  startRun(archive.state.db, id, job, process.pid, startedAt, context.settings.quarantine.runBytesMax);
  const symbols = { planned: 0, done: 0, failed: 0, suspended: 0 };
  return {
    context,
    id,
    archive,
    upstream,
    warnings: [],
    failures: [],
    files: new Map(),
    symbols,
    requestedSymbols: new Set(),
    bookCounts: { ...emptyBookCounts },
    shapes,
    drifts: [],
    lostWindows: { requested: new Map(), tried: new Set(), confirmedLost: new Set() },
    usesOtherUpstream,
    nightCounters: createNightCounters(),
    hasSharpDrop: false,
    longOverdueSymbols: [],
    pages: 0,
    markets: null,
    hasUpstreamResponded: false,
  };
}

/** Rejects a clock outside the valid times, for example after a flat battery. */
function requirePlausibleTime(nowMs: number): void {
  if (nowMs >= timeMin && nowMs < timeEnd) return;
  const shown = Math.abs(nowMs) < 8.64e15 ? formatIsoUtc(nowMs) : String(nowMs);
  throw new OddslakeError(
    exitCodes.unexpected,
    `The clock of this machine says ${shown}, which is not a valid time. Set the clock and run again.`,
  );
}

/** Run IDs sort by time. The random suffix distinguishes runs of the same second. */
const createRunId = (startedAt: number, random: number): string =>
  `${new Date(startedAt).toISOString().replace(/[-:]|\.\d+/g, '')}-${Math.floor(random * 36 ** 6)
    .toString(36)
    .padStart(6, '0')}`;

/** Finishes a publish that was interrupted after its commit point, unless another process is still running it. */
async function finishInterruptedPublish(archive: Archive, { clock, signal, log }: Context): Promise<void> {
  if (readOpenIntent(archive.state.db) === undefined) return;
  try {
    await recoverPublish(archive, 0, clock, signal);
    log.info({}, 'finished an interrupted publish');
  } catch (error) {
    if (!(error instanceof OddslakeError) || error.exitCode !== exitCodes.busy) throw error;
  }
}

/** The parts of a run that the raw capture needs. */
interface RawCaptureRun {
  readonly context: Pick<Context, 'settings' | 'clock'>;
  readonly archive: Archive;
  readonly id: string;
  readonly warnings: string[];
}

/** How long responses are gathered before a write, in ms. A kill loses at most these. */
const gatherMs = 50;

/** Opens the writer of raw responses; null if `raw.keep_days` is 0. */
async function openRawCapture({
  context: { settings, clock },
  archive,
  id: runId,
}: RawCaptureRun): Promise<RawWriter | null> {
  if (settings.raw.keepDays === 0) return null;
  const { openRawWriter } = await import('../../archive/raw/raw-writer.ts');
  const gather = (signal: AbortSignal): Promise<void> => clock.sleep(gatherMs, signal);
  return openRawWriter(archive, { runId, secret: requireUpstream(settings).apiKey, gather, ...settings.raw });
}

/** Writes the remaining responses and removes old ones. Errors become warnings of the run. */
async function closeRawCapture({ context, archive, warnings }: RawCaptureRun, writer: RawWriter | null): Promise<void> {
  const lost = await writer?.close();
  if (typeof lost === 'string') warnings.push(lost);
  try {
    pruneRawFiles(archive, context.settings.raw, context.clock.nowMs());
  } catch (error) {
    warnings.push(`Could not remove old raw responses in .oddslake/raw: ${(error as Error).message}`);
  }
}
