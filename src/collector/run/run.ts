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
import { countJournaledTicks } from '../../archive/publish/count-waiting.ts';
import { recoverPublish } from '../../archive/publish/publish.ts';
import { pruneRawFiles } from '../../archive/raw/raw-file.ts';
import type { RawWriter } from '../../archive/raw/raw-writer.ts';
import { readPublishedVerdict } from '../../archive/read/archive-status.ts';
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
  type FailureLine,
  type NightSummary,
  type RateUse,
  type RecheckCounts,
  type RestoredCounts,
  type RunFacts,
  type Summary,
  summarize,
} from './summary.ts';

/** A run under way: what its steps share and what they add up. */
export interface Run {
  readonly context: Context;
  readonly id: string;
  readonly archive: Archive;
  /** The client of the upstream, opened at the first call. */
  upstream(): Promise<Upstream>;
  readonly warnings: string[];
  readonly failures: FailureLine[];
  /** Files published by this run, by path. */
  readonly files: Map<string, PublishedFile>;
  readonly symbols: { planned: number; done: number; failed: number; suspended: number };
  /** Symbols that it was to ask for by name. */
  readonly requestedSymbols: Set<string>;
  readonly bookCounts: { -readonly [name in keyof BookCounts]: BookCounts[name] };
  /** What the upstream's answers look like, and what of it is not as it was. */
  readonly shapes: ResponseShapes;
  readonly drifts: DriftLine[];
  /** Lost windows that it asked for, and those for which it had an answer: see steps/lost-asked.ts. */
  readonly lostWindows: LostWindowState;
  /** Whether another service than the archive's upstream is asked: what that one knows of a symbol is its own affair. */
  readonly usesOtherUpstream: boolean;
  /** What its polls note for the summary of a night, and that summary once the night is over. */
  readonly nightCounters: NightCounters;
  nightSummary?: NightSummary;
  /** What its rechecks came to; absent where it made none. */
  rechecks?: RecheckCounts;
  /** Whether markets or ticks fell sharply against the last nights, and which symbols are overdue by more than a day. */
  hasSharpDrop: boolean;
  longOverdueSymbols: readonly string[];
  /** The lost windows that it made whole again; absent where it did not set out to. */
  restored?: Partial<RestoredCounts>;
  pages: number;
  /** Markets that its last poll of the lists named; null where it polled none. */
  markets: number | null;
  /** Whether the upstream has answered anything. */
  hasUpstreamResponded: boolean;
}

export interface JobRequirements {
  /** Whether it polls the upstream, so that address and key must be there. */
  readonly usesUpstream: boolean;
  /** Whether it may start an archive, though it polls nothing. */
  readonly canCreateArchive?: boolean;
  /** Another service than the archive's upstream, which is asked in its place at a pace of its own. */
  readonly otherUpstream?: UpstreamAccess | null;
  /** Whether it mends the archive, so that a damaged manifest is no reason not to open it. */
  readonly isRepair?: boolean;
  /** Whether it looks at the whole archive and changes nothing of it: it takes one of an older format too. */
  readonly isVerify?: boolean;
}

/** Runs a job from opening the archive to its summary. Never rejects: what went wrong is in the summary. */
export async function runJob(
  context: Context,
  job: string,
  needs: JobRequirements,
  body: (run: Run) => Promise<void>,
): Promise<Summary> {
  const startedAt = context.clock.nowMs();
  const parts: { archive?: Archive; pace?: SharedRateStore; raw?: RawWriter | null; client?: Upstream; run?: Run } = {};
  let thrown: unknown;
  try {
    requirePlausibleTime(startedAt);
    if (needs.usesUpstream) requireUpstream(context.settings);
    const mends = needs.isRepair === true;
    const verifies = needs.isVerify === true;
    parts.archive = openConfiguredArchive(context, needs.usesUpstream || needs.canCreateArchive === true, mends);
    // Of one that is to be mended nothing is read before it is.
    if (!mends && !verifies) {
      requireCurrentFormat(parts.archive);
      // What a killed import had put aside may fill the disk.
      removeAbandonedScratch(parts.archive);
    }
    if (!verifies) await finishInterruptedPublish(parts.archive, context);
    const { state, layout } = parts.archive;
    const shapes = createResponseShapes();
    parts.run = createRun(context, job, parts.archive, startedAt, shapes, Boolean(needs.otherUpstream), async () => {
      if (needs.otherUpstream) {
        parts.client ??= await openOtherUpstream(context, needs.otherUpstream);
        return parts.client;
      }
      parts.pace ??= openSharedRateStore(state, layout.privateFolder);
      parts.raw ??= await openRawCapture(parts.run!);
      parts.client ??= shapes.observeUpstream(
        await openConfiguredUpstream(context, parts.pace, requireUpstream(context.settings), (answer) => {
          parts.raw?.write(answer);
          shapes.onResponse(answer);
        }),
      );
      return parts.client;
    });
    if (!mends && !verifies) checkPublishedSizes(parts.run);
    await body(parts.run);
  } catch (error) {
    thrown = error;
  }
  // A part that is refused keeps nobody from looking at the others.
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
  const ended = (run: Run | undefined): Summary => {
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
    summary = ended(parts.run);
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
    // The state can be read or written no more (a full disk): what was first to go wrong is what is said.
    thrown ??= error;
    summary = ended(undefined);
  }
  if (thrown !== undefined) context.log.debug({ err: thrown }, 'the run ended early');
  parts.archive?.close();
  await parts.client?.close();
  parts.pace?.close();
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
  const waiting = countWaitingTicks(db, run.id) === 0 ? undefined : countJournaledTicks(archive, run.id);
  const counts = readRunCounts(db, run.id, waiting);
  const { recovered, fetched, accepted, duplicates, conflicts, quarantined, added, lost } = counts;
  const { generation, watermark, reached } = archive.readManifest();
  const asked = client?.counters();
  const verdict = readPublishedVerdict(archive, context.clock.nowMs());
  const { requests, retries, throttledMs } = asked ?? { requests: 0, retries: 0, throttledMs: 0 };
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
    ...(asked !== undefined && asked.requests > 0 && { rate: toRateUse(asked) }),
    ...(run.nightSummary && { night: run.nightSummary }),
    ...(run.rechecks && { rechecks: run.rechecks }),
    files: [...run.files.values()],
    publishedTicks: { added, lost },
    ...(run.markets !== null && { markets: run.markets }),
  };
}

function formatQuarantineWarnings(quarantined: number, dropped: number): string[] {
  if (quarantined === 0) return [];
  const told = `${quarantined} unusable ticks were set aside in .oddslake/quarantine`;
  return [dropped === 0 ? `${told}.` : `${told}; ${dropped} of them were only counted, as it has no room for more.`];
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
  asksOther: boolean,
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
    usesOtherUpstream: asksOther,
    nightCounters: createNightCounters(),
    hasSharpDrop: false,
    longOverdueSymbols: [],
    pages: 0,
    markets: null,
    hasUpstreamResponded: false,
  };
}

/** A clock that was never set, as after a flat battery, would date everything wrong. */
function requirePlausibleTime(nowMs: number): void {
  if (nowMs >= timeMin && nowMs < timeEnd) return;
  const shown = Math.abs(nowMs) < 8.64e15 ? formatIsoUtc(nowMs) : String(nowMs);
  throw new OddslakeError(
    exitCodes.unexpected,
    `The clock of this machine says ${shown}, which cannot be: set it, and run again.`,
  );
}

/** Sorts by time; the rest tells runs of one moment apart. */
const createRunId = (startedAt: number, random: number): string =>
  `${new Date(startedAt).toISOString().replace(/[-:]|\.\d+/g, '')}-${Math.floor(random * 36 ** 6)
    .toString(36)
    .padStart(6, '0')}`;

/** A publish that was broken after its commit point is finished first, unless its holder is still at it. */
async function finishInterruptedPublish(archive: Archive, { clock, signal, log }: Context): Promise<void> {
  if (readOpenIntent(archive.state.db) === undefined) return;
  try {
    await recoverPublish(archive, 0, clock, signal);
    log.info({}, 'finished the publish of a broken run');
  } catch (error) {
    if (!(error instanceof OddslakeError) || error.exitCode !== exitCodes.busy) throw error;
  }
}

/** What of a run matters here. */
interface RawCaptureRun {
  readonly context: Pick<Context, 'settings' | 'clock'>;
  readonly archive: Archive;
  readonly id: string;
  readonly warnings: string[];
}

/** How long an answer may wait for others, in ms: what a kill can cost of them. */
const gatherMs = 50;

/** Opens what keeps the answers of a run as they come; null where none are kept. */
export async function openRawCapture({
  context: { settings, clock },
  archive,
  id: runId,
}: RawCaptureRun): Promise<RawWriter | null> {
  if (settings.raw.keepDays === 0) return null;
  const { openRawWriter } = await import('../../archive/raw/raw-writer.ts');
  const gather = (signal: AbortSignal): Promise<void> => clock.sleep(gatherMs, signal);
  return openRawWriter(archive, { runId, secret: requireUpstream(settings).apiKey, gather, ...settings.raw });
}

/** Writes what is left of the answers, and removes old ones. What goes wrong with it is a warning, whatever it is. */
export async function closeRawCapture(
  { context, archive, warnings }: RawCaptureRun,
  keeper: RawWriter | null,
): Promise<void> {
  const lost = await keeper?.close();
  if (typeof lost === 'string') warnings.push(lost);
  try {
    pruneRawFiles(archive, context.settings.raw, context.clock.nowMs());
  } catch (error) {
    warnings.push(`Old answers under .oddslake/raw could not be removed: ${(error as Error).message}`);
  }
}
