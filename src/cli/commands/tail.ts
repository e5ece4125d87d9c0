import { once } from 'node:events';
import type { Command } from 'commander';
import { formatCount } from '../../base/format-quantity.ts';
import { systemClock } from '../../base/system.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { hourMs } from '../../base/window.ts';
import type { StreamedTick } from '../../client/tick-stream.ts';
import type { Context } from '../../context/context.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  withArchive,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withHelp } from '../help.ts';
import { parseTimeRange } from '../shared-options.ts';
import { escapeControls } from '../terminal-style.ts';

interface TailFlags extends CommonFlags {
  readonly url?: string;
  readonly since?: string;
}

/** `tail`: prints ticks as they arrive. */
export function addTail(command: Command, shell: CliContext): void {
  command
    .argument('<symbol...>', 'symbols to follow')
    .option('--url <url>', 'follow the stream of this oddslake service (default: the local archive)')
    .option('--since <time>', 'print the ticks since this time first, e.g. 2h or 2026-11-20 (default: only new ticks)');
  withHelp(command, notes, examples);
  withCommonFlags(command, flagsUnusedByReaders).action(async (symbols: readonly string[], flags: TailFlags) => {
    const { from: sinceMs } = parseTimeRange(
      flags.since === undefined ? {} : { since: flags.since },
      systemClock.nowMs(),
    );
    const distinct = [...new Set(symbols)];
    await (flags.url === undefined
      ? withArchive(flags, shell.version, async (archive, { clock, signal }) => {
          const { followTicks } = await import('../../archive/read/follow-ticks.ts');
          const ticks = followTicks(archive, { symbols: distinct, sinceMs, clock, signal });
          await printTicks(
            ticks,
            flags,
            `${nameTicks(distinct)} in ${archive.name}. A job or a service has to collect them`,
          );
        })
      : withContext(flags, shell.version, false, async (context) => {
          await printTicks(
            await followService(context, flags.url!, distinct, sinceMs),
            flags,
            `${nameTicks(distinct)} from ${flags.url}`,
          );
        }));
  });
}

const ticksPerRequest = 10_000;

/** The ticks of a service: those since a time, and then its stream. */
async function followService(
  context: Context,
  url: string,
  symbols: readonly string[],
  sinceMs: number | null,
): Promise<AsyncIterable<StreamedTick>> {
  const [{ requireOtherUpstream }, { openOtherUpstream }, { followTickStream }] = await Promise.all([
    import('../../settings/settings.ts'),
    import('../../context/open-configured.ts'),
    import('../../client/tick-stream.ts'),
  ]);
  const { clock, signal, log } = context;
  const access = requireOtherUpstream(context.settings, url, '--url');
  /** Where the next read of each symbol begins, if its stream could not be resumed. */
  const nextMs = new Map(symbols.map((symbol) => [symbol, sinceMs]));
  const started = clock.nowMs();
  /** Ticks that were read after the stream began, and that it may send too. */
  const read = new Set<string>();
  const toKey = ({ symbol, t, p }: StreamedTick): string => `${t} ${p} ${symbol}`;

  async function* readMissed(): AsyncGenerator<StreamedTick> {
    const upstream = await openOtherUpstream(context, access);
    try {
      for (const symbol of symbols) {
        let from = nextMs.get(symbol) ?? null;
        for (const to = clock.nowMs() + 60_000; from !== null && from < to; ) {
          const page = await upstream.ticks({ symbol, from, to, limit: ticksPerRequest }, signal);
          const times = [...page.t];
          for (const [i, t] of times.entries()) {
            const tick = { symbol, t, p: page.p[i]!, isRevision: false };
            if (t > to - hourMs) read.add(toKey(tick));
            yield tick;
          }
          from = times.length === 0 ? null : times.reduce((max, t) => Math.max(max, t), from) + 1;
        }
      }
    } finally {
      await upstream.close();
    }
    for (const symbol of symbols) nextMs.set(symbol, nextMs.get(symbol) ?? started);
  }

  let isReading = false;
  const stream = followTickStream({
    ...access,
    symbols,
    clock,
    signal,
    async *onStart() {
      read.clear();
      isReading = true;
      yield* readMissed();
      isReading = false;
    },
    onLost: (reason) => log.warn({ reason }, 'the stream was interrupted; connecting again'),
  });
  return (async function* (): AsyncGenerator<StreamedTick> {
    for await (const tick of stream) {
      if (!isReading && read.delete(toKey(tick))) continue;
      // Late ticks must not move the start of a read back.
      nextMs.set(tick.symbol, Math.max(nextMs.get(tick.symbol) ?? started, tick.t + 1));
      yield tick;
    }
  })();
}

function nameTicks(symbols: readonly string[]): string {
  const [first, ...others] = symbols;
  return `new ticks of ${escapeControls(first!)}${others.length === 0 ? '' : ` and ${formatCount(others.length, 'other symbol')}`}`;
}

/** How long nothing comes before the command says that it waits, in ms. */
const quietMsMax = 2_000;

/**
 * Prints one line for each tick, no faster than they are read.
 * @param what the ticks that it waits for, printed to standard error if none comes at first
 */
async function printTicks(
  ticks: AsyncIterable<StreamedTick>,
  { json, quiet }: Pick<TailFlags, 'json' | 'quiet'>,
  what: string,
): Promise<void> {
  const arrived = new AbortController();
  systemClock
    .sleep(quietMsMax, arrived.signal)
    .then(() => quiet === true || process.stderr.write(`waiting for ${what}; stop with Ctrl-C\n`))
    .catch(() => {});
  try {
    for await (const tick of ticks) {
      arrived.abort();
      const line = json === true ? toJson(tick) : toText(tick);
      if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain');
    }
  } finally {
    arrived.abort();
  }
}

const toJson = ({ symbol, t, p, isRevision }: StreamedTick): string =>
  JSON.stringify({ symbol, t, p, ...(isRevision && { revision: true }) });

const toText = ({ symbol, t, p, isRevision }: StreamedTick): string =>
  `${formatIsoUtc(t)}  ${escapeControls(symbol)}  ${p}${isRevision ? '  (new price)' : ''}`;

const notes = `
Without --url, ticks are printed when a job or a service journals them in the archive: run a job at short intervals, or a service
with live reads, to have new ones. With --url, the service pushes them, and a lost connection is resumed. Its key is
ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE. Late ticks are printed too, so times are not always ascending. With --json,
each line is a JSON object; "revision" marks the new price of a tick that was known. Ctrl-C ends the command with exit code 0.`;

const examples = `
  oddslake tail --output lake KXBTC-26DEC0204-T28
  oddslake tail --output lake --since 2h --json KXBTC-26DEC0204-T28 | jq .p
  ODDSLAKE_FROM_API_KEY_FILE=key.txt oddslake tail --url https://lake.example.org KXBTC-26DEC0204-T28`;
