import { formatBytes, formatNumber, formatRate } from '../base/format-quantity.ts';
import type { Clock, Log } from '../base/ports.ts';
import { minuteMs } from '../base/window.ts';
import type { ProgressDisplay, RequestRateStatus } from '../context/context.ts';

export interface ProgressOptions {
  /** Name of the task, e.g. `ticks`. */
  readonly label: string;
  /** Total amount of work, in `unit`s. */
  readonly total: number;
  /** Plural of the counted unit, e.g. `symbols`. */
  readonly unit: string;
  /** Request rate, for tasks that send requests. */
  readonly getRequestRate?: (() => RequestRateStatus) | undefined;
  readonly clock: Clock;
  /** Receives progress lines if there is no terminal. */
  readonly log: Log;
  /** The stream to which the bar is drawn. */
  readonly stream: NodeJS.WritableStream & { readonly columns?: number };
  /** Whether the stream is a terminal that can redraw a line. */
  readonly canDraw?: boolean;
  /** False with `--quiet` or `--no-progress`. */
  readonly isShown: boolean;
}

/** Minimum time between two log lines, in milliseconds. */
const lineIntervalMs = 10_000;

/** Averaging periods for the displayed speeds and for the remaining time, in milliseconds. */
const speedMemoryMs = 10_000;
const remainingMemoryMs = minuteMs;

const widthDefault = 80;

/** Shows the progress of a long task: a bar on a terminal, otherwise at most one log line per 10 s. */
export async function startProgress(options: ProgressOptions): Promise<ProgressDisplay> {
  const display = !options.isShown ? noDisplay : options.canDraw === true ? drawBar(options) : logProgress(options);
  return { ...display, [Symbol.dispose]: display.stop };
}

type Drawing = Omit<ProgressDisplay, typeof Symbol.dispose>;

const noDisplay: Drawing = { update() {}, stop() {} };

/** Time between two drawings of the bar, in milliseconds. */
const drawIntervalMs = 200;

function drawBar(options: ProgressOptions): Drawing {
  const { stream } = options;
  const meter = createMeter(options);
  let timer: NodeJS.Timeout | null = null;
  // One column stays free: some terminals wrap after the last one. A log line may have cleared the bar.
  const draw = (): void =>
    void stream.write(`\r\u001b[2K${formatProgressLine(meter.facts(), (stream.columns || widthDefault) - 1)}`);
  const start = (): void => {
    timer = setInterval(draw, drawIntervalMs);
    draw();
  };
  // A request may take a long time, so a task with requests shows its bar at once. Any other task may turn out to be
  // empty, so its bar appears with the first update.
  if (options.getRequestRate !== undefined) start();
  let isStopped = false;
  return {
    update(update) {
      meter.note(update);
      if (timer === null && !isStopped) start();
    },
    stop() {
      isStopped = true;
      if (timer === null) return;
      clearInterval(timer);
      timer = null;
      draw();
      stream.write('\n');
    },
  };
}

function logProgress(options: ProgressOptions): Drawing {
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

/** Converts the progress to the fields of a log line, the same as in the bar. */
function toLogFields({
  done,
  total,
  unit,
  note,
  ticks,
  ticksPerSecond,
  requestRate,
  remainingMs,
}: ProgressState): object {
  return {
    done,
    total,
    unit,
    ...(note === undefined ? {} : { note }),
    ...(ticks === undefined ? {} : { ticks, ticks_per_second: Math.round(ticksPerSecond!) }),
    ...(requestRate === undefined
      ? {}
      : { requests_per_second: Number(requestRate.perSecond.toPrecision(3)), allowed_per_second: requestRate.allowed }),
    ...(requestRate?.throttledMs ? { throttled_ms: requestRate.throttledMs } : {}),
    ...(remainingMs === null ? {} : { seconds_left: Math.round(remainingMs / 1000) }),
  };
}

/** Computes speeds and the remaining time from progress updates. */
function createMeter({ label, total, unit, getRequestRate, clock }: ProgressOptions) {
  const startMs = clock.monotonicMs();
  const speeds = {
    ticks: createSpeedMeter(startMs, speedMemoryMs),
    requests: createSpeedMeter(startMs, speedMemoryMs),
  };
  const requestsBefore = getRequestRate?.().requests ?? 0;
  const remaining = createRemainingEstimator(startMs, getRequestRate !== undefined);
  let progress: Parameters<ProgressDisplay['update']>[0] & { readonly total: number } = { done: 0, total };
  return {
    note(update: Parameters<ProgressDisplay['update']>[0]): void {
      progress = { ...progress, ...update };
      const nowMs = clock.monotonicMs();
      remaining.note(nowMs, computeShare(progress));
      if (progress.ticks !== undefined) speeds.ticks.record(nowMs, progress.ticks);
    },
    facts(): ProgressState {
      const nowMs = clock.monotonicMs();
      const now = getRequestRate?.();
      if (now !== undefined) speeds.requests.record(nowMs, now.requests - requestsBefore);
      const remainingMs = remaining.estimateMs(nowMs);
      const throttledMs = now?.heldBackMs ?? 0;
      return {
        ...progress,
        label,
        unit,
        ticksPerSecond: progress.ticks === undefined ? undefined : speeds.ticks.perSecond(nowMs),
        requestRate:
          now === undefined
            ? undefined
            : { perSecond: speeds.requests.perSecond(nowMs), allowed: now.allowedPerSecond, throttledMs },
        remainingMs: remainingMs === null ? null : remainingMs + throttledMs,
      };
    },
  };
}

/** Progress of a task at one moment. */
export interface ProgressState {
  readonly label: string;
  readonly done: number;
  readonly total: number;
  /** Plural of the counted unit; `bytes` are formatted as sizes. */
  readonly unit: string;
  /** Share of the work that is done, 0 to 1, if it is better known than by `done`. */
  readonly share?: number | undefined;
  readonly note?: string | undefined;
  readonly ticks?: number | undefined;
  readonly ticksPerSecond?: number | undefined;
  /** For tasks that send requests: requests per second, the limit, and the remaining backoff in ms. */
  readonly requestRate?:
    | { readonly perSecond: number; readonly allowed: number; readonly throttledMs: number }
    | undefined;
  /** Estimated remaining time in ms; null if unknown. */
  readonly remainingMs: number | null;
}

/** Formats one line of at most `width` columns. On a narrow terminal, the less important parts are omitted. */
export function formatProgressLine(facts: ProgressState, width: number): string {
  const { label, note = '', ticks, ticksPerSecond, requestRate } = facts;
  const share = computeShare(facts);
  const percent = `${Math.floor(share * 100)} %`;
  const [count, bareCount] = formatCounts(facts);
  const ticksText = ticks === undefined || ticks === 0 ? '' : `${formatCompact(ticks)} ticks`;
  const speed = ticksPerSecond === undefined || ticksPerSecond < 1 ? '' : `${formatCompact(ticksPerSecond)} ticks/s`;
  const rateText =
    requestRate === undefined
      ? ''
      : `${formatRate(requestRate.perSecond)} of ${formatRate(requestRate.allowed)} requests/s`;
  const shortRateText = rateText.replace('requests', 'req');
  const backoffText =
    requestRate === undefined || requestRate.throttledMs < 1000
      ? ''
      : `throttled ${formatRemaining(requestRate.throttledMs)}`;
  const remainingText = facts.remainingMs === null ? '' : `${formatRemaining(facts.remainingMs)} left`;
  const variants = [
    [percent, count, note, ticksText, speed, rateText, backoffText, remainingText],
    [percent, count, note, speed, rateText, backoffText, remainingText],
    [percent, count, note, shortRateText, backoffText, remainingText],
    [percent, count, note, backoffText, remainingText],
    [percent, bareCount, backoffText, remainingText],
    [percent, backoffText, remainingText],
  ];
  for (const variant of variants) {
    const text = variant.filter((part) => part !== '').join('  ');
    // The bar takes what is left, so that the line is as wide as the terminal.
    const columns = Math.min(barColumnsMax, width - label.length - text.length - 3);
    if (columns >= barColumnsMin) return `${label} ${formatBar(share, columns)}  ${text}`;
  }
  const bare = [label, percent, backoffText, remainingText].filter((part) => part !== '').join('  ');
  return bare.length <= width ? bare : `${label}  ${percent}`.slice(0, width);
}

/** Width of the bar, in columns. A narrower bar hardly moves, so other parts are left out for it. */
const barColumnsMin = 16;
const barColumnsMax = 30;

/** The share of the work that is done, 0 to 1. */
const computeShare = ({ done, total, share }: Pick<ProgressState, 'done' | 'total' | 'share'>): number =>
  share !== undefined ? Math.min(1, share) : total > 0 ? Math.min(1, done / total) : 0;

/** The counts with and without the unit. */
function formatCounts({ done, total, unit }: ProgressState): [string, string] {
  if (unit === 'bytes') return [`${formatBytes(done)} of ${formatBytes(total)}`, formatBytes(done)];
  const bareCount = `${formatNumber(done)}/${formatNumber(total)}`;
  return [`${bareCount} ${unit}`, bareCount];
}

const formatBar = (share: number, columns: number): string => {
  const full = Math.floor(share * columns);
  return '█'.repeat(full) + '░'.repeat(columns - full);
};

/** `1.2M`. */
const formatCompact = (n: number): string =>
  n < 1000 ? String(Math.round(n)) : n.toLocaleString('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** `45s`, `3m20s`, `12m`, `2h05m`. Longer times are rounded more coarsely, because they are less certain. */
export function formatRemaining(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 600) {
    const roundedSeconds = Math.ceil(seconds / 10) * 10;
    return `${Math.floor(roundedSeconds / 60)}m${String(roundedSeconds % 60).padStart(2, '0')}s`;
  }
  const minutes = Math.ceil(seconds / 60);
  return minutes < 60 ? `${minutes}m` : `${Math.floor(minutes / 60)}h${String(minutes % 60).padStart(2, '0')}m`;
}

/**
 * Recent growth rate of a value: the exponentially weighted mean over time, with steps weighted by their duration. Changes older
 * than a few times `memoryMs` hardly count.
 */
export function createSpeedMeter(startMs: number, memoryMs: number) {
  let lastMs = startMs;
  let last = 0;
  let mean = 0;
  let weight = 0;
  const computeMean = (nowMs: number, value: number) => {
    const ms = nowMs - lastMs;
    const decay = Math.exp(-ms / memoryMs);
    return { mean: mean * decay + ((value - last) / ms) * (1 - decay), weight: weight * decay + (1 - decay) };
  };
  return {
    /** Records the value at a time. Times must not decrease. */
    record(nowMs: number, value: number): void {
      // Steps at the same time are counted with the next one.
      if (nowMs <= lastMs) return;
      ({ mean, weight } = computeMean(nowMs, value));
      [lastMs, last] = [nowMs, value];
    },
    /** Growth per second at a time; 0 before the first growth. Time without growth lowers it. */
    perSecond(nowMs: number): number {
      const now = nowMs > lastMs ? computeMean(nowMs, last) : { mean, weight };
      return now.weight === 0 ? 0 : (now.mean / now.weight) * 1000;
    },
  };
}

/**
 * How fast the displayed time follows the estimates, in ms. At first they are uncertain, so it follows them faster: a wrong
 * first one must not stay for a minute.
 */
const followMsMin = 4_000;
const followMsMax = 15_000;
/** How much the displayed time may rise per second: a share of itself, and at least this many ms. */
const riseShareMax = 0.02;
const riseMsMin = 500;

/**
 * Counts down with the clock and moves towards the estimates. If the work becomes slower, the time rises by at most 2 % per
 * second, or half a second, so that one slow response does not double it.
 */
export function createRemainingMeter() {
  let shownMs: number | null = null;
  let firstMs = 0;
  let lastMs = 0;
  return {
    /** Returns the time to display, in ms. @param estimateMs the current estimate; null if there is none */
    smooth(nowMs: number, estimateMs: number | null): number | null {
      if (estimateMs === null || shownMs === null) {
        shownMs = estimateMs;
        firstMs = nowMs;
        lastMs = nowMs;
        return shownMs;
      }
      const passedMs = Math.max(0, nowMs - lastMs);
      lastMs = nowMs;
      const countedDown = Math.max(0, shownMs - passedMs);
      const followMs = Math.min(followMsMax, Math.max(followMsMin, (nowMs - firstMs) / 4));
      const followed = countedDown + (estimateMs - countedDown) * (1 - Math.exp(-passedMs / followMs));
      const riseMsMax = Math.max(riseMsMin, riseShareMax * shownMs) * (passedMs / 1000);
      shownMs = Math.min(followed, shownMs + riseMsMax);
      return shownMs;
    },
  };
}

/** How long the speed is measured before the first estimate, in ms. */
const estimateDelayMs = 2_000;
const startDelayMsMax = 30_000;

/**
 * The speed of a task with requests is measured from its first progress on. What comes before it is no slow work: the first
 * responses of a slow service, with which the paging of the service is learned too. If the first progress took long, the
 * speed is measured for as long before the first estimate.
 */
export function createRemainingEstimator(startMs: number, sendsRequests: boolean) {
  const remaining = createRemainingMeter();
  let doneShare = 0;
  const startMeasuring = (ms: number, share: number) => ({ ms, share, speed: createSpeedMeter(ms, remainingMemoryMs) });
  let first = sendsRequests ? null : startMeasuring(startMs, 0);
  return {
    /** Notes the share that is done, 0 to 1. Times must not decrease. */
    note(nowMs: number, share: number): void {
      doneShare = share;
      if (share <= 0) return;
      first ??= startMeasuring(nowMs, share);
      first.speed.record(nowMs, share - first.share);
    },
    /** The time to display, in ms; null if unknown. */
    estimateMs(nowMs: number): number | null {
      if (first === null) return null;
      const measuredMs = nowMs - first.ms;
      const isEarly = measuredMs < Math.min(startDelayMsMax, first.ms - startMs);
      const [done, total] = [doneShare - first.share, 1 - first.share];
      const estimate = isEarly ? null : estimateRemainingMs({ done, total }, measuredMs, first.speed.perSecond(nowMs));
      return remaining.smooth(nowMs, estimate);
    },
  };
}

/**
 * Estimated remaining time in ms; null if unknown. Uses the mean of the overall and the recent speed, because progress is
 * uneven and either alone would mislead.
 */
export function estimateRemainingMs(
  { done, total }: { readonly done: number; readonly total: number },
  elapsedMs: number,
  recentPerSecond: number,
): number | null {
  if (done <= 0 || done >= total || elapsedMs < estimateDelayMs) return null;
  const overall = done / (elapsedMs / 1000);
  return ((total - done) / ((overall + recentPerSecond) / 2)) * 1000;
}
