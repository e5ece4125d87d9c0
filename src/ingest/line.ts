import { UpstreamError } from '../core/errors.ts';

/** Whether anything answers at the upstream, as the requests of one collection find it. */
export interface Line {
  /** Requests answered, if only with a refusal. */
  answers(): number;
  /** The last request that reached nothing while no other was answered; null where one has been since. */
  silence(): UpstreamError | null;
  /** Makes a request and notes whether it was answered. */
  listen<T>(request: () => Promise<T>): Promise<T>;
  /**
   * Does a piece of work while `goesOn`, asked right before; says whether it was done. After one that met with silence
   * the next is tried `alone`, and the others wait for it: a service that is out of reach is not asked for everything.
   */
  attempt(goesOn: () => boolean, work: (alone: boolean) => Promise<void>): Promise<boolean>;
}

export function openLine(): Line {
  let answers = 0;
  let silence: UpstreamError | null = null;
  let trial: Promise<void> | null = null;
  const answered = (): void => {
    answers++;
    silence = null;
  };
  return {
    answers: () => answers,
    silence: () => silence,
    async listen(request) {
      const before = answers;
      try {
        const page = await request();
        answered();
        return page;
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        if (error.status !== undefined) answered();
        else if (error.failure === 'unreachable' && answers === before) silence = error;
        throw error;
      }
    },
    async attempt(goesOn, work) {
      while (trial !== null) await trial;
      if (!goesOn()) return false;
      if (silence === null) await work(false);
      else {
        trial = work(true).finally(() => {
          trial = null;
        });
        await trial;
      }
      return true;
    },
  };
}
