import { job as backfill } from '../../../jobs/backfill.ts';
import { job as importing } from '../../../jobs/import.ts';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as orderbook } from '../../../jobs/orderbook.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { job as repair } from '../../../jobs/repair.ts';
import { job as ticks } from '../../../jobs/ticks.ts';
import { floorToDay } from '../../../src/base/window.ts';
// Loaded on first use, which takes real time.
import '../../../src/client/client.ts';
import { flagsOf } from '../../e2e/import-lake.ts';
import type { Lake, Started } from './lake.ts';
import type { Strike } from './machine.ts';
import { drawSeriesInput } from './series-files.ts';
import { dayMs } from './world.ts';

/** A strike hits within this many changes; a night makes several hundred. */
const changesMax = 600;

export function drawStrike({ draw }: Lake): Strike {
  return {
    // Prefers neither small nor large numbers: the beginning of a run is short.
    at: Math.ceil(changesMax ** draw()) + draw.below(50),
    kind: draw.one(['kill', 'kill', 'crash', 'power', 'power', 'EIO', 'ENOSPC']),
    when: draw.one(['before', 'after', 'torn']),
  };
}

/** Starts something after a delay in simulated time. */
function schedule<Flags>(
  lake: Lake,
  name: string,
  run: Parameters<typeof lake.start<Flags>>[1],
  flags: Flags,
  lockWaitMs?: number,
): Started {
  const waitMs = lake.draw.below(lake.draw.one([300, 3000, 20_000]));
  return lake.start<Flags>(
    name,
    async (context, signal) => {
      await context.clock.sleep(waitMs);
      return await run(context, signal);
    },
    flags,
    lockWaitMs,
  );
}

export const startPublish = (lake: Lake): Started => lake.start('publish', publish.run, undefined);

export const startNightly = (lake: Lake): Started => lake.start('nightly', nightly.run, { day: null });

/** A nightly run up to the end of the previous day. */
export function startDated(lake: Lake): Started {
  return lake.start('nightly', nightly.run, { day: floorToDay(lake.timeline.nowMs()) - dayMs });
}

/** Any job that may run concurrently with another. */
export function startOther(lake: Lake): Started {
  const { draw, timeline, world } = lake;
  const nowMs = timeline.nowMs();
  const some = (): string[] => (draw.chance(0.5) ? [] : [draw.one(world.markets).symbol]);
  switch (
    draw.one([
      'backfill',
      'backfill',
      'ticks',
      'publish',
      'import',
      'import',
      'series',
      'orderbook',
      'markets',
      'nightly',
      'repair',
    ])
  ) {
    case 'backfill': {
      const from = Math.floor(nowMs - (1 + draw() * 8) * dayMs);
      const window = { from, to: draw.chance(0.5) ? nowMs : Math.floor(from + draw() * (nowMs - from)) + 1 };
      const options = { force: draw.chance(0.5), allKnown: draw.chance(0.2), showPlan: null };
      return schedule(lake, 'backfill', backfill.run, { window, symbols: some(), ...options });
    }
    case 'ticks':
      return schedule(lake, 'ticks', ticks.run, { symbols: [] });
    case 'publish':
      return schedule(lake, 'publish', publish.run, undefined);
    case 'import':
      return startImport(lake);
    case 'series':
      return startSeriesImport(lake);
    case 'orderbook':
      return schedule(lake, 'orderbook', orderbook.run, { symbols: [] });
    case 'markets':
      return schedule(lake, 'markets', markets.run, undefined);
    case 'repair':
      return schedule(lake, 'repair', repair.run, { fromUrl: null });
    default:
      return schedule(lake, 'nightly', nightly.run, { day: null });
  }
}

/** Pages saved earlier: of days, or of the minute of a tick while its price was different. */
export function startImport(lake: Lake): Started {
  const { draw, world, service, timeline, skewMs } = lake;
  const nowMs = timeline.nowMs() + skewMs;
  const revised = world.markets.flatMap((market) =>
    market.ticks
      .filter(({ t, prices }) => t > nowMs - 6 * dayMs && prices.length > 1 && prices[1]!.at <= nowMs)
      .map((tick) => ({ market, tick })),
  );
  const revisedTick = revised.length > 0 && draw.chance(0.7) ? draw.one(revised) : null;
  const page = (): string => {
    if (revisedTick !== null) {
      const { t, visibleAt, prices } = revisedTick.tick;
      const until = draw.one(prices.slice(1)).at;
      const atMs = Math.max(visibleAt, t + 1, Math.min(nowMs, draw.chance(0.7) ? until - 1 : until));
      const lengthMs = draw.below(60_000);
      return service.page(revisedTick.market, t - draw.below(lengthMs + 1), Math.min(t + 1 + lengthMs, atMs), atMs);
    }
    const atMs = Math.floor(nowMs - draw() * 6 * dayMs);
    const from = Math.floor(atMs - draw() * 4 * dayMs);
    const to = draw.chance(0.5) ? atMs : Math.floor(from + draw() * (atMs - from)) + 1;
    return service.page(draw.one(world.markets), from, to, atMs);
  };
  const paths = Array.from({ length: 1 + draw.below(3) }, () => lake.recording(page()));
  return schedule(lake, 'import', importing.run, flagsOf(paths, { preferred: draw.chance(0.4) }));
}

/** Files of quotes and trades. If it does not wait for the lock of another run, it journals them. */
export function startSeriesImport(lake: Lake): Started {
  const { draw } = lake;
  const input = drawSeriesInput(lake);
  if (input === null) return startPublish(lake);
  const { paths, dataset, covers } = input;
  const datasets = dataset === null ? null : [dataset];
  const flags = flagsOf(paths, { datasets, covers, preferred: draw.chance(0.3) });
  return schedule(lake, 'series', importing.run, flags, draw.chance(0.3) ? 0 : undefined);
}
