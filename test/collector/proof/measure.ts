/**
 * Prints what the nightly proves of drawn servers, habit by habit: the table of PROOF.md.
 * `node --disable-warning=ExperimentalWarning test/collector/proof/measure.ts`
 * HABITS=… part of a name, several with `;`; SEEDS=… worlds per habit (3), SEED=… the first (1); SYMBOLS=… (40); NIGHTS=… (6);
 * EXAMPLES=… false claims that are printed per habit (0); PAIRS=… drawn pairs of habits in place of habits alone (0).
 */
import { describeClaim, type Measured, runSeed } from './oracle.ts';
import { arePromised, type Habit, habits, limit } from './server.ts';
import { createDice } from './world.ts';

const read = (name: string, usual: number): number => Number(process.env[name] ?? usual);
const [first, seeds, examples, pairs] = [read('SEED', 1), read('SEEDS', 3), read('EXAMPLES', 0), read('PAIRS', 0)];
const size = { symbols: read('SYMBOLS', 40), nights: read('NIGHTS', 6) };
const words = process.env.HABITS?.split(';');

const chosen: (readonly Habit[])[] = habits
  .filter(({ name }) => words === undefined || words.some((word) => name.includes(word)))
  .map((habit) => [habit]);
const sets = pairs === 0 ? chosen : Array.from({ length: pairs }, (_, i) => drawPair(first + i));

/** Two habits, each for all nights and sources, or from a night on, or for one source. */
function drawPair(seed: number): Habit[] {
  const dice = createDice(seed + 104_729);
  return [0, 1].map(() => {
    const habit = dice.pick(dice.pick(chosen));
    const kind = dice.share();
    if (kind < 0.2) return limit(habit, { source: dice.pick(['A', 'B'] as const) });
    return kind < 0.4 ? limit(habit, { night: 1 + Math.floor(dice.between(0, 3)) }) : habit;
  });
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const figure = (value: number | undefined): string => (value === undefined ? '–' : value.toFixed(2));

process.stdout.write(`| habit | false (settled) | forgotten | servers | n2 | n3 | last | provisional | requests per symbol-night | of least | ticks |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`);
for (const [i, set] of sets.entries()) {
  const all: Measured[] = [];
  const begin = pairs === 0 ? first : first + i * seeds;
  for (let seed = begin; seed < begin + seeds; seed++) all.push(await runSeed(seed, set, size));
  const claims = all.flatMap((one) => one.claims);
  const settled = claims.filter(({ isSettled }) => isSettled);
  const steady = all.flatMap((one) => one.nights.slice(2));
  const sum = (of: (night: (typeof steady)[number]) => number): number => steady.reduce((n, night) => n + of(night), 0);
  const proven = (night: number): string => figure(mean(all.map((one) => one.proven.at(night) ?? Number.NaN)));
  const row = [
    `${set.map(({ name }) => name).join(' + ')}${arePromised(set) ? '' : ' *'}`,
    `${new Set(claims.map(({ seed, symbol, tick }) => `${seed} ${symbol} ${tick}`)).size} (${settled.length})`,
    all.reduce((n, one) => n + one.forgotten.length, 0),
    `${all.filter((one) => one.claims.length > 0).length} of ${all.length}`,
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
