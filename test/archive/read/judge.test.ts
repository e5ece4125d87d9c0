import { describe, expect, test } from 'vitest';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import type { PastRun } from '../../../src/archive/journal/runs.ts';
import type { ArchiveStatus } from '../../../src/archive/read/archive-status.ts';
import { type Facts, judge } from '../../../src/archive/read/judge.ts';
import { dayMs, hourMs } from '../../../src/base/window.ts';
import { countCompleteness } from '../../../src/contract/completeness-counts.ts';
import type { DayReasonName, GapReason, OpenDay } from '../../../src/contract/day-reasons.ts';
import { createVerdict, type Finding, findingKinds, formatVerdict, severities } from '../../../src/contract/finding.ts';

const nowMs = Date.UTC(2026, 10, 29, 9);
const nightlyMs = nowMs - 6 * hourMs;

type Run = Partial<Omit<PastRun, 'summary'>> & { readonly found?: readonly Finding[]; readonly requests?: number };

/** A run that ended well an hour after its start, unless stated otherwise. */
const createRun = ({ found = [], requests = 10, ...rest }: Run = {}): PastRun => {
  const { exitCode = 0, state = 'ended' } = rest;
  const summary = {
    findings: found,
    requests,
    exit_code: exitCode,
    symbols: { planned: rest.job === 'markets' ? 0 : 3 },
    ticks: { accepted: 1234 },
  };
  return {
    runId: 'run',
    source: null,
    job: 'nightly',
    startedAt: nightlyMs,
    finishedAt: state === 'ended' ? (rest.startedAt ?? nightlyMs) + hourMs : null,
    exitCode: state === 'ended' ? exitCode : null,
    state,
    summary: state === 'ended' ? (summary as unknown as Summary) : null,
    ...rest,
  };
};

const createCounts = (gaps: readonly GapReason[] = [], rest: Partial<ArchiveStatus['completeness']> = {}) => ({
  ...countCompleteness({
    days: new Map([[nowMs - 2 * dayMs, { state: 'complete' }]]),
    gaps: gaps.map((reason) => ({ reason })),
    provisional: { windows: 0 },
    live: [1, 2, 3],
    suspended: 0,
    areListsComplete: true,
    damage: null,
    nowMs,
  }),
  ...rest,
});

const createDay = (date: string, state: OpenDay['state'], ...names: readonly DayReasonName[]): OpenDay => ({
  date,
  state,
  reasons: names.map((reason) => ({ reason, symbols: 1, from: 0, to: 1 })),
  reason: names.join(),
  next_action: null,
});

const well: ArchiveStatus = {
  generation: 7,
  watermark: Date.UTC(2026, 10, 27),
  reached: Date.UTC(2026, 10, 29, 3, 10),
  ticksPublished: 170_150,
  ticksJournaled: 0,
  isPublishOpen: false,
  isPushed: false,
  damaged: [],
  verifiedThrough: null,
  completeness: createCounts(),
  openDays: [],
  failing: null,
  nights: [],
  runs: [createRun()],
  disk: null,
};

const inferredDay = (date: string, symbols: number): OpenDay => ({
  ...createDay(date, 'provisional'),
  reasons: [{ reason: 'inferred', symbols, from: 0, to: 1 }],
});

const judgeFacts = (status: Partial<ArchiveStatus> | null, rest: Partial<Facts> = {}) =>
  judge({ nowMs, lagMsMax: 2 * dayMs, status: status === null ? null : { ...well, ...status }, ...rest });

const createFinding = (kind: Finding['kind'], severity: Finding['severity'], message: string = kind): Finding => ({
  kind,
  severity,
  message,
  command: `oddslake ${kind}`,
});

test('an archive that is well', () => {
  expect(judgeFacts({})).toEqual({
    findings: [],
    verdict: {
      state: 'ok',
      text: 'OK: collected to 2026-11-29 03:10 UTC, 1 of 1 day complete, 1,234 new ticks',
      command: null,
    },
  });
  const summary = { requests: 2, exit_code: 0, symbols: { planned: 3 }, ticks: { fetched: 0 } } as unknown as Summary;
  expect(judgeFacts({}, { ended: { summary, findings: [] } }).verdict.text).toBe(
    'OK: collected to 2026-11-29 03:10 UTC, 1 of 1 day complete',
  );
});

test('an archive whose watermark stays at its first day is judged by its days', () => {
  const completeness = createCounts();
  const days = { ...completeness.days, complete: 31, provisional: 1 };
  const openDays = [createDay('2026-10-29', 'provisional', 'inferred')];
  const { text } = judgeFacts({
    watermark: Date.UTC(2026, 9, 29, 0, 45),
    completeness: { ...completeness, days },
    openDays,
  }).verdict;
  expect(text).toBe(
    'OK: collected to 2026-11-29 03:10 UTC, 31 of 32 days complete (all but 2026-10-29), 1,234 new ticks',
  );
});

const failing = {
  symbols: { count: 1, names: ["KX'A"] },
  from: Date.UTC(2026, 10, 22, 3, 0, 30),
  to: Date.UTC(2026, 10, 29, 3),
  since: Date.UTC(2026, 10, 22, 3),
  reason: 'HTTP 500, 2 attempts',
  otherReasons: 0,
  areUnknown: false,
};
const damaged = (...paths: readonly string[]) =>
  paths.map((path, i) => ({ path, kind: 'missing' as const, foundAt: nowMs - i * hourMs }));

test.each<[string, Partial<ArchiveStatus> | null, Finding['severity'], string, string | null]>([
  ['unreadable', null, 'action_required', 'the archive cannot be read', 'oddslake doctor'],
  [
    'damaged',
    { damaged: damaged('ticks/a') },
    'action_required',
    '1 file damaged: ticks/a (missing)',
    'oddslake verify --repair',
  ],
  [
    'damaged twice',
    { damaged: damaged('ticks/a', 'b') },
    'action_required',
    '2 files damaged: ticks/a and 1 more (missing)',
    'oddslake verify --repair',
  ],
  [
    'one symbol failing',
    { failing, completeness: createCounts(['failed']) },
    'warning',
    "1 symbol failed since 2026-11-22 03:00 UTC: KX'A: HTTP 500, 2 attempts",
    "oddslake backfill --from 2026-11-22T03:00:00Z --to 2026-11-29T03:00:00Z --symbol 'KX'\\''A'",
  ],
  [
    'many symbols failing',
    { failing: { ...failing, symbols: { count: 6, names: ['A', 'B', 'C', 'D', 'E'] } } },
    'warning',
    '6 symbols failed since 2026-11-22 03:00 UTC: HTTP 500, 2 attempts',
    'oddslake backfill --from 2026-11-22T03:00:00Z --to 2026-11-29T03:00:00Z',
  ],
  [
    'several reasons',
    { failing: { ...failing, otherReasons: 2 } },
    'warning',
    "1 symbol failed since 2026-11-22 03:00 UTC: KX'A: HTTP 500, 2 attempts (and 2 other reasons)",
    "oddslake backfill --from 2026-11-22T03:00:00Z --to 2026-11-29T03:00:00Z --symbol 'KX'\\''A'",
  ],
  [
    'a symbol that the service does not know',
    { failing: { ...failing, reason: 'HTTP 404', areUnknown: true } },
    'warning',
    "1 symbol failed since 2026-11-22 03:00 UTC: KX'A: HTTP 404",
    "oddslake symbols retry 'KX'\\''A'",
  ],
  [
    'nobody runs it',
    { reached: nowMs - 3 * dayMs, runs: [createRun({ startedAt: nowMs - 3 * dayMs })] },
    'action_required',
    'nothing was collected since 2026-11-26 09:00 UTC',
    'oddslake nightly',
  ],
  [
    'a symbol lags',
    { reached: nowMs - 3 * dayMs },
    'warning',
    'jobs run, but some live symbols have no data since 2026-11-26 09:00 UTC',
    'oddslake gaps',
  ],
  ['nothing covered', { reached: null }, 'warning', 'nothing is covered yet for 3 live symbols', 'oddslake nightly'],
  [
    'lost ticks',
    { completeness: createCounts(['lost']) },
    'warning',
    'ticks of 1 window were published and are lost',
    'oddslake verify --repair',
  ],
  ['never requested', { completeness: createCounts(['never asked']) }, 'warning', '1 gap', 'oddslake gaps'],
  [
    'days that no night proves',
    {
      completeness: createCounts([], { inferred_windows: 5 }),
      openDays: ['2026-11-27', '2026-11-20', '2026-11-19', '2026-10-01'].map((date) => inferredDay(date, 2)),
      nights: [
        { source: 'kalshi', since: Date.UTC(2026, 10, 1), cause: 'answers reach 24 h only' },
        { source: 'poly', since: Date.UTC(2026, 10, 1), cause: null },
      ],
    },
    'warning',
    '2 days older than a week not proven, most recently 2026-11-20: kalshi: answers reach 24 h only',
    'oddslake gaps',
  ],
  [
    'a recent incomplete day',
    { openDays: [createDay('2026-11-26', 'incomplete', 'never asked')] },
    'warning',
    '1 day incomplete, most recently on 2026-11-26',
    'oddslake backfill --from 2026-11-26 --to 2026-11-27',
  ],
  [
    'suspended',
    { completeness: createCounts([], { suspended: 2 }) },
    'warning',
    '2 active symbols suspended: unknown to the service',
    'oddslake symbols retry',
  ],
  [
    'suspended, and ended since',
    { completeness: createCounts(['suspended']) },
    'warning',
    'ended symbols suspended: unknown to the service',
    'oddslake symbols retry',
  ],
  [
    'short lists',
    { completeness: createCounts([], { lists_complete: false }) },
    'warning',
    'the last market lists are incomplete, so that symbols may be unknown',
    'oddslake markets',
  ],
  [
    'an interrupted publish',
    { isPublishOpen: true },
    'warning',
    'the last publish was interrupted; no data lost',
    'oddslake publish',
  ],
  [
    'a killed run',
    { runs: [createRun(), createRun({ job: 'backfill', state: 'interrupted', startedAt: nowMs - hourMs })] },
    'warning',
    'the backfill of 2026-11-29 08:00 UTC was interrupted; what it accepted is kept, and the next run resumes',
    'oddslake publish',
  ],
  [
    'a disk nearly full',
    { disk: { freeBytes: 20e9, bytesPerDay: 1e9 } },
    'warning',
    'the disk will be full in 20 d: 20.0 GB free, growing by 1.0 GB a day',
    null,
  ],
  [
    'a full disk, also of an archive whose growth is not known yet',
    { disk: { freeBytes: 12e3, bytesPerDay: 0 } },
    'action_required',
    'the disk is full: 12.0 kB free',
    null,
  ],
])('%s', (_, status, severity, message, command) => {
  const { verdict, findings } = judgeFacts(status);
  expect(findings).toMatchObject([{ severity, message, command }]);
  expect(verdict.state).toBe(severity);
  expect(verdict.command).toBe(command);
  expect(verdict.text.toLowerCase()).toMatch(message.toLowerCase());
});

test.each<[string, Partial<ArchiveStatus>, string, string | null]>([
  [
    'accepted and expired gaps',
    { completeness: createCounts(['accepted', 'expired']) },
    '2 known gaps (expired or accepted)',
    'oddslake gaps',
  ],
  [
    'an old incomplete day',
    { openDays: [createDay('2026-11-10', 'incomplete', 'never asked')] },
    '1 day incomplete, most recently on 2026-11-10',
    'oddslake backfill --from 2026-11-10 --to 2026-11-11',
  ],
  [
    'days whose lists cannot be fetched',
    { openDays: [createDay('2026-11-26', 'incomplete', 'lists incomplete')] },
    '1 past day stays incomplete, most recently 2026-11-26: lists incomplete',
    'oddslake gaps',
  ],
  [
    'ticks in the journal',
    { ticksJournaled: 5 },
    '5 ticks not published yet; the next run publishes them',
    'oddslake publish',
  ],
  [
    'inferred windows',
    { completeness: createCounts([], { inferred_windows: 58 }) },
    'all fetched; 58 ranges covered, not proven yet (nothing to do)',
    null,
  ],
  [
    'a run at work',
    { runs: [createRun(), createRun({ state: 'running', startedAt: nowMs - hourMs })], ticksJournaled: 9 },
    'the nightly of 2026-11-29 08:00 UTC is running',
    null,
  ],
])('%s need nothing', (_, status, message, command) => {
  const { verdict, findings } = judgeFacts(status);
  expect(findings).toMatchObject([{ severity: 'info', message, command }]);
  expect(verdict).toMatchObject({ state: 'ok', command: null });
});

test('market lists alone are no lag, and a poll that brought nothing is one', () => {
  const [listed, none] = [[createRun({ job: 'markets' })], { reached: null, watermark: null, ticksPublished: 0 }];
  expect(judgeFacts({ ...none, runs: listed }).verdict).toEqual({
    state: 'ok',
    text: 'Nothing is covered yet for 3 live symbols',
    command: 'oddslake nightly',
  });
  expect(judgeFacts({ ...none, runs: [createRun({ job: 'ticks' }), ...listed] }).verdict.state).toBe('warning');
  expect(judgeFacts({ ...none, ticksPublished: 5, runs: listed }).verdict.text).toMatch(/^OK: 5 ticks/);
});

test('says what to do in an empty archive, and what an archive of files has', () => {
  expect(judgeFacts({ generation: 0, runs: [], reached: null }).verdict).toEqual({
    state: 'ok',
    text: 'Nothing has been collected yet',
    command: 'oddslake nightly',
  });
  const lateJobs = [{ name: 'nightly', reason: 'was due at 03:17' }];
  expect(judgeFacts({ generation: 0, runs: [], reached: null }, { lateJobs }).verdict.state).toBe('warning');
  const counts = createCounts([], { live: 0 });
  expect(judgeFacts({ reached: null, watermark: null, completeness: counts, runs: [] }).verdict.text).toBe(
    'OK: 170,150 ticks, no live symbols, 1 of 1 day complete',
  );
});

describe('what the runs found', () => {
  const refused = createFinding('credential', 'action_required', 'the key was rejected');
  const failed = (rest: Run = {}) => createRun({ exitCode: 3, requests: 1, found: [refused], ...rest });
  const kinds = (runs: readonly PastRun[]) => judgeFacts({ runs }).findings.map(({ kind }) => kind);

  test('stays until a later run shows that it is over', () => {
    const later = { startedAt: nowMs - hourMs };
    expect(kinds([failed()])).toEqual(['credential']);
    expect(kinds([failed(), createRun({ job: 'push', requests: 0, ...later })])).toEqual(['credential']);
    // The upstream answered.
    expect(kinds([failed(), createRun({ job: 'ticks', ...later })])).toEqual([]);
    expect(kinds([failed(), createRun({ job: 'ticks', exitCode: 4, ...later })])).toEqual([]);
    expect(kinds([createRun(), failed({ job: 'ticks', ...later })])).toEqual(['credential']);
  });

  test('is that of the last nightly, and of failed runs after it', () => {
    const short = createFinding('market list', 'warning');
    const push = createFinding('push', 'warning');
    const runs = [
      createRun({ exitCode: 4, found: [short] }),
      createRun({ job: 'push', exitCode: 4, found: [push], startedAt: nowMs - 3 * hourMs }),
    ];
    expect(kinds(runs)).toEqual(['market list', 'push']);
    expect(judgeFacts({ runs, isPushed: true }).findings.map(({ kind }) => kind)).toEqual(['market list']);
  });

  test('stays while only other sources have succeeded or answered since', () => {
    const found = [createFinding('source', 'warning')];
    const job = [
      createRun({ exitCode: 4, found, source: 'alpha' }),
      createRun({ exitCode: 4, found, source: 'beta', startedAt: nowMs - 3 * hourMs }),
    ];
    const later = (source: string, name: string): PastRun =>
      createRun({ job: name, source, startedAt: nowMs - hourMs });
    expect(kinds(job)).toEqual(['source']);
    for (const name of ['nightly', 'ticks']) {
      expect(kinds([...job, later('beta', name)])).toEqual(['source']);
      expect(kinds([...job, later('beta', name), later('alpha', name)])).toEqual([]);
    }
  });

  test('stays if what succeeded since is about something else', () => {
    const later = (name: string, rest: Run = {}): PastRun =>
      createRun({ job: name, startedAt: nowMs - hourMs, ...rest });
    const listAfter = (job: string, kind: Finding['kind'], ...jobs: readonly string[]) =>
      kinds([
        createRun(),
        createRun({
          job,
          exitCode: 4,
          found: [createFinding(kind, 'warning')],
          requests: 1,
          startedAt: nowMs - 3 * hourMs,
        }),
        ...jobs.map((name) => later(name, name === 'verify' || name === 'publish' ? { requests: 0 } : {})),
      ]);
    expect(listAfter('backfill', 'source', 'ticks')).toEqual([]);
    expect(listAfter('backfill', 'error', 'ticks')).toEqual(['error']);
    expect(listAfter('backfill', 'error', 'backfill')).toEqual([]);
    expect(listAfter('orderbook', 'credential', 'ticks')).toEqual(['credential']);
    expect(listAfter('orderbook', 'credential', 'orderbook')).toEqual([]);
    expect(listAfter('ticks', 'busy', 'verify')).toEqual(['busy']);
    expect(listAfter('ticks', 'busy', 'markets')).toEqual([]);
    expect(listAfter('backfill', 'interrupted', 'verify', 'ticks')).toEqual(['interrupted']);
    expect(listAfter('backfill', 'interrupted', 'publish')).toEqual([]);
  });

  test('does not outlive what the archive shows', () => {
    const found = (['damage', 'gaps', 'failing symbols', 'suspended', 'running'] as const).map((kind) =>
      createFinding(kind, 'action_required'),
    );
    expect(kinds([createRun({ exitCode: 4, found })])).toEqual([]);
  });

  test('counts at its end as far as the archive does not say it, or it is worse', () => {
    const summary = { requests: 1, exit_code: 4, ticks: { accepted: 5 } } as unknown as Summary;
    const findings = [
      createFinding('known gaps', 'warning', 'accepted as a gap: maintenance'),
      createFinding('suspended', 'warning', 'said by the run'),
      createFinding('warning', 'warning', 'one'),
      createFinding('warning', 'warning', 'another'),
    ];
    const completeness = createCounts(['accepted'], { suspended: 1 });
    const judged = judgeFacts({ completeness }, { ended: { summary, findings } });
    expect(judged.findings.map(({ message }) => message)).toEqual([
      '1 active symbol suspended: unknown to the service',
      'accepted as a gap: maintenance',
      'one',
      'another',
    ]);
  });
});

test('the worst decides: damage comes before what is missing, and a late job is named with every other', () => {
  const lateJobs = ['nightly', 'push'].map((name) => ({ name, reason: 'was due at 03:17' }));
  const { verdict, findings } = judgeFacts({ failing, damaged: damaged('a') }, { lateJobs });
  expect(findings.map(({ kind }) => kind)).toEqual(['damage', 'failing symbols', 'late job', 'late job']);
  expect(verdict.text).toBe('1 file damaged: a (missing) (and 3 more findings)');
});

test('each source has a finding with its own cause why days are not proven', () => {
  const since = Date.UTC(2026, 10, 1);
  const night = (source: string, cause: string | null) => ({ source, since, cause, silences: null });
  const { findings, verdict } = judge({
    status: {
      ...well,
      completeness: createCounts([], { inferred_windows: 5 }),
      openDays: [inferredDay('2026-11-20', 2)],
      nights: [night('kalshi', 'answers reach 24 h only'), night('poly', null), night('xyz', 'only 3 symbols')],
    },
    nowMs,
    lagMsMax: 2 * dayMs,
  });
  const day = '1 day older than a week not proven, most recently 2026-11-20';
  expect(findings.map(({ kind, severity, message }) => [kind, severity, message])).toEqual([
    ['provisional', 'warning', `${day}: kalshi: answers reach 24 h only`],
    ['provisional', 'warning', `${day}: xyz: only 3 symbols`],
  ]);
  expect(verdict.text).toMatch(/24 h only \(and 1 more finding\)$/);
});

test('a verdict with advice, as one line', () => {
  const [kind] = findingKinds;
  for (const severity of severities.filter((one) => one !== 'info')) {
    const verdict = createVerdict(
      [{ kind, severity, message: 'the disk is full', advice: 'free space', command: 'oddslake x' }],
      '',
    );
    expect(formatVerdict(verdict, (command) => `sudo ${command}`)).toBe(
      'The disk is full; free space; next: sudo oddslake x',
    );
  }
});
