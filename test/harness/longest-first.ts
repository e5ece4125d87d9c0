import { basename } from 'node:path';
import { BaseSequencer, type TestSequencerConstructor, type TestSpecification } from 'vitest/node';

/**
 * The order in which files begin: these first, by their names, then the others, as vitest orders them: large ones first. A
 * file that takes a minute and begins late would run alone at the end, with a processor idle. The files of a project follow
 * each other, because a process runs those of one only; those of `long` begin.
 * @param last names of files that begin when no other is left
 */
export const orderLongestFirst = (longest: readonly string[], last: readonly string[] = []): TestSequencerConstructor =>
  class extends BaseSequencer {
    override async sort(specifications: TestSpecification[]): Promise<TestSpecification[]> {
      const rank = ({ moduleId, project }: TestSpecification): number => {
        const name = basename(moduleId);
        const at = longest.indexOf(name);
        if (at >= 0) return at;
        return longest.length + (project.name === 'quick' ? 1 : 0) + (last.includes(name) ? 2 : 0);
      };
      return (await super.sort(specifications)).toSorted((a, b) => rank(a) - rank(b));
    }
  };
