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
import { openTickLogKeeper, type TickLogKeeper } from './tick-log-keeper.ts';

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
export class TickBroadcast {
  private readonly context: ServiceContext;
  private readonly db: ServiceContext['archive']['state']['db'];
  private readonly keeper: TickLogKeeper;
  private readonly stopping = new AbortController();
  private readonly streams = new Set<OpenStream>();
  private readonly bySymbol = new Map<string, Set<OpenStream>>();
  private readonly ended = Object.fromEntries(streamEnds.map((reason) => [reason, 0])) as Record<StreamEnd, number>;
  // Each loop ends by itself when there are no streams. One that still waits then must not keep the other from starting.
  private readonly broadcasting: ReturnType<typeof createLoop>;
  private readonly refreshing: ReturnType<typeof createLoop>;
  private ticks = 0;
  /** The last row that was broadcast. */
  private sentTo = 0;
  /**
   * Lagging streams whose clients can take more. They take turns, and all of them share one slice of time: however many
   * there are, and however fast their connections take data, other requests do not wait for them.
   */
  private readonly pulling = new Set<OpenStream>();
  private isPullScheduled = false;

  constructor(context: ServiceContext) {
    this.context = context;
    this.db = context.archive.state.db;
    this.keeper = openTickLogKeeper(context);
    const isRunning = (): boolean => this.isRunning();
    this.broadcasting = createLoop(() => this.broadcastAll(), isRunning);
    this.refreshing = createLoop(() => this.refresh(), isRunning);
  }

  /**
   * Opens a stream of server-sent events.
   * @throws ProblemError 410 if it cannot resume without loss, 429 or 503 if there are too many streams
   */
  async open(request: StreamRequest): Promise<Readable> {
    this.requireRoom(request.keyId);
    const now = this.context.clock.monotonicMs();
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
    this.streams.add(stream);
    try {
      await this.keeper.keepLogging(request.symbols).catch(throwUnavailable);
      const state = this.db.snapshot(() => {
        stream.loggedSince = new Map(
          request.symbols.map((symbol) => [symbol, readLoggedSymbol(this.db, symbol)?.since]),
        );
        return readTickLogState(this.db);
      });
      // All streams were ended meanwhile, or another process has reset the log.
      if (!stream.isOpen || state === null || this.stopping.signal.aborted)
        throw new ProblemError(503, 'The streams are restarted. Try again.', { headers: { 'retry-after': '1' } });
      stream.position = findStartPosition(request, state, (symbol) => stream.loggedSince.get(symbol));
      stream.logId = state.id;
      stream.isLagging = request.lastEventId !== null;
      this.startLoops(state.end);
      stream.body = this.createBody(stream, request.lastEventId !== null);
    } catch (error) {
      this.remove(stream);
      throw error;
    }
    for (const symbol of stream.symbols) {
      const own = this.bySymbol.get(symbol) ?? new Set();
      this.bySymbol.set(symbol, own.add(stream));
    }
    return stream.body;
  }

  get counts() {
    return { open: this.streams.size, ticks: this.ticks, ended: { ...this.ended } };
  }

  /** Ends all streams. */
  async close(): Promise<void> {
    this.stopping.abort(new Error('the service stops'));
    this.endAll('stopped');
    await Promise.all([this.broadcasting.waitUntilEnded(), this.refreshing.waitUntilEnded()]);
    await this.keeper.close();
  }

  private requireRoom(keyId: string): void {
    const { streamsMax, streamsPerKeyMax } = this.context.settings.service.stream;
    if (this.streams.size >= streamsMax)
      throw new ProblemError(503, `The service has ${streamsMax} open streams, its maximum. Try again later.`, {
        code: 'busy',
        headers: { 'retry-after': '10' },
      });
    let own = 0;
    for (const stream of this.streams) if (stream.keyId === keyId) own++;
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

  private remove(stream: OpenStream): void {
    if (!stream.isOpen) return;
    stream.isOpen = false;
    this.streams.delete(stream);
    for (const symbol of stream.symbols) {
      const own = this.bySymbol.get(symbol);
      own?.delete(stream);
      if (own?.size === 0) this.bySymbol.delete(symbol);
    }
  }

  private end(stream: OpenStream, reason: StreamEnd): void {
    if (!stream.isOpen) return;
    this.remove(stream);
    this.ended[reason]++;
    stream.body?.push(null);
  }

  private endAll(reason: StreamEnd): void {
    for (const stream of [...this.streams]) this.end(stream, reason);
  }

  /** Sends a row, or what the stream has not sent of it. @returns whether the client can take more */
  private send(stream: OpenStream, row: TickLogRow, formatted?: Buffer): boolean {
    const from = row.seq === stream.position.seq ? stream.position.next : 0;
    const bytes = from === 0 && formatted !== undefined ? formatted : formatRow(stream.logId, row, from);
    stream.position = { seq: row.seq + 1, next: 0 };
    stream.sentAt = this.context.clock.monotonicMs();
    this.ticks += row.t.length - from;
    const canTakeMore = stream.body!.push(bytes);
    if (!canTakeMore) stream.isLagging = true;
    return canTakeMore;
  }

  /** Sends the next rows of the log to a lagging stream. */
  private catchUp(stream: OpenStream): void {
    if (!stream.isOpen) return;
    const { state, rows } = this.db.snapshot(() => ({
      state: readTickLogState(this.db),
      rows: readTickLog(this.db, stream.position.seq, stream.symbols, catchUpRowsMax),
    }));
    if (state?.id !== stream.logId || state.floor >= stream.position.seq) {
      this.end(stream, 'expired');
      return;
    }
    if (rows.length === 0) {
      stream.position = { seq: Math.max(stream.position.seq, state.end + 1), next: 0 };
      stream.isLagging = false;
      return;
    }
    for (const row of rows) if (!this.send(stream, row)) return;
    // Until it has the last row, it stays lagging: a broadcast in between would skip rows.
    this.pull(stream);
  }

  private pull(stream: OpenStream): void {
    this.pulling.add(stream);
    if (this.isPullScheduled) return;
    this.isPullScheduled = true;
    setImmediate(() => this.pullForSlice());
  }

  private pullForSlice(): void {
    this.isPullScheduled = false;
    const endsAt = this.context.clock.monotonicMs() + sliceMs;
    for (const stream of this.pulling) {
      this.pulling.delete(stream);
      void this.guard(
        () => this.catchUp(stream),
        (reason) => this.end(stream, reason),
      );
      if (this.context.clock.monotonicMs() >= endsAt) break;
    }
    const [next] = this.pulling;
    if (next !== undefined) this.pull(next);
  }

  /** Runs `work`, and ends what it cannot continue. */
  private async guard(work: () => Promise<void> | void, endFailed: (reason: StreamEnd) => void): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.context.log.error({ err: error }, 'a stream of ticks failed; its clients have to reconnect');
      endFailed('failed');
      if (!(error instanceof TickLogDamageError)) return;
      // Later rows cannot be trusted either. Clients that resume get 410, and read the ticks from the archive.
      await this.keeper.reset();
      this.endAll('failed');
    }
  }

  private async broadcast(): Promise<void> {
    for (;;) {
      const { state, rows } = this.db.snapshot(() => ({
        state: readTickLogState(this.db),
        rows: readTickLog(this.db, this.sentTo + 1, null, broadcastRowsMax),
      }));
      for (const stream of this.streams)
        if (stream.body !== null && stream.logId !== state?.id) this.end(stream, 'expired');
      if (state === null) return;
      if (state.floor > this.sentTo) {
        // Rows were removed before they were sent.
        for (const stream of this.streams)
          if (stream.body !== null && stream.position.seq <= state.floor) this.end(stream, 'expired');
        this.sentTo = state.floor;
      }
      if (rows.length === 0) return;
      let endsAt = this.context.clock.monotonicMs() + sliceMs;
      for (const row of rows) {
        if (this.context.clock.monotonicMs() >= endsAt) {
          await yieldToOthers();
          endsAt = this.context.clock.monotonicMs() + sliceMs;
        }
        this.sentTo = row.seq;
        const readers = this.bySymbol.get(row.symbol);
        if (readers === undefined) continue;
        const formatted = formatRow(state.id, row, 0);
        for (const stream of readers)
          if (!stream.isLagging && stream.position.seq <= row.seq) this.send(stream, row, formatted);
      }
      await yieldToOthers();
    }
  }

  private async checkPermission(stream: OpenStream): Promise<void> {
    stream.permittedAt = this.context.clock.monotonicMs();
    // If the database is unavailable for long, nobody can tell.
    if (!(await stream.isPermitted().catch(() => false))) this.end(stream, 'permission');
  }

  /** Ends a stream if one of its symbols was not logged for a while: it may have missed ticks. */
  private requireLogged(stream: OpenStream): boolean {
    for (const [symbol, since] of stream.loggedSince)
      if (readLoggedSymbol(this.db, symbol)?.since !== since) this.end(stream, 'expired');
    return stream.isOpen;
  }

  private check(): void {
    const now = this.context.clock.monotonicMs();
    if (!this.context.archive.state.isFileCurrent()) this.endAll('failed');
    for (const stream of [...this.streams]) {
      if (stream.body === null) continue;
      if (now >= stream.endsAt) this.end(stream, 'duration');
      else if (now - stream.permittedAt >= permissionMs) void this.checkPermission(stream);
      if (!stream.isOpen || stream.isLagging || now - stream.sentAt < heartbeatMs || !this.requireLogged(stream))
        continue;
      // Rows of other symbols have passed.
      stream.position = { seq: Math.max(stream.position.seq, this.sentTo + 1), next: 0 };
      stream.sentAt = now;
      stream.isLagging = !stream.body.push(formatHeartbeat(stream.logId, stream.position));
    }
  }

  private isRunning(): boolean {
    return this.streams.size > 0 && !this.stopping.signal.aborted;
  }

  private sleep(ms: number): Promise<void> {
    return this.context.clock.sleep(ms, this.stopping.signal).catch(() => {});
  }

  private async broadcastAll(): Promise<void> {
    let version: number | undefined;
    let checkedAt = this.context.clock.monotonicMs();
    let maintainedAt = Number.NEGATIVE_INFINITY;
    while (this.isRunning()) {
      await this.guard(
        async () => {
          const latest = this.context.current.getVersion();
          if (latest !== version) await this.broadcast();
          version = latest;
          const now = this.context.clock.monotonicMs();
          if (now - checkedAt < checkMs) return;
          checkedAt = now;
          this.check();
          if (now - maintainedAt < maintainMs) return;
          maintainedAt = now;
          for (const stream of this.streams) this.requireLogged(stream);
          this.keeper.maintain(this.bySymbol.keys());
        },
        (reason) => this.endAll(reason),
      );
      await this.sleep(pollMs);
    }
  }

  /** With live reads, streamed symbols are requested from the upstream as if somebody read them all the time. */
  private async refresh(): Promise<void> {
    const { live } = this.context;
    const pauseMs = this.context.settings.service.live.maxAgeSeconds * 1000;
    while (live != null && this.isRunning()) {
      for (const symbol of [...this.bySymbol.keys()]) {
        if (!this.isRunning()) return;
        // The streams still send what others journal.
        await live
          .refreshTicks(symbol, this.context.clock.nowMs())
          .catch((error: unknown) => this.context.log.error({ err: error }, 'a live read for streams failed'));
      }
      await this.sleep(pauseMs);
    }
  }

  private startLoops(end: number): void {
    if (!this.broadcasting.isRunning()) this.sentTo = end;
    this.broadcasting.start();
    if (this.context.live != null) this.refreshing.start();
  }

  private createBody(stream: OpenStream, isResumed: boolean): Readable {
    const body = new Readable({
      highWaterMark: bufferBytes,
      read: () => {
        if (stream.isLagging) this.pull(stream);
      },
    });
    body.once('close', () => this.remove(stream));
    const facts = { symbols: stream.symbols, resumed: isResumed, generated_at: this.context.clock.nowMs() };
    body.push(formatReadyEvent(stream.logId, stream.position, facts));
    return body;
  }
}

/** Runs `run` until there is no work; `hasWork` is asked when it has ended. */
function createLoop(run: () => Promise<void>, hasWork: () => boolean) {
  let running: Promise<void> | undefined;
  const start = (): void => {
    running ??= run().finally(() => {
      running = undefined;
      // Streams that were opened while the loop ended.
      if (hasWork()) start();
    });
  };
  return { start, isRunning: () => running !== undefined, waitUntilEnded: async () => running };
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
