/**
 * Prints for each kind of server the number of nights from the first one that omits 1 % of its ticks until a recheck finds
 * some: a row of docs/RELIABILITY.md. SERVERS=… per kind (40), SEED=… the first seed (1), KIND=… one kind only, SHARE=… the
 * value of poll.recheck_share.
 * `node test/collector/paging/adversary/measure-rechecks.ts`
 */
import { type Misbehavior, simulateNights } from './rechecks.ts';

const servers = Number(process.env.SERVERS ?? 40);
const share = Number(process.env.SHARE ?? 0.01);
const firstSeed = Number(process.env.SEED ?? 1);
/** Nights after which a server counts as not found. */
const nightsMax = 40;
const all: readonly Misbehavior[] = ['sampling', 'coarse', 'joining', 'lagging replica', 'late ticks'];
const kinds = all.filter((kind) => process.env.KIND === undefined || kind === process.env.KIND);

for (const kind of kinds) {
  const nightsNeeded: number[] = [];
  const never: string[] = [];
  for (let seed = firstSeed; nightsNeeded.length + never.length < servers; seed++) {
    const { name, firstMissing, firstFound } = await simulateNights(seed, kind, nightsMax, {
      isUntilFound: true,
      share,
    });
    if (firstMissing === null) continue;
    if (firstFound === null) never.push(name);
    else nightsNeeded.push(Math.max(0, firstFound - firstMissing));
  }
  nightsNeeded.sort((a, b) => a - b);
  const at = (share: number): number | undefined => nightsNeeded[Math.floor(share * (nightsNeeded.length - 1))];
  process.stdout.write(
    `| ${kind} | ${nightsNeeded.length} of ${servers} | ${at(0.5)} | ${at(0.9)} | ${nightsNeeded.at(-1)} |\n`,
  );
  for (const name of never) process.stdout.write(`not found: ${name}\n`);
}

let [requests, contradicted] = [0, 0];
for (let seed = firstSeed; seed < firstSeed + servers && process.env.KIND === undefined; seed++) {
  const { firstMissing, nights } = await simulateNights(seed, 'honest', 10, { share });
  if (firstMissing !== null) continue;
  for (const night of nights) requests += night.requests;
  contradicted += nights.filter((night) => night.contradicted > 0).length;
}
process.stdout.write(`honest servers: ${requests} rechecks, ${contradicted} nights with a contradiction\n`);
