import { readFileSync } from 'node:fs';

// The parts of deploy/grafana/dashboard.json that the tests check.

interface DataSource {
  readonly type: string;
  readonly uid: string;
}
export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: DataSource;
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly Target[];
}
interface Target {
  readonly datasource?: DataSource;
  readonly expr: string;
  readonly legendFormat: string;
}
interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly query: string | { query: string };
    }[];
  };
}

export const readDashboard = (): Dashboard =>
  JSON.parse(readFileSync(new URL('../../deploy/grafana/dashboard.json', import.meta.url), 'utf8')) as Dashboard;

export const listTargets = ({ panels }: Dashboard): Target[] => panels.flatMap(({ targets = [] }) => targets);

/** Replaces the variables of Grafana as it does for all instances. */
export const replaceVariables = (expression: string): string =>
  expression.replaceAll(/\$(?:instance|mountpoint)\b/g, '.*').replaceAll('$__rate_interval', '5m');
