import type { ProgressDisplay, RequestRateStatus } from '../app/context.ts';
import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import { formatProgressLine, type ProgressState } from './progress-line.ts';
import { createSpeedMeter, estimateRemainingMs } from './throughput.ts';

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
