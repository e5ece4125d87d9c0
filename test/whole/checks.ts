import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { isWithin, type Window } from '../../src/base/window.ts';
import type { FindingKind } from '../../src/contract/finding.ts';
import type { Surfaces } from './surfaces.ts';
import type { FileRows, Missing } from './truth.ts';
import { dayMs, type WorldSymbol } from './world.ts';

// Checks that a green state means a complete archive: compares the surfaces with the ticks that the archive lacks.

export interface Night {
  readonly summary: Summary;
  /** Whether the run ended at the time of the surfaces, so that its exit code applies to them. */
  readonly isNightly: boolean;
  readonly surfaces: Surfaces;
  readonly missing: readonly Missing[];
  readonly files: FileRows;
  readonly world: readonly WorldSymbol[];
  readonly nowMs: number;
}

const isoDay = (t: number): string => new Date(t).toISOString().slice(0, 10);

/**
 * Whether the archive reports a tick as an exception: in a lost, accepted or expired window, or of a suspended symbol.
 */
function createExceptionTest({ surfaces }: Night): (missing: Missing) => boolean {
  const { gaps } = surfaces.gaps;
  const isOne = ({ reason }: { reason: string }): boolean =>
    ['lost', 'accepted', 'expired', 'suspended'].includes(reason);
  const bySymbol = Map.groupBy(gaps.filter(isOne), ({ symbol }) => symbol);
  return ({ symbol, t }) => (bySymbol.get(symbol) ?? []).some((window) => isWithin(t, window));
}

/** Every sentence is a violation. */
export function findViolations(night: Night): string[] {
  return [...findFalseStates(night), ...findMissingInference(night), ...findDisagreements(night)];
}

/** The findings of an archive that lacks ticks. */
const missingKinds: ReadonlySet<FindingKind> = new Set([
  'damage',
  'failing symbols',
  'lag',
  'market list',
  'lost',
  'gaps',
  'suspended',
  'incomplete days',
  'known gaps',
]);

/** If a tick is absent, no surface says complete, no watermark passes it, and gaps lists it. */
function* findFalseStates(night: Night): Generator<string> {
  const { surfaces, summary, isNightly, nowMs } = night;
  const { manifest, status, gaps, metrics, health } = surfaces;
  const isExcepted = createExceptionTest(night);
  // Watermarks ignore suspended and ended symbols.
  const suspended = new Set(gaps.gaps.filter(({ reason }) => reason === 'suspended').map(({ symbol }) => symbol));
  const metric = (name: string, label = ''): number | undefined =>
    metrics.find(
      (one) => one.name === `oddslake_${name}` && (label === '' || Object.values(one.labels).includes(label)),
    )?.value;
  for (const missing of night.missing) {
    const { symbol, t, isListed, hasEnded, isInferred, isJournaled, hiddenBy } = missing;
    if (hiddenBy !== null) continue;
    const at = `${symbol} at ${new Date(t).toISOString()} is absent${isInferred ? ', and covered by inference' : ''}`;
    const excepted = isExcepted(missing);
    const isDamaged = surfaces.status.damaged_count > 0;
    const isOver = Date.parse(isoDay(t)) + dayMs <= nowMs;
    const day = manifest.days[isoDay(t)]?.state;
    // A finding after the last publish is in no manifest yet.
    const isReported = isDamaged && !isFoundByPublish(night);
    if (day === 'complete' && !isReported) yield `manifest: ${at}, and the day is complete`;
    if (day === 'empty') yield `manifest: ${at}, and the day is empty`;
    if (day === 'provisional' && !isInferred && !excepted && !isReported)
      yield `manifest: ${at}, and the day is provisional`;
    if (day === 'complete_with_exceptions' && !excepted && !isReported) yield `manifest: ${at}, and the day is ${day}`;
    if (!isOver && !isListed) continue;
    const states: [string, string | null | undefined][] = [
      ['status', status.completeness.state],
      ['summary', summary.completeness?.state],
      ['health', health.archiveState],
      ['metrics', metric('archive_state', 'complete') === 1 ? 'complete' : 'other'],
    ];
    for (const [name, state] of states) {
      if (state === undefined || state === null) continue;
      if (state === 'complete' || state === 'empty') yield `${name}: ${at}, and it says ${state}`;
      if (state === 'provisional' && !isInferred && !excepted) yield `${name}: ${at}, and it says provisional`;
    }
    for (const [name, { findings }] of [
      ['judge', surfaces.judgement],
      ['summary', summary],
    ] as const)
      if (!findings.some(({ kind }) => missingKinds.has(kind) || (isInferred && kind === 'provisional')))
        yield `${name}: ${at}, and no finding says so`;
    if (!isListed) continue;
    for (const [name, moment] of [
      ['manifest', isReported ? null : manifest.watermark],
      ['status', isJournaled ? null : status.watermark],
      ['metrics', isReported ? null : (metric('watermark_timestamp_seconds') ?? Number.NaN) * 1000],
    ] as const)
      if (moment !== null && moment > t && !excepted && !hasEnded && !suspended.has(symbol))
        yield `watermark of ${name}: ${at}, and it is ${new Date(moment).toISOString()}`;
    for (const [name, moment] of [
      ['manifest', isReported ? null : manifest.reached],
      ['status', isJournaled ? null : status.reached],
    ] as const)
      if (moment !== null && moment > t && !excepted && !isInferred && !hasEnded && !suspended.has(symbol))
        yield `reached of ${name}: ${at}, and it is passed`;
    if (isJournaled) continue;
    const isGap = gaps.gaps.some((gap) => gap.symbol === symbol && isWithin(t, gap));
    if (!isGap && !isInferred) yield `gaps: ${at}, and it is in none`;
    if (isInferred && !isGap && gaps.provisional.windows === 0) yield `gaps: ${at}, and nothing is provisional`;
    if (isNightly && summary.exit_code === 0 && !isInferred && !excepted) yield `exit code: ${at}, and it is 0`;
  }
}

/** Whether the last publish knew the damage that is known now. A file without rows may be replaced with its damage. */
function isFoundByPublish({ surfaces: { manifest, status, damaged } }: Pick<Night, 'surfaces'>): boolean {
  const reported = manifest.completeness?.damaged;
  const dates = [...damaged].flatMap((path) => /^(?:ticks|coverage)\/date=([^/]+)/.exec(path)?.[1] ?? []);
  return reported?.files === status.damaged_count && dates.every((date) => reported.dates.includes(date));
}

/** If a window is only inferred, every surface says so, or something worse. */
function* findMissingInference({ surfaces, summary, files, world }: Night): Generator<string> {
  const { status, gaps, health } = surfaces;
  // Windows of lifetimes; damage hides them.
  const inferred = world.flatMap(({ symbol, resolvedAt }) =>
    (files.inferred.get(symbol) ?? []).filter(({ from }) => from < (resolvedAt ?? Number.POSITIVE_INFINITY)),
  );
  if (inferred.length === 0 || status.damaged_count > 0) return;
  const may = new Set(['provisional', 'incomplete', 'damaged']);
  for (const [name, stateShown] of [
    ['status', status.completeness.state],
    ['summary', summary.completeness?.state],
    ['health', health.archiveState],
  ] as const)
    if (stateShown !== undefined && stateShown !== null && !may.has(stateShown))
      yield `${name}: a window is inferred, and it says ${stateShown}`;
  if (gaps.provisional.windows === 0) yield 'gaps: a window is inferred, and it says nothing of it';
  if (!/provisional/.test(surfaces.gapsText)) yield 'gaps: a window is inferred, and its text does not say so';
  if (!surfaces.judgement.findings.some(({ kind }) => kind === 'provisional' || missingKinds.has(kind)))
    yield 'judge: a window is inferred, and no finding says so';
  for (const [date, { state }] of Object.entries(surfaces.manifest.days)) {
    const day: Window = { from: Date.parse(date), to: Date.parse(date) + dayMs };
    const isIn = inferred.some((w) => w.from < day.to && day.from < w.to);
    if (isIn && (state === 'complete' || state === 'complete_with_exceptions'))
      yield `manifest: a window of ${date} is inferred, and the day is ${state}`;
  }
}

/** All surfaces agree on the state. */
function* findDisagreements({ surfaces, summary, isNightly, files, nowMs }: Night): Generator<string> {
  const { manifest, status, gaps, metrics, health } = surfaces;
  const of = (name: string) => metrics.filter((one) => one.name === `oddslake_${name}`);
  const state = status.completeness.state;
  const states = {
    manifest: isFoundByPublish({ surfaces }) ? manifest.completeness?.state : state,
    summary: summary.completeness?.state ?? state,
    health: health.archiveState,
    metrics: of('archive_state').find(({ value }) => value === 1)?.labels.state,
  };
  for (const [name, stateShown] of Object.entries(states))
    if (stateShown !== state) yield `${name} says ${stateShown}, status ${state}`;
  yield* findOtherJudgements(surfaces);
  const publishedCompleteness = manifest.completeness;
  // Journaled responses that cannot be published are in no manifest yet.
  if (!files.isWaiting && publishedCompleteness !== undefined && isFoundByPublish({ surfaces })) {
    if (manifest.watermark !== status.watermark) yield `watermark: ${manifest.watermark}, status ${status.watermark}`;
    if (manifest.reached !== status.reached) yield `reached: ${manifest.reached}, status ${status.reached}`;
    // A day that ended after the last publish is in no manifest yet.
    const isToday = isoDay(manifest.created_at) === isoDay(nowMs);
    const all = [
      ...(isToday ? [publishedCompleteness] : []),
      status.completeness,
      summary.completeness ?? status.completeness,
    ];
    const figures = all.map((completeness) => JSON.stringify(completeness));
    if (new Set(figures).size > 1) yield `completeness differs: ${figures.join(' ')}`;
    const pastDays = Object.entries(manifest.days).filter(([date]) => Date.parse(date) + dayMs <= nowMs);
    for (const [date, { state: stateShown }] of pastDays)
      if (status.completeness.days[stateShown] === 0) yield `status counts no ${stateShown} day, but ${date} is one`;
  }
  const gapCount = Object.values(status.completeness.gaps).reduce((sum, count) => sum + count, 0);
  if (gapCount !== gaps.count || status.gaps.windows !== gaps.count)
    yield `gaps lists ${gaps.count}, status counts ${gapCount} and ${status.gaps.windows}`;
  // The metrics are of the last publish: of damage that a verify found later they know only the files.
  const isPublished = isFoundByPublish({ surfaces }) && !files.isWaiting;
  const ofMetrics = of('gaps').reduce((sum, { value }) => sum + value, 0);
  if (isPublished && ofMetrics !== gaps.count) yield `gaps lists ${gaps.count}, metrics count ${ofMetrics}`;
  if (status.damaged_count > 0) {
    if (health.status !== 503) yield 'health: files are damaged, and it is ready';
    if (isNightly && summary.exit_code !== 6) yield `exit code: files are damaged, and it is ${summary.exit_code}`;
  }
}

const damagedPattern = /^(\d+) files? damaged: /;

const countDamaged = (messages: readonly string[]): number =>
  messages.reduce((n, message) => Math.max(n, Number(damagedPattern.exec(message)?.[1] ?? 0)), 0);

/** Every surface has the findings of the judge, and no others. */
function* findOtherJudgements({ status, judgement, judged, metrics }: Surfaces): Generator<string> {
  const found = judgement.findings.map(({ message }) => message);
  for (const [name, messages] of Object.entries(judged)) {
    // The doctor hashes some files itself and may be the first to find damage, or more of it.
    const isFirst = name === 'doctor' && countDamaged(messages) > status.damaged_count;
    const shown = (all: readonly string[]): string =>
      all.filter((message) => !(isFirst && damagedPattern.test(message))).join('\n');
    if (shown(messages) !== shown(found)) yield `${name} finds ${messages.join()}, status ${found.join()}`;
  }
  const verdict = metrics.find(({ name, value }) => name === 'oddslake_verdict' && value === 1)?.labels.state;
  if (verdict !== judgement.verdict.state)
    yield `metrics: the verdict is ${verdict}, that of status ${judgement.verdict.state}`;
  if (status.damaged_count > 0 && verdict !== 'action_required')
    yield `files are damaged, and the verdict is ${verdict}`;
  if (status.symbols.suspended > 0 && !judgement.findings.some(({ kind }) => kind === 'suspended'))
    yield 'judge: symbols are suspended, and no finding says so';
}
