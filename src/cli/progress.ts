import type { Clock } from '../core/clock.ts';
import type { Log } from '../core/log.ts';

export interface ProgressOptions {
  /** What is under way, e.g. `ticks`. */
  readonly label: string;
  /** How much there is to do, in `unit`s. */
  readonly total: number;
  /** What is counted, in the plural, e.g. `symbols`. */
  readonly unit: string;
  readonly clock: Clock;
  /** Takes the sparse lines where there is no terminal. */
  readonly log: Log;
  /** Where the bar is drawn when it is a terminal. */
  readonly stream: NodeJS.WritableStream & { readonly isTTY?: boolean };
  /** False for `--quiet` and `--no-progress`: nothing is shown. */
  readonly shown: boolean;
}

export interface ProgressUpdate {
  /** Done so far, in the progress's unit. */
  readonly done: number;
  /** What there is to do, where that changed on the way. */
  readonly total?: number;
  /** Ticks so far, for work that has any. */
  readonly ticks?: number;
}

export interface Progress {
  update(update: ProgressUpdate): void;
  /** Ends the display; must be called, also after a failure. Later updates show nothing. */
  stop(): void;
}

/** Least time between two lines where there is no terminal, in milliseconds. */
const lineEveryMs = 10_000;

/** Shows how far long work is: a bar on a terminal, at most one log line in 10 s elsewhere. */
export async function startProgress(options: ProgressOptions): Promise<Progress> {
  if (!options.shown) return { update: () => {}, stop: () => {} };
  return options.stream.isTTY === true ? await drawBar(options) : writeLines(options);
}

async function drawBar({ label, total, unit, stream, clock }: ProgressOptions): Promise<Progress> {
  const { default: cliProgress } = await import('cli-progress');
  const startedMs = clock.monotonicMs();
  const bar = new cliProgress.SingleBar({
    format: `${label} [{bar}] {percentage} % | {value}/{total} ${unit}{ticks} | {left}`,
    stream: withoutCursorMemory(stream),
    barsize: 30,
    fps: 5,
    // A log line may have wiped the bar away; and the program has its own way to end on a signal.
    forceRedraw: true,
    gracefulExit: false,
  });
  let goal = total;
  bar.start(goal, 0, { ticks: '', left: '' });
  return {
    update({ done, total = goal, ticks }) {
      goal = total;
      bar.setTotal(goal);
      const left = timeLeft(done, goal, clock.monotonicMs() - startedMs);
      bar.update(done, { ticks: ticks === undefined ? '' : `, ${count(ticks)} ticks`, left });
    },
    stop: () => bar.stop(),
  };
}

function writeLines({ label, total, unit, clock, log }: ProgressOptions): Progress {
  let writtenMs = clock.monotonicMs();
  let goal = total;
  let stopped = false;
  return {
    update({ done, total = goal, ticks }) {
      goal = total;
      const nowMs = clock.monotonicMs();
      if (stopped || nowMs - writtenMs < lineEveryMs) return;
      writtenMs = nowMs;
      log.info({ done, total: goal, unit, ...(ticks === undefined ? {} : { ticks }) }, label);
    },
    stop() {
      stopped = true;
    },
  };
}

/**
 * The bar remembers where the cursor stood at its start and goes back there at its end: over the log lines that were
 * written in between. Without that memory it ends where it was last drawn.
 */
function withoutCursorMemory(stream: ProgressOptions['stream']): NodeJS.WritableStream {
  const write = (text: string) => text === '\u001b7' || text === '\u001b8' || stream.write(text);
  return Object.create(stream, { write: { value: write } });
}

const count = (n: number): string => n.toLocaleString('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** `3m20s left`, from the speed so far; empty while there is none. */
function timeLeft(done: number, total: number, elapsedMs: number): string {
  if (done <= 0 || done >= total) return '';
  const seconds = Math.ceil(((total - done) * elapsedMs) / done / 1000);
  return seconds < 60 ? `${seconds}s left` : `${Math.floor(seconds / 60)}m${seconds % 60}s left`;
}
