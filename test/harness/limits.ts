// Time limits of the tests. They only catch tests that hang: they are generous enough for ten busy processes on two
// cores, and a test that exceeds one fails as "machine too slow", never as a wrong result.

/** For one test, its hooks, or one process that a test starts, in ms. */
export const limitMs = 600_000;

/** A time limit was exceeded: the machine is too slow, or something hangs. No wrong result was seen. */
export class MachineTooSlow extends Error {
  override readonly name = 'MachineTooSlow';
  constructor(waitedFor: string, ms: number) {
    super(`machine too slow, or a hang: ${waitedFor} was not seen within ${ms / 1000} s`);
  }
}

/** Messages of all time limits, vitest's own included: the reporter counts them separately. */
export const isTimeLimit = (message: string): boolean =>
  message.includes('machine too slow, or a hang') || /\b(?:Test|Hook) timed out in \d+ms\b/.test(message);

/**
 * Resolves with the result of `look` as soon as it is neither undefined nor false. `look` has to check something
 * permanent (a log line, a counter, a file), because a temporary state may pass unseen.
 * @throws MachineTooSlow naming `waitedFor`
 */
export async function waitFor<T>(
  look: () => T | Promise<T>,
  waitedFor: string,
  ms = limitMs / 2,
): Promise<Exclude<T, undefined | false>> {
  const end = performance.now() + ms;
  for (;;) {
    const seen = await look();
    if (seen !== undefined && seen !== false) return seen as Exclude<T, undefined | false>;
    if (performance.now() > end) throw new MachineTooSlow(waitedFor, ms);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
