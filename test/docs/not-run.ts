/**
 * Commands on pages that no test runs, each with the reason. No other place can exclude a line.
 * The commands and flags of oddslake in such lines are still checked.
 */

/** Programs that change the machine, or that need a second machine or service. */
const programsNotRun: Readonly<Record<string, string>> = {
  systemctl: 'systemd may be missing',
  journalctl: 'systemd may be missing',
  'systemd-analyze': 'systemd may be missing',
  loginctl: 'systemd may be missing',
  crontab: 'it would change the schedule of the user who runs the tests',
  docker: 'Docker may be missing',
  podman: 'Podman may be missing',
  promtool: 'test/deploy/monitoring.long.test.ts checks the files with it',
  kubectl: 'a cluster may be missing',
  helm: 'a cluster may be missing',
  airflow: 'Airflow may be missing',
  rsync: 'there is no other machine',
  scp: 'there is no other machine',
  ssh: 'there is no other machine',
  rclone: 'there is no other machine',
  restic: 'restic may be missing',
  sudo: 'it changes the machine',
  useradd: 'it changes the machine',
  install: 'it changes the machine',
  apt: 'it changes the machine',
  brew: 'it changes the machine',
  git: 'there is no other repository',
  npm: 'test/package.sh packs and installs the package',
  npx: 'test/package.sh packs and installs the package',
  pip: 'test/readers installs the readers',
  jupyter: 'test/readers runs the notebook',
  'spark-submit': 'test/readers/test_spark_jobs.py runs the jobs',
  man: 'test/docs/man-page.test.ts checks the page',
  'ssh-keygen': 'bin/release --dry-run verifies a signature',
};

interface NotRun {
  readonly page: string;
  /** The start of the line. */
  readonly begins: string;
  readonly because: string;
}

export const linesNotRun: readonly NotRun[] = [
  ...['push', 'verify', 'pull'].map((command) => ({
    page: 'docs/BUCKET.md',
    begins: `oddslake ${command} s3://`,
    because: 'there is no bucket; test/e2e/bucket.test.ts runs it',
  })),
  ...['status', 'sql', 'backtest run threshold', 'serve'].map((command) => ({
    page: 'docs/BUCKET.md',
    begins: `oddslake ${command} --archive s3://`,
    because: 'there is no bucket; test/e2e/bucket-read.test.ts runs it',
  })),
  {
    page: 'docs/BUCKET.md',
    begins: 'oddslake import lake-b',
    because: 'there is no second recorder',
  },
  {
    page: 'docs/BUCKET.md',
    begins: 'python deploy/tables/sync_delta.py',
    because: 'there is no bucket; test/readers/test_delta.py runs it',
  },
  {
    page: 'README.md',
    begins: 'tar -xzf oddslake-0.1.0-linux-x64.tar.gz',
    because: 'test/package.sh builds the tarball, and test/tarball.sh runs it',
  },
  ...['sha256sum --check ', 'tar -xzf oddslake-', 'ln -sfn /opt/oddslake-'].map((begins) => ({
    page: 'docs/OPERATING.md',
    begins,
    because: 'test/package.sh builds the tarball, and test/tarball.sh runs it',
  })),
  {
    page: 'docs/OPERATING.md',
    begins: 'deploy/image.sh output/',
    because: 'buildah may be missing; test/image.sh checks the image',
  },
  { page: 'README.md', begins: 'make test', because: 'it runs this test; .ci/run runs it in a clean clone' },
  {
    page: 'docs/IMPORT.md',
    begins: 'oddslake import --output lake feed.csv',
    because: 'the first command is refused; test/e2e/import-feeds.test.ts runs both',
  },
  {
    page: 'docs/for-data-scientists.md',
    begins: 'docs/notebooks/nights',
    because: 'it takes a minute; test/readers creates that archive and runs the page on it',
  },
];

/** Why a line is not run; undefined if it is run. */
export function findReason(page: string, code: string): string | undefined {
  const own = linesNotRun.find((line) => line.page === page && code.startsWith(line.begins));
  if (own !== undefined) return own.because;
  // In a line with several commands, the first excluded one excludes the line.
  const words = code.split(/&&|\|\||[;|]/).map((part) => /^\s*(?:\w+=\S*\s+)*([\w.-]+)/.exec(part)?.[1] ?? '');
  const word = words.find((each) => Object.hasOwn(programsNotRun, each));
  return word === undefined ? undefined : programsNotRun[word];
}
