import { playStory, type StoryResult } from './story.ts';

// Searches seed by seed for a green state over an incomplete archive: node test/whole/search.ts [SEEDS] [FIRST]. Exits
// with 1 at the first violation. TRACE=1 prints each step.

const seeds = Number(process.argv[2] ?? 200);
const first = Number(process.argv[3] ?? 1);
const sums: Record<string, number> = {};
const begun = performance.now();

function addResult(result: StoryResult): void {
  const { nights, missing, inferred, hidden, states, exitCodes } = result;
  const figures = { nights, missing, inferred, hidden };
  const ofCodes = Object.fromEntries(Object.entries(exitCodes).map(([code, n]) => [`exit ${code}`, n]));
  for (const [name, n] of Object.entries({ ...figures, ...states, ...ofCodes })) sums[name] = (sums[name] ?? 0) + n;
}

for (let seed = first; seed < first + seeds; seed++) {
  const result = await playStory(seed, process.env.TRACE ? (line) => console.log(line) : undefined);
  addResult(result);
  if (result.breaches.length > 0) {
    console.log(`seed ${seed}, the ${seed - first + 1}th:\n  ${result.breaches.slice(0, 8).join('\n  ')}`);
    process.exitCode = 1;
    break;
  }
}
console.log(`${((performance.now() - begun) / 1000).toFixed(1)} s: ${JSON.stringify(sums)}`);
