import { formatBytes, formatNumber } from '../base/format-quantity.ts';
import type { Clock, Log } from '../base/ports.ts';
import type { ProgressDisplay, RequestRateStatus } from '../context/context.ts';

export interface ProgressOptions {
  /** What is under way, e.g. `ticks`. */
  readonly label: string;
  /** How much there is to do, in `unit`s. */
  readonly total: number;
  /** What is counted, in the plural, e.g. `symbols`. */
  readonly unit: string;
  /** How the service is being asked, for work that asks it. */
  readonly asking?: (() => RequestRateStatus) | undefined;
  readonly clock: Clock;
  /** Takes the sparse lines where there is no terminal. */
  readonly log: Log;
  /** Where the bar is drawn. */
  readonly stream: NodeJS.WritableStream & { readonly columns?: number };
  /** Whether it is a terminal that can draw a line anew. */
  readonly canDraw?: boolean;
  /** False for `--quiet` and `--no-progress`: nothing is shown. */
  readonly isShown: boolean;
}

/** Ended by `stop`, also after a failure. Later updates show nothing. */
export type Progress = ProgressDisplay;

/** Least time between two lines where there is no terminal, in milliseconds. */
const lineIntervalMs = 10_000;

/** What is said of speeds is of about the last so many ms; of the time left, of a longer while. */
const speedMemoryMs = 10_000;
const remainingMemoryMs = 60_000;

const widthDefault = 80;

/** Shows how far long work is: a bar on a terminal, at most one log line in 10 s elsewhere. */
export async function startProgress(options: ProgressOptions): Promise<Progress> {
  if (!options.isShown) return { update: () => {}, stop: () => {} };
  return options.canDraw === true ? await drawBar(options) : logProgress(options);
}

async function drawBar(options: ProgressOptions): Promise<Progress> {
  const { stream, total } = options;
  const { default: cliProgress } = await import('cli-progress');
  const meter = createMeter(options);
  const bar = new cliProgress.SingleBar({
    // One column is left free: some terminals go to the next line at the last.
    format: () => formatProgressLine(meter.facts(), (stream.columns || widthDefault) - 1),
    stream: ignoreCursorRestore(stream),
    fps: 5,
    // A log line may have wiped the bar away; and the program has its own way to end on a signal.
    forceRedraw: true,
    gracefulExit: false,
  });
  let isDrawn = false;
  const draw = (): void => {
    if (!isDrawn) bar.start(total, 0);
    isDrawn = true;
  };
  // Of work that asks nobody there may turn out to be none; a service may let wait.
  if (options.asking !== undefined) draw();
  return {
    update(update) {
      meter.note(update);
      draw();
      bar.update(update.done);
    },
    stop: () => bar.stop(),
  };
}

function logProgress(options: ProgressOptions): Progress {
  const { label, clock, log } = options;
  const meter = createMeter(options);
  let writtenMs = clock.monotonicMs();
  let stopped = false;
  return {
    update(update) {
      meter.note(update);
      const nowMs = clock.monotonicMs();
      if (stopped || nowMs - writtenMs < lineIntervalMs) return;
      writtenMs = nowMs;
      log.info(toLogFields(meter.facts()), label);
    },
    stop() {
      stopped = true;
    },
  };
}

/** The facts of a log line: those that a bar shows. */
function toLogFields({
  done,
  total,
  unit,
  note,
  ticks,
  ticksPerSecond,
  asking,
  remainingMs: left,
}: ProgressState): object {
  return {
    done,
    total,
    unit,
    ...(note === undefined ? {} : { note }),
    ...(ticks === undefined ? {} : { ticks, ticks_per_second: Math.round(ticksPerSecond!) }),
    ...(asking === undefined
      ? {}
      : { requests_per_second: Number(asking.perSecond.toPrecision(2)), allowed_per_second: asking.allowed }),
    ...(asking === undefined || asking.heldBackMs === 0 ? {} : { held_back_ms: asking.heldBackMs }),
    ...(left === null ? {} : { seconds_left: Math.round(left / 1000) }),
  };
}

/** Adds up what is told of the work, and says how it goes. */
function createMeter({ label, total, unit, asking, clock }: ProgressOptions) {
  const startMs = clock.monotonicMs();
  const speeds = {
    done: createSpeedMeter(startMs, remainingMemoryMs),
    ticks: createSpeedMeter(startMs, speedMemoryMs),
    requests: createSpeedMeter(startMs, speedMemoryMs),
  };
  const askedBefore = asking?.().requests ?? 0;
  let now: Parameters<ProgressDisplay['update']>[0] & { readonly total: number } = { done: 0, total };
  return {
    note(update: Parameters<ProgressDisplay['update']>[0]): void {
      now = { ...now, ...update };
      const nowMs = clock.monotonicMs();
      speeds.done.record(nowMs, now.done);
      if (now.ticks !== undefined) speeds.ticks.record(nowMs, now.ticks);
    },
    facts(): ProgressState {
      const nowMs = clock.monotonicMs();
      const asked = asking?.();
      if (asked !== undefined) speeds.requests.record(nowMs, asked.requests - askedBefore);
      const left = estimateRemainingMs(now, nowMs - startMs, speeds.done.perSecond(nowMs));
      const heldBackMs = asked?.heldBackMs ?? 0;
      return {
        label,
        unit,
        done: now.done,
        total: now.total,
        note: now.note,
        ticks: now.ticks,
        ticksPerSecond: now.ticks === undefined ? undefined : speeds.ticks.perSecond(nowMs),
        asking:
          asked === undefined
            ? undefined
            : { perSecond: speeds.requests.perSecond(nowMs), allowed: asked.allowedPerSecond, heldBackMs },
        remainingMs: left === null ? null : left + heldBackMs,
      };
    },
  };
}

/**
 * The bar remembers where the cursor stood at its start and goes back there at its end: over the log lines that were
 * written in between. Without that memory it ends where it was last drawn.
 */
function ignoreCursorRestore(stream: ProgressOptions['stream']): NodeJS.WritableStream {
  const write = (text: string) => text === '\u001b7' || text === '\u001b8' || stream.write(text);
  return Object.create(stream, { write: { value: write } });
}

/** How far work is, at one moment. */
export interface ProgressState {
  readonly label: string;
  readonly done: number;
  readonly total: number;
  /** What is counted, in the plural; `bytes` are told as sizes. */
  readonly unit: string;
  readonly note?: string | undefined;
  readonly ticks?: number | undefined;
  readonly ticksPerSecond?: number | undefined;
  /** Of work that asks the service: requests a second, how many are allowed, and how long it holds all back. */
  readonly asking?: { readonly perSecond: number; readonly allowed: number; readonly heldBackMs: number } | undefined;
  /** How long the rest will take; null while nobody can tell. */
  readonly remainingMs: number | null;
}

/** One line of at most `width` columns: where it is narrow, what matters least is left out first. */
export function formatProgressLine(facts: ProgressState, width: number): string {
  const { label, note = '', ticks, ticksPerSecond, asking } = facts;
  const share = facts.total > 0 ? Math.min(1, facts.done / facts.total) : 0;
  const percent = `${Math.floor(share * 100)} %`;
  const [count, bare] = formatCounts(facts);
  const came = ticks === undefined || ticks === 0 ? '' : `${formatCompact(ticks)} ticks`;
  const speed = ticksPerSecond === undefined || ticksPerSecond < 1 ? '' : `${formatCompact(ticksPerSecond)} ticks/s`;
  const asks =
    asking === undefined ? '' : `${formatRate(asking.perSecond)} of ${formatRate(asking.allowed)} requests/s`;
  const few = asks.replace('requests', 'req');
  const held =
    asking === undefined || asking.heldBackMs < 1000 ? '' : `held back ${formatRemaining(asking.heldBackMs)}`;
  const left = facts.remainingMs === null ? '' : `${formatRemaining(facts.remainingMs)} left`;
  const bar = (columns: number): string => `${label} ${formatBar(share, columns)}`;
  const forms = [
    [bar(30), percent, count, note, came, speed, asks, held, left],
    [bar(20), percent, count, note, came, speed, asks, held, left],
    [bar(12), percent, count, note, speed, asks, held, left],
    [bar(8), percent, count, note, speed, few, held, left],
    [bar(8), count, note, speed, few, held, left],
    [bar(6), bare, speed, few, held, left],
    [bar(6), bare, few, held, left],
    [label, bare, held, left],
  ];
  const lines = forms.map((form) => form.filter((piece) => piece !== '').join('  '));
  return lines.find((line) => line.length <= width) ?? `${label}  ${percent}`.slice(0, width);
}

/** With what is counted, and without. */
function formatCounts({ done, total, unit }: ProgressState): [string, string] {
  if (unit === 'bytes') return [`${formatBytes(done)} of ${formatBytes(total)}`, formatBytes(done)];
  const bare = `${formatNumber(done)}/${formatNumber(total)}`;
  return [`${bare} ${unit}`, bare];
}

const formatBar = (share: number, columns: number): string => {
  const full = Math.floor(share * columns);
  return '█'.repeat(full) + '░'.repeat(columns - full);
};

/** `1.2M`. */
const formatCompact = (n: number): string =>
  n < 1000 ? String(Math.round(n)) : n.toLocaleString('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** `4.8`, `12`, `0.25`. */
const formatRate = (perSecond: number): string => formatNumber(Number(perSecond.toPrecision(2)));

/** `45s`, `3m20s`, `12m`, `2h05m`: the longer, the coarser, as nobody knows it better. */
export function formatRemaining(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 600) {
    const tens = Math.ceil(seconds / 10) * 10;
    return `${Math.floor(tens / 60)}m${String(tens % 60).padStart(2, '0')}s`;
  }
  const minutes = Math.ceil(seconds / 60);
  return minutes < 60 ? `${minutes}m` : `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, '0')}m`;
}

/** How fast something grows, of late: what was longer ago than some `memoryMs` hardly counts. */
export interface SpeedMeter {
  /** What it has come to by a moment; moments never go back. */
  record(nowMs: number, value: number): void;
  /** A second, at a moment; 0 before the first growth. A standstill counts as it goes on. */
  perSecond(nowMs: number): number;
}

/** An exponentially weighted mean over time: uneven steps count by how long they took. */
export function createSpeedMeter(startMs: number, memoryMs: number): SpeedMeter {
  let lastMs = startMs;
  let last = 0;
  let mean = 0;
  let weight = 0;
  const after = (nowMs: number, value: number) => {
    const ms = nowMs - lastMs;
    const kept = Math.exp(-ms / memoryMs);
    return { mean: mean * kept + ((value - last) / ms) * (1 - kept), weight: weight * kept + (1 - kept) };
  };
  return {
    record(nowMs, value) {
      // Several steps within a moment are counted with the next one.
      if (nowMs <= lastMs) return;
      ({ mean, weight } = after(nowMs, value));
      [lastMs, last] = [nowMs, value];
    },
    perSecond(nowMs) {
      const now = nowMs > lastMs ? after(nowMs, last) : { mean, weight };
      return now.weight === 0 ? 0 : (now.mean / now.weight) * 1000;
    },
  };
}

/** Nothing is said of the time left before so much of it has passed, in ms. */
const estimateDelayMs = 2_000;

/**
 * How long the rest will take, in ms; null while nobody can tell. Between the speed of all so far and that of late: work
 * is uneven, and either alone is led astray by it.
 */
export function estimateRemainingMs(
  { done, total }: { readonly done: number; readonly total: number },
  elapsedMs: number,
  latePerSecond: number,
): number | null {
  if (done <= 0 || done >= total || elapsedMs < estimateDelayMs) return null;
  const overall = done / (elapsedMs / 1000);
  return ((total - done) / ((overall + latePerSecond) / 2)) * 1000;
}
