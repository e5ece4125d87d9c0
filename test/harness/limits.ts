// The only clock that may end a test. Time limits are there for tests that hang: they are generous, so that ten busy
// processes on two cores do not reach them, and what reaches one fails as "machine too slow", never as a wrong result.

/** For one test, its hooks, or one process that a test starts, in ms. */
export const limitMs = 600_000;

/** A time limit was reached: the machine is too slow, or something hangs. No wrong result was seen. */
export class MachineTooSlow extends Error {
  override readonly name = 'MachineTooSlow';
  constructor(waitedFor: string, ms: number) {
    super(`machine too slow, or a hang: ${waitedFor} was not seen within ${ms / 1000} s`);
  }
}

/** How the errors of all time limits read, vitest's own among them: the reporter counts these apart. */
export const isTimeLimit = (message: string): boolean =>
  message.includes('machine too slow, or a hang') || /\b(?:Test|Hook) timed out in \d+ms\b/.test(message);

/**
 * Resolves with what `look` gives as soon as that is neither undefined nor false. `look` has to find what stays once it
 * is there (a log line, a counter, a file): a state that passes may be over before anybody looks.
 * @throws MachineTooSlow naming `waitedFor`
 */
export async function until<T>(
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
