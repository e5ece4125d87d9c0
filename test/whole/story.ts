import { existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { job as nightly } from '../../jobs/nightly.ts';
import { job as repair } from '../../jobs/repair.ts';
import { job as ticks } from '../../jobs/ticks.ts';
import { job as verify } from '../../jobs/verify.ts';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { listGaps } from '../../src/archive/read/gaps.ts';
import { acceptGaps } from '../../src/collector/steps/gaps-step.ts';
import type { Context } from '../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../src/context/open-configured.ts';
import { archiveFolder, contextOf } from '../collector/run/one-process.ts';
import { type Draw, drawFrom } from '../faults/draw.ts';
import { findViolations, type Night } from './checks.ts';
import { type ListBehavior, type SymbolBehavior, startService } from './service.ts';
import { readSurfaces } from './surfaces.ts';
import { type Decoded, findMissing, readFiles } from './truth.ts';
import { dayMs, drawWorld, endWorld, epoch, hourMs } from './world.ts';

/** The result of a story. */
export interface StoryResult {
  readonly breaches: readonly string[];
  readonly nights: number;
  /**
   * Absent ticks that were checked against the surfaces; those among them covered by inference, and those hidden by
   * damage not found yet.
   */
  readonly missing: number;
  readonly inferred: number;
  readonly hidden: number;
  /** How often `status` reported each state. */
  readonly states: Readonly<Record<string, number>>;
  readonly exitCodes: Readonly<Record<string, number>>;
}

const lookbackDays = 3;

/** Plays several nights and stops at the first violation. Calls `trace` with one line per step. */
export async function playStory(seed: number, trace: (line: string) => void = () => {}): Promise<StoryResult> {
  const draw = drawFrom(seed);
  const nights = 3 + draw.below(4);
  // What is listed and polled of a day that is not over is never proven: an archive becomes complete after its last symbol has
  // ended, if every list of its days was whole. Drawn apart from the rest.
  const ending = drawFrom(seed + 0xe4d);
  const isEnding = ending.chance(0.3);
  const drawn = drawWorld(draw, nights);
  const world = isEnding ? endWorld(ending, drawn, nights - 2) : drawn;
  const service = await startService(draw, world, epoch);
  const { output, remove } = archiveFolder();
  const decoded: Decoded = new Map();
  /** End of the last poll. */
  let lastPoll = 0;
  // Some nights run soon after midnight, when no response about the end of the day is final. Drawn apart from the rest.
  const nightHour = drawFrom(seed + 0x5eed).one([3.3, 0.2, 1.5]);
  const parts = draw.one([1, 2]);
  // So that the seeds keep the stories that they had when another setting was drawn here.
  draw();
  const set = [
    'archive.candles=[]',
    `archive.parts=${parts}`,
    `archive.verify_days=${draw.one([1, 30])}`,
    `source.first_lookback_days=${lookbackDays}`,
    `source.suspend_after_days=${draw.one([1, 2])}`,
    `poll.settle_hours=${ending.one([24, 24, 0])}`,
    'raw.keep_days=0',
    'upstream.retry_attempts_max=2',
  ];
  const context = (): Promise<Context> => contextOf(output, service.url, service.nowMs, set);
  const sums = { nights: 0, missing: 0, inferred: 0, hidden: 0, states: count(), exitCodes: count() };
  try {
    for (let n = 0; n < nights; n++) {
      const nightAt = epoch + n * dayMs + nightHour * hourMs;
      const { moods, lists } = drawBehaviors(
        draw,
        world.map(({ symbol }) => symbol),
        isEnding,
      );
      service.begin(nightAt, moods, lists);
      trace(`night ${n}: ${lists}; ${[...moods].map(([symbol, mood]) => `${symbol} ${mood}`).join(', ')}`);
      const summary = await nightly.run(await context(), { day: null });
      sums.exitCodes[summary.exit_code] = (sums.exitCodes[summary.exit_code] ?? 0) + 1;
      const violations = await look(summary, true);
      if (violations.length > 0) return { ...sums, breaches: violations };
      for (const next of drawSteps(draw)) {
        const runSummary = await step(next, n);
        if (runSummary === null) continue;
        const found = await look(runSummary, false);
        if (found.length > 0) return { ...sums, breaches: found.map((one) => `after ${next}: ${one}`) };
      }
    }
    return { ...sums, breaches: [] };
  } finally {
    await service.stop();
    remove();
  }

  async function look(summary: Summary, isNightly: boolean): Promise<string[]> {
    if (!existsSync(join(output, 'manifest.json'))) return [];
    const now = await context();
    const surfaces = await readSurfaces(now);
    const files = readFiles(output, surfaces.manifest, decoded);
    const nowMs = service.nowMs();
    const polled = summary.started_at;
    const rules = { lookbackMs: lookbackDays * dayMs, until: isNightly ? polled : lastPoll, found: surfaces.damaged };
    if (isNightly) lastPoll = polled;
    const missing = findMissing(world, service, files, rules);
    const night: Night = { summary, isNightly, surfaces, missing, files, world, nowMs };
    sums.nights++;
    sums.missing += missing.length;
    sums.inferred += missing.filter(({ isInferred }) => isInferred).length;
    sums.hidden += missing.filter(({ hiddenBy }) => hiddenBy !== null).length;
    const { state } = surfaces.status.completeness;
    sums.states[state] = (sums.states[state] ?? 0) + 1;
    trace(
      `  ${summary.job}: exit ${summary.exit_code}, ${state}, ${missing.length} missing, ${surfaces.gaps.count} gaps`,
    );
    return findViolations(night);
  }

  async function step(name: Step, n: number): Promise<Summary | null> {
    const manifest = manifestIn(output);
    if (manifest === null) return null;
    // A repair cannot restore everything.
    const isDown = name === 'repair' && draw.chance(0.5);
    const moods = new Map(isDown ? world.map(({ symbol }) => [symbol, '500' as const]) : []);
    service.begin(Math.max(service.nowMs(), epoch + n * dayMs + 9 * hourMs), moods, 'well');
    switch (name) {
      case 'damage':
        trace(`  ${damage(draw, output, manifest)}`);
        return null;
      case 'verify':
        return await verify.run(await context(), { onVerified: () => {} });
      case 'repair':
        return await repair.run(await context(), { fromUrl: null });
      case 'ticks': {
        const summary = await ticks.run(await context(), { symbols: [] });
        lastPoll = summary.started_at;
        return summary;
      }
      case 'accept': {
        await acceptOne(await context());
        return null;
      }
    }
  }
}

type Step = 'damage' | 'verify' | 'repair' | 'ticks' | 'accept';

function drawSteps(draw: Draw): Step[] {
  const steps: Step[] = [];
  if (draw.chance(0.15)) steps.push('ticks');
  if (draw.chance(0.15)) steps.push('accept');
  if (draw.chance(0.25)) steps.push('damage');
  if (draw.chance(0.1)) steps.push('verify');
  if (draw.chance(0.12)) steps.push('repair');
  return steps;
}

function drawBehaviors(
  draw: Draw,
  symbols: readonly string[],
  areListsWell: boolean,
): { moods: Map<string, SymbolBehavior>; lists: ListBehavior } {
  const moods = new Map<string, SymbolBehavior>();
  const ofAll = draw.one<SymbolBehavior | 'partly'>(['well', 'well', 'partly', 'partly', '500']);
  for (const symbol of symbols) {
    if (ofAll === 'partly' && draw.chance(0.35))
      moods.set(symbol, draw.one<SymbolBehavior>(['500', '500', '404', '404', 'reset', 'unreadable', 'breaks off']));
    else if (ofAll === '500') moods.set(symbol, '500');
  }
  const lists = draw.one<ListBehavior>(['well', 'well', 'well', 'cut', 'one view cut', '500']);
  return { moods, lists: areListsWell ? 'well' : lists };
}

const count = (): Record<string, number> => ({});

function manifestIn(root: string): Manifest | null {
  const path = join(root, 'manifest.json');
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Manifest) : null;
}

/** Damages a published file, usually a tick file. */
function damage(draw: Draw, root: string, manifest: Manifest): string {
  const { ticks: ofTicks, ...others } = manifest.datasets;
  const rest = Object.values(others).flatMap(({ files }) => files);
  const from = ofTicks.files.length > 0 && draw.chance(0.75) ? ofTicks.files : rest;
  if (from.length === 0) return 'nothing to damage';
  const { path } = draw.one(from);
  const nightAt = join(root, path);
  if (!existsSync(nightAt)) return `${path} is gone already`;
  const kind = draw.one(['delete', 'flip', 'flip', 'truncate']);
  if (kind === 'delete') rmSync(nightAt);
  else if (kind === 'truncate') truncateSync(nightAt, Math.floor(statSync(nightAt).size / 2));
  else {
    const bytes = readFileSync(nightAt);
    bytes[draw.below(bytes.length)]! ^= 1 << draw.below(8);
    writeFileSync(nightAt, bytes);
  }
  return `${kind} ${path}`;
}

async function acceptOne(context: Context): Promise<void> {
  const archive = openConfiguredArchive(context, false);
  try {
    const nowMs = context.clock.nowMs();
    const selection = { from: null, to: null, symbols: [] };
    const gap = listGaps(archive, selection, toCompletenessRules(context.settings), nowMs).gaps.find(
      ({ reason }) => reason === 'failed',
    );
    if (gap === undefined) return;
    await acceptGaps(context, archive, { symbol: gap.symbol, from: gap.from, to: gap.to, reason: 'it stays' });
  } finally {
    archive.close();
  }
}
