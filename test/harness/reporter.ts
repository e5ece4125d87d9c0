import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node';
import { isTimeLimit } from './limits.ts';
import { withoutPostgres } from './needs.ts';

// The end of a run: which tests were skipped and why, which failures only exceeded a time limit, and which quick files
// are slow.

interface Options {
  /** CPU time of a quick file, in ms. A slower one is only reported: a run never fails because of time. Default: 2000. */
  readonly quickCpuMsMax?: number;
}

/** In CI no test may be skipped: all requirements are installed there. */
const isStrict = process.env.CI !== undefined;

export default class EndOfRun implements Reporter {
  #hasPattern = false;
  readonly #quickCpuMsMax: number;

  constructor({ quickCpuMsMax = 2000 }: Options = {}) {
    this.#quickCpuMsMax = quickCpuMsMax;
  }

  onInit(vitest: Parameters<NonNullable<Reporter['onInit']>>[0]): void {
    this.#hasPattern = vitest.config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const skipped = Map.groupBy(tests.filter(wasSkipped), getSkipReason);
    // With -t every other test is skipped on purpose.
    if (this.#hasPattern) skipped.delete(noReason);
    const lines = [...skipped].map(
      ([reason, of]) => `  ${reason}: ${formatCount(of.length, 'test')} in ${listFiles(of)}`,
    );
    if (lines.length > 0) console.log(`Skipped:\n${lines.sort().join('\n')}\n`);
    skipped.delete(withoutPostgres);
    if (skipped.size > 0 && isStrict) {
      console.log('CI skips no test: install what is missing.');
      process.exitCode = 1;
    }
    const failed = tests.filter((test) => test.result().state === 'failed');
    const slow = failed.filter((test) => test.result().errors!.every(({ message }) => isTimeLimit(message)));
    if (slow.length > 0)
      console.log(
        `Of ${formatCount(failed.length, 'failed test')}, ${slow.length} reached a time limit and saw no wrong result: ` +
          `the machine is too slow, or something hangs.\n${slow.map((test) => `  ${test.module.relativeModuleId} > ${test.fullName}`).join('\n')}\n`,
      );
    this.#warnOfSlowFiles(modules);
  }

  #warnOfSlowFiles(modules: readonly TestModule[]): void {
    const slow = modules
      .map((module) => ({ module, cpuMs: module.meta().cpuMs ?? 0 }))
      .filter(({ module, cpuMs }) => module.project.name === 'quick' && cpuMs > this.#quickCpuMsMax)
      .sort((a, b) => b.cpuMs - a.cpuMs)
      .map(({ module, cpuMs }) => `  ${(cpuMs / 1000).toFixed(1)} s ${module.relativeModuleId}`);
    if (slow.length > 0)
      console.log(
        `Warning: quick tests of more than ${this.#quickCpuMsMax / 1000} s of CPU time; make them faster, or name them ` +
          `*.long.test.ts:\n${slow.join('\n')}\n`,
      );
  }
}

const noReason = 'no reason given';
const wasSkipped = (test: TestCase): boolean => test.result().state === 'skipped';

function getSkipReason(test: TestCase): string {
  const result = test.result();
  if (result.state === 'skipped' && result.note !== undefined) return result.note;
  for (let task: TestCase | TestSuite = test; ; task = task.parent) {
    const { missing } = task.meta();
    if (missing !== undefined) return missing;
    if (task.parent.type === 'module') return noReason;
  }
}

const formatCount = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

function listFiles(tests: readonly TestCase[]): string {
  const files = [...new Set(tests.map((test) => test.module.relativeModuleId))].sort();
  return files.length > 3 ? `${files.length} files` : files.join(', ');
}
