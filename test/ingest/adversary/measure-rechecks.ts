/**
 * Prints for each kind of server how many nights pass until rechecks find a missing tick. SERVERS=… of each kind (40), NIGHTS=… each (30).
 * `node test/ingest/adversary/measure-rechecks.ts`
 */
import { type Misbehavior, simulateNights } from './rechecks.ts';

const servers = Number(process.env.SERVERS ?? 40);
const nights = Number(process.env.NIGHTS ?? 30);
const firstSeed = Number(process.env.SEED ?? 1);
const kinds: readonly Misbehavior[] = process.env.KIND
  ? [process.env.KIND as Misbehavior]
  : ['honest', 'sampling', 'coarse', 'joining', 'lagging replica', 'late ticks'];
for (const kind of kinds) {
  const took: number[] = [];
  const never: string[] = [];
  const left: number[] = [];
  const most: number[] = [];
  let [harmless, polls, rechecks, found] = [0, 0, 0, 0];
  for (let seed = firstSeed; took.length + never.length < servers && seed < firstSeed + 10 * servers; seed++) {
    const one = await simulateNights(seed, kind, nights);
    polls += one.pollRequests;
    rechecks += one.recheckRequests;
    if (process.env.VERBOSE)
      process.stdout.write(
        `${seed} ${one.firstMissing} ${one.firstFound} ${one.missing.join(' ')} | ${one.nights.map((n) => `${n.windows}/${n.contradicted}/${n.reread}/${n.doubtful}`).join(' ')} ${one.overlapMs / 3.6e6}\n`,
      );
    if (one.firstFound !== null && one.firstMissing === null) found++;
    if (one.firstMissing === null) {
      if (++harmless >= servers) break;
      continue;
    }
    left.push(one.missing.at(-1)!);
    most.push(Math.max(...one.missing));
    if (one.firstFound === null) never.push(one.name);
    else took.push(one.firstFound - one.firstMissing);
  }
  took.sort((a, b) => a - b);
  left.sort((a, b) => a - b);
  const at = (values: readonly number[], share: number): number | undefined =>
    values[Math.floor(share * (values.length - 1))];
  process.stdout.write(
    `${kind}: found in ${took.length} of ${took.length + never.length}, nights median ${at(took, 0.5)}, 90 % ${at(took, 0.9)}, max ${took.at(-1)}; ` +
      `harmless ${harmless} (contradicted all the same: ${found}); requests of polls ${polls}, beside them ${rechecks}; missing at the end: median ${at(left, 0.5)}, max ${left.at(-1)}, of at most ${Math.max(0, ...most)}\n`,
  );
  for (const name of never.slice(0, 3)) process.stdout.write(`  never: ${name}\n`);
}
