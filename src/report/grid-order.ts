import { type ObjectiveName, objectives } from '../research/objectives.ts';
import type { GridResult } from '../research/result.ts';

export type GridPoint = GridResult['points'][number];

/** The points of a grid by the value that they are chosen by, the best first, those without one last; equals in their order. */
export function sortBestFirst({ points }: GridResult, objective: ObjectiveName): GridPoint[] {
  const { isMinimized } = objectives[objective];
  return points.toSorted((a, b) => {
    if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null);
    return isMinimized ? a.value - b.value : b.value - a.value;
  });
}
