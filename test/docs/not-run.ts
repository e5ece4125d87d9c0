/**
 * What pages tell people to type and no test types, each with the reason: the only place where a line can be left out.
 * The commands and flags of oddslake in such lines are looked at all the same.
 */

/** Programs that change the machine, or of which there is no other end here. */
export const programsNotRun: Readonly<Record<string, string>> = {
  systemctl: 'there need be no systemd',
  journalctl: 'there need be no systemd',
  'systemd-analyze': 'there need be no systemd',
  loginctl: 'there need be no systemd',
  crontab: 'it would change the schedule of whoever runs the tests',
  docker: 'there need be no Docker',
  podman: 'there need be no Podman',
  kubectl: 'there need be no cluster',
  helm: 'there need be no cluster',
  airflow: 'there need be no Airflow',
  rsync: 'there is no other machine',
  scp: 'there is no other machine',
  ssh: 'there is no other machine',
  rclone: 'there is no other machine',
  restic: 'there need be no restic',
  sudo: 'it changes the machine',
  useradd: 'it changes the machine',
  install: 'it changes the machine',
  apt: 'it changes the machine',
  brew: 'it changes the machine',
  git: 'there is no other repository',
  npm: 'test/docs/package.test.ts packs and installs the package',
  npx: 'test/docs/package.test.ts packs and installs the package',
  pip: 'test/readers installs what reads an archive',
  jupyter: 'test/readers runs the notebook',
  man: 'test/docs/man-page.test.ts looks at the page',
};

export interface NotRun {
  readonly page: string;
  /** How the line begins. */
  readonly begins: string;
  readonly because: string;
}

export const linesNotRun: readonly NotRun[] = [
  { page: 'README.md', begins: 'make test', because: 'it is what runs this; .ci/run types it in a clean clone' },
  {
    page: 'docs/for-data-scientists.md',
    begins: 'docs/notebooks/nights',
    because: 'it takes a minute; test/readers fills that archive, and runs the page over it',
  },
];

/** Why a line is not typed; undefined where it is. */
export function reasonOf(page: string, code: string): string | undefined {
  const own = linesNotRun.find((line) => line.page === page && code.startsWith(line.begins));
  if (own !== undefined) return own.because;
  // Of a line of several commands the first that is not run is the reason for all of it.
  const words = code.split(/&&|\|\||[;|]/).map((part) => /^\s*(?:\w+=\S*\s+)*([\w.-]+)/.exec(part)?.[1] ?? '');
  const word = words.find((each) => Object.hasOwn(programsNotRun, each));
  return word === undefined ? undefined : programsNotRun[word];
}
