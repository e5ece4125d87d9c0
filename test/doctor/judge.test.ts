import { describe, expect, test } from 'vitest';
import { formatVersion, type Manifest } from '../../src/archive/format/manifest.ts';
import type { StateInspection } from '../../src/archive/journal/state.ts';
import type { ArchiveStatus } from '../../src/archive/read/archive-status.ts';
import { DamageError, type ExitCode, UsageError } from '../../src/base/errors.ts';
import type { CompletenessCounts } from '../../src/contract/completeness-counts.ts';
import { type ArchiveFacts, judgeArchive } from '../../src/doctor/check-archive.ts';
import { type DiskFacts, judgeDisk, suggestPermissionFix } from '../../src/doctor/check-disk.ts';
import { judgeMachine, type MachineFacts } from '../../src/doctor/check-machine.ts';
import { judgeKeys } from '../../src/doctor/check-service.ts';
import { judgeUpstream, type UpstreamFacts } from '../../src/doctor/check-upstream.ts';
import { judgeSchedule, judgeSettings } from '../../src/doctor/doctor.ts';
import { computeDoctorExitCode, type Finding, ok, problem, warning } from '../../src/doctor/finding.ts';

// Findings from facts, without a real machine.

const severities = (findings: readonly Finding[]): Record<string, string> =>
  Object.fromEntries(
    findings.map(({ check, severity, exit_code: code }) => [check, code === 0 ? severity : `${severity} ${code}`]),
  );

const one = (findings: readonly Finding[], check: string): Finding => findings.find((each) => each.check === check)!;

const gb = 1e9;
const nowMs = Date.UTC(2026, 10, 20, 12);
const hourMs = 3_600_000;

describe('the machine', () => {
  const facts: MachineFacts = {
    nodeVersion: 'v24.1.0',
    nodePath: '/n/node',
    bundledNodePath: null,
    platform: 'linux',
    arch: 'x64',
    memoryBytes: 8 * gb,
    availableBytes: 4 * gb,
    nowMs,
  };
  const judged = (change: Partial<MachineFacts>) => severities(judgeMachine({ ...facts, ...change }));

  test('has no findings if all is well', () => {
    expect(judged({})).toEqual({ node: 'ok', memory: 'ok' });
    expect(judged({ bundledNodePath: '/n/node' })).toMatchObject({ node: 'ok' });
  });

  test.each([
    [{ nodeVersion: 'v22.9.0' }, { node: 'action_required 1' }],
    [{ nodeVersion: 'nonsense' }, { node: 'action_required 1' }],
    [{ platform: 'win32' }, { node: 'warning' }],
    [{ bundledNodePath: '/checkout/.node/node' }, { node: 'warning' }],
    [{ availableBytes: 100e6 }, { memory: 'warning' }],
    [{ nowMs: 0 }, { clock: 'action_required 1' }],
    [{ nowMs: 9e15 }, { clock: 'action_required 1' }],
  ])('%o: %o', (change, found) => {
    expect(judged(change)).toMatchObject(found);
  });
});

describe('the disk', () => {
  const ext4: NonNullable<DiskFacts['fileSystem']> = {
    type: 0xef53,
    bytes: 100 * gb,
    freeBytes: 50 * gb,
    files: 1e6,
    freeFiles: 9e5,
  };
  const facts: DiskFacts = {
    root: '/l',
    folder: '/l',
    fileSystem: ext4,
    bytesPerDay: 1e6,
    unwritablePaths: [],
    otherOwner: null,
    foreignPaths: [],
    owner: 'lake',
    exposedSecrets: [],
  };
  const judged = (change: Partial<NonNullable<DiskFacts['fileSystem']>>, rest: Partial<DiskFacts> = {}) =>
    judgeDisk({ ...facts, fileSystem: { ...ext4, ...change }, ...rest });

  test('has no findings if all is well', () => {
    expect(severities(judged({}))).toEqual({ space: 'ok', files: 'ok', 'file system': 'ok', permissions: 'ok' });
    expect(one(judged({}), 'space').message).toBe(
      '50.0 GB free of 100.0 GB, enough for more than 10 years at 1.0 MB a day',
    );
    expect(one(judged({}, { bytesPerDay: null }), 'space').message).toBe('50.0 GB free of 100.0 GB');
  });

  test.each([
    [{ freeBytes: 50e6 }, {}, { space: 'action_required 1' }],
    [{ freeBytes: 10 * gb }, { bytesPerDay: gb }, { space: 'ok' }],
    [{ freeFiles: 10 }, {}, { files: 'action_required 1' }],
    [{ freeFiles: 2000 }, {}, { files: 'warning' }],
    [{ files: 0, freeFiles: 0 }, {}, { files: 'ok' }],
    [{ type: 0x6969 }, {}, { 'file system': 'action_required 2' }],
    [{ type: 0xff534d42 - 2 ** 32 }, {}, { 'file system': 'action_required 2' }],
    [{ type: 0x5346414f }, {}, { 'file system': 'action_required 2' }],
    [{ type: 0xca451a4e - 2 ** 32 }, {}, { 'file system': 'ok' }],
    [{ type: 0x858458f6 - 2 ** 32 }, {}, { 'file system': 'warning' }],
    [{ type: 0x01021997 }, {}, { 'file system': 'warning' }],
    [{ type: 0x794c7630 }, {}, { 'file system': 'warning' }],
    [{ type: 1 }, {}, { 'file system': 'warning' }],
    [{}, { unwritablePaths: ['/l/ticks'] }, { permissions: 'action_required 1' }],
    [{}, { foreignPaths: ['/l/ticks'] }, { permissions: 'action_required 1' }],
    [{}, { otherOwner: 'lake', foreignPaths: ['/l/ticks'] }, { permissions: 'action_required 2' }],
    [{}, { exposedSecrets: [{ path: '/k', mode: 0o100644, action: 'chmod 600 /k' }] }, { secrets: 'warning' }],
  ])('%o %o: %o', (change, rest, found) => {
    expect(severities(judged(change, rest))).toMatchObject(found);
  });

  const [me, mine, service] = [1000, 1000, 990];
  test.each([
    ['my own, for others too', 0o644, me, mine, 'chmod 600 /k'],
    ['my own, for my group too', 0o640, me, mine, 'chmod 600 /k'],
    ['my own', 0o600, me, mine, null],
    ['as docs/OPERATING.md installs it: of root, for my group', 0o640, 0, service, null],
    ['the same, for others too', 0o644, 0, service, 'chmod o= /k'],
    ['my own, for the group of the service', 0o640, me, service, null],
    ['of root, which I read as others do', 0o644, 0, 0, 'chown 1000 /k && chmod 600 /k'],
  ])('suggests a permission fix that keeps the key readable: %s', (_, mode, uid, gid, advice) => {
    const user = { uid: me, gid: mine, groups: [mine, service] };
    expect(suggestPermissionFix('/k', { mode: 0o100000 | mode, uid, gid }, user)).toBe(advice);
  });
});

describe('the upstream', () => {
  const facts: UpstreamFacts = {
    baseUrl: 'https://x.example',
    hasKey: true,
    proxies: [],
    connection: { address: '192.0.2.1', ms: 12, certificateDays: 60, distrusted: null },
    response: { status: 200, failure: null, aheadMs: 0, statedPerSecond: null },
    rate: { configuredPerSecond: 5, adaptedPerSecond: null, lastRun: null },
  };
  const judged = (change: Partial<UpstreamFacts>) => judgeUpstream({ ...facts, ...change }, 300_000);
  const answered = (change: object) => judged({ response: { ...facts.response!, ...change } });
  const failed = (kind: string, status: number | null = null) =>
    answered({ status, failure: { failure: kind, reason: `HTTP ${status}` } });
  const tls = (change: object) =>
    judged({ connection: { address: '192.0.2.1', ms: 12, certificateDays: 60, distrusted: null, ...change } });

  test('actions name where the address and the key were set', () => {
    const origins = { baseUrl: 'upstream.base_url in lake.yaml:2', apiKey: 'ODDSLAKE_API_KEY' };
    const failure = { failure: 'credential', reason: 'HTTP 401' } as const;
    const actions = [
      ...judged({ origins, connection: { failure: 'connection refused' }, response: null }),
      ...judged({ origins, response: { ...facts.response!, status: 401, failure } }),
    ].flatMap(({ severity, action }) => (severity === 'action_required' ? action : []));
    expect(actions[0]).toBe('Check upstream.base_url in lake.yaml:2 and the network.');
    expect(actions[1]).toMatch(/^Check ODDSLAKE_API_KEY\. /);
  });

  test('has no findings if all is well', () => {
    expect(severities(judged({}))).toEqual({ reachable: 'ok', key: 'ok', clock: 'ok', rate: 'ok' });
    expect(severities(judged({ connection: null, response: null }))).toEqual({ rate: 'ok' });
  });

  test.each([
    ['no address', judged({ baseUrl: null, connection: null, response: null }), { address: 'action_required 2' }],
    ['no key', judged({ hasKey: false, response: null }), { key: 'action_required 2', reachable: 'ok' }],
    [
      'no connection',
      judged({ connection: { failure: 'connection refused' }, response: null }),
      { reachable: 'action_required 7' },
    ],
    ['an untrusted certificate', tls({ distrusted: 'SELF_SIGNED_CERT_IN_CHAIN' }), { reachable: 'action_required 7' }],
    ['a certificate that expires soon', tls({ certificateDays: 3 }), { reachable: 'warning' }],
    ['a rejected key', failed('credential', 401), { key: 'action_required 3' }],
    ['too many requests', failed('transient', 429), { key: 'warning' }],
    ['a fault', failed('transient', 503), { key: 'action_required 4' }],
    ['another service', failed('refused', 404), { key: 'action_required 4' }],
    ['a lost connection', failed('unreachable'), { key: 'action_required 7' }],
    ['a clock far ahead', answered({ aheadMs: 301_000 }), { clock: 'action_required 1' }],
    ['a clock behind', answered({ aheadMs: -20_000 }), { clock: 'warning' }],
    ['a second of rounding', answered({ aheadMs: 549 }), { clock: 'ok' }],
    ['a lower rate stated', answered({ statedPerSecond: 2 }), { rate: 'warning' }],
    ['a higher rate stated', answered({ statedPerSecond: 20 }), { rate: 'ok' }],
    ['a lower inferred rate', judged({ rate: { ...facts.rate, adaptedPerSecond: 3 } }), { rate: 'warning' }],
    [
      'a throttled run',
      judged({ rate: { ...facts.rate, lastRun: { throttledMs: 60, ms: 100 } } }),
      { rate: 'warning' },
    ],
    [
      'a hardly throttled run',
      judged({ rate: { ...facts.rate, lastRun: { throttledMs: 1, ms: 100 } } }),
      { rate: 'ok' },
    ],
  ] as const)('%s', (_what, findings, found) => {
    expect(severities(findings)).toMatchObject(found);
  });

  test('names an ignored proxy if the service cannot be reached', () => {
    const [found] = judged({
      connection: { failure: 'connection timed out' },
      response: null,
      proxies: ['HTTPS_PROXY'],
    });
    expect(found!.action).toContain('HTTPS_PROXY is ignored');
  });
});

describe('the archive', () => {
  const completeness: CompletenessCounts = {
    state: 'complete',
    days: { complete: 3, provisional: 0, complete_with_exceptions: 0, incomplete: 0, empty: 0 },
    gaps: { damaged: 0, lost: 0, accepted: 0, expired: 0, suspended: 0, failed: 0, 'never asked': 0 },
    inferred_windows: 0,
    live: 2,
    suspended: 0,
    lists_complete: true,
    damaged: { files: 0, dates: [] },
  };
  const manifest = {
    format_version: formatVersion,
    generation: 3,
    upstream: 'box',
    datasets: { ticks: { files: [{ path: 'ticks/a', rows: 10, bytes: 100 }] } },
  } as unknown as Manifest;
  const state: StateInspection = {
    generation: 3,
    upstream: 'box',
    manifestSha256: 'a',
    hasOpenIntent: false,
    damaged: [],
    lastRequestingSummary: null,
  };
  const status: ArchiveStatus = {
    generation: 3,
    watermark: nowMs - hourMs,
    reached: nowMs - hourMs,
    ticksPublished: 10,
    ticksJournaled: 0,
    isPublishOpen: false,
    isPushed: false,
    damaged: [],
    verifiedThrough: null,
    completeness,
    openDays: [],
    failing: null,
    nights: [],
    runs: [],
    disk: null,
  };
  const facts: ArchiveFacts = {
    root: '/l',
    kind: 'archive',
    isOutputNamed: true,
    upstream: 'box',
    manifest: { manifest, sha256: 'a' },
    state,
    status,
    writeFault: null,
    files: { listed: 9, hashed: 8, wrong: [] },
    damagedFiles: 0,
    quarantineBytes: 0,
  };
  const judgeWith = (change: Partial<ArchiveFacts>) => judgeArchive({ ...facts, ...change }, nowMs, 48 * hourMs);
  const judged = (change: Partial<ArchiveFacts>) => severities(judgeWith(change));
  const ofState = (change: Partial<StateInspection>, rest = {}) => judged({ state: { ...state, ...change }, ...rest });

  test('has no findings if all is well, and says how much is verified since when', () => {
    const of = (verifiedThrough: number | null) => judgeWith({ status: { ...status, verifiedThrough } });
    expect(severities(of(null))).toEqual({
      archive: 'ok',
      state: 'ok',
      published: 'ok',
      verdict: 'ok',
      quarantined: 'ok',
    });
    expect(one(of(null), 'verdict').message).toBe('OK: collected to 2026-11-20 11:00 UTC, 3 of 3 days complete');
    expect(one(of(nowMs), 'published').message).toBe(
      '9 files have the right size, and 8 that were hashed now match; every byte verified since 2026-11-20T12:00:00Z',
    );
    expect(one(of(null), 'published').message).toMatch(/; some bytes were never verified: oddslake verify reads all$/);
  });

  test('reports each finding of the judge with its command, and no verdict if one needs attention', () => {
    const damaged = [{ path: 'ticks/a', kind: 'missing', foundAt: 0 }] as const;
    const found = { ...status, damaged, ticksJournaled: 5, completeness: { ...completeness, suspended: 1 } };
    const findings = judgeWith({ status: found });
    expect(findings.filter(({ check }) => check === 'finding')).toMatchObject([
      {
        severity: 'action_required',
        exit_code: 6,
        message: '1 file damaged: ticks/a (missing)',
        action: 'next: oddslake verify --repair',
      },
      { severity: 'warning', exit_code: 0, action: 'next: oddslake symbols retry' },
      { severity: 'ok', exit_code: 0, action: 'more: oddslake publish' },
    ]);
    expect(Object.keys(severities(findings))).toEqual(['archive', 'state', 'finding', 'quarantined']);
    const empty = judgeWith({
      status: { ...status, generation: 0, reached: null },
      files: { listed: 0, hashed: 0, wrong: [] },
    });
    expect(Object.keys(severities(empty))).toEqual(['archive', 'state', 'finding', 'quarantined']);
    expect(one(empty, 'finding')).toMatchObject({ severity: 'ok', action: 'more: oddslake nightly' });
    const late = judgeWith({ status: { ...status, reached: 0 } });
    expect(one(late, 'finding')).toMatchObject({ severity: 'action_required', exit_code: 4 });
  });

  test.each([
    ['none, named', judged({ kind: 'none' }), { archive: 'ok' }],
    ['none, not named', judged({ kind: 'none', isOutputNamed: false }), { archive: 'action_required 2' }],
    ['another upstream', judged({ upstream: 'other' }), { archive: 'action_required 2' }],
    ['a reader without an upstream', judged({ upstream: null }), { archive: 'ok' }],
    ['another format', judged({ manifest: new UsageError('x') }), { archive: 'action_required 2' }],
    [
      'an unreadable manifest',
      judged({ manifest: new DamageError('x'), status: null }),
      { archive: 'action_required 6', state: 'action_required 6' },
    ],
    ['another manifest', ofState({ manifestSha256: 'b' }), { state: 'action_required 6' }],
    ['a lost state', judged({ state: null, status: null }), { state: 'warning' }],
    [
      'damaged files beside a lost state',
      judged({ state: null, status: null, files: { listed: 9, hashed: 8, wrong: ['ticks/a'] } }),
      { state: 'warning', published: 'action_required 6' },
    ],
    ['an interrupted publish', ofState({ hasOpenIntent: true, manifestSha256: 'b' }), { state: 'ok' }],
    ['damaged files of a repair', judged({ damagedFiles: 2 }), { quarantined: 'warning' }],
    ['unusable input', judged({ quarantineBytes: 9 }), { quarantined: 'ok' }],
  ] as const)('%s', (_what, found, wanted) => {
    expect(found).toMatchObject(wanted);
  });
});

describe('the exit code', () => {
  const bad = (code: ExitCode) => problem('node', code, '', '');

  test('is that of the first problem of a run; warnings count with --strict', () => {
    expect(computeDoctorExitCode([ok('node', '')], true)).toBe(0);
    expect(computeDoctorExitCode([ok('node', ''), warning('node', '', '')], false)).toBe(0);
    expect(computeDoctorExitCode([ok('node', ''), warning('node', '', '')], true)).toBe(4);
    expect(computeDoctorExitCode([bad(4), bad(3), bad(7)], true)).toBe(7);
    expect(computeDoctorExitCode([bad(1), bad(6), bad(2)], false)).toBe(2);
  });
});

test('settings and schedule are reported without judgement', () => {
  expect(judgeSettings([]).message).toBe('all have their defaults');
  const jobs = [
    ['nightly', nowMs],
    ['ticks', null],
  ] as const;
  expect(judgeSchedule(jobs).message).toBe('nightly next at 2026-11-20T12:00:00Z, if oddslake schedule is running');
  expect(judgeSchedule([['ticks', null]]).message).toContain('nothing');
});

describe('the API keys', () => {
  const dayMs = 24 * hourMs;
  const key = (id: string, expires_at: number | null) => ({ id, name: `of ${id}`, expires_at });

  test.each([
    [[], 'ok', /^0 active keys,/],
    [[null, nowMs + 14 * dayMs + 1], 'ok', /^2 active keys,/],
    [[nowMs + 14 * dayMs], 'warning', /^1 key will expire within 14 d: "of k0" \(k0\) at 2026-12-04T12:00:00Z$/],
    [[nowMs + 1], 'warning', /^1 key will expire/],
    [[nowMs], 'warning', /^1 key expired: "of k0" \(k0\) at 2026-11-20T12:00:00Z$/],
    // The earliest first, and not all of many.
    [[5, 4, 3, 2, 1], 'warning', /^5 keys expired: "of k4".*, "of k3".*, "of k2".* and 2 more$/],
  ] as const)('%o: %s', (times, severity, message) => {
    const findings = judgeKeys(
      times.map((at, i) => key(`k${i}`, at)),
      nowMs,
    );
    expect(findings).toEqual([expect.objectContaining({ severity, message: expect.stringMatching(message) })]);
    expect(findings[0]!.action === null).toBe(severity === 'ok');
  });

  test('are reported as expired and as soon to expire at the same time', () => {
    const keys = [key('never', null), key('soon', nowMs + dayMs), key('over', nowMs - dayMs), key('late', nowMs * 2)];
    const findings = judgeKeys(keys, nowMs);
    expect(findings.map(({ message }) => message.replace(/:.*/s, ''))).toEqual([
      '1 key expired',
      '1 key will expire within 14 d',
    ]);
    expect(findings.every(({ severity, exit_code: code }) => severity === 'warning' && code === 0)).toBe(true);
  });
});
