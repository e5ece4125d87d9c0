import type { RestoredCounts, Summary } from '../../archive/journal/run-summary.ts';
import { endJob } from '../../archive/journal/runs.ts';
import { DamageError, type ExitCode, exitCodes, UsageError } from '../../base/errors.ts';
import { addLogFields } from '../../base/ports.ts';
import { findSource, qualifySymbol } from '../../base/source-name.ts';
import type { Context } from '../../context/context.ts';
import { openConfiguredArchive } from '../../context/open-configured.ts';
import { requireUpstream, selectSource } from '../../settings/settings.ts';
import { formatErrorMessage } from './error-message.ts';
import { createJobFailure, type RunFailure, type RunWarning } from './judge-run.ts';
import type { RunFacts } from './summary.ts';

// A job that collects an archive of several sources is one run for each source, one after the other. A source that fails
// does not keep the others from being collected. The summary of the job adds up the runs.

/** A run of a job: the whole job or, of several sources, that for one of them. */
export interface PlannedRun {
  readonly context: Context;
  /** Null: the only service. */
  readonly source: string | null;
  /** The symbols that were requested by name and belong to it; empty: those that the job finds. */
  readonly symbols: readonly string[];
}

/**
 * Plans the runs of a job that collects: those of the sources chosen with --source, or else of all. If symbols are named,
 * only of their sources.
 * @throws UsageError for an unknown source, a symbol without one, or a source without address or key: nothing was started
 */
export function planSourceRuns(context: Context, symbols: readonly string[], usesUpstream: boolean): PlannedRun[] {
  const { settings, sources: chosen = [] } = context;
  const names = settings.sources.map(({ name }) => name);
  requireSourceNames(chosen, names);
  if (names.length === 0) {
    if (usesUpstream) requireUpstream(settings);
    return [{ context, source: null, symbols }];
  }
  const selected = chosen.length === 0 ? names : names.filter((name) => chosen.includes(name));
  const qualified = symbols.map((symbol) => qualifyChosen(symbol, names, selected));
  const bySource = Map.groupBy(qualified, (symbol) => findSource(symbol, names)!);
  const runs = selected
    .filter((name) => symbols.length === 0 || bySource.has(name))
    .map((source) => ({
      context: { ...context, settings: selectSource(settings, source), log: addLogFields(context.log, { source }) },
      source,
      symbols: bySource.get(source) ?? [],
    }));
  if (usesUpstream) for (const run of runs) requireUpstream(run.context.settings);
  return runs;
}

/** @throws UsageError for a name of --source that is none of the sources */
function requireSourceNames(chosen: readonly string[], names: readonly string[]): void {
  const unknown = chosen.find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw new UsageError(
    names.length === 0
      ? `--source ${unknown}: there is one service only. Set sources in the config to collect several.`
      : `--source ${unknown}: the sources are ${names.join(', ')}.`,
  );
}

/** A symbol may be named without its source if --source names one. */
function qualifyChosen(symbol: string, names: readonly string[], selected: readonly string[]): string {
  const source = findSource(symbol, names);
  if (source !== null && selected.includes(source)) return symbol;
  if (source !== null)
    throw new UsageError(
      `--symbol ${symbol} is not of the chosen ${selected.length === 1 ? 'source' : 'sources'} ${selected.join(', ')}.`,
    );
  if (selected.length === 1 && names.length > 0) return qualifySymbol(selected[0]!, symbol);
  throw new UsageError(
    `--symbol ${symbol}: name its source too, e.g. ${qualifySymbol(selected[0]!, symbol)}, or choose one with --source.`,
  );
}

/** A run of one of several sources that has ended. */
export interface EndedRun {
  readonly source: string;
  readonly facts: RunFacts;
  readonly summary: Summary;
}

/**
 * Records the exit code of the job for each of its runs, so that none of them counts as a success if another failed, and
 * what was found. Until then they have no exit code: a process that is killed between two runs leaves an interrupted job.
 */
export function recordJobEnd(context: Context, ended: readonly EndedRun[], summary: Summary): void {
  const runIds = ended.flatMap(({ summary }) => summary.run_id ?? []);
  if (runIds.length === 0) return;
  try {
    using archive = openConfiguredArchive(context, false);
    endJob(archive.state.db, runIds, summary);
  } catch (err) {
    context.log.warn({ err }, 'the exit code of the job could not be recorded');
  }
}

/** Adds up the runs of a job. `runs` has at least one, in the order in which they ran. */
export function mergeRunFacts(runs: readonly EndedRun[]): RunFacts {
  const all = runs.map(({ facts }) => facts);
  // What describes the archive as a whole is that of the last run that opened it.
  const last = all.findLast(({ run_id }) => run_id !== null) ?? all.at(-1)!;
  const thrown = chooseError(runs);
  const ended = thrown === undefined ? undefined : runs.find(({ facts }) => facts.thrown === thrown);
  const failures = [...listSourceFailures(runs, thrown), ...runs.flatMap((run) => prefixFailures(run, runs.length))];
  const collect = <T>(pick: (facts: RunFacts) => T | undefined): T[] =>
    all.flatMap((facts): T[] => {
      const value = pick(facts);
      return value === undefined ? [] : [value];
    });
  const series = (['quotes', 'trades'] as const).map((name) => [name, collect((facts) => facts[name])] as const);
  const markets = collect((facts) => facts.markets);
  const restored = collect((facts) => facts.restored);
  // A later push has what an earlier one had.
  const pushed = collect((facts) => facts.pushed).at(-1);
  return {
    version: last.version,
    job: last.job,
    run_id: last.run_id,
    started_at: all[0]!.started_at,
    finished_at: all.at(-1)!.finished_at,
    ...addCounts(
      all.map(({ requests, retries, throttled_ms, pages, recovered }) => ({
        requests,
        retries,
        throttled_ms,
        pages,
        recovered,
      })),
    ),
    ticks: addCounts(all.map(({ ticks }) => ticks)),
    symbols: addCounts(all.map(({ symbols }) => symbols)),
    orderbooks: addCounts(all.map(({ orderbooks }) => orderbooks)),
    ...Object.fromEntries(series.flatMap(([name, counts]) => (counts.length === 0 ? [] : [[name, addCounts(counts)]]))),
    ...(markets.length > 0 && { markets: markets.reduce((total, count) => total + count, 0) }),
    ...(restored.length > 0 && { restored: addRestored(restored) }),
    ...(pushed !== undefined && { pushed }),
    generation: last.generation,
    watermark: last.watermark,
    ...(last.reached !== undefined && { reached: last.reached }),
    ...(last.completeness !== undefined && { completeness: last.completeness }),
    ...(last.open_days !== undefined && {
      open_days: last.open_days,
      open_days_count: last.open_days_count ?? last.open_days.length,
    }),
    damage: last.damage ?? [],
    status: last.status ?? null,
    ...(last.lagMsMax !== undefined && { lagMsMax: last.lagMsMax }),
    argv: last.argv,
    gaps: failures.filter(({ symbol }) => symbol !== null).length,
    warnings: runs.flatMap(({ source, facts }) =>
      facts.warnings.map((one): RunWarning => {
        if (runs.length === 1) return one;
        return typeof one === 'string' ? `${source}: ${one}` : { ...one, text: `${source}: ${one.text}` };
      }),
    ),
    failures,
    // A later run may have replaced a file of an earlier one.
    files: [...new Map(all.flatMap(({ files }) => files).map((file) => [file.path, file])).values()],
    publishedTicks: addCounts(all.map(({ publishedTicks = { added: 0, lost: 0 } }) => publishedTicks)),
    strict: last.strict,
    hasUpstreamResponded: all.some(({ hasUpstreamResponded }) => hasUpstreamResponded),
    source: ended?.source ?? null,
    ...(ended?.facts.upstreamFrom !== undefined && { upstreamFrom: ended.facts.upstreamFrom }),
    thrown,
    sources: runs.map(({ source, summary }) => ({
      source,
      run_id: summary.run_id,
      outcome: summary.outcome,
      exit_code: summary.exit_code,
      error: summary.error,
      requests: summary.requests,
      ticks: summary.ticks,
      symbols: summary.symbols,
      ...(summary.rate !== undefined && { rate: summary.rate }),
      ...(summary.rechecks !== undefined && { rechecks: summary.rechecks }),
    })),
  };
}

/** Exit codes of errors that concern one source only, whatever becomes of the others. */
const sourceErrorCodes: readonly ExitCode[] = [exitCodes.credential, exitCodes.unreachable];

/**
 * Chooses the error that ends the job; undefined if none does. An interruption ends it. An error of every source is one of
 * the job. If only some were refused or could not be reached, the job is incomplete. Otherwise the worst error counts.
 */
function chooseError(runs: readonly EndedRun[]): unknown {
  const failed = runs.filter(({ facts }) => facts.thrown !== undefined);
  const findCode = (...codes: readonly ExitCode[]): EndedRun | undefined =>
    failed.find(({ summary }) => codes.includes(summary.exit_code));
  const stopped = findCode(exitCodes.interrupted, exitCodes.terminated);
  if (stopped !== undefined) return stopped.facts.thrown;
  const isShared = failed.length === runs.length && new Set(failed.map(({ summary }) => summary.exit_code)).size === 1;
  if (isShared) return failed[0]!.facts.thrown;
  if (failed.length === runs.length && failed.every(({ summary }) => sourceErrorCodes.includes(summary.exit_code)))
    return findCode(exitCodes.credential)!.facts.thrown;
  const worst = findCode(exitCodes.unexpected) ?? findCode(exitCodes.busy);
  return (worst ?? failed.find(({ facts }) => facts.thrown instanceof DamageError))?.facts.thrown;
}

/** The failures of sources whose errors do not end the job. */
const listSourceFailures = (runs: readonly EndedRun[], thrown: unknown): RunFailure[] =>
  runs.flatMap(({ source, facts }) => {
    if (facts.thrown === undefined || facts.thrown === thrown) return [];
    const text = formatErrorMessage(facts.thrown, facts.usesOtherUpstream, source, facts.upstreamFrom);
    return [createJobFailure('source', text.includes(`source ${source} `) ? text : `${source}: ${text}`)];
  });

/** Names the source in failures that do not concern a symbol. */
const prefixFailures = ({ source, facts }: EndedRun, runs: number): RunFailure[] =>
  facts.failures.map((failure) =>
    failure.symbol !== null || runs === 1 ? failure : { ...failure, reason: `${source}: ${failure.reason}` },
  );

/** Adds up objects whose fields are numbers; a field that one does not have is zero in it. */
function addCounts<T extends { readonly [name in keyof T]: number | undefined }>(all: readonly T[]): T {
  const names = [...new Set(all.flatMap((counts) => Object.keys(counts)))] as (keyof T)[];
  return Object.fromEntries(
    names.map((name) => [name, all.reduce((total, counts) => total + (counts[name] ?? 0), 0)]),
  ) as unknown as T;
}

function addRestored(all: readonly Partial<RestoredCounts>[]): Partial<RestoredCounts> {
  const names = ['raw', 'upstream'] as const;
  return Object.fromEntries(
    names.flatMap((name) => {
      const counts = all.flatMap((restored) => restored[name] ?? []);
      return counts.length === 0 ? [] : [[name, addCounts(counts)]];
    }),
  );
}
