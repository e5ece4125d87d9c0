import type { Archive } from '../archive/archive.ts';
import { countUnselected } from '../archive/completeness/symbol-lifetime.ts';
import { seriesDatasets } from '../archive/format/series-datasets.ts';
import type { RepairReport } from '../archive/integrity/repair.ts';
import type { VerifyResult } from '../archive/integrity/verify.ts';
import { readOpenIntent } from '../archive/journal/intent.ts';
import { openSharedRateStore, type SharedRateStore } from '../archive/journal/rate-limit-store.ts';
import type { RateUse, Summary } from '../archive/journal/run-summary.ts';
import { countDroppedRejects, countWaitingTicks, finishRun, readRunCounts } from '../archive/journal/runs.ts';
import { readSeriesCounts } from '../archive/journal/series-counts.ts';
import { readUnselectedSymbols } from '../archive/journal/symbol-store.ts';
import { tallyJournaledTicks } from '../archive/publish/count-ticks.ts';
import { recoverPublish } from '../archive/publish/publish.ts';
import type { RawWriter } from '../archive/raw/raw-writer.ts';
import { readStatusOf } from '../archive/read/archive-status.ts';
import { removeAbandonedScratch } from '../archive/read/pin-generation.ts';
import { DamageError, exitCodes, OddslakeError } from '../base/errors.ts';
import { formatIsoUtc, timeEnd, timeMin } from '../base/time.ts';
import type { Window } from '../base/window.ts';
import type { Upstream, UpstreamCounters } from '../client/upstream.ts';
import { type Context, InterruptedError } from '../context/context.ts';
import {
  getConfiguredSymbols,
  keepSource,
  openConfiguredArchive,
  openConfiguredUpstream,
  openOtherUpstream,
} from '../context/open-configured.ts';
import { toOpenDayList } from '../contract/day-reasons.ts';
import { hasUpstream, requireUpstream, type UpstreamAccess } from '../settings/settings.ts';
import type { ImportFlags } from './import/prepare-import.ts';
import { afterRun, beforeRun } from './notifications/after-run.ts';
import type { RunWarning } from './run/judge-run.ts';
import { closeRawCapture, openRawCapture } from './run/raw-capture.ts';
import { createRun, type Run } from './run/run.ts';
import { type EndedRun, mergeRunFacts, type PlannedRun, planSourceRuns, recordJobEnd } from './run/source-runs.ts';
import { type CountedFacts, emptyFacts, summarize } from './run/summary.ts';
import type { BackfillPlan } from './steps/estimate-step.ts';
import { listActiveSuspended } from './steps/gaps-step.ts';
import type { BackfillScope } from './steps/poll-steps.ts';
import { checkPublishedSizes, hashDueFiles, publishFoundDamage } from './steps/publish-step.ts';
import { pushPublished } from './steps/push-step.ts';

/** A job that a scheduler or a user can start. `flags` are specific to the job; common ones are in the context. */
export interface Job<Flags = undefined> {
  readonly name: string;
  run(context: Context, flags: Flags): Promise<Summary>;
}

export interface NightlyFlags {
  /** Ticks are polled up to the end of the UTC day that begins at this time; null: up to now. */
  readonly day: number | null;
}

export interface TicksFlags {
  /**
   * Symbols to poll. If empty, the symbols of the settings; if these are empty too, the symbols of the market lists.
   */
  readonly symbols: readonly string[];
  /** Poll suspended symbols now: the given ones, or all of them. */
  readonly retriesSuspended?: boolean;
}

export interface OrderbookFlags {
  /** Symbols to poll; empty: those of `orderbooks.symbols`, or else all live symbols. */
  readonly symbols: readonly string[];
}

export interface BackfillFlags extends BackfillScope {
  readonly window: Window;
  /** Empty: all known symbols. */
  readonly symbols: readonly string[];
  /** For a dry run: called with the plan, and nothing is fetched; null to fetch. */
  readonly showPlan: ((plan: BackfillPlan) => void) | null;
}

export interface RepairFlags {
  /** URL of another oddslake to restore lost ticks from; null: the upstream. */
  readonly fromUrl: string | null;
  /** Called after the repair, before any request. */
  readonly onRepaired?: (repaired: RepairReport) => void;
}

export interface VerifyFlags {
  /** Called with the findings at the end of the verification. */
  readonly onVerified: (found: VerifyResult, archive: Archive, runId: string) => void;
}

/** Loaders of all jobs by name. A job is loaded when it is started. */
export interface JobLoaders {
  nightly(): Promise<Job<NightlyFlags>>;
  markets(): Promise<Job>;
  ticks(): Promise<Job<TicksFlags>>;
  orderbook(): Promise<Job<OrderbookFlags>>;
  backfill(): Promise<Job<BackfillFlags>>;
  import(): Promise<Job<ImportFlags>>;
  publish(): Promise<Job>;
  repair(): Promise<Job<RepairFlags>>;
  verify(): Promise<Job<VerifyFlags>>;
}

interface JobRequirements {
  /** Whether the job polls the upstream, so that its address and API key must be set; `if set`: each run whose upstream has both. */
  readonly usesUpstream: boolean | 'if set';
  /** Whether the job is one run for each of several sources; by default, if it polls them. */
  readonly isPerSource?: boolean;
  /** Symbols that were requested by name: of several sources, only theirs have a run. Default: none. */
  readonly symbols?: readonly string[];
  /** Whether the job may create an archive although it does not poll. */
  readonly canCreateArchive?: boolean;
  /** Whether the job only prints what it would do: it writes nothing, is not recorded and notifies nobody. Default: no. */
  readonly isDryRun?: boolean;
  /** Whether the job pushes what it has published to the bucket of the settings, if there is one. Default: no. */
  readonly pushes?: boolean;
  /** A service that is used instead of the archive's upstream, with a separate rate limit. */
  readonly otherUpstream?: UpstreamAccess | null;
  /**
   * `repair`: a damaged manifest must not prevent opening the archive. `verify`: the job only reads.
   */
  readonly mode?: 'repair' | 'verify';
}

/** What a job has opened. */
interface JobSession {
  archive?: Archive;
  rateStore?: SharedRateStore;
  raw?: RawWriter | null;
  client?: Upstream;
  run?: Run;
}

/** The work of a run. `symbols`: those that were requested by name and belong to the source of the run. */
type JobBody = (run: Run, symbols: readonly string[]) => Promise<void>;

/**
 * Runs a job, from opening the archive to the summary: as one run, or as one for each source of an archive that has
 * several. Never rejects: the summary contains the error.
 */
export async function runJob(context: Context, job: string, needs: JobRequirements, body: JobBody): Promise<Summary> {
  const { usesUpstream, isPerSource = usesUpstream !== false, symbols = [], isDryRun = false } = needs;
  const started = isDryRun ? undefined : beforeRun(context, job);
  const summary = await runPlanned(context, job, needs, body, () =>
    isPerSource ? planSourceRuns(context, symbols, usesUpstream === true) : [{ context, source: null, symbols }],
  );
  await started;
  if (!isDryRun) await afterRun(context, summary);
  return summary;
}

async function runPlanned(
  context: Context,
  job: string,
  needs: JobRequirements,
  body: JobBody,
  plan: () => readonly PlannedRun[],
): Promise<Summary> {
  const startedAt = context.clock.nowMs();
  let planned: readonly PlannedRun[];
  try {
    planned = plan();
  } catch (thrown) {
    return createUnstartedResult({ context, source: null }, job, startedAt, thrown).summary;
  }
  return await runAll(context, job, needs, body, planned);
}

async function runAll(
  context: Context,
  job: string,
  needs: JobRequirements,
  body: JobBody,
  planned: readonly PlannedRun[],
): Promise<Summary> {
  const ended: EndedRun[] = [];
  for (const run of planned) {
    const { source } = run;
    if (ended.length > 0 && context.signal.aborted) {
      // The signal came after the end of a run: without this, a job that lacks a source would count as done.
      const result = createUnstartedResult(run, job, context.clock.nowMs(), context.signal.reason);
      ended.push({ source: source!, ...result });
      break;
    }
    const result = await runOnce(run, job, needs, body, planned.length > 1);
    if (source === null) return result.summary;
    ended.push({ source, ...result });
    if (result.facts.thrown instanceof InterruptedError) break;
  }
  const facts = mergeRunFacts(ended);
  const summary = summarize(facts);
  if (planned.length > 1) recordJobEnd(context, ended, summary);
  return summary;
}

/** A run that has ended, and its summary. */
type RunResult = Omit<EndedRun, 'source'>;

/** The result of a run that was not started. @param thrown why not */
function createUnstartedResult(
  { context, source }: Pick<PlannedRun, 'context' | 'source'>,
  job: string,
  startedAt: number,
  thrown: unknown,
): RunResult {
  const { version, strict, clock, argv } = context;
  const times = { started_at: startedAt, finished_at: clock.nowMs() };
  const facts = { ...emptyFacts, ...times, version, job, strict, source, thrown, argv };
  return { facts, summary: summarize(facts) };
}

async function runOnce(
  { context, source, symbols }: PlannedRun,
  job: string,
  needs: JobRequirements,
  body: JobBody,
  hasOtherRuns: boolean,
): Promise<RunResult> {
  const startedAt = context.clock.nowMs();
  const session: JobSession = {};
  let thrown: unknown;
  try {
    await body(await openRun(context, job, needs, startedAt, session), symbols);
  } catch (error) {
    thrown = error;
  }
  const { run } = session;
  if (run !== undefined) {
    // A damaged part file must not prevent the check of the other files.
    if (needs.mode === undefined && needs.isDryRun !== true && (thrown === undefined || thrown instanceof DamageError))
      await checkDueFiles(run).catch((error: unknown) => {
        thrown ??= error;
      });
    if (thrown === undefined && context.requestPush !== undefined) context.requestPush();
    else if (thrown === undefined && needs.pushes === true)
      await pushPublished(run).catch((error: unknown) => {
        thrown = error;
      });
    await closeRawCapture(run, session.raw ?? null);
  }
  const createResult = (counted: CountedFacts): RunResult => {
    const { version, strict, clock, argv } = context;
    const times = { started_at: startedAt, finished_at: clock.nowMs() };
    const { upstreamFrom } = context.settings;
    const facts = { ...counted, ...times, version, job, strict, source, upstreamFrom, thrown, argv };
    return { facts, summary: summarize(facts) };
  };
  let result: RunResult;
  try {
    const counted = run === undefined ? emptyFacts : collectFacts(run, session.client, job);
    result = createResult(needs.isDryRun === true ? { ...counted, run_id: null } : counted);
    const { finished_at, exit_code } = result.summary;
    if (run !== undefined && needs.isDryRun !== true)
      finishRun(
        run.archive.state.db,
        run.id,
        finished_at,
        hasOtherRuns ? null : exit_code,
        JSON.stringify(result.summary),
      );
  } catch (error) {
    // The state can no longer be read or written, for example because the disk is full. Report the first error.
    thrown ??= error;
    result = createResult(emptyFacts);
  }
  if (thrown !== undefined) context.log.debug({ err: thrown }, 'the run ended early');
  session.archive?.close();
  await session.client?.close();
  session.rateStore?.close();
  return result;
}

const polls = ({ settings }: Context, usesUpstream: JobRequirements['usesUpstream']): boolean =>
  usesUpstream === 'if set' ? hasUpstream(settings) : usesUpstream;

/** Whether a job may create the archive. */
const collects = (
  context: Context,
  { usesUpstream, canCreateArchive = false }: Pick<JobRequirements, 'usesUpstream' | 'canCreateArchive'>,
): boolean => polls(context, usesUpstream) || canCreateArchive;

/** Opens the archive and starts a run. Whatever is open is in `session`, even if this throws. */
async function openRun(
  context: Context,
  job: string,
  { usesUpstream, canCreateArchive = false, otherUpstream = null, mode, isDryRun = false }: JobRequirements,
  startedAt: number,
  session: JobSession,
): Promise<Run> {
  requirePlausibleTime(startedAt);
  if (polls(context, usesUpstream)) requireUpstream(context.settings);
  const canCollect = collects(context, { usesUpstream, canCreateArchive });
  const archive = openConfiguredArchive(context, canCollect, mode === 'repair', isDryRun);
  session.archive = archive;
  if (archive.addedSources.length > 0)
    context.log.info({ sources: archive.addedSources }, 'sources were added to the archive');
  // A repair must not read the archive before it is repaired.
  // Scratch files of a killed import may fill the disk.
  if (mode === undefined && !isDryRun) removeAbandonedScratch(archive);
  if (!isDryRun) await finishInterruptedPublish(archive, context);
  const openClient = async (run: Run): Promise<Upstream> => {
    if (otherUpstream !== null) return openOtherUpstream(context, otherUpstream);
    session.rateStore ??= openSharedRateStore(
      archive.state,
      archive.layout.privateFolder,
      undefined,
      context.settings.sourceName,
    );
    session.raw ??= await openRawCapture(run);
    return await openConfiguredUpstream(context, session.rateStore, requireUpstream(context.settings), (response) =>
      session.raw?.write(response),
    );
  };
  const run = createRun(context, isDryRun ? null : job, archive, startedAt, otherUpstream !== null, async () => {
    session.client ??= await openClient(run);
    return session.client;
  });
  session.run = run;
  if (isDryRun) return run;
  if (canCollect) keepSource(archive, context.settings);
  if (mode === undefined) checkPublishedSizes(run);
  return run;
}

async function checkDueFiles(run: Run): Promise<void> {
  await hashDueFiles(run);
  await publishFoundDamage(run.context, run.archive, run.id);
}

function collectFacts(run: Run, client: Upstream | undefined, job: string): CountedFacts {
  const { archive, context } = run;
  const { db } = archive.state;
  const waiting = countWaitingTicks(db, run.id) === 0 ? undefined : tallyJournaledTicks(archive, run.id);
  const counts = readRunCounts(db, run.id, waiting);
  const { recovered, fetched, accepted, duplicates, conflicts, quarantined, added, lost } = counts;
  const counters = client?.counters();
  const status = readStatusOf(db, archive.readManifest(), context.clock.nowMs(), archive.layout.root);
  const { generation, watermark, reached, completeness, openDays, damaged } = status;
  const { requests, retries, throttledMs } = counters ?? { requests: 0, retries: 0, throttledMs: 0 };
  const { failures, pages, hasUpstreamResponded } = run;
  const symbols = {
    ...run.symbols,
    suspended: listActiveSuspended(db, getConfiguredSymbols(run.context), run.source).length,
    ...countUnselected(readUnselectedSymbols(db, run.source), getConfiguredSymbols(run.context)),
  };
  const series = seriesDatasets.map((dataset) => ({ dataset, counts: readSeriesCounts(db, run.id, dataset) }));
  const rejected = [
    ...(quarantined > 0 ? [`${quarantined} unusable ticks`] : []),
    ...series
      .filter(({ counts }) => counts.quarantined > 0)
      .map(({ dataset, counts }) => `${counts.quarantined} unusable ${dataset}`),
  ];
  const warnings = [...run.warnings, ...formatQuarantineWarnings(rejected, countDroppedRejects(db, run.id))];
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
    completeness,
    status,
    lagMsMax: context.settings.service.lagSecondsMax * 1000,
    ...((job === 'nightly' || job === 'backfill') && toOpenDayList(openDays)),
    ticks: { fetched, accepted, duplicates, conflicts, quarantined },
    orderbooks: run.bookCounts,
    ...Object.fromEntries(
      series
        .filter(({ counts: { fetched: seen, recovered: again } }) => seen + again > 0)
        .map(({ dataset, counts: of }) => [dataset, of] as const),
    ),
    damage: damaged,
    symbols,
    gaps: failures.filter((failure) => failure.symbol !== null).length,
    warnings,
    failures,
    hasUpstreamResponded,
    usesOtherUpstream: run.usesOtherUpstream,
    ...(run.restored && { restored: run.restored }),
    ...(counters !== undefined && counters.requests > 0 && { rate: toRateUse(counters) }),
    ...(run.rechecks && { rechecks: run.rechecks }),
    ...(run.pushed && { pushed: run.pushed }),
    files: [...run.files.values()],
    publishedTicks: { added, lost },
    ...(run.markets !== null && { markets: run.markets }),
  };
}

function formatQuarantineWarnings(rejected: readonly string[], dropped: number): RunWarning[] {
  if (rejected.length === 0) return [];
  const text = `${rejected.join(' and ')} were quarantined in .oddslake/quarantine`;
  const full = dropped === 0 ? `${text}.` : `${text}; ${dropped} of them were only counted, because it is full.`;
  return [{ kind: 'rejected rows', text: full }];
}

const toRateUse = ({ allowedPerSecond, usedShare, waitedMs }: UpstreamCounters): RateUse => ({
  allowed_per_second: allowedPerSecond,
  used: Math.round(usedShare * 1000) / 1000,
  wait_ms: waitedMs,
});

/** Rejects a clock that is outside the valid range, for example after a battery failure. */
function requirePlausibleTime(nowMs: number): void {
  if (nowMs >= timeMin && nowMs < timeEnd) return;
  const shown = Math.abs(nowMs) < 8.64e15 ? formatIsoUtc(nowMs) : String(nowMs);
  throw new OddslakeError(
    exitCodes.unexpected,
    `The clock of this machine says ${shown}, which is not a valid time. Set the clock and run again.`,
  );
}

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
