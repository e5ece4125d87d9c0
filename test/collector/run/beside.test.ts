import { expect, onTestFinished, test } from 'vitest';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { appendTicks } from '../../../src/archive/journal/journal.ts';
import { readStatus } from '../../../src/archive/read/status.ts';
import type { Context } from '../../../src/context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { answer } from '../../archive/scratch.ts';
import { dayMs, fewFiles, hourMs } from './nights.ts';
import { scriptedLake } from './one-process.ts';
import type { Reply, Tick } from './scripted-service.ts';

// Two nights of one archive at once. Each is judged by its own work.

const minuteMs = 60_000;
const first = Date.UTC(2025, 5, 10, 3, 17);
const quietSince = first - 3 * hourMs;
const settings = [...fewFiles, 'poll.recheck_share=0'];

function every(stepMs: number, from: number, to: number): Tick[] {
  const out: Tick[] = [];
  for (let t = from; t < to; t += stepMs) out.push({ t, p: (out.length % 90) / 100 });
  return out;
}

/** A service whose pages keep the latest ticks. `late` are visible from the second night on. */
async function startService(late: readonly Tick[] = []) {
  const { box, contextAt } = await scriptedLake(first, ['BUSY', 'QUIET', 'STEADY'], settings);
  const ticks: Record<string, readonly Tick[]> = {
    BUSY: every(5 * minuteMs, first - 8 * dayMs, first),
    QUIET: every(hourMs, first - 8 * dayMs, quietSince),
    STEADY: every(11 * minuteMs, first - 8 * dayMs, first),
    NEW: [],
  };
  /** The tick requests since the last night began. */
  let requested: { readonly symbol: string; readonly from: number }[] = [];
  let isSecond = false;
  const held: (() => void)[] = [];
  let holds: ((symbol: string, n: number) => boolean) | null = null;
  let onHeld = (): void => {};
  box.script = {
    ticks(_, { symbol, from, to, limit }): Reply {
      box.nowMs += 20;
      requested.push({ symbol, from });
      const visible = [...ticks[symbol]!, ...(isSecond && symbol === 'QUIET' ? late : [])];
      const page = visible.filter(({ t }) => from <= t && t < Math.min(to, box.nowMs)).slice(-Math.min(200, limit));
      const body = { symbol, ticks: page, count: page.length, from, to, generated_at: box.nowMs };
      if (holds?.(symbol, requested.filter((one) => one.symbol === symbol).length) !== true) return body;
      return (response) => {
        held.push(() => response.setHeader('content-type', 'application/json').end(JSON.stringify(body)));
        onHeld();
      };
    },
  };
  const release = (): void => {
    holds = null;
    for (const send of held.splice(0)) send();
  };
  onTestFinished(release);
  return {
    box,
    context: () => contextAt(box.nowMs),
    requested: () => requested,
    /** Lets the second night begin two seconds after the first one. Responses that `hold` chooses are held. */
    beginSecond(hold: typeof holds = null): Promise<void> {
      isSecond = true;
      requested = [];
      holds = hold;
      box.nowMs = first + 2000;
      return new Promise((resolve) => {
        onHeld = resolve;
      });
    },
    release,
  };
}

/** A night that stops before its publish until it is let go. */
async function startUnpublished(context: Context) {
  let letGo = (): void => {};
  const stop = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  let collected = (): void => {};
  const hasCollected = new Promise<void>((resolve) => {
    collected = resolve;
  });
  const startDisplay: Context['startDisplay'] = async (label, ...rest) => {
    if (label === 'publish') {
      collected();
      await stop;
    }
    return context.startDisplay(label, ...rest);
  };
  const ended = nightly.run({ ...context, startDisplay }, { day: null });
  await hasCollected;
  return { ended, letGo };
}

async function setUp(late?: readonly Tick[]) {
  const service = await startService(late);
  const { context } = service;
  const readGaps = async () => {
    const archive = openConfiguredArchive(await context(), false);
    try {
      return readStatus(archive, toCompletenessRules((await context()).settings), service.box.nowMs).gaps.symbols;
    } finally {
      archive.close();
    }
  };
  return { ...service, readGaps };
}

/** Withdraws what the archive claims of QUIET after its last tick, as another night does. */
function withdrawQuiet(context: Context): void {
  const archive = openConfiguredArchive(context, false);
  const withdrawn = [{ from: quietSince, to: first }];
  appendTicks(archive.state, [answer('QUIET', [], { withdrawn, windows: [], observedAt: first })]);
  archive.close();
}

test('a night continues from what another one has journaled, and takes none of it for late', async () => {
  const { requested, beginSecond, context } = await setUp();
  const one = await startUnpublished(await context());
  void beginSecond();
  const archive = openConfiguredArchive(await context(), false);
  onTestFinished(() => archive.close());
  const other = await startUnpublished(await context());
  expect(archive.state.db.one('select count(*) as n from journal_withdrawn')).toEqual({ n: 0 });
  // Each symbol is read again from its last tick before yesterday: nothing later can be proven yet, and all before is.
  const yesterday = first - (first % dayMs) - dayMs;
  const bySymbol = Map.groupBy(requested(), ({ symbol }) => symbol);
  expect([...bySymbol.keys()].sort()).toEqual(['BUSY', 'QUIET', 'STEADY']);
  for (const [one] of bySymbol.values()) expect(one!.from).toBeGreaterThanOrEqual(yesterday - hourMs - 1);
  one.letGo();
  expect(await one.ended).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  other.letGo();
  expect(await other.ended).toMatchObject({ exit_code: 0, failures: [], ticks: { accepted: 0 } });
});

test('a night that did all of its work is not incomplete because another one fetches a window again', async () => {
  const service = await setUp([{ t: quietSince + hourMs, p: 0.5 }]);
  const one = await startUnpublished(await service.context());
  const isHeld = service.beginSecond((symbol) => symbol === 'QUIET');
  const other = nightly.run(await service.context(), { day: null });
  await isHeld;
  // The other night withdraws a window of the symbol that it is about to fetch.
  withdrawQuiet(await service.context());
  expect(await service.readGaps()).toBe(1);
  one.letGo();
  const summary = await one.ended;
  expect(summary).toMatchObject({ exit_code: 0, failures: [] });
  expect(summary.warnings).toEqual([
    expect.stringMatching(/^Another run has withdrawn coverage of 1 symbol \(QUIET\)/),
  ]);
  // The archive itself has the gap until the other night is over.
  expect(await service.readGaps()).toBe(1);
  service.release();
  expect(await other).toMatchObject({ exit_code: 0, failures: [], ticks: { accepted: 1 } });
  expect(await service.readGaps()).toBe(0);
});

test.for([false, true])(
  'what a damaged journal loses is a gap of the night, also if another one is at work: %o',
  async (isOtherAtWork) => {
    const service = await setUp();
    const one = await startUnpublished(await service.context());
    let other: Awaited<ReturnType<typeof startUnpublished>> | null = null;
    if (isOtherAtWork) {
      void service.beginSecond();
      other = await startUnpublished(await service.context());
    }
    const archive = openConfiguredArchive(await service.context(), false);
    // The row no longer matches its checksum.
    archive.state.db.run(`update journal_coverage set t_to = t_to - 1 where symbol = 'STEADY'`);
    archive.close();
    one.letGo();
    const { exit_code: exitCode, warnings, failures } = await one.ended;
    expect(warnings.join()).toMatch(/The journal was damaged/);
    expect(warnings.join()).not.toMatch(/Another run/);
    expect(exitCode).toBe(4);
    expect(failures.map(({ symbol }) => symbol)).toContain('STEADY');
    other?.letGo();
    await other?.ended;
  },
);

test('what another night withdrew before it was killed is a gap of the night: nobody fetches it again', async () => {
  const service = await setUp();
  const one = await startUnpublished(await service.context());
  withdrawQuiet(await service.context());
  one.letGo();
  expect(await one.ended).toMatchObject({ exit_code: 4, failures: [{ symbol: 'QUIET' }] });
});

test('a night is not expected to cover a symbol that another one lists for the first time', async () => {
  const service = await setUp();
  const one = await startUnpublished(await service.context());
  service.box.symbols = [...service.box.symbols, 'NEW'];
  const isHeld = service.beginSecond((symbol) => symbol === 'NEW');
  const other = nightly.run(await service.context(), { day: null });
  await isHeld;
  one.letGo();
  expect(await one.ended).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(await service.readGaps()).toBe(1);
  service.release();
  expect(await other).toMatchObject({ exit_code: 0, failures: [] });
  expect(await publish.run(await service.context(), undefined)).toMatchObject({ exit_code: 0 });
});
