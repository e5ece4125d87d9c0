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

// Rows of the table that are about how a server pages, as the sandbox does it.

/** Responses of a server that pages so; the window is echoed as requested. */
const pagedAs = (traits: Partial<TickBehavior>): Misbehaviour['ticks'] => {
  const behavior: TickBehavior = { ...defaultTickBehavior, cap: capMax, echoWindow: 'echo', ...traits };
  return (honest, asked, n, truth) => {
    const { from, to } = computeMatchedWindow(asked, behavior);
    const before = truth(0, from).slice(-1);
    const moment = { nowMs: honest.generated_at, oldestMs: Number.NEGATIVE_INFINITY };
    const request = {
      window: asked,
      limit: asked.limit,
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
const isWhole = { happens: 'Asked on until nothing is left out; the truth is kept.', isAlone: true } as const;
const isSeenNextNight = { happens: unseenTruncation, isAlone: true, keeps: 'a part', isInferred: true } as const;
const isSeenByBackfill = {
  happens:
    'Covered as inferred, and no more. Nothing contradicts it, nor is it promised that something will: a recheck or a backfill with other bounds sees it and brings the rest.',
  ...({ isAlone: true, keeps: 'a part', isInferred: true, heals: 'forced backfill' } as const),
};

export const silentPaging: readonly Misbehaviour[] = [
  {
    does: 'pages of at most twenty, some of which repeat a tick, without a word that there is more',
    ticks: pagedAs({ cap: 20, repeatShare: 0.02 }),
    ...isSeenNextNight,
  },
  {
    does: 'pages whose cap varies by a fifth, without a word that there is more',
    ticks: pagedAs({ cap: 25, capVariation: 0.2 }),
    ...isSeenNextNight,
  },
  {
    does: 'pages with room for so many bytes, now of the earliest and now of the latest ticks',
    ticks: pagedAs({ cap: 30, capUnit: 'bytes', truncate: 'alternating' }),
    ...isWhole,
    isRetried: true,
  },
  {
    does: 'pages of twenty that state their start and not where they were cut',
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
    does: 'the last tick before the window, with every answer',
    happens: 'Left out, as it is had already; the window is covered by the others.',
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
    happens: 'It goes to quarantine as received. The window counts as covered: a forced backfill asks for it again.',
    ticks: pagedAs({ unusableShare: 0.003 }),
    isAlone: true,
    setAside: ['p is not a number'],
    warns: /unusable ticks? w(as|ere) set aside/,
    heals: 'forced backfill',
    keeps: (truth) => truth.filter((tick) => isUsable(tick, { unusableShare: 0.003 })),
  },
  {
    does: 'pages of twenty of what is older than an hour, and with them all that is younger',
    ticks: pagedAs({ cap: 20, liveOnTopMs: hourMs }),
    ...isSeenByBackfill,
  },
  {
    does: 'an even sample of twenty ticks of a window that has more',
    ticks: pagedAs({ sample: 20 }),
    ...isSeenByBackfill,
  },
];
