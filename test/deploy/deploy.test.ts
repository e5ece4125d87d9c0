import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { metricFamilies } from '../../src/metrics/metric-definitions.ts';
import { openRequestMetrics } from '../../src/metrics/prometheus.ts';
import { parseCron } from '../../src/settings/cron.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { needsCommands } from '../harness/needs.ts';
import { findCalls, findErrors, findUnknownNames } from './command-lines.ts';

// The parts of the examples that the tests check.

interface Composed {
  readonly services: Record<
    string,
    {
      command?: string[];
      image: string;
      build: { context: string; dockerfile: string };
      volumes?: string[];
      ports?: string[];
      secrets?: string[];
      environment?: Record<string, string>;
      env_file?: object[];
    }
  >;
  readonly volumes: Record<string, unknown>;
  readonly secrets: Record<string, unknown>;
}

function readCompose(text: string): Composed {
  return parse(text, { merge: true }) as Composed;
}

interface Container {
  readonly image: string;
  /** Waits until there is an archive, without `args`. */
  readonly command?: string[];
  readonly args?: string[];
  readonly env?: readonly { name: string; value: string }[];
  readonly envFrom?: readonly { secretRef: { name: string; optional: boolean } }[];
  readonly securityContext: object;
  readonly volumeMounts: readonly { name: string }[];
}
interface Pod {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly securityContext: object;
  readonly volumes: readonly {
    readonly name: string;
    readonly configMap?: { name: string };
    readonly secret?: { secretName: string };
    readonly persistentVolumeClaim?: { claimName: string };
  }[];
}
interface Template {
  readonly metadata: { readonly labels: object };
  readonly spec: Pod;
}
interface Kubernetes {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec?: {
    readonly schedule?: string;
    readonly selector?: object;
    readonly template?: Template;
    readonly jobTemplate?: { readonly spec: { readonly template: Template } };
  };
}

function readKubernetes(text: string): Kubernetes[] {
  return parseAllDocuments(text).map((document) => document.toJS() as Kubernetes);
}

function getPod({ spec }: Kubernetes): Pod {
  return (spec!.template ?? spec!.jobTemplate!.spec.template).spec;
}

function listContainers(document: Kubernetes): Container[] {
  if (document.kind !== 'CronJob' && document.kind !== 'Deployment') return [];
  const { containers, initContainers = [] } = getPod(document);
  return [...containers, ...initContainers];
}

const root = new URL('../../', import.meta.url).pathname;
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');
const names = globSync('deploy/**/*', { cwd: root, withFileTypes: true })
  .filter((entry) => entry.isFile() && !entry.parentPath.includes('__pycache__'))
  .map((entry) => join(entry.parentPath, entry.name).slice(root.length))
  .sort();
// test/deploy/monitoring.long.test.ts checks labels and values too, on the running program.
const requestMetrics = [...(await openRequestMetrics(() => ({}), []).formatText()).matchAll(/^# TYPE (\w+) (\w+)$/gm)];
const metrics = new Set([
  ...Object.keys(metricFamilies),
  'oddslake_schedule_runs_total',
  ...requestMetrics.map(([, name, type]) => (type === 'histogram' ? `${name}_bucket` : name!)),
]);

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'oddslake-deploy-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

test.each([...names, 'docs/OPERATING.md'])('%s names only settings, variables and metrics that exist', (path) => {
  expect(findUnknownNames(textOf(path), metrics)).toEqual([]);
});

test('the check finds unknown names', () => {
  const text = 'set notify.webhock_url or ODDSLAKE_WEBHOK, see oddslake_job_last_run_end_seconds; notify.when is one';
  const wrong = ['notify.webhock_url', 'ODDSLAKE_WEBHOK', 'oddslake_job_last_run_end_seconds'];
  expect(findUnknownNames(text, metrics)).toEqual(wrong);
  expect(findErrors(['nightly', '--dat', '2026-01-01', '--set', 'poll.page=1', 'x'])).toEqual([
    'nightly has no --dat',
    expect.stringContaining('unknown setting poll.page'),
    'nightly takes no 2026-01-01 x',
  ]);
});

/** The unit that reports the failure of the others. It does not run the program. */
const failureUnit = 'deploy/systemd/oddslake-failure@.service';

/** The command lines of each example, with a parser for its format. */
const commandLines: readonly (readonly [path: string, least: number, lines: (text: string) => string[][]])[] = [
  ...names
    .filter((path) => path.endsWith('.service') && path !== failureUnit)
    .map((path) => [path, 1, execStarts] as const),
  ['deploy/crontab', 2, findCalls],
  ['deploy/Dockerfile', 1, (text) => [JSON.parse(/^CMD (\[.*\])$/m.exec(text)![1]!) as string[]]],
  [
    'deploy/compose.yaml',
    3,
    (text) => Object.values(readCompose(text).services).flatMap(({ command }) => (command ? [command] : [])),
  ],
  ...['deploy/kubernetes/nightly.yaml', 'deploy/kubernetes/serve.yaml'].map(
    (path) =>
      [
        path,
        1,
        (text: string) =>
          readKubernetes(text)
            .flatMap(listContainers)
            .flatMap(({ args }) => (args ? [args] : [])),
      ] as const,
  ),
  ['deploy/airflow/oddslake_nightly.py', 2, airflowLines],
  [
    'docs/OPERATING.md',
    12,
    (text) => [...text.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, block]) => findCalls(block!)),
  ],
];

function execStarts(text: string): string[][] {
  return [...text.matchAll(/^ExecStart=\/usr\/local\/bin\/oddslake (.*)$/gm)].map(([, line]) => line!.split(' '));
}

function airflowLines(text: string): string[][] {
  return [...text.matchAll(/arguments=(\[[^\]]*\])/g)].map(([, list]) => JSON.parse(list!) as string[]);
}

test.each(commandLines)('the program accepts every command line of %s', (path, callsMin, lines) => {
  const calls = lines(textOf(path));
  expect(calls.length).toBeGreaterThanOrEqual(callsMin);
  expect(calls.flatMap((args) => findErrors(args).map((wrong) => `${args.join(' ')}: ${wrong}`))).toEqual([]);
});

describe('sample configs load', () => {
  test('of a machine, including the commented settings', async () => {
    const at = folder();
    const text = textOf('deploy/oddslake.yaml').replace(/^# (?=notify:| )/gm, '');
    expect(text).toContain('\n  webhook_url_file:');
    writeFileSync(join(at, 'oddslake.yaml'), text);
    writeFileSync(join(at, 'api-key'), 'k\n');
    writeFileSync(join(at, 'webhook-url'), 'https://hooks.example/x\n');
    const settings = await loadSettings({ env: {}, cwd: '/', config: join(at, 'oddslake.yaml') });
    expect(settings.upstream.apiKey).toBe('k');
    expect(settings.notify.webhookUrl).toBe('https://hooks.example/x');
    expect(settings.archive.output).toBe('/var/lib/oddslake/lake');
  });

  test('of the cluster', async () => {
    const at = folder();
    writeFileSync(join(at, 'oddslake.yaml'), textOf('deploy/kubernetes/oddslake.yaml'));
    const settings = await loadSettings({ env: {}, cwd: '/', config: join(at, 'oddslake.yaml') });
    expect([settings.archive.output, settings.service.host]).toEqual(['/lake/archive', '0.0.0.0']);
  });
});

describe('systemd', () => {
  test('accepts the units and rates them as hardened', needsCommands('systemd-analyze'), () => {
    const at = folder();
    const units = names.filter((path) => /\.(service|timer)$/.test(path));
    for (const path of units) {
      // The program is not installed here.
      const text = textOf(path).replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true');
      writeFileSync(join(at, path.split('/').at(-1)!), text);
    }
    const files = globSync('*', { cwd: at }).map((name) => join(at, name));
    const verified = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' });
    expect([verified.status, verified.stderr.split('\n').filter((line) => line.includes('oddslake'))]).toEqual([0, []]);
    for (const file of files.filter((name) => name.endsWith('.service'))) {
      const rating = spawnSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', file]);
      expect([file, rating.status]).toEqual([file, 0]);
    }
  });
});

describe('the image, the key and the credentials of a bucket', () => {
  const countOf = (pattern: RegExp, ...paths: readonly string[]): number =>
    paths.reduce((sum, path) => sum + (textOf(path).match(pattern) ?? []).length, 0);
  const units = names.filter((path) => path.endsWith('.service') && path !== failureUnit);
  const readers = ['deploy/systemd/oddslake-pull.service', 'deploy/systemd/oddslake-serve.service'];
  const inCluster = names.filter((path) => path.startsWith('deploy/kubernetes/'));

  test('stand in one place each', () => {
    expect(countOf(/AWS_SECRET_ACCESS_KEY/g, 'deploy/systemd/oddslake.env', ...units)).toBe(1);
    expect(countOf(/^EnvironmentFile=\/etc\/oddslake\/oddslake\.env$/gm, ...units)).toBe(units.length);
    expect(countOf(/api-key$|API_KEY_FILE|LoadCredential/gm, 'deploy/oddslake.yaml', ...units)).toBe(
      1 + readers.length,
    );
    expect(countOf(/^InaccessiblePaths=-\/etc\/oddslake\/api-key$/gm, ...readers)).toBe(readers.length);
    expect(countOf(/image:|bucket\.env, required/g, 'deploy/compose.yaml')).toBe(2);
    expect(countOf(/newTag|api-key=|AWS_SECRET_ACCESS_KEY/g, ...inCluster)).toBe(3);
    expect(countOf(/image: (?!oddslake$)/gm, ...inCluster)).toBe(0);
  });

  test('a unit that only reads needs no market data key', async () => {
    const at = folder();
    // It names a key file, which this machine does not have.
    writeFileSync(join(at, 'oddslake.yaml'), textOf('deploy/oddslake.yaml'));
    for (const path of readers) {
      const [args] = execStarts(textOf(path));
      const set = args!.flatMap((word, i) => (args![i - 1] === '--set' ? [word] : []));
      const settings = await loadSettings({ env: {}, cwd: '/', config: join(at, 'oddslake.yaml'), set });
      expect(settings.upstream.apiKey, path).toBeNull();
    }
    const { services } = readCompose(textOf('deploy/compose.yaml'));
    for (const name of ['serve', 'pull'])
      expect(JSON.stringify([services[name]!.secrets, services[name]!.environment]), name).not.toMatch(
        /api-key|API_KEY/,
      );
    expect([services.schedule!.secrets, services.schedule!.env_file]).toEqual([['api-key'], services.pull!.env_file]);
  });
});

describe('the unit for failures', () => {
  test('is started by every unit that runs the program', () => {
    const [template] = failureUnit.split('/').at(-1)!.split('.');
    for (const path of names.filter((name) => name.endsWith('.service') && name !== failureUnit))
      expect(textOf(path), path).toContain(`\nOnFailure=${template}%n.service\n`);
  });

  test('mails the state and the log of the unit that failed', () => {
    const at = folder();
    const stubs = { systemctl: 'echo "state: $*"', journalctl: 'echo "log: $*"', curl: 'echo "curl: $*"; cat' };
    for (const [name, line] of Object.entries(stubs))
      writeFileSync(join(at, name), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
    const text = textOf(failureUnit).replaceAll('\\\n', ' ');
    const [, script] = /^ExecStart=\/bin\/sh -c '(.*)' report %i %H$/m.exec(text)!;
    const env = Object.fromEntries(
      [...text.matchAll(/^Environment=(\w+)=(.*)$/gm)].map(([, key, value]) => [key, value]),
    );
    // systemd replaces these escapes before it starts the shell.
    const command = script!
      .replaceAll('\\\\', '\\')
      .replaceAll('%%', '%')
      .replaceAll('$$', () => '$');
    const result = spawnSync('/bin/sh', ['-c', command, 'report', 'oddslake-nightly.service', 'box'], {
      encoding: 'utf8',
      env: { ...env, PATH: `${at}:/usr/bin:/bin` },
    });
    expect([result.status, result.stderr]).toEqual([0, '']);
    const [call, ...mail] = result.stdout.split('\n');
    expect(call).toMatch(/--mail-from oddslake@localhost --mail-rcpt root@localhost .*smtp:\/\/localhost$/);
    expect(mail.slice(0, 4)).toEqual([
      'From: oddslake@localhost',
      'To: root@localhost',
      'Subject: oddslake-nightly.service on box has failed',
      '',
    ]);
    expect(mail[4]).toMatch(/^state: .*status oddslake-nightly\.service$/);
    expect(mail[5]).toMatch(/^log: .*--unit=oddslake-nightly\.service$/);
  });
});

describe('cron', () => {
  const jobs = textOf('deploy/crontab')
    .split('\n')
    .filter((line) => /^[\d*@]/.test(line))
    .map((line) => /^(\S+ \S+ \S+ \S+ \S+) (\S+) (.*)$/.exec(line)!.slice(1) as [string, string, string]);

  test('parses every line', () => {
    expect(jobs.map(([, user]) => user)).toEqual(['oddslake', 'oddslake']);
    for (const [schedule, , command] of jobs) {
      expect(parseCron(schedule).findNext(0)).not.toBe(null);
      // An unescaped % ends the command in a crontab.
      expect(command).not.toContain('%');
    }
  });

  test('mails the summary of failed runs only', () => {
    const at = folder();
    mkdirSync(join(at, 'bin'));
    for (const [, , command] of jobs)
      for (const [code, mail] of [
        [0, ''],
        [4, 'the summary\nand why\n'],
      ] as const) {
        writeFileSync(join(at, 'bin/oddslake'), `#!/bin/sh\necho the summary; echo and why >&2; exit ${code}\n`, {
          mode: 0o755,
        });
        const result = spawnSync('/bin/sh', ['-c', command], {
          encoding: 'utf8',
          env: { PATH: `${at}/bin:/usr/bin:/bin` },
        });
        expect(result.stdout + result.stderr).toBe(mail);
      }
  });
});

describe('the image', () => {
  const dockerfile = textOf('deploy/Dockerfile');
  const buildContext = textOf('deploy/Dockerfile.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1));

  test('is built from files that exist and are sent to the build', () => {
    for (const path of buildContext) expect(existsSync(join(root, path)), path).toBe(true);
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, list]) => list!.split(' '));
    const top = copied.filter((path) => path !== '.').map((path) => path.split('/')[0]!);
    expect(top.length).toBeGreaterThan(4);
    for (const path of top) expect(buildContext, path).toContain(path);
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
    for (const [config] of scripts.build!.matchAll(/tsconfig[\w.]*json/g)) expect(buildContext).toContain(config);
  });

  test('runs without privileges, has a health check, and contains no key', () => {
    expect(dockerfile).toMatch(/^USER 10001:10001$/m);
    expect(dockerfile).toMatch(/^HEALTHCHECK .*\\\n {2}CMD \["node"/m);
    expect(dockerfile).not.toMatch(/ODDSLAKE_API_KEY|^ARG|TOKEN|PASSWORD/m);
    for (const [image] of dockerfile.matchAll(/^FROM node:\S+/gm)) expect(image).toMatch(/^FROM node:24\.\d+\.\d+-/);
  });

  test('runs hardened in compose, with a secret from a file and declared volumes', () => {
    const { services, volumes, secrets } = readCompose(textOf('deploy/compose.yaml'));
    expect(Object.keys(services).sort()).toEqual(['pull', 'sandbox', 'schedule', 'serve', 'try']);
    for (const service of Object.values(services)) {
      expect(service).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
      expect(existsSync(join(root, 'deploy', service.build.context, service.build.dockerfile))).toBe(true);
      for (const volume of service.volumes ?? []) expect(volumes).toHaveProperty(volume.split(':')[0]!);
      for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
    expect(secrets['api-key']).toEqual({ file: './secrets/api-key' });
  });
});

describe('the cluster', () => {
  const kustomization = parse(textOf('deploy/kubernetes/kustomization.yaml')) as {
    readonly resources: string[];
    readonly configMapGenerator: { name: string; files: string[] }[];
    readonly secretGenerator: { name: string; literals: string[] }[];
  };
  const documents = kustomization.resources.flatMap((name) => readKubernetes(textOf(`deploy/kubernetes/${name}`)));
  const [job, deployment] = [
    documents.find(({ kind }) => kind === 'CronJob')!,
    documents.find(({ kind }) => kind === 'Deployment')!,
  ];

  test('references between objects have targets', () => {
    const objects = new Set([
      ...documents.map(({ kind, metadata }) => `${kind} ${metadata.name}`),
      ...kustomization.configMapGenerator.map(({ name }) => `ConfigMap ${name}`),
      ...kustomization.secretGenerator.map(({ name }) => `Secret ${name}`),
    ]);
    for (const { volumes } of [getPod(job), getPod(deployment)])
      for (const { configMap, secret, persistentVolumeClaim } of volumes) {
        if (configMap) expect(objects).toContain(`ConfigMap ${configMap.name}`);
        if (secret) expect(objects).toContain(`Secret ${secret.secretName}`);
        if (persistentVolumeClaim)
          expect(objects).toContain(`PersistentVolumeClaim ${persistentVolumeClaim.claimName}`);
      }
    const { labels } = deployment.spec!.template!.metadata;
    const service = documents.find(({ kind }) => kind === 'Service')!;
    expect(labels).toMatchObject(service.spec!.selector as object);
    expect(labels).toMatchObject((deployment.spec!.selector as { matchLabels: object }).matchLabels);
  });

  test('containers run without privileges and mount declared volumes', () => {
    for (const pod of [getPod(job), getPod(deployment)]) {
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001 });
      const declared = pod.volumes.map(({ name }) => name);
      for (const container of [...pod.containers, ...(pod.initContainers ?? [])]) {
        expect(container.securityContext).toMatchObject({
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
        });
        for (const { name } of container.volumeMounts) expect(declared).toContain(name);
      }
    }
  });

  test('kustomize puts the one image everywhere, and the key only into the job', needsCommands('kubectl'), () => {
    const folderPath = join(root, 'deploy/kubernetes');
    const { stdout, stderr } = spawnSync('kubectl', ['kustomize', folderPath], { encoding: 'utf8' });
    const rendered = readKubernetes(stdout);
    const { version } = JSON.parse(textOf('package.json')) as { version: string };
    const images = rendered.flatMap(listContainers).map(({ image }) => image);
    expect(images, stderr).toEqual(Array(3).fill(`oddslake:${version}`));
    const [secret] = rendered.filter(({ kind }) => kind === 'Secret').map(({ metadata }) => metadata.name);
    const users = rendered.filter((one) => listContainers(one).length > 0 && JSON.stringify(one).includes(secret!));
    expect(users.map(({ kind }) => kind)).toEqual(['CronJob']);
  });

  test('its schedule is valid', () => {
    expect(parseCron(job.spec!.schedule!).findNext(0)).not.toBe(null);
  });
});

test('the DAG is valid Python', needsCommands('python3'), () => {
  const source = `import ast, sys; ast.parse(open(sys.argv[1]).read())`;
  const parsed = spawnSync('python3', ['-c', source, join(root, 'deploy/airflow/oddslake_nightly.py')], {
    encoding: 'utf8',
  });
  expect([parsed.status, parsed.stderr]).toEqual([0, '']);
});

test('every alert has a rule, a severity and a description', () => {
  const { groups } = parse(textOf('deploy/prometheus-alerts.yml')) as {
    groups: { rules: { alert: string; expr: string; labels: object; annotations: object }[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);
  expect(rules.length).toBeGreaterThan(5);
  for (const { alert, expr, labels, annotations } of rules) {
    expect(alert).toMatch(/^Oddslake[A-Z]/);
    expect(expr.length).toBeGreaterThan(10);
    // With two machines, a healthy one must not hide the other.
    expect(expr).not.toMatch(/\b(max|min|sum|avg)\s*\(/);
    expect(labels).toEqual({ severity: expect.stringMatching(/^(critical|warning)$/) });
    expect(annotations).toEqual({ summary: expect.any(String), description: expect.any(String) });
  }
});
