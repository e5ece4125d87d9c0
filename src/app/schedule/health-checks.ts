import { layoutOf } from '../../archive/layout.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { DamageError } from '../../core/errors.ts';
import { many } from '../../core/format-quantity.ts';
import type { Counts } from '../../core/verdict.ts';
import { standingSamples } from '../../metrics/archive-metrics.ts';
import { textContentType, textOf } from '../../metrics/exposition-format.ts';
import { buildSample, samplesOfRun, successSample } from '../../metrics/last-run.ts';
import { openScheduleCounts, type ScheduleCounts } from '../../metrics/schedule-counts.ts';
import { standingOf } from '../../reading/archive-status.ts';
import { knownDamage } from '../../state/damage.ts';
import { stateFile } from '../../state/state.ts';
import type { Context } from '../context.ts';
import { type KnownRun, knownRuns } from '../last-runs.ts';
import { openConfiguredArchive } from '../open-configured.ts';
import type { Summary } from '../summary.ts';
import { openSchedulePort } from './health-server.ts';
import type { Board, Look } from './job-status.ts';

/** What is told on the health and metrics port of a schedule. */
export interface ScheduleWatch {
  ended(summary: Summary): void;
  close(): void;
}

/** How long what was read of the archive is told again, in ms: a large manifest takes its time, and anyone may ask often. */
const freshMs = 1000;

/** Opens the port that `schedule.port` names. Throws UsageError where it cannot be had. */
export async function watchSchedule(context: Context, port: number, board: Board): Promise<ScheduleWatch> {
  const { host } = context.settings.schedule;
  const counts = openScheduleCounts(board.names);
  const reader = readerOf(context);
  const look = (): { seen: Look; readable: boolean } => {
    const known = reader.known();
    return { seen: board.look(known ?? [], context.clock.nowMs()), readable: known !== null };
  };
  const answers = {
    metricsType: textContentType,
    wrong() {
      const { seen, readable } = look();
      if (!readable) return [{ name: 'archive', reason: 'cannot be read' }, ...seen.wrong];
      const damaged = reader.damaged();
      if (damaged === 0) return seen.wrong;
      return [{ name: 'archive', reason: `has ${many(damaged, 'file')} not as published` }, ...seen.wrong];
    },
    verdict: () => reader.verdict(),
    metrics: async () => metricsText(context, counts, look().seen, reader),
  };
  const opened = await openSchedulePort(host, port, answers, context.log).catch((error) => {
    counts.close();
    throw error;
  });
  context.log.info({ url: opened.url }, 'health and metrics are told');
  return {
    ended: ({ job, outcome }) => counts.ended(job, outcome),
    close() {
      opened.close();
      counts.close();
      reader.close();
    },
  };
}

async function metricsText({ version, clock, log }: Context, counts: ScheduleCounts, seen: Look, reader: Reader) {
  const samples = [
    buildSample(version),
    ...seen.runs.flatMap(({ run, succeededAt }) => [...samplesOfRun(run), ...successSample(run.job, succeededAt)]),
    ...standingSamples(reader.standing, clock.nowMs(), log),
    ...seen.samples,
  ];
  return (await counts.text()) + (await textOf(samples));
}

interface Reader {
  /** The last runs; null where they cannot be read. */
  known(): readonly KnownRun[] | null;
  /** How many files are known not to be as published. */
  damaged(): number;
  standing(): ReturnType<typeof standingOf>;
  /** How whole the archive is; null where it cannot be read. */
  verdict(): Counts | null;
  close(): void;
}

type Tried<T> = { readonly value: T } | { readonly error: unknown };

/** Reads the archive, which is opened when it is first needed and again where its state was replaced. */
function readerOf(context: Context): Reader {
  let archive: Archive | null = null;
  const opened = (): Archive => {
    if (archive !== null && !archive.state.isOwn()) {
      archive.close();
      archive = null;
    }
    const file = stateFile(layoutOf(context.settings.archive.output).private);
    // To make one anew is the work of a run, and may take long.
    if (context.disk.size(file) === null) throw new DamageError(`${file} is missing.`);
    archive ??= openConfiguredArchive(context, false);
    return archive;
  };
  const tried = <T>(read: () => T): Tried<T> => {
    try {
      return { value: read() };
    } catch (error) {
      return { error };
    }
  };
  let last: { readonly look: ReturnType<typeof readAll>; readonly atMs: number } | null = null;
  // All of one moment, so that readiness and metrics do not contradict each other.
  const readAll = () => ({
    known: tried(() => knownRuns(opened().state.db, context.clock.nowMs())),
    damaged: tried(() => knownDamage(opened().state.db).length),
    standing: tried(() => standingOf(opened(), context.clock.nowMs())),
  });
  const look = (): ReturnType<typeof readAll> => {
    const nowMs = context.clock.monotonicMs();
    if (last === null || nowMs - last.atMs >= freshMs) {
      last = { look: readAll(), atMs: nowMs };
      const { known } = last.look;
      if ('error' in known) context.log.error({ err: known.error }, 'the archive cannot be read');
    }
    return last.look;
  };
  const valueOrThrow = <T>(of: Tried<T>): T => {
    if ('error' in of) throw of.error;
    return of.value;
  };
  const valueOrNull = <T>(of: Tried<T>): T | null => ('error' in of ? null : of.value);
  return {
    known: () => valueOrNull(look().known),
    damaged: () => valueOrThrow(look().damaged),
    standing: () => valueOrThrow(look().standing),
    verdict: () => valueOrNull(look().standing)?.verdict ?? null,
    close: () => archive?.close(),
  };
}
