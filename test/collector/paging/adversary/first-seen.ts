/**
 * Prints for each kind of server the first seed, of 200, that finds an error. Use it after breaking src/collector/paging on
 * purpose.
 * `node test/collector/paging/adversary/first-seen.ts`
 */
import { backfillOnce, continueOnce } from './checks.ts';

const seedsMax = Number(process.env.SERVERS ?? 200);
const kinds = ['contiguous', 'several replicas', 'sampling', 'joining'] as const;

async function firstSeen(check: (seed: number) => Promise<string[]>): Promise<number | '-'> {
  for (let seed = 1; seed <= seedsMax; seed++) if ((await check(seed)).length > 0) return seed;
  return '-';
}

const seen: string[] = [];
for (const kind of kinds) {
  seen.push(`${kind}: ${await firstSeen((seed) => backfillOnce(seed, kind))}`);
  seen.push(`${kind}, polled: ${await firstSeen((seed) => continueOnce(seed, kind))}`);
}
process.stdout.write(`${seen.join(' · ')}\n`);
