import { expect, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as publish } from '../../../jobs/publish.ts';
import { job as ticks } from '../../../jobs/ticks.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { readUnfinished } from '../../../src/archive/journal/collected-ends.ts';
import { openArchiveQuery } from '../../../src/archive/query/pinned-query.ts';
import { listGaps } from '../../../src/archive/read/gaps.ts';
import { openConfiguredArchive, toCompletenessRules } from '../../../src/context/open-configured.ts';
import { answer, append } from '../../archive/scratch.ts';
import { withState } from '../../harness/with-state.ts';
import { at, dayMs, fewFiles, hourMs } from './nights.ts';
import { scriptedLake } from './one-process.ts';
import type { Reply, TicksBody } from './scripted-service.ts';

// Services that no longer have what is older than some days, and do not say so.

const names = ['ONE', 'TWO', 'SIX', 'TEN'];

/** A service that keeps `keptMs` of ticks that never ended, each symbol's at another pace. @param skewMs how far its clock is ahead */
async function startKeeping(
  keptMs: number,
  symbols = names,
  refuses = false,
  opensAt: number | null = null,
  skewMs = 0,
  settings: readonly string[] = [],
) {
  const { box, output, contextAt } = await scriptedLake(at(0), symbols, [
    ...fewFiles,
    'poll.recheck_share=0',
    ...settings,
  ]);
  box.script = {
    markets: (honest) => ({
      ...honest,
      // One market is older than all others.
      markets: honest.markets.map((market, i) =>
        i === 0 || opensAt === null ? market : { ...market, opens_at: opensAt },
      ),
    }),
    ticks(_, { symbol, from, to }): Reply {
      box.nowMs += 20;
      const kept = box.nowMs - keptMs;
      if (refuses && to <= kept + hourMs)
        return (response) => void response.writeHead(400).end('{"error": "no such partition"}');
      const step = (10 + 7 * symbols.indexOf(symbol)) * 60_000;
      const ticks = [];
      for (let t = Math.ceil(Math.max(from, kept) / step) * step; t < Math.min(to, box.nowMs); t += step)
        ticks.push({ t, p: (t % 97) / 100 });
      return { symbol, ticks, count: ticks.length, generated_at: box.nowMs + skewMs };
    },
  };
  const readManifest = async (): Promise<Manifest> => {
    const archive = openConfiguredArchive(await contextAt(box.nowMs), false);
    try {
      return archive.readManifest();
    } finally {
      archive.close();
    }
  };
  const readDays = async (): Promise<Readonly<Record<string, { readonly state: string }>>> =>
    (await readManifest()).days;
  /** The gaps of the program, and those of the view. */
  const readGaps = async () => {
    const { settings } = await contextAt(box.nowMs);
    const archive = openConfiguredArchive(await contextAt(box.nowMs), false);
    const { query, close } = await openArchiveQuery(archive, 'FROM gaps', Math.random);
    try {
      const selection = { from: null, to: null, symbols: [] };
      const { gaps } = listGaps(archive, selection, toCompletenessRules(settings), box.nowMs);
      return [gaps, await query.readRows('FROM gaps')];
    } finally {
      await close();
      archive.close();
    }
  };
  /** Imports ticks of the first symbol that are older than what the service keeps. */
  const importOld = async (nowMs: number): Promise<void> => {
    const archive = openConfiguredArchive(await contextAt(nowMs), true);
    const pairs = [6.5, 6.4].map((n) => [nowMs - n * dayMs, 0.5] as const);
    append(archive, answer(symbols[0]!, pairs, { origin: 'import', rank: precedenceRanks.import, windows: [] }));
    archive.close();
    await publish.run(await contextAt(nowMs), undefined);
  };
  const countTicks = async (): Promise<number> => {
    const archive = openConfiguredArchive(await contextAt(box.nowMs), false);
    const { query, close } = await openArchiveQuery(archive, 'SELECT count(*)::int AS n FROM ticks', Math.random);
    try {
      const [row] = await query.readRows('SELECT count(*)::int AS n FROM ticks');
      return Number(row!.n);
    } finally {
      await close();
      archive.close();
    }
  };
  return {
    box,
    importOld,
    readGaps,
    readUnfinishedSince: () => withState(output, (db) => readUnfinished(db, 'backfill', null)),
    countTicks,
    night: async (n: number) => nightly.run(await contextAt(at(n)), { day: null }),
    contextAt,
    readDays,
    readManifest,
  };
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

test('the first night names what the service keeps, once, and no day before it is expected', async () => {
  const { night, readDays, readManifest, readGaps } = await startKeeping(3 * dayMs);
  const first = await night(0);
  expect(first).toMatchObject({ exit_code: 0, failures: [] });
  const oldest = at(0) - 3 * dayMs;
  expect(first.warnings).toEqual([
    expect.stringMatching(
      /^Nothing older than 2025-05-29 03:20 UTC from any symbol: the service seems to keep 3 days\./,
    ),
  ]);
  const days = await readDays();
  for (const [day, { state }] of Object.entries(days)) if (day <= dayOf(oldest)) expect(state).toBe('empty');
  // Its ticks of that day are kept.
  expect(await readGaps()).toEqual([[], []]);
  for (const n of [1, 2, 3]) expect(await night(n)).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  const later = await readDays();
  // The service has long dropped these days; they were had in time.
  for (const ms of [oldest + dayMs, oldest + 2 * dayMs, at(0)]) expect(later[dayOf(ms)]!.state).toBe('complete');
  expect(later[dayOf(oldest)]?.state ?? 'empty').toBe('empty');
  // What another archive recorded of the time before would be taken in.
  expect((await readManifest()).datasets.coverage.withdrawn ?? []).toEqual([]);
});

test('of a service that keeps twelve hours no earlier day is complete, and the hours are named', async () => {
  const { night, readDays } = await startKeeping(dayMs / 2);
  const first = await night(0);
  expect(first.exit_code).toBe(0);
  expect(first.warnings).toEqual([expect.stringMatching(/from any symbol: the service seems to keep 12 hours\./)]);
  for (const n of [1, 2, 3]) await night(n);
  for (const { state } of Object.values(await readDays())) expect(state).not.toBe('complete');
});

test('of few symbols, and of a service that refuses what is old, no horizon is known, and nothing before is proven', async () => {
  for (const service of [await startKeeping(3 * dayMs, ['ONE', 'TWO']), await startKeeping(3 * dayMs, names, true)]) {
    const first = await service.night(0);
    expect(first.warnings.join()).not.toMatch(/seems to keep/);
    const days = await service.readDays();
    expect(days[dayOf(at(0) - 5 * dayMs)]?.state).not.toBe('complete');
  }
});

test('markets that opened when the ticks begin show no horizon', async () => {
  const oldest = at(0) - 3 * dayMs;
  const { night, readDays } = await startKeeping(3 * dayMs, names, false, oldest);
  expect(await night(0)).toMatchObject({ exit_code: 0, warnings: [] });
  const days = await readDays();
  expect(days[dayOf(oldest)]?.state).not.toBe('complete');
  expect(days[dayOf(oldest + dayMs)]?.state).toBe('complete');
});

test.each<[number, string, string]>([
  [2, 'right', 'nothing'],
  [9, 'right', 'nothing'],
  [17, 'right', 'nothing'],
  [9, 'two hours behind', 'nothing'],
  [9, 'right', 'ONE'],
  [9, 'right', 'TWO'],
  [9, 'right', 'a file'],
])(
  'a first night cut off after %i requests is judged by the next one (clock %s, between: %s)',
  async (cut, clock, between) => {
    const skewMs = clock === 'right' ? 0 : -2 * hourMs;
    const { box, night, readDays, contextAt, importOld } = await startKeeping(3 * dayMs, names, false, null, skewMs);
    box.sendsDate = false;
    const script = box.script.ticks!;
    let left = cut;
    box.script.ticks = (...given) => (left-- > 0 ? script(...given) : (response) => void response.destroy());
    const first = await night(0);
    box.script.ticks = script;
    // A poll of one symbol judges no other.
    if (names.includes(between)) await ticks.run(await contextAt(at(0) + hourMs), { symbols: [between] });
    // Nor does the service have what comes from files.
    if (between === 'a file') await importOld(at(0) + hourMs);
    const second = await night(1);
    // Told once, by the night that had the requests for it.
    expect(
      [...first.warnings, ...second.warnings].filter((text) => /^Nothing older than 2025-05-/.test(text)).length,
    ).toBe(1);
    // What a night failed to get has expired since.
    for (const { reason } of second.failures) expect(reason).toMatch(/^expired: the service has no ticks before/);
    expect(await night(2)).toMatchObject({ exit_code: 0, failures: [] });
    const days = await readDays();
    // What is before has expired, or was never expected.
    for (const n of [-6, -4])
      expect(days[dayOf(at(n))]?.state ?? 'empty').toMatch(/^(empty|complete_with_exceptions)$/);
    for (const n of [-6, -4, -3]) expect(days[dayOf(at(n))]?.state).not.toBe('complete');
    for (const n of [-1, 0]) expect(days[dayOf(at(n))]!.state).toBe('complete');
  },
);

test('a weekend without ticks is no horizon of a service that reads back to the last day without data', async () => {
  const { box, night } = await startKeeping(30 * dayMs);
  const script = box.script.ticks!;
  const isPause = (t: number): boolean => [0, 6].includes(new Date(t).getUTCDay());
  box.script.ticks = (honest, request, ...rest) => {
    const answer = script(honest, request, ...rest) as TicksBody;
    let near = Math.min(request.to, box.nowMs);
    const open = answer.ticks.filter(({ t }) => !isPause(t)).reverse();
    const end = open.findIndex(({ t }) => {
      const isAbsent = Math.floor(near / dayMs) - Math.floor(t / dayMs) > 1;
      near = t;
      return isAbsent;
    });
    const ticks = open.slice(0, end < 0 ? open.length : end).reverse();
    return { ...answer, ticks, count: ticks.length };
  };
  // A Tuesday.
  const { warnings } = await night(2);
  expect(warnings.filter((text) => /seems to keep/.test(text))).toEqual([]);
});

test('days that no night proves are a warning with its cause, after a week', async () => {
  const { box, night } = await startKeeping(30 * dayMs);
  // It answers the first twelve hours of a request, and three of the symbols have a tick now and then.
  const script = box.script.ticks!;
  box.script.ticks = (honest, request, ...rest) => {
    const asked = { ...request, to: Math.min(request.to, request.from + dayMs / 2) };
    const answer = script(honest, asked, ...rest) as TicksBody;
    const ticks = answer.ticks.filter(({ t }) => request.symbol === 'ONE' || Math.floor(t / hourMs) % 31 === 0);
    return { ...answer, ticks, count: ticks.length };
  };
  const provisional = async (n: number) => (await night(n)).findings.filter(({ kind }) => kind === 'provisional');
  for (let n = 0; n < 9; n++) for (const { severity } of await provisional(n)) expect(severity).toBe('info');
  const [found] = await provisional(9);
  expect(found).toMatchObject({ severity: 'warning' });
  expect(found!.message).toMatch(
    /^1 day older than a week not proven, most recently 2025-06-02: answers reach 1\d h .*only$/,
  );
});

test('a backfill that was cut off stays so until the same symbols are backfilled', async () => {
  const { box, night, contextAt, readUnfinishedSince } = await startKeeping(12 * dayMs);
  await night(0);
  const script = box.script.ticks!;
  let left = 10;
  box.script.ticks = (...given) => (left-- > 0 ? script(...given) : (response) => void response.writeHead(401).end());
  const window = { from: at(0) - 20 * dayMs, to: at(0) - 8 * dayMs };
  const how = { window, force: true, allKnown: true, recheckInferred: false, showPlan: null };
  const backfillOf = async (...symbols: string[]) =>
    await backfill.run(await contextAt(at(0) + hourMs), { ...how, symbols });
  await backfillOf(...names);
  box.script.ticks = script;
  const since = readUnfinishedSince();
  expect(since).not.toBeNull();
  await backfillOf('TWO');
  expect(readUnfinishedSince()).toBe(since);
  await backfillOf(...names);
  expect(readUnfinishedSince()).toBeNull();
});

test('a backfill that continues one that was cut off names what is not proven, and the command that proves it', async () => {
  const window = { from: at(0) - 14 * dayMs, to: at(0) - 8 * dayMs };
  // One symbol is silent up to the end of the window, and another bridges a longer silence.
  const silences: Readonly<Record<string, readonly [number, number]>> = { ONE: [-12, -5], TWO: [-13, -8.1] };
  const startSparse = async () => {
    const { box, night, contextAt, readDays } = await startKeeping(30 * dayMs, names, false, null, 0, [
      'source.first_lookback_days=2',
      'upstream.concurrency=1',
    ]);
    await night(0);
    const script = box.script.ticks!;
    let left = Number.POSITIVE_INFINITY;
    box.script.ticks = (honest, request, ...rest) => {
      if (left-- <= 0) return (response) => void response.writeHead(401).end();
      const answer = script(honest, request, ...rest) as TicksBody;
      const [from, to] = (silences[request.symbol] ?? [0, 0]).map((n) => at(0) + n * dayMs);
      const ticks = answer.ticks.filter(({ t }) => t < from! || t >= to!);
      return { ...answer, ticks, count: ticks.length };
    };
    return async (requests = Number.POSITIVE_INFINITY, force = false) => {
      left = requests;
      const how = { window, symbols: [], force, allKnown: true, recheckInferred: false, showPlan: null };
      const { findings, exit_code } = await backfill.run(await contextAt(at(0) + hourMs), how);
      const days = Object.entries(await readDays()).filter(([day]) => day < dayOf(window.to));
      return {
        exit_code,
        states: days.map(([, { state }]) => state),
        found: findings.filter(({ kind }) => kind === 'provisional'),
      };
    };
  };
  const complete = Array.from({ length: 6 }, () => 'complete');
  const info = [expect.objectContaining({ severity: 'info' })];
  const whole = await startSparse();
  expect(await whole()).toEqual({ exit_code: 0, states: complete, found: info });
  const cut = await startSparse();
  expect(await cut(3)).toMatchObject({ exit_code: 3 });
  const resumed = await cut();
  expect(resumed).toMatchObject({
    exit_code: 0,
    found: [{ severity: 'warning', command: 'oddslake backfill … --force' }],
  });
  expect(resumed.found[0]!.message).toMatch(/^Coverage of 1 symbol \(ONE\) is not proven: an interrupted backfill/);
  expect(resumed.states).toContain('provisional');
  expect(await cut(undefined, true)).toEqual({ exit_code: 0, states: complete, found: info });
});

test('where answers reach a day only, the rest is requested in pieces, unless poll.pieces is off', async () => {
  const counts = [];
  for (const pieces of [true, false]) {
    const { box, night, countTicks } = await startKeeping(30 * dayMs, names, false, null, 0, [`poll.pieces=${pieces}`]);
    const script = box.script.ticks!;
    // Of one symbol it has a tick on every third day.
    box.script.ticks = (honest, request, ...rest) => {
      const answer = script(
        honest,
        { ...request, to: Math.min(request.to, request.from + dayMs) },
        ...rest,
      ) as TicksBody;
      const has = (t: number): boolean => request.symbol !== 'TEN' || Math.floor(t / hourMs) % 72 === 5;
      const ticks = answer.ticks.filter(({ t }) => has(t));
      return { ...answer, ticks, count: ticks.length };
    };
    expect(await night(0)).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
    const before = box.requests.length;
    expect(await night(1)).toMatchObject({ exit_code: 0, failures: [] });
    expect(box.requests.length - before).toBeLessThan(pieces ? 60 : 30);
    counts.push(await countTicks());
  }
  const [inPieces, whole] = counts as [number, number];
  expect(inPieces).toBeGreaterThan(whole);
});

test('what somebody asks a backfill for and has expired is a failure', async () => {
  const { night, contextAt } = await startKeeping(12 * dayMs);
  expect(await night(0)).toMatchObject({ exit_code: 0, warnings: [] });
  const window = { from: at(0) - 20 * dayMs, to: at(0) - 8 * dayMs };
  const how = { window, symbols: names, force: false, allKnown: true, recheckInferred: false, showPlan: null };
  const summary = await backfill.run(await contextAt(at(0) + hourMs), how);
  expect(summary.exit_code).toBe(4);
  expect(summary.warnings.join('\n')).toMatch(/Nothing older than 2025-05-20 .*the service seems to keep 12 days/);
  expect(summary.failures.map(({ symbol, reason }) => ({ symbol, reason }))).toEqual(
    names.map((symbol) => ({
      symbol,
      reason: expect.stringMatching(/^expired: the service has no ticks before 2025-05-21/),
    })),
  );
});
