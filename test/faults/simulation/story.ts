import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { InterruptedError } from '../../../src/context/context.ts';
import { calmNights, requireCovered, requireEqual, requireRestored, startCalmBackfill } from './calm.ts';
import { damageFiles, findLost, readLost, startLocalRepair, startRepair } from './damage.ts';
import {
  drawStrike,
  startDated,
  startImport,
  startNightly,
  startOther,
  startPublish,
  startSeriesImport,
} from './jobs-of-the-night.ts';
import { day0, openLake, type Started } from './lake.ts';
import { drawNetworkState, noFaults } from './network.ts';
import { findLostSeries } from './series-audit.ts';
import { seriesNames } from './series-rows.ts';
import { dayMs, hourMs } from './world.ts';

/** The result of a simulation. */
interface SimulationResult {
  readonly traceHash: string;
  readonly runs: number;
  readonly strikes: Readonly<Record<string, number>>;
  readonly ticks: number;
}

/** Share of nights with each of these events. */
const chances = {
  strike: 0.3,
  lostPrivate: 0.02,
  damage: 0.05,
  interrupted: 0.08,
  noNight: 0.06,
  dated: 0.2,
  daytime: 0.25,
  again: 0.2,
};

/**
 * Thirty nights on one machine, then some calm ones.
 * @throws Error with the first error and its night
 */
export async function simulate(
  seed: number,
  nights = 30,
  tell: (line: string) => void = () => {},
): Promise<SimulationResult> {
  const lake = await openLake(seed, nights, tell);
  const { draw, timeline, audit, reader, oracle, series, acceptedRows, chain, trace, machine } = lake;
  const strikes: Record<string, number> = {};
  // Every other lake is collected soon after midnight, when no response about the end of the day is final.
  const earliestMs = seed % 2 === 0 ? hourMs / 6 : 3 * hourMs;
  let runs = 0;
  let night = 0;
  /** Whether a strike left something for the next run to recover. */
  let needsRecovery = false;
  /** Whether files are damaged, so that no reader may read. */
  let isRepairing = false;

  function check(): void {
    if (lake.modelErrors.length > 0) throw lake.modelErrors[0];
    const errors = [...oracle.wrongs, ...series.wrongs, ...reader.wrongs, ...chain.wrongs];
    if (errors.length > 0) throw new Error(`night ${night}, ${new Date(timeline.nowMs()).toISOString()}: ${errors[0]}`);
  }

  async function session(jobs: readonly Started[], mayFail: boolean): Promise<(Summary | null)[]> {
    runs += jobs.length;
    const summaries = await timeline.run(Promise.all(jobs.map(({ summary }) => summary)), check);
    const struck = machine.struck();
    jobs.forEach(({ name, process }, i) => {
      const summary = summaries[i]!;
      // Suggested actions contain the archive's path, which differs each time.
      trace(`${name} ${process.isDead() ? 'dead' : JSON.stringify(summary).replaceAll(lake.root, 'lake')}`);
      if (process.isDead() || summary === null) return;
      const { exit_code: code, error, ticks: sum, failures } = summary;
      for (const counts of [sum, ...seriesNames.flatMap((dataset) => summary[dataset] ?? [])]) {
        const { fetched, accepted, duplicates, conflicts, quarantined } = counts;
        if (fetched !== accepted + duplicates + conflicts + quarantined)
          throw new Error(`night ${night}: counts: ${name} says ${JSON.stringify(counts)}`);
      }
      if (code === 6 || (code === 1 && struck === null) || (code !== 0 && !mayFail))
        throw new Error(
          `night ${night}: exit: ${name} exited with ${code}: ${error} ${JSON.stringify(failures.slice(0, 2))}`,
        );
    });
    if (struck !== null) {
      strikes[struck] = (strikes[struck] ?? 0) + 1;
      needsRecovery = true;
      machine.restart(draw);
      if (struck === 'power') chain.reset();
      if (!isRepairing) {
        reader.lookAtAll(struck === 'power');
        check();
      }
    }
    return summaries;
  }

  function examine(): void {
    const findings = audit.findings(timeline.nowMs());
    if (findings.length > 0)
      throw new Error(
        `night ${night}: ${findings[0]}${findings.length > 1 ? ` (and ${findings.length - 1} more)` : ''}`,
      );
  }

  /** Nothing new to publish: no byte may change. */
  async function again(label: string, start: () => Started, ignored: RegExp): Promise<void> {
    const before = audit.hashes();
    const requests = lake.network.tickRequests;
    await session([start()], false);
    const after = audit.hashes();
    for (const path of new Set([...before.keys(), ...after.keys()])) {
      if (!ignored.test(path) && before.get(path) !== after.get(path))
        throw new Error(`night ${night}: again: ${label} changed ${path}`);
    }
    if (lake.network.tickRequests !== requests) throw new Error(`night ${night}: again: ${label} requested ticks`);
  }

  const publishing = (): Started => startPublish(lake);

  async function recovered(): Promise<void> {
    await session([publishing()], false);
    needsRecovery = false;
    examine();
  }

  async function busyNight(nowMs: number): Promise<void> {
    lake.network.weather = drawNetworkState(draw, nowMs);
    if (draw.chance(chances.strike)) machine.strikeWith(drawStrike(lake));
    const first = draw.chance(chances.dated) ? startDated(lake) : startNightly(lake);
    const jobs = [first, ...(draw.chance(0.8) ? [startOther(lake)] : [])];
    if (draw.chance(chances.interrupted)) {
      const { process } = draw.one(jobs);
      timeline.after(draw.below(60_000), () => process.stop(new InterruptedError('SIGTERM')));
    }
    await session(jobs, true);
    lake.network.weather = noFaults;
    machine.restart(draw);
    if (needsRecovery && draw.chance(0.5)) return;
    if (needsRecovery) await recovered();
    else examine();
    if (!draw.chance(chances.again)) return;
    await session([publishing()], false);
    await again('a second publish', publishing, /^$/);
  }

  async function daytime(): Promise<void> {
    timeline.moveTo(timeline.nowMs() + Math.floor((1 + draw() * 10) * hourMs));
    await session([startOther(lake), ...(draw.chance(0.4) ? [startOther(lake)] : [])], true);
  }

  /** A file is damaged and repaired from local data: nothing missing is covered. */
  async function damaged(): Promise<void> {
    await recovered();
    const before = reader.ticks();
    const seriesBefore = audit.series();
    const damagedPaths = damageFiles(lake);
    if (damagedPaths.length === 0) return;
    reader.lookAway();
    isRepairing = true;
    if (draw.chance(chances.strike)) {
      machine.strikeWith(drawStrike(lake));
      await session([startLocalRepair(lake)], true);
      machine.restart(draw);
    }
    await session([startLocalRepair(lake)], true);
    [needsRecovery, isRepairing] = [false, false];
    reader.lookAtAll(true);
    check();
    const lostTicks = findLost(lake, before);
    const { rows, claims } = audit.series();
    const lostSeries = findLostSeries(seriesBefore.rows, seriesBefore.claims, rows, claims);
    const [quotes, trades] = seriesNames.map((dataset) => lostSeries[dataset].length) as [number, number];
    trace(`lost ${lostTicks.length} ${quotes} ${trades}`);
    oracle.lose(lostTicks);
    series.lose(lostSeries, claims);
    audit.noteLost({ ticks: lostTicks.length, quotes, trades }, damagedPaths);
    examine();
    strikes.damage = (strikes.damage ?? 0) + 1;
    strikes.lost = (strikes.lost ?? 0) + lostTicks.length;
    strikes.lostSeries = (strikes.lostSeries ?? 0) + quotes + trades;
    // The record of losses must outlive the state.
    if (draw.chance(0.15)) await losePrivate();
  }

  async function losePrivate(): Promise<void> {
    await recovered();
    machine.losePrivate();
    oracle.forget(reader.ticks(), audit.coverage());
    const { rows, claims } = audit.series();
    series.forget(rows, claims);
    acceptedRows.forget();
    audit.reset();
    if (draw.chance(0.5)) await recovered();
  }

  try {
    for (; night < nights; night++) {
      const nowMs = day0 + night * dayMs + earliestMs + draw.below(2 * hourMs);
      if (night > 0 && draw.chance(chances.noNight)) continue;
      // A night of retries may extend into the next one.
      timeline.moveTo(Math.max(nowMs, timeline.nowMs() + 60_000));
      if (night > 2 && draw.chance(chances.lostPrivate)) await losePrivate();
      if (night > 2 && draw.chance(chances.damage)) await damaged();
      await busyNight(nowMs);
      if (draw.chance(chances.daytime)) await daytime();
    }
    const nightsMs: number[] = [];
    for (const last = night + calmNights; night < last; night++) {
      timeline.moveTo(Math.max(day0 + night * dayMs + earliestMs + hourMs / 2, timeline.nowMs() + 60_000));
      nightsMs.push(timeline.nowMs());
      await session([startNightly(lake)], true);
      await recovered();
    }
    await session([startRepair(lake)], true);
    examine();
    requireRestored(lake, readLost(lake.root));
    requireCovered(lake, nightsMs);
    // All of this is fetched again: the observation time of each price must be known.
    await session([startImport(lake), startImport(lake), startImport(lake), startSeriesImport(lake)], true);
    examine();
    const requestedMs = timeline.nowMs();
    await session([startCalmBackfill(lake)], true);
    examine();
    requireEqual(lake, requestedMs);
    const [dated] = await session([startDated(lake)], true);
    if (dated?.exit_code === 0 && dated.warnings_count === 0)
      await again('a second nightly of a day', () => startDated(lake), /^(markets|symbols|[^/]*$)/);
    examine();
    const published = [...reader.ticks().values()].reduce((sum, prices) => sum + prices.size, 0);
    return { traceHash: lake.traceHash(), runs, strikes, ticks: published };
  } finally {
    lake.close();
  }
}
