import { createRandom, hashNumber } from '../../../src/base/random.ts';
import {
  composePage,
  computeMatchedWindow,
  defaultTickBehavior,
  isUsable,
  type TickBehavior,
} from '../../../src/sandbox/tick-behavior.ts';
import type { Misbehaviour } from './misbehaviour.ts';
import { unseenTruncation } from './misbehaviour-answers.ts';
import { capMax } from './scripted-service.ts';

// Rows about the paging of a server, as in the sandbox.

/** Responses of a server that pages so; the window is echoed as requested. */
const pagedAs = (traits: Partial<TickBehavior>): Misbehaviour['ticks'] => {
  const behavior: TickBehavior = { ...defaultTickBehavior, cap: capMax, echoWindow: 'echo', ...traits };
  return (honest, requested, n, truth) => {
    const { from, to } = computeMatchedWindow(requested, behavior);
    const before = truth(0, from).slice(-1);
    const moment = { nowMs: honest.generated_at, oldestMs: Number.NEGATIVE_INFINITY };
    const request = {
      window: requested,
      limit: requested.limit,
      n: n + 1,
      rank: 0,
      ...moment,
      draw: createRandom(hashNumber(5, n)),
    };
    const page = composePage(before, truth(from, to), request, behavior);
    const ticks = page.elements.map((row) => {
      if (row === null) return { type: 'heartbeat' };
      return isUsable(row, behavior) ? row : { ...row, p: '?' };
    });
    return { ...honest, ticks, count: ticks.length, from: page.from ?? undefined, to: page.to ?? undefined };
  };
};

const hourMs = 3_600_000;
const isWhole = { happens: 'Requested until complete; all true ticks are kept.', isAlone: true } as const;
const isSeenNextNight = { happens: unseenTruncation, isAlone: true, keeps: 'a part', isInferred: true } as const;
const isSeenByBackfill = {
  happens:
    'Covered as inferred only. It may never be contradicted; a recheck or a backfill with different bounds may detect the fault and fetch the rest.',
  ...({ isAlone: true, keeps: 'a part', isInferred: true, heals: 'forced backfill' } as const),
};

export const silentPaging: readonly Misbehaviour[] = [
  {
    does: 'pages of at most twenty, some with a repeated tick, not marked as truncated',
    ticks: pagedAs({ cap: 20, repeatShare: 0.02 }),
    ...isSeenNextNight,
  },
  {
    does: 'pages whose cap varies by a fifth, not marked as truncated',
    ticks: pagedAs({ cap: 25, capVariation: 0.2 }),
    ...isSeenNextNight,
  },
  {
    does: 'pages limited by bytes, sometimes with the earliest and sometimes with the latest ticks',
    ticks: pagedAs({ cap: 30, capUnit: 'bytes', truncate: 'alternating' }),
    ...isWhole,
    isRetried: true,
  },
  {
    does: 'pages of twenty that state their start but not their end',
    ticks: pagedAs({ cap: 20, echoWindow: 'cut-from' }),
    ...isSeenNextNight,
  },
  {
    does: 'pages of twenty that state both their ends',
    ticks: pagedAs({ cap: 20, echoWindow: 'cut' }),
    ...isWhole,
    isRetried: true,
  },
  {
    does: 'the last tick before the window in every response',
    happens: 'Dropped as a duplicate; the other ticks cover the window.',
    ticks: pagedAs({ carryInShare: 1 }),
    isAlone: true,
  },
  {
    does: 'the last tick before the window, with pages of twenty',
    ticks: pagedAs({ cap: 20, carryInShare: 1 }),
    ...isSeenNextNight,
  },
  {
    does: 'one unusable tick among more than a hundred',
    happens: 'It is quarantined as received. The window counts as covered; a forced backfill fetches it again.',
    ticks: pagedAs({ unusableShare: 0.003 }),
    isAlone: true,
    setAside: ['p is not a number'],
    warns: /unusable ticks? w(as|ere) quarantined/,
    heals: 'forced backfill',
    keeps: (truth) => truth.filter((tick) => isUsable(tick, { unusableShare: 0.003 })),
  },
  {
    does: 'pages of twenty ticks older than an hour, plus all newer ticks',
    ticks: pagedAs({ cap: 20, uncappedAgeMs: hourMs }),
    ...isSeenByBackfill,
  },
  {
    does: 'an even sample of twenty ticks from a window that has more',
    ticks: pagedAs({ sample: 20 }),
    ...isSeenByBackfill,
  },
];
