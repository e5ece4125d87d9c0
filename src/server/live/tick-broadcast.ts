import { Readable } from 'node:stream';
import { setImmediate as yieldToOthers } from 'node:timers/promises';
import {
  readLoggedSymbol,
  readTickLog,
  readTickLogState,
  TickLogDamageError,
  type TickLogRow,
} from '../../archive/journal/tick-log.ts';
import { DiskFullError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { minuteMs } from '../../base/window.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { ServiceContext } from '../http/service-context.ts';
import {
  findStartPosition,
  formatHeartbeat,
  formatReadyEvent,
  formatRow,
  type StreamPosition,
} from './stream-events.ts';
import { openTickLogKeeper } from './tick-log-keeper.ts';

/** How often the state is checked for new rows, in ms. Other processes write it, and cannot notify this one. */
const pollMs = 50;
/** How often streams are checked for heartbeats and their ends, in ms. */
const checkMs = 1000;
/** Time without an event after which a heartbeat is sent, in ms: proxies close connections that are idle for longer. */
const heartbeatMs = 15_000;
/** How often the credential of a stream is checked again, in ms. */
const permissionMs = minuteMs;
/** How often the tick log is maintained, in ms. */
const maintainMs = minuteMs;

/** Bytes that wait for a client; beyond that, its events stay in the log until it has read them. */
const bufferBytes = 64 * 1024;
/** Rows that are read at a time, of all symbols and of one stream. */
const broadcastRowsMax = 64;
const catchUpRowsMax = 16;
/** How long rows are sent before other work gets its turn, in ms. */
const sliceMs = 5;

interface StreamRequest {
  /** Distinct and known to the archive. */
  readonly symbols: readonly string[];
  readonly lastEventId: string | null;
  /** ID of the key. */
  readonly keyId: string;
  /** Null for a stream without an end. */
  readonly durationMs: number | null;
  /** Whether the credential is still valid. */
  isPermitted(): Promise<boolean>;
}

/** Why the service ended a stream. */
const streamEnds = ['duration', 'expired', 'permission', 'failed', 'stopped'] as const;
type StreamEnd = (typeof streamEnds)[number];

export interface TickBroadcast {
  /**
   * Opens a stream of server-sent events.
   * @throws ProblemError 410 if it cannot resume without loss, 429 or 503 if there are too many streams
   */
  open(request: StreamRequest): Promise<Readable>;
  readonly counts: {
    readonly open: number;
    readonly ticks: number;
    readonly ended: Readonly<Record<StreamEnd, number>>;
  };
  /** Ends all streams. */
  close(): Promise<void>;
}

interface OpenStream extends StreamRequest {
  logId: string;
  position: StreamPosition;
  /** Whether events may be waiting in the log, because the client has not read the earlier ones yet. */
  isLagging: boolean;
  isOpen: boolean;
  /** For each symbol, the row from which on the log has all of its changes. */
  loggedSince: ReadonlyMap<string, number | undefined>;
  body: Readable | null;
  /** Monotonic ms. */
  sentAt: number;
  permittedAt: number;
  readonly endsAt: number;
}

/**
 * Sends what is appended to the tick log to all streams. Each row is read and formatted once, however many streams get it.
 * A client that reads slowly does not grow any buffer: its stream reads from the log at the pace of the client.
 */
export function openTickBroadcast(context: ServiceContext): TickBroadcast {
  const { archive, current, clock, log, settings } = context;
  const { db } = archive.state;
  const { streamsMax, streamsPerKeyMax } = settings.service.stream;
  const stopping = new AbortController();
  const streams = new Set<OpenStream>();
  const bySymbol = new Map<string, Set<OpenStream>>();
  const ended = Object.fromEntries(streamEnds.map((reason) => [reason, 0])) as Record<StreamEnd, number>;
  const keeper = openTickLogKeeper(context);
  let ticks = 0;
  /** The last row that was broadcast. */
  let sentTo = 0;

  function requireRoom(keyId: string): void {
    if (streams.size >= streamsMax)
      throw new ProblemError(503, `The service has ${streamsMax} open streams, its maximum. Try again later.`, {
        code: 'busy',
        headers: { 'retry-after': '10' },
      });
    let own = 0;
    for (const stream of streams) if (stream.keyId === keyId) own++;
    if (own >= streamsPerKeyMax)
      throw new ProblemError(
        429,
        `This key has ${own} open streams, its maximum. Close one, or stream several symbols in one.`,
        {
          code: 'too_many_streams',
          headers: { 'retry-after': '10' },
        },
      );
  }

  function remove(stream: OpenStream): void {
    if (!stream.isOpen) return;
    stream.isOpen = false;
    streams.delete(stream);
    for (const symbol of stream.symbols) {
      const own = bySymbol.get(symbol);
      own?.delete(stream);
      if (own?.size === 0) bySymbol.delete(symbol);
    }
  }

  function end(stream: OpenStream, reason: StreamEnd): void {
    if (!stream.isOpen) return;
    remove(stream);
    ended[reason]++;
    stream.body?.push(null);
  }

  const endAll = (reason: StreamEnd): void => {
    for (const stream of [...streams]) end(stream, reason);
  };

  /** Sends a row, or what the stream has not sent of it. @returns whether the client can take more */
  function send(stream: OpenStream, row: TickLogRow, formatted?: Buffer): boolean {
    const from = row.seq === stream.position.seq ? stream.position.next : 0;
    const bytes = from === 0 && formatted !== undefined ? formatted : formatRow(stream.logId, row, from);
    stream.position = { seq: row.seq + 1, next: 0 };
    stream.sentAt = clock.monotonicMs();
    ticks += row.t.length - from;
    const canTakeMore = stream.body!.push(bytes);
    if (!canTakeMore) stream.isLagging = true;
    return canTakeMore;
  }

  /** Sends the next rows of the log to a lagging stream. */
  function catchUp(stream: OpenStream): void {
    if (!stream.isOpen) return;
    const { state, rows } = db.snapshot(() => ({
      state: readTickLogState(db),
      rows: readTickLog(db, stream.position.seq, stream.symbols, catchUpRowsMax),
    }));
    if (state?.id !== stream.logId || state.floor >= stream.position.seq) {
      end(stream, 'expired');
      return;
    }
    if (rows.length === 0) {
      stream.position = { seq: Math.max(stream.position.seq, state.end + 1), next: 0 };
      stream.isLagging = false;
      return;
    }
    for (const row of rows) if (!send(stream, row)) return;
    // Until it has the last row, it stays lagging: a broadcast in between would skip rows.
    pull(stream);
  }

  /**
   * Lagging streams whose clients can take more. They take turns, and all of them share one slice of time: however many
   * there are, and however fast their connections take data, other requests do not wait for them.
   */
  const pulling = new Set<OpenStream>();
  let isPullScheduled = false;

  function pull(stream: OpenStream): void {
    pulling.add(stream);
    if (isPullScheduled) return;
    isPullScheduled = true;
    setImmediate(pullForSlice);
  }

  function pullForSlice(): void {
    isPullScheduled = false;
    const endsAt = clock.monotonicMs() + sliceMs;
    for (const stream of pulling) {
      pulling.delete(stream);
      void guard(
        () => catchUp(stream),
        (reason) => end(stream, reason),
      );
      if (clock.monotonicMs() >= endsAt) break;
    }
    const [next] = pulling;
    if (next !== undefined) pull(next);
  }

  /** Runs `work`, and ends what it cannot continue. */
  async function guard(work: () => Promise<void> | void, endFailed: (reason: StreamEnd) => void): Promise<void> {
    try {
      await work();
    } catch (error) {
      log.error({ err: error }, 'a stream of ticks failed; its clients have to reconnect');
      endFailed('failed');
      if (!(error instanceof TickLogDamageError)) return;
      // Later rows cannot be trusted either. Clients that resume get 410, and read the ticks from the archive.
      await keeper.reset();
      endAll('failed');
    }
  }

  async function broadcast(): Promise<void> {
    for (;;) {
      const { state, rows } = db.snapshot(() => ({
        state: readTickLogState(db),
        rows: readTickLog(db, sentTo + 1, null, broadcastRowsMax),
      }));
      for (const stream of streams) if (stream.body !== null && stream.logId !== state?.id) end(stream, 'expired');
      if (state === null) return;
      if (state.floor > sentTo) {
        // Rows were removed before they were sent.
        for (const stream of streams)
          if (stream.body !== null && stream.position.seq <= state.floor) end(stream, 'expired');
        sentTo = state.floor;
      }
      if (rows.length === 0) return;
      let endsAt = clock.monotonicMs() + sliceMs;
      for (const row of rows) {
        if (clock.monotonicMs() >= endsAt) {
          await yieldToOthers();
          endsAt = clock.monotonicMs() + sliceMs;
        }
        sentTo = row.seq;
        const readers = bySymbol.get(row.symbol);
        if (readers === undefined) continue;
        const formatted = formatRow(state.id, row, 0);
        for (const stream of readers)
          if (!stream.isLagging && stream.position.seq <= row.seq) send(stream, row, formatted);
      }
      await yieldToOthers();
    }
  }

  async function checkPermission(stream: OpenStream): Promise<void> {
    stream.permittedAt = clock.monotonicMs();
    // If the database is unavailable for long, nobody can tell.
    if (!(await stream.isPermitted().catch(() => false))) end(stream, 'permission');
  }

  /** Ends a stream if one of its symbols was not logged for a while: it may have missed ticks. */
  function requireLogged(stream: OpenStream): boolean {
    for (const [symbol, since] of stream.loggedSince)
      if (readLoggedSymbol(db, symbol)?.since !== since) end(stream, 'expired');
    return stream.isOpen;
  }

  function check(): void {
    const now = clock.monotonicMs();
    if (!archive.state.isFileCurrent()) endAll('failed');
    for (const stream of [...streams]) {
      if (stream.body === null) continue;
      if (now >= stream.endsAt) end(stream, 'duration');
      else if (now - stream.permittedAt >= permissionMs) void checkPermission(stream);
      if (!stream.isOpen || stream.isLagging || now - stream.sentAt < heartbeatMs || !requireLogged(stream)) continue;
      // Rows of other symbols have passed.
      stream.position = { seq: Math.max(stream.position.seq, sentTo + 1), next: 0 };
      stream.sentAt = now;
      stream.isLagging = !stream.body.push(formatHeartbeat(stream.logId, stream.position));
    }
  }

  const isRunning = (): boolean => streams.size > 0 && !stopping.signal.aborted;
  const sleep = (ms: number): Promise<void> => clock.sleep(ms, stopping.signal).catch(() => {});

  async function broadcastAll(): Promise<void> {
    let version: number | undefined;
    let checkedAt = clock.monotonicMs();
    let maintainedAt = Number.NEGATIVE_INFINITY;
    while (isRunning()) {
      await guard(async () => {
        const latest = current.getVersion();
        if (latest !== version) await broadcast();
        version = latest;
        const now = clock.monotonicMs();
        if (now - checkedAt < checkMs) return;
        checkedAt = now;
        check();
        if (now - maintainedAt < maintainMs) return;
        maintainedAt = now;
        for (const stream of streams) requireLogged(stream);
        keeper.maintain(bySymbol.keys());
      }, endAll);
      await sleep(pollMs);
    }
  }

  /** With live reads, streamed symbols are requested from the upstream as if somebody read them all the time. */
  async function refresh(): Promise<void> {
    const { live } = context;
    const pauseMs = settings.service.live.maxAgeSeconds * 1000;
    while (live != null && isRunning()) {
      for (const symbol of [...bySymbol.keys()]) {
        if (!isRunning()) return;
        // The streams still send what others journal.
        await live
          .refreshTicks(symbol, clock.nowMs())
          .catch((error: unknown) => log.error({ err: error }, 'a live read for streams failed'));
      }
      await sleep(pauseMs);
    }
  }

  // Each loop ends by itself when there are no streams. One that still waits then must not keep the other from starting.
  const broadcasting = createLoop(broadcastAll);
  const refreshing = createLoop(refresh);

  function createLoop(run: () => Promise<void>) {
    let running: Promise<void> | undefined;
    const start = (): void => {
      running ??= run().finally(() => {
        running = undefined;
        // Streams that were opened while the loop ended.
        if (isRunning()) start();
      });
    };
    return { start, isRunning: () => running !== undefined, waitUntilEnded: async () => running };
  }

  function startLoops(end: number): void {
    if (!broadcasting.isRunning()) sentTo = end;
    broadcasting.start();
    if (context.live != null) refreshing.start();
  }

  function createBody(stream: OpenStream, isResumed: boolean): Readable {
    const body = new Readable({
      highWaterMark: bufferBytes,
      read: () => {
        if (stream.isLagging) pull(stream);
      },
    });
    body.once('close', () => remove(stream));
    const facts = { symbols: stream.symbols, resumed: isResumed, generated_at: clock.nowMs() };
    body.push(formatReadyEvent(stream.logId, stream.position, facts));
    return body;
  }

  return {
    async open(request) {
      requireRoom(request.keyId);
      const now = clock.monotonicMs();
      const stream: OpenStream = {
        ...request,
        logId: '',
        position: { seq: 0, next: 0 },
        isLagging: true,
        isOpen: true,
        loggedSince: new Map(),
        body: null,
        sentAt: now,
        permittedAt: now,
        endsAt: request.durationMs === null ? Number.POSITIVE_INFINITY : now + request.durationMs,
      };
      // From here on it counts, so that many requests at once do not exceed the maximum.
      streams.add(stream);
      try {
        await keeper.keepLogging(request.symbols).catch(throwUnavailable);
        const state = db.snapshot(() => {
          stream.loggedSince = new Map(request.symbols.map((symbol) => [symbol, readLoggedSymbol(db, symbol)?.since]));
          return readTickLogState(db);
        });
        // All streams were ended meanwhile, or another process has reset the log.
        if (!stream.isOpen || state === null || stopping.signal.aborted)
          throw new ProblemError(503, 'The streams are restarted. Try again.', { headers: { 'retry-after': '1' } });
        stream.position = findStartPosition(request, state, (symbol) => stream.loggedSince.get(symbol));
        stream.logId = state.id;
        stream.isLagging = request.lastEventId !== null;
        startLoops(state.end);
        stream.body = createBody(stream, request.lastEventId !== null);
      } catch (error) {
        remove(stream);
        throw error;
      }
      for (const symbol of stream.symbols) {
        const own = bySymbol.get(symbol) ?? new Set();
        bySymbol.set(symbol, own.add(stream));
      }
      return stream.body;
    },
    get counts() {
      return { open: streams.size, ticks, ended: { ...ended } };
    },
    async close() {
      stopping.abort(new Error('the service stops'));
      endAll('stopped');
      await Promise.all([broadcasting.waitUntilEnded(), refreshing.waitUntilEnded()]);
      await keeper.close();
    },
  };
}

function throwUnavailable(error: unknown): never {
  if (error instanceof OddslakeError && error.exitCode === exitCodes.busy)
    throw new ProblemError(503, 'Another process writes the archive. Try again.', {
      code: 'busy',
      headers: { 'retry-after': '5' },
    });
  if (error instanceof DiskFullError)
    throw new ProblemError(503, 'The stream cannot be started because the disk of the service is full.', {
      headers: { 'retry-after': '60' },
    });
  throw error;
}
