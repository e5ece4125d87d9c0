import { job as backfill } from '../../../jobs/backfill.ts';
import { job as importing } from '../../../jobs/import.ts';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as orderbook } from '../../../jobs/orderbook.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { job as ticks } from '../../../jobs/ticks.ts';
import { Interrupted } from '../../../src/app/context.ts';
import type { Summary } from '../../../src/app/summary.ts';
import { dayFloor } from '../../../src/core/window.ts';
// Loaded when first needed: that takes real time.
import '../../../src/upstream/client.ts';
import { day0, type Lake, openLake, type Started } from './lake.ts';
import type { Strike } from './machine.ts';
import { drawWeather, fairWeather } from './network.ts';
import { beyond, endOf } from './spans.ts';
import { dayMs, hourMs, toldHoles, toldPrices, toldTicks } from './world.ts';

/** What a simulation came to. */
export interface Told {
  readonly traceHash: string;
  readonly runs: number;
  readonly strikes: Readonly<Record<string, number>>;
  readonly ticks: number;
}

const calmNights = 5;
/** A strike hits within so many changes; a night makes some hundred of them. */
const changesMax = 600;

/** Share of nights that each of these happens to. */
const chances = {
  strike: 0.3,
  lostPrivate: 0.02,
  // Off until a damaged file can be mended.
  damage: 0,
  interrupted: 0.08,
  noNight: 0.06,
  dated: 0.2,
  daytime: 0.25,
  again: 0.2,
};

/**
 * Thirty nights on one machine, then some calm ones.
 * @throws Error with what was wrong first, and in which night
 */
export async function simulate(seed: number, nights = 30, tell: (line: string) => void = () => {}): Promise<Told> {
  const lake = await openLake(seed, nights, tell);
  const { draw, timeline, audit, reader, oracle, trace, machine } = lake;
  const strikes: Record<string, number> = {};
  let runs = 0;
  let night = 0;
  /** Whether something has struck that the next run is to get over. */
  let isHurt = false;

  function check(): void {
    const wrong = [...oracle.wrongs, ...reader.wrongs];
    if (wrong.length > 0) throw new Error(`night ${night}, ${new Date(timeline.nowMs()).toISOString()}: ${wrong[0]}`);
  }

  async function session(jobs: readonly Started[], mayFail: boolean): Promise<(Summary | null)[]> {
    runs += jobs.length;
    const summaries = await timeline.run(Promise.all(jobs.map(({ summary }) => summary)), check);
    const struck = machine.struck();
    jobs.forEach(({ name, process }, i) => {
      const summary = summaries[i]!;
      trace(`${name} ${process.isDead() ? 'dead' : JSON.stringify(summary)}`);
      if (process.isDead() || summary === null) return;
      const { exit_code: code, error, ticks: sum, failures } = summary;
      const { fetched, accepted, duplicates, conflicts, quarantined } = sum;
      if (fetched !== accepted + duplicates + conflicts + quarantined)
        throw new Error(`night ${night}: counts: ${name} says ${JSON.stringify(sum)}`);
      if (code === 6 || (code === 1 && struck === null) || (code !== 0 && !mayFail))
        throw new Error(`night ${night}: exit: ${name} ended with ${code}: ${error} ${JSON.stringify(failures.slice(0, 2))}`);
    });
    if (struck !== null) {
      strikes[struck] = (strikes[struck] ?? 0) + 1;
      isHurt = true;
      machine.startAnew(draw);
      reader.lookAtAll(struck === 'power');
      check();
    }
    return summaries;
  }

  function examine(): void {
    const found = audit.findings(timeline.nowMs());
    if (found.length > 0) throw new Error(`night ${night}: ${found[0]}${found.length > 1 ? ` (and ${found.length - 1} more)` : ''}`);
  }

  /** Nothing new to publish: no byte may change. */
  async function again(what: string, start: () => Started, ignored: RegExp): Promise<void> {
    const before = audit.hashes();
    const requests = lake.network.tickRequests;
    await session([start()], false);
    const after = audit.hashes();
    for (const path of new Set([...before.keys(), ...after.keys()])) {
      if (!ignored.test(path) && before.get(path) !== after.get(path)) throw new Error(`night ${night}: again: ${what} changed ${path}`);
    }
    if (lake.network.tickRequests !== requests) throw new Error(`night ${night}: again: ${what} asked for ticks`);
  }

  const publishing = (): Started => lake.start('publish', publish.run, undefined);

  async function recovered(): Promise<void> {
    await session([publishing()], false);
    isHurt = false;
    examine();
  }

  async function busyNight(nowMs: number): Promise<void> {
    lake.network.weather = drawWeather(draw, nowMs);
    if (draw.chance(chances.strike)) machine.strikeWith(drawStrike(lake));
    const jobs = [startNightly(lake), ...(draw.chance(0.8) ? [startOther(lake)] : [])];
    if (draw.chance(chances.interrupted)) {
      const { process } = draw.one(jobs);
      timeline.after(draw.below(60_000), () => process.stop(new Interrupted('SIGTERM')));
    }
    await session(jobs, true);
    lake.network.weather = fairWeather;
    machine.startAnew(draw);
    if (isHurt && draw.chance(0.5)) return;
    if (isHurt) await recovered();
    else examine();
    if (!draw.chance(chances.again)) return;
    await session([publishing()], false);
    await again('a second publish', publishing, /^$/);
  }

  async function daytime(): Promise<void> {
    timeline.moveTo(timeline.nowMs() + Math.floor((1 + draw() * 10) * hourMs));
    await session([startOther(lake), ...(draw.chance(0.4) ? [startOther(lake)] : [])], true);
  }

  async function losePrivate(): Promise<void> {
    await recovered();
    machine.losePrivate();
    oracle.forget(reader.ticks(), audit.coverage());
    audit.beginAnew();
  }

  try {
    for (; night < nights; night++) {
      const nowMs = day0 + night * dayMs + 3 * hourMs + draw.below(2 * hourMs);
      if (night > 0 && draw.chance(chances.noNight)) continue;
      // A night of retries may reach into the next one.
      timeline.moveTo(Math.max(nowMs, timeline.nowMs() + 60_000));
      if (night > 2 && draw.chance(chances.lostPrivate)) await losePrivate();
      await busyNight(nowMs);
      if (draw.chance(chances.daytime)) await daytime();
    }
    for (const last = night + calmNights; night < last; night++) {
      timeline.moveTo(Math.max(day0 + night * dayMs + 4 * hourMs, timeline.nowMs() + 60_000));
      await session([lake.start('nightly', nightly.run, { day: null })], true);
      await recovered();
    }
    requireCovered(lake);
    await requireTruth(lake, session, examine);
    const [dated] = await session([startDated(lake)], true);
    if (dated?.exit_code === 0 && dated.warnings_count === 0) await again('a second nightly of a day', () => startDated(lake), /^(markets|symbols|[^/]*$)/);
    examine();
    const published = [...reader.ticks().values()].reduce((sum, prices) => sum + prices.size, 0);
    return { traceHash: lake.traceHash(), runs, strikes, ticks: published };
  } finally {
    lake.close();
  }
}

function drawStrike({ draw }: Lake): Strike {
  return {
    // Small numbers as often as large ones: a run's beginning is short.
    at: Math.ceil(changesMax ** draw()) + draw.below(50),
    kind: draw.one(['kill', 'kill', 'crash', 'power', 'power', 'EIO', 'ENOSPC']),
    when: draw.one(['before', 'after', 'torn']),
  };
}

/** Starts something after a while of this time. */
function later<Flags>(lake: Lake, name: string, run: Parameters<typeof lake.start<Flags>>[1], flags: Flags): Started {
  const waitMs = lake.draw.below(lake.draw.one([300, 3000, 20_000]));
  return lake.start<Flags>(
    name,
    async (context, given) => {
      await context.clock.sleep(waitMs);
      return await run(context, given);
    },
    flags,
  );
}

function startNightly(lake: Lake): Started {
  return lake.draw.chance(chances.dated) ? startDated(lake) : lake.start('nightly', nightly.run, { day: null });
}

function startDated(lake: Lake): Started {
  return lake.start('nightly', nightly.run, { day: dayFloor(lake.timeline.nowMs()) - dayMs });
}

function startOther(lake: Lake): Started {
  const { draw, timeline, world } = lake;
  const nowMs = timeline.nowMs();
  const some = (): string[] => (draw.chance(0.5) ? [] : [draw.one(world.markets).symbol]);
  switch (draw.one(['backfill', 'backfill', 'ticks', 'publish', 'import', 'import', 'orderbook', 'markets', 'nightly'])) {
    case 'backfill': {
      const from = Math.floor(nowMs - (1 + draw() * 8) * dayMs);
      const window = { from, to: draw.chance(0.5) ? nowMs : Math.floor(from + draw() * (nowMs - from)) + 1 };
      const how = { force: draw.chance(0.3), allKnown: draw.chance(0.2), showPlan: null };
      return later(lake, 'backfill', backfill.run, { window, symbols: some(), ...how });
    }
    case 'ticks':
      return later(lake, 'ticks', ticks.run, { symbols: [] });
    case 'publish':
      return later(lake, 'publish', publish.run, undefined);
    case 'import':
      return startImport(lake);
    case 'orderbook':
      return later(lake, 'orderbook', orderbook.run, { symbols: [] });
    case 'markets':
      return later(lake, 'markets', markets.run, undefined);
    default:
      return later(lake, 'nightly', nightly.run, { day: null });
  }
}

/** Pages that were saved some time ago. */
function startImport(lake: Lake): Started {
  const { draw, world, service, timeline, skewMs } = lake;
  const paths = Array.from({ length: 1 + draw.below(3) }, (_, i) => {
    const market = draw.one(world.markets);
    const atMs = Math.floor(timeline.nowMs() + skewMs - draw() * 6 * dayMs);
    const from = Math.floor(atMs - draw() * 4 * dayMs);
    const to = draw.chance(0.5) ? atMs : Math.floor(from + draw() * (atMs - from)) + 1;
    return lake.recording(`${timeline.nowMs()}-${i}.json`, service.page(market, from, to, atMs));
  });
  const flags = { paths, dataset: null, format: null, zone: null, covers: null };
  return later(lake, 'import', importing.run, { ...flags, preferred: draw.chance(0.2) });
}

/** After calm nights, every live symbol is covered as far back as a poll looks, but for what the service lacks. */
function requireCovered({ world, audit, timeline, settings, skewMs }: Lake): void {
  const covered = audit.coverage();
  const end = timeline.nowMs() - hourMs;
  // What was younger than that when the calm nights began has been asked for.
  const from = end - settings.source.firstLookbackDays * dayMs - (calmNights - 1) * dayMs;
  for (const market of world.markets) {
    const { symbol, opensAt, closesAt, holes, tellsOpening } = market;
    if (closesAt < end || opensAt > end - dayMs || !tellsOpening) continue;
    const life = { from: Math.max(from, opensAt), to: end };
    const told = [...(covered.get(symbol) ?? []), ...holes.filter((hole) => end + skewMs - 2 * dayMs < hole.until)];
    const lacking = beyond([life], told);
    if (lacking.length > 0) {
      const reach = new Date(endOf(covered.get(symbol) ?? [], life.from)).toISOString();
      throw new Error(`calm: ${symbol} lacks ${JSON.stringify(lacking)}; it is covered up to ${reach}`);
    }
  }
}

/** Asked for once more, the archive has exactly what the world has to tell. */
async function requireTruth(
  lake: Lake,
  session: (jobs: readonly Started[], mayFail: boolean) => Promise<unknown>,
  examine: () => void,
): Promise<void> {
  const { world, timeline, reader, oracle, skewMs } = lake;
  const atMs = timeline.nowMs();
  const window = { from: atMs - 7 * dayMs, to: atMs };
  const symbols = world.markets.map(({ symbol }) => symbol);
  const how = { force: true, allKnown: true, showPlan: null };
  await session([lake.start('backfill', backfill.run, { window, symbols, ...how })], true);
  examine();
  const published = reader.ticks();
  for (const market of world.markets) {
    const told = new Map(
      toldTicks(market, { from: window.from, to: window.to + Math.min(0, skewMs) }, atMs + skewMs).map((tick) => [tick.t, tick]),
    );
    const holes = toldHoles(market, window, atMs + skewMs);
    const there = published.get(market.symbol) ?? new Map<number, number>();
    for (const [t, tick] of told) {
      if (holes.some((hole) => hole.from <= t && t < hole.to)) continue;
      const p = there.get(t);
      const prices = toldPrices(tick, atMs + skewMs);
      const isPreferred = oracle.seen.get(market.symbol)?.get(t)?.some(({ rank }) => rank === 2) === true;
      if (p === undefined) throw new Error(`truth: ${market.symbol} at ${t} is missing`);
      if (!isPreferred && !toldPrices(tick, timeline.nowMs() + skewMs).includes(p) && !prices.includes(p))
        throw new Error(`truth: ${market.symbol} at ${t} is ${p}, and ${prices} is told`);
    }
  }
}
