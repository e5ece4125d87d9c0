import { systemDisk } from '../../../src/archive/disk/file-system.ts';
import { precedenceRanks } from '../../../src/archive/format/precedence.ts';
import { appendTicks, type TickRecord } from '../../../src/archive/journal/journal.ts';
import { startRun } from '../../../src/archive/journal/runs.ts';
import { openArchive } from '../../../src/archive/open-archive.ts';
import { publish } from '../../../src/archive/publish/publish.ts';
import { systemClock } from '../../../src/base/system.ts';

// A process that collects and publishes for a number of rounds. Arguments: the archive's root, the first day, the rounds. Each
// round adds, in one transaction, one tick to each of two days, and a new price for the first tick of both.

const [root, day, rounds] = [process.argv[2]!, Number(process.argv[3]), Number(process.argv[4])];
const dayMs = 86_400_000;
const options = { root, create: false, upstream: null, parts: 1, writer: 'publisher' };
const archive = openArchive(options, systemDisk);
startRun(archive.state.db, 'publisher', 'test', process.pid, 0);
for (let round = 1; round <= rounds; round++) {
  const records = [day, day + dayMs].map(
    (start): TickRecord => ({
      runId: 'publisher',
      symbol: 'S',
      requestedWindow: { from: start, to: start + dayMs },
      origin: 'poll',
      observedAt: day + 3 * dayMs + round,
      rank: precedenceRanks.poll,
      rejected: [],
      covered: [],
      ticks: { t: Float64Array.of(start, start + round), p: Float64Array.of(round / 1000, round / 1000) },
    }),
  );
  appendTicks(archive.state, records);
  // Some rounds stay journaled for a while.
  if (round % 3 === 0) {
    const rules = { lookbackMs: 0, lingerMs: 0 };
    await publish(archive, {
      runId: 'publisher',
      clock: systemClock,
      waitMs: 10_000,
      namedSymbols: null,
      views: [],
      lifetimeRules: rules,
      candles: [],
    });
  }
}
archive.close();
