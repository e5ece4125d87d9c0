/**
 * Prints what the nightly proves of drawn servers, habit by habit: the table of PROOF.md.
 * `node --disable-warning=ExperimentalWarning test/collector/proof/measure.ts`
 * HABITS=… part of a name, several with `;`; SEEDS=… worlds per habit (3), SEED=… the first (1); SYMBOLS=… (40); NIGHTS=… (6);
 * EXAMPLES=… false claims that are printed per habit (0).
 * DRAWN=… servers that are drawn in place of that, each with one to three of the habits, and one night (a backfill), 5 or 15: prints
 * those within the assumptions that got a false claim, and the sums.
 */
import { describeClaim, type Measured, runSeed } from './oracle.ts';
import { arePromised, drawServer, habits } from './server.ts';

const read = (name: string, usual: number): number => Number(process.env[name] ?? usual);
const [first, seeds, examples, drawn] = [read('SEED', 1), read('SEEDS', 3), read('EXAMPLES', 0), read('DRAWN', 0)];
const size = { symbols: read('SYMBOLS', 40), nights: read('NIGHTS', 6) };
const words = process.env.HABITS?.split(';');

const chosen = habits.filter(({ name }) => words === undefined || words.some((word) => name.includes(word)));
if (drawn > 0) await measureDrawn();
else await measureHabits();

async function measureDrawn(): Promise<void> {
  const begun = performance.now();
  const sums = new Map<number, number>();
  let wrong = 0;
  for (let seed = first, n = 0; n < drawn; seed++) {
    const { set, size } = drawServer(seed, chosen);
    if (!arePromised(set)) continue;
    n++;
    sums.set(size.nights, (sums.get(size.nights) ?? 0) + 1);
    const { claims, forgotten } = await runSeed(seed, set, size);
    if (claims.length > 0) wrong++;
    const [claim] = claims;
    if (claim !== undefined) process.stdout.write(`${claims.length}: ${describeClaim(claim)}\n`);
    if (forgotten.length > 0) process.stdout.write(`seed ${seed}, ${set.map(({ name }) => name)}: ${forgotten[0]}\n`);
  }
  const counts = [...sums].sort(([a], [b]) => a - b).map(([nights, count]) => `${count} of ${nights} nights`);
  const seconds = Math.round((performance.now() - begun) / 1000);
  process.stdout.write(`${drawn} servers (${counts.join(', ')}), ${wrong} with a false claim, ${seconds} s\n`);
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
function figure(value: number | undefined): string {
  return value === undefined ? '–' : value.toFixed(2);
}

async function measureHabits(): Promise<void> {
  process.stdout.write(`| habit | false (settled; at the end) | forgotten | servers | found in night | n2 | n3 | last | provisional | requests per symbol-night | of least | ticks |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`);
  for (const set of chosen.map((habit) => [habit])) {
    const all: Measured[] = [];
    for (let seed = first; seed < first + seeds; seed++) all.push(await runSeed(seed, set, size));
    const claims = all.flatMap((one) => one.claims);
    const settled = claims.filter(({ isSettled }) => isSettled);
    const steady = all.flatMap((one) => one.nights.slice(2));
    const sum = (of: (night: (typeof steady)[number]) => number): number =>
      steady.reduce((n, night) => n + of(night), 0);
    const proven = (night: number): string => figure(mean(all.map((one) => one.proven.at(night) ?? Number.NaN)));
    const row = [
      `${set.map(({ name }) => name).join(' + ')}${arePromised(set) ? '' : ' *'}`,
      `${new Set(claims.map(({ seed, symbol, tick }) => `${seed} ${symbol} ${tick}`)).size} (${settled.length}; ${all.reduce((n, one) => n + one.standing, 0)})`,
      all.reduce((n, one) => n + one.forgotten.length, 0),
      `${all.filter((one) => one.claims.length > 0).length} of ${all.length}`,
      all.map(({ nights }) => nights.findIndex(({ omissions }) => omissions.length > 0) + 1 || '–').join(' '),
      ...[1, 2, -1].map(proven),
      `${(100 * mean(all.map((one) => one.provisional))).toFixed(1)} %`,
      figure(sum((night) => night.requests) / sum((night) => night.symbols)),
      figure(sum((night) => night.requests) / sum((night) => night.requestsMin)),
      all.reduce((n, one) => n + one.ticks, 0),
    ];
    process.stdout.write(`| ${row.join(' | ')} |\n`);
    const shown = [...settled, ...claims.filter(({ isSettled }) => !isSettled)].slice(0, examples);
    for (const claim of shown) process.stdout.write(`  ${describeClaim(claim)}\n`);
  }
}
