import { Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { ensureTrailingNewline } from './exposition-format.ts';
import { outcomes } from './last-run.ts';

/** What the process of a schedule counts: itself, and the runs since it began. */
export interface ScheduleMetrics {
  recordRun(job: string, outcome: string): void;
  /** In the text format of Prometheus. */
  formatText(): Promise<string>;
  close(): void;
}

/**  names the jobs that are scheduled: of a count that is not there yet the first step would be lost */
export function openScheduleMetrics(names: readonly string[]): ScheduleMetrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const runs = new Counter({
    registers: [registry],
    name: 'oddslake_schedule_runs_total',
    labelNames: ['name', 'outcome'],
    help: 'Runs that ended since the schedule began, by job and what they came to',
  });
  for (const name of names) for (const outcome of outcomes) runs.inc({ name, outcome }, 0);
  return {
    recordRun: (job, outcome) => runs.inc({ name: job, outcome }),
    formatText: async () => ensureTrailingNewline(await registry.metrics()),
    close: () => registry.clear(),
  };
}
