import { Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { endedLine } from './text.ts';

/** What the process of a schedule counts: itself, and the runs since it began. */
export interface ScheduleCounts {
  ended(job: string, outcome: string): void;
  /** In the text format of Prometheus. */
  text(): Promise<string>;
  close(): void;
}

export function openScheduleCounts(): ScheduleCounts {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const runs = new Counter({
    ...{ registers: [registry], name: 'oddslake_schedule_runs_total', labelNames: ['name', 'outcome'] },
    help: 'Runs that ended since the schedule began, by job and what they came to',
  });
  return {
    ended: (job, outcome) => runs.inc({ name: job, outcome }),
    text: async () => endedLine(await registry.metrics()),
    close: () => registry.clear(),
  };
}
